/** Starts the example. */

import { SederuntProvider } from '@sederunt/react';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { createRoot } from 'react-dom/client';
import '@sederunt/react/styles.css';
import './page.css';
import { Page } from './Page.js';

const element = document.getElementById('page');
if (element === null) throw new Error('index.html has no element `page`');

createRoot(element).render(
  <QueryClientProvider client={new QueryClient()}>
    <SederuntProvider>
      <Page />
    </SederuntProvider>
  </QueryClientProvider>,
);
