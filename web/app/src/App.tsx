/** The app: what all pages share, and which address shows what. */
import { type QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { lazy, Suspense } from 'react';
import { Route, Switch } from 'wouter';
import { SignInProvider } from './auth/SignInProvider.js';
import { ToastProvider } from './components/ToastProvider.js';
import { TooltipProvider } from './components/Tooltip.js';
import { DecisionsProvider } from './decisions/DecisionsProvider.js';
import { KeyboardProvider } from './keyboard/KeyboardProvider.js';
import { ShortcutsProvider } from './keyboard/ShortcutsDialog.js';
import { PaletteHost } from './palette/PaletteHost.js';
import { PageActionsProvider } from './palette/pageActions.js';
import { VisitsProvider } from './palette/visits.js';
import { PageFrameProvider } from './shell/pageFrame.js';
import { Shell } from './shell/Shell.js';
import { useAppliedTheme } from './shell/theme.js';

const SignInPage = lazy(() => import('./pages/sign-in/index.js').then((module) => ({ default: module.Page })));
const SharedPage = lazy(() => import('./pages/shared/index.js').then((module) => ({ default: module.Page })));

function SignedInApp() {
  return (
    <SignInProvider>
      <PageActionsProvider>
        <DecisionsProvider>
          <PageFrameProvider>
            <ShortcutsProvider>
              <VisitsProvider>
                <PaletteHost>
                  <Shell />
                </PaletteHost>
              </VisitsProvider>
            </ShortcutsProvider>
          </PageFrameProvider>
        </DecisionsProvider>
      </PageActionsProvider>
    </SignInProvider>
  );
}

export function App({ queries }: { queries: QueryClient }) {
  useAppliedTheme();
  return (
    <QueryClientProvider client={queries}>
      <TooltipProvider>
        <ToastProvider>
          <KeyboardProvider>
            <Suspense>
              <Switch>
                <Route path="/sign-in" component={SignInPage} />
                <Route path="/shared/:id" component={SharedPage} />
                <Route component={SignedInApp} />
              </Switch>
            </Suspense>
          </KeyboardProvider>
        </ToastProvider>
      </TooltipProvider>
    </QueryClientProvider>
  );
}
