import { act, renderHook } from '@testing-library/react';
import { describe, expect, it } from 'vitest';
import { returnPath, signInAddress } from '../src/auth/returnPath.js';
import { shareTokenOf, takeShareToken } from '../src/auth/shareToken.js';
import {
  flag,
  freeText,
  oneOf,
  readParameters,
  someOf,
  useUrlParameters,
  wholeNumber,
  writeParameters,
} from '../src/lib/urlParameters.js';

const SET = {
  tab: oneOf(['transcript', 'steps', 'raw'], 'transcript'),
  kind: oneOf(['api', 'web']),
  status: someOf(['running', 'failed', 'idle']),
  q: freeText(20),
  seq: wholeNumber(1),
  all: flag(),
};
const NOTHING = { tab: 'transcript', kind: null, status: [], q: '', seq: null, all: false };

const NONSENSE = [
  '',
  '?',
  '?tab=&kind=&status=&q=&seq=&all=',
  '?tab=nope&kind=nope&status=nope,none&seq=nope&all=nope',
  '?tab=__proto__&kind=constructor&status=toString',
  '?seq=0',
  '?seq=-3',
  '?seq=1.5',
  '?seq=1e9',
  '?seq=99999999999999999999',
  '?seq=NaN',
  '?seq=%00',
  `?q=${'a'.repeat(21)}`,
  '?q=a%0Ab',
  '?tab=%F0%28%8C%28&kind=%%%',
  '?status=,,,,',
  '?unknown=1&toString=2',
  '?tab=Raw',
];

describe('parameters of the address', () => {
  it.each(NONSENSE)('reads %j as if it said nothing', (search) => {
    expect(readParameters(SET, search)).toEqual(NOTHING);
  });

  it('reads each type', () => {
    const values = readParameters(SET, '?tab=raw&kind=web&status=idle,nope,running,idle&q=%20a%20b%20&seq=412&all=1');
    expect(values).toEqual({ tab: 'raw', kind: 'web', status: ['running', 'idle'], q: 'a b', seq: 412, all: true });
  });

  it('keeps one bad parameter from spoiling the others', () => {
    expect(readParameters(SET, '?tab=nope&seq=7')).toEqual({ ...NOTHING, seq: 7 });
  });

  it('writes only what differs from what holds anyway, and reads it back', () => {
    expect(writeParameters(SET, NOTHING as never)).toBe('');
    const values = { tab: 'steps', kind: 'api', status: ['failed', 'running'], q: 'a&b=c', seq: 9, all: true } as const;
    const search = writeParameters(SET, values);
    expect(search).toBe('?tab=steps&kind=api&status=running%2Cfailed&q=a%26b%3Dc&seq=9&all=1');
    expect(readParameters(SET, search)).toEqual({ ...values, status: ['running', 'failed'] });
  });

  it('changes some, keeps the others, and leaves a step for Back unless told otherwise', () => {
    history.replaceState(null, '', '/sessions?q=oban');
    const { result } = renderHook(() => useUrlParameters(SET));
    const steps = history.length;
    act(() => result.current[1]({ seq: 4 }));
    expect(location.search).toBe('?q=oban&seq=4');
    expect(result.current[0].seq).toBe(4);
    expect(history.length).toBe(steps + 1);
    act(() => result.current[1]({ seq: 4, q: 'oban' }));
    expect(history.length, 'what the address says already is no step').toBe(steps + 1);
    act(() => {
      result.current[1]({ tab: 'raw' }, { replace: true });
      result.current[1]({ seq: null }, { replace: true });
    });
    expect(location.search).toBe('?tab=raw&q=oban');
    expect(history.length).toBe(steps + 1);
  });
});

describe('the way back from signing in', () => {
  it.each([
    ['?to=%2Fsessions%2Fs1%3Fseq%3D4', '/sessions/s1?seq=4'],
    ['?to=%2F', '/'],
    ['', '/'],
    ['?to=https%3A%2F%2Fevil.example%2F', '/'],
    ['?to=%2F%2Fevil.example', '/'],
    ['?to=%2F%5Cevil.example', '/'],
    ['?to=%2F.%2F%2Fevil.example', '/'],
    ['?to=%2F%09%2Fevil.example', '/'],
    ['?to=javascript%3Aalert(1)', '/'],
    ['?to=sessions', '/'],
    ['?to=%2Fsign-in%3Fto%3D%252Fsign-in', '/'],
    ['?to=%2F%2F%2F', '/'],
  ])('takes %j to %j', (search, path) => {
    expect(returnPath(search, 'http://127.0.0.1:7070')).toBe(path);
  });

  it('remembers where the person was, but not Today', () => {
    expect(signInAddress('/inbox?x=1')).toBe('/sign-in?to=%2Finbox%3Fx%3D1');
    expect(signInAddress('/')).toBe('/sign-in');
    expect(signInAddress('/sign-in?to=%2F')).toBe('/sign-in');
  });
});

describe('the token of a share link', () => {
  it('leaves the address at once and stays in this tab', () => {
    history.replaceState(null, '', '/shared/s1?share=secret&seq=3#end');
    takeShareToken();
    expect(location.href).toBe('http://127.0.0.1:7070/shared/s1?seq=3#end');
    expect(shareTokenOf('s1')).toBe('secret');
    expect(shareTokenOf('s2')).toBeNull();
    expect(JSON.stringify(localStorage)).not.toContain('secret');
  });

  it.each(['/shared/%E0%A4%A', '/shared/%', '/shared/', '/shared'])(
    'leaves a page to %s, which names nothing',
    (path) => {
      history.replaceState(null, '', `${path}?share=secret`);
      takeShareToken();
      expect(location.pathname).toBe(path);
    },
  );

  it('is found again by an id with signs of paths in it', () => {
    history.replaceState(null, '', '/shared/a%2Fb%25?share=hidden');
    takeShareToken();
    expect(location.search).toBe('');
    expect(shareTokenOf(encodeURIComponent('a/b%'))).toBe('hidden');
  });

  it('leaves other pages alone', () => {
    history.replaceState(null, '', '/sessions?share=x');
    takeShareToken();
    expect(location.search).toBe('?share=x');
  });
});
