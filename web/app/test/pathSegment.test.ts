import { describe, expect, it } from 'vitest';
import { segmentAfter } from '../src/lib/pathSegment.js';

describe('the name of a thing in a path', () => {
  it.each(['demo:picnic', 'a/b', '50%', 'a%41', '?#&=+@;,$', 'ümläut 🎉'])('is %s as it was encoded', (id) => {
    expect(segmentAfter('/sessions/', `/sessions/${encodeURIComponent(id)}`)).toBe(id);
  });

  it('is nothing where the path names nothing, and is taken as it stands where it cannot be decoded', () => {
    expect(segmentAfter('/sessions/', '/sessions')).toBeNull();
    expect(segmentAfter('/sessions/', '/sessions/')).toBeNull();
    expect(segmentAfter('/sessions/', '/inbox/x')).toBeNull();
    expect(segmentAfter('/sessions/', '/sessions/%zz/more')).toBe('%zz');
  });
});
