// SPDX-License-Identifier: Apache-2.0
// LZMA (raw, lc=3 lp=0 pb=0, as ./assemble writes it), since browsers unpack nothing tighter than gzip: a range coder of
// adaptive bits; literals, matches, and repeats of the last four distances. The form: https://7-zip.org/sdk.html

export function unpack(packed: Uint8Array, size: number): Uint8Array {
  const out = new Uint8Array(size);
  let at = 0, place = 5, range = 0xffffffff, code = ((packed[1] << 24) | (packed[2] << 16) | (packed[3] << 8) | packed[4]) >>> 0;

  // All chances of a 0, each of 2048.
  const kStates = 12, kLiterals = 0x300 << 3;
  let chances = 0;
  const some = (count: number): number => (chances += count) - count;
  const is_match = some(kStates), is_repeat = some(kStates), is_repeat0 = some(kStates), is_long = some(kStates), is_repeat1 = some(kStates), is_repeat2 = some(kStates);
  const slots = some(4 * 64), special = some(128), align = some(16), literals = some(kLiterals);
  const lengths = [0, 1].map(() => ({ choice: some(2), low: some(8), middle: some(8), high: some(256) }));
  const chance = new Uint16Array(chances).fill(1024);

  const bit = (i: number): number => {
    const bound = (range >>> 11) * chance[i];
    let found = 0;
    if (code < bound) {
      range = bound;
      chance[i] += (2048 - chance[i]) >> 5;
    } else {
      range -= bound;
      code -= bound;
      chance[i] -= chance[i] >> 5;
      found = 1;
    }
    if (range < 0x1000000) {
      range = (range << 8) >>> 0;
      code = ((code << 8) | packed[place++]) >>> 0;
    }
    return found;
  };
  const tree = (first: number, bits: number): number => {
    let node = 1;
    for (let i = 0; i < bits; ++i) {
      node = 2 * node + bit(first + node);
    }
    return node - (1 << bits);
  };
  const reversed = (first: number, bits: number): number => { // the lowest bit first
    let node = 1, value = 0;
    for (let i = 0; i < bits; ++i) {
      const one = bit(first + node);
      node = 2 * node + one;
      value |= one << i;
    }
    return value;
  };
  const direct = (bits: number): number => { // of even chances
    let value = 0;
    for (let i = 0; i < bits; ++i) {
      range >>>= 1;
      const one = code >= range ? 1 : 0;
      code -= one * range;
      value = 2 * value + one;
      if (range < 0x1000000) {
        range = (range << 8) >>> 0;
        code = ((code << 8) | packed[place++]) >>> 0;
      }
    }
    return value;
  };
  const length_of = ({ choice, low, middle, high }: (typeof lengths)[0]): number =>
    2 + (bit(choice) === 0 ? tree(low, 3) : bit(choice + 1) === 0 ? 8 + tree(middle, 3) : 16 + tree(high, 8));

  let state = 0, last = [0, 0, 0, 0];
  while (at < size) {
    if (bit(is_match + state) === 0) {
      const first = literals + 0x300 * ((at > 0 ? out[at - 1] : 0) >> 5);
      let node = 1;
      for (let matched = state >= 7 ? out[at - last[0] - 1] : -1; node < 0x100;) {
        if (matched < 0) {
          node = 2 * node + bit(first + node);
        } else { // beside the byte that a match would have gone on with, until they differ
          const expected = (matched >> 7) & 1, one = bit(first + ((1 + expected) << 8) + node);
          matched = one === expected ? (matched << 1) & 0xff : -1;
          node = 2 * node + one;
        }
      }
      out[at++] = node;
      state = state < 4 ? 0 : state < 10 ? state - 3 : state - 6;
      continue;
    }
    let length = 1;
    if (bit(is_repeat + state) === 0) {
      length = length_of(lengths[0]);
      state = state < 7 ? 7 : 10;
      const slot = tree(slots + 64 * Math.min(3, length - 2), 6), bits = (slot >> 1) - 1, base = (2 | (slot & 1)) << bits;
      last = [slot < 4 ? slot : slot < 14 ? base + reversed(special + base - slot, bits) : base + 16 * direct(bits - 4) + reversed(align, 4), ...last.slice(0, 3)];
    } else {
      const which = bit(is_repeat0 + state) === 0 ? 0 : bit(is_repeat1 + state) === 0 ? 1 : 2 + bit(is_repeat2 + state);
      if (which === 0 && bit(is_long + state) === 0) {
        state = state < 7 ? 9 : 11;
      } else {
        last.unshift(...last.splice(which, 1));
        length = length_of(lengths[1]);
        state = state < 7 ? 8 : 11;
      }
    }
    for (const from = last[0] + 1; length > 0; --length, ++at) {
      out[at] = out[at - from];
    }
  }
  return out;
}
