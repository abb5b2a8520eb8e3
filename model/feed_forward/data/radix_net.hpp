// SPDX-License-Identifier: Apache-2.0
// The networks of the Sparse DNN Graph Challenge, bit by bit as published: RadiX-Net (Robinett, Kepner, arXiv
// 1905.00416) of radices 2, each block of 16 x 16 of equal weights, inputs permuted anew for each radix system. With
// R = neurons / 16, K = log2 R, layer l of group g = l / K (from 0), s = 2^(l mod K):
//   W[j, i] = 1/16 if (m_g(i) - j) mod R is 0 or s      m_0(i) = i mod R;  m_g(p_g(k)) = k mod R
// p_g are MATLAB's randperm from its default stream (mt19937, seed 5489), one stream through the networks of 1024,
// 4096, 16384 and 65536 neurons with 1920 layers each; other sizes begin it.
#pragma once

#include "model/feed_forward/network.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

// m of the first groups, [groups, neurons].
std::vector<std::uint16_t> radix_net_residues(int neurons, int groups);

// The challenge's bias and clip: -0.3 at 1024 neurons, and 0.025 less for each doubling.
float challenge_bias(int neurons);
inline constexpr float kChallengeClip = 32;

// Throws InputError unless neurons = 16 * 2^k from 32 to 2^20, and at least one layer.
FeedForward radix_net(int neurons, int layers);

}  // namespace onchip
