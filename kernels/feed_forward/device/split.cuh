// SPDX-License-Identifier: Apache-2.0
// What kernels of blocks make of their sums: features of one fp16 word, or of two.

// ReLU and clip of two features. Values are cut off, so that residuals are not negative either.
__device__ inline void split(float x, float y, const Arguments& a, u32 (&words)[kWords]) {
  x = lesser(x, a.clip);
  y = lesser(y, a.clip);
  if constexpr (kWords == 1) {
    words[0] =
        positive_cut(__int_as_float(__float_as_int(x) + a.round_up), __int_as_float(__float_as_int(y) + a.round_up));
  } else {
    words[0] = positive_cut(x, y);
    const float2 value = as_floats(words[0]);
    words[kWords - 1] = positive_nearest(x - value.x, y - value.y);
  }
}

constexpr u32 kLargest = 0x7bff7bff;  // two features, larger than any

// A row of no neuron, whose bias says so and whose features are zero, or-ed with this counts for no smallest feature.
__device__ inline u32 no_row(float bias) {
  return kHoles && bias < -1e37f ? kLargest : 0;
}
