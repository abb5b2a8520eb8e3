// SPDX-License-Identifier: Apache-2.0
// Images of digits, as the Sparse DNN Graph Challenge makes them: w x w pixels of 0 or 1, w = sqrt(neurons) rounded
// down, pixel (column c, row r) is neuron c * w + r, neurons beyond are 0.
//
// Synthetic ones are strokes: a polyline of each digit, its points moved at random, scaled, sheared, shifted, corners
// cut twice; as wide as makes the share of set pixels follow the quantiles of the upscaled MNIST images.
//
// Those of MNIST are upscaled by a Fourier series, as the published ones were but for a detail that is not known
// (1799 of 1812 official survivors of 1024 neurons agree): V = D X D^T, set where V >= a threshold T(w), with
//   D[o][i] = sin(pi x) / (28 tan(pi x / 28)), x = 28 o / w - i;  1 where x is a multiple of 28
#pragma once

#include "model/feed_forward/inputs.hpp"

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace onchip {

// Image i is the same for every first and count.
Bitmaps synthetic_digits(int neurons, int first, int count, std::uint64_t seed = 1);

// IDX files of 28 x 28 bytes (train-images-idx3-ubyte), compressed or not. Throws InputError.
Bitmaps read_mnist(const std::filesystem::path& file, int neurons);
Bitmaps parse_mnist(std::string_view bytes, std::string_view file_name, int neurons);

}  // namespace onchip
