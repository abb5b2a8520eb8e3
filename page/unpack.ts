// SPDX-License-Identifier: Apache-2.0
// LZMA (raw, lc=3 lp=0 pb=0, as ./assemble writes it), since browsers unpack nothing tighter than gzip: a range coder of
// adaptive bits; literals, matches, and repeats of the last four distances. The form: https://7-zip.org/sdk.html

export function unpack(packed: Uint8Array, size: number): Uint8Array {
  const out = new Uint8Array(size);
  const coder = new Uint32Array([0xffffffff, (packed[1] << 24) | (packed[2] << 16) | (packed[3] << 8) | packed[4]]); // range and code
  let at = 0, place = 5;

  let chances = 0; // of a 0, each of 2048
  const some = (count: number): number => (chances += count) - count;
  const is_match = some(12), is_repeat = some(12), is_repeat0 = some(12), is_long = some(12), is_repeat1 = some(12), is_repeat2 = some(12);
  const slots = some(4 * 64), special = some(128), align = some(16), literals = some(0x300 << 3);
  const lengths = [0, 1].map(() => ({ choice: some(2), low: some(8), middle: some(8), high: some(256) }));
  const chance = new Uint16Array(chances).fill(1024);

  const shift = (): void => {
    if (coder[0] < 0x1000000) {
      coder[0] <<= 8;
      coder[1] = (coder[1] << 8) | packed[place++];
    }
  };
  const bit = (i: number): number => {
    const bound = (coder[0] >>> 11) * chance[i];
    const found = coder[1] < bound ? 0 : 1;
    if (found === 0) {
      coder[0] = bound;
      chance[i] += (2048 - chance[i]) >> 5;
    } else {
      coder[0] -= bound;
      coder[1] -= bound;
      chance[i] -= chance[i] >> 5;
    }
    shift();
    return found;
  };
  // Down a tree of chances, from a node to one of `most` or beyond.
  const walk = (first: number, from: number, most: number): number => {
    let node = from;
    while (node < most) {
      node = 2 * node + bit(first + node);
    }
    return node;
  };
  const tree = (first: number, bits: number): number => walk(first, 1, 1 << bits) - (1 << bits);
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
      coder[0] >>>= 1;
      const one = coder[1] >= coder[0] ? 1 : 0;
      coder[1] -= one * coder[0];
      value = 2 * value + one;
      shift();
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
      // Beside the byte that a match would have gone on with, until they differ.
      for (let matched = state >= 7 ? out[at - last[0] - 1] : -1; matched >= 0 && node < 0x100;) {
        const expected = (matched >> 7) & 1, one = bit(first + ((1 + expected) << 8) + node);
        matched = one === expected ? (matched << 1) & 0xff : -1;
        node = 2 * node + one;
      }
      out[at++] = walk(first, node, 0x100);
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
