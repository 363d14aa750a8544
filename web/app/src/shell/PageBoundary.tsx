/** Catches what goes wrong inside of one page, so that the rest of the app stays. Another page starts afresh. */
import { Component, type ReactNode } from 'react';
import { Button } from '../components/Button.js';
import { ErrorState } from '../components/ErrorState.js';
import { reloadPage } from '../lib/reloadPage.js';

interface Props {
  /** Changes with the page. */
  place: string;
  children: ReactNode;
}

interface State {
  error: Error | null;
  place: string;
}

export class PageBoundary extends Component<Props, State> {
  override state: State = { error: null, place: this.props.place };

  static getDerivedStateFromError(error: unknown): Partial<State> {
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }

  static getDerivedStateFromProps(props: Props, state: State): Partial<State> | null {
    return props.place === state.place ? null : { error: null, place: props.place };
  }

  override render() {
    const { error } = this.state;
    if (error === null) return this.props.children;
    const shown = new Error(`This page has failed: ${error.message}`);
    return (
      <div className="mx-auto max-w-xl p-6">
        <ErrorState
          error={shown}
          onRetry={() => this.setState({ error: null })}
          action={<Button onClick={reloadPage}>Reload the app</Button>}
        />
      </div>
    );
  }
}
