// SPDX-License-Identifier: Apache-2.0
// 16-byte words of a state in L2, each one memory operation.
#pragma once

#include "kernels/persistent/word.cuh"

__device__ __forceinline__ Word load_relaxed(const char* address) {
  Word v;
  asm volatile(
      "{\n\t"
      ".reg .b128 word;\n\t"
      ".reg .b64 low, high;\n\t"
      "ld.relaxed.gpu.global.b128 word, [%4];\n\t"
      "mov.b128 {low, high}, word;\n\t"
      "mov.b64 {%0, %1}, low;\n\t"
      "mov.b64 {%2, %3}, high;\n\t"
      "}"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(address)
      : "memory");
  return v;
}

// A 16-byte word of the exchange is written and read as one scalar, so its first 32 bits speak for all of it.
__device__ __forceinline__ bool is_empty(const Word& v) { return v.x == ~0u; }

__device__ __forceinline__ void store_relaxed(char* address, const Word& v) {
  asm volatile(
      "{\n\t"
      ".reg .b128 word;\n\t"
      ".reg .b64 low, high;\n\t"
      "mov.b64 low, {%1, %2};\n\t"
      "mov.b64 high, {%3, %4};\n\t"
      "mov.b128 word, {low, high};\n\t"
      "st.relaxed.gpu.global.b128 [%0], word;\n\t"
      "}" ::"l"(address),
      "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
      : "memory");
}
