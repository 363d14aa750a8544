/** A row that cannot be drawn is shown raw; the rows around it stay. */
import { Component, type ReactNode } from 'react';
import { readableJson } from '../vocabulary/content.js';
import { LongText } from './LongText.js';

interface RowBoundaryProps {
  /** Shown instead. */
  raw: unknown;
  children: ReactNode;
}

export class RowBoundary extends Component<RowBoundaryProps, { hasFailed: boolean }> {
  override state = { hasFailed: false };

  static getDerivedStateFromError() {
    return { hasFailed: true };
  }

  override render() {
    return this.state.hasFailed ? <LongText text={readableJson(this.props.raw)} isCode /> : this.props.children;
  }
}
