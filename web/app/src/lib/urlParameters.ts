/**
 * What a page keeps in the query of its address, with types. Values that are unknown, malformed or too long count as left out:
 * an address with nonsense in every parameter shows the page as if it had none.
 */
import { useCallback, useMemo, useRef } from 'react';
import { useLocation, useSearch } from 'wouter';

export interface Parameter<T> {
  /** What holds where the address says nothing. */
  fallback: T;
  /** Undefined for a text that is no such value. */
  parse: (text: string) => T | undefined;
  format: (value: T) => string;
}

export function oneOf<const T extends string>(values: readonly T[]): Parameter<T | null>;
export function oneOf<const T extends string>(values: readonly T[], fallback: T): Parameter<T>;
export function oneOf<const T extends string>(values: readonly T[], fallback: T | null = null): Parameter<T | null> {
  return {
    fallback,
    parse: (text) => values.find((value) => value === text),
    format: (value) => value ?? '',
  };
}

/** Several of `values`, separated by commas, each once and in the order of `values`. */
export function someOf<const T extends string>(values: readonly T[]): Parameter<readonly T[]> {
  const inOrder = (given: readonly string[]) => values.filter((value) => given.includes(value));
  return {
    fallback: [],
    parse: (text) => {
      const given = inOrder(text.split(','));
      return given.length === 0 ? undefined : given;
    },
    format: (given) => inOrder(given).join(','),
  };
}

/** Free text, trimmed. Control characters and texts beyond `charsMax` are nonsense. */
export function freeText(charsMax = 200): Parameter<string> {
  return {
    fallback: '',
    parse: (text) => {
      const trimmed = text.trim();
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these characters are what is refused.
      return trimmed.length > charsMax || /[\x00-\x1f\x7f]/.test(trimmed) ? undefined : trimmed;
    },
    format: (value) => value.trim(),
  };
}

/** A whole number of at least `least`, such as the sequence of an event. */
export function wholeNumber(least = 0): Parameter<number | null> {
  return {
    fallback: null,
    parse: (text) => {
      if (!/^\d{1,15}$/.test(text)) return undefined;
      const value = Number(text);
      return value >= least ? value : undefined;
    },
    format: (value) => (value === null ? '' : String(value)),
  };
}

export function flag(): Parameter<boolean> {
  return {
    fallback: false,
    parse: (text) => (text === '1' || text === 'true' ? true : undefined),
    format: (value) => (value ? '1' : ''),
  };
}

// biome-ignore lint/suspicious/noExplicitAny: a parameter both reads and writes its type, so no narrower type fits all of them.
export type ParameterSet = Readonly<Record<string, Parameter<any>>>;
export type ParameterValues<P extends ParameterSet> = {
  readonly [Name in keyof P]: P[Name] extends Parameter<infer T> ? T : never;
};

export function readParameters<P extends ParameterSet>(set: P, search: string): ParameterValues<P> {
  const given = new URLSearchParams(search);
  const values = Object.entries(set).map(([name, parameter]) => {
    const text = given.get(name);
    const value: unknown = text === null || text === '' ? undefined : parameter.parse(text);
    return [name, value ?? parameter.fallback];
  });
  return Object.fromEntries(values) as ParameterValues<P>;
}

/** The query with its `?`, in the order of the set. What holds anyway is left out; so is everything that is not in the set. */
export function writeParameters<P extends ParameterSet>(set: P, values: Partial<ParameterValues<P>>): string {
  const query = new URLSearchParams();
  for (const [name, parameter] of Object.entries(set)) {
    const value: unknown = values[name];
    if (value === undefined || value === null) continue;
    const text = parameter.format(value);
    if (text !== '' && text !== parameter.format(parameter.fallback)) query.set(name, text);
  }
  const text = query.toString();
  return text === '' ? '' : `?${text}`;
}

/** Reads the parameters of the address, and changes some of them. `replace` leaves no step for the browser's Back. */
export function useUrlParameters<P extends ParameterSet>(set: P) {
  const [, navigate] = useLocation();
  const search = useSearch();
  const values = useMemo(() => readParameters(set, search), [set, search]);
  const latest = useRef(values);
  latest.current = values;
  const change = useCallback(
    (patch: Partial<ParameterValues<P>>, options: { replace?: boolean } = {}) => {
      const after = { ...latest.current, ...patch };
      // A second change in the same moment adds to the first one.
      latest.current = after;
      // The browser's own path: the router's is decoded in part, and would name another thing when it is decoded again.
      const address = location.pathname + writeParameters(set, after);
      // Radix tells a chosen tab twice, by the press and by the focus: the second one is no step of its own.
      if (address === location.pathname + location.search) return;
      navigate(address, { replace: options.replace ?? false });
    },
    [navigate, set],
  );
  return [values, change] as const;
}
