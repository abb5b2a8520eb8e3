// SPDX-License-Identifier: Apache-2.0
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/parallel.hpp"
#include "model/feed_forward/data/digits.hpp"
#include "model/feed_forward/data/sides.hpp"

#include <Eigen/Dense>
#include <cmath>
#include <numbers>
#include <string>

namespace onchip {
namespace {

constexpr int kPixels = 28;
constexpr std::size_t kHeader = 16;

// D: [width, 28]
Eigen::MatrixXd resampling(int width) {
  Eigen::MatrixXd weights(width, kPixels);
  for (int o = 0; o < width; ++o) {
    for (int i = 0; i < kPixels; ++i) {
      const double x = static_cast<double>(o) * kPixels / width - i;
      const bool is_period = std::abs(std::remainder(x, kPixels)) < 1e-12;
      weights(o, i) =
          is_period ? 1 : std::sin(std::numbers::pi * x) / (kPixels * std::tan(std::numbers::pi * x / kPixels));
    }
  }
  return weights;
}

}  // namespace

Bitmaps parse_mnist(std::string_view bytes, std::string_view file_name, int neurons) {
  const std::string file(file_name);
  const auto number = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = at; i < at + 4; ++i) {
      value = value << 8 | static_cast<unsigned char>(bytes[i]);
    }
    return value;
  };
  if (bytes.size() < kHeader || number(0) != 0x803) {
    throw InputError(file + ": not an IDX file of images: it does not begin with 00 00 08 03");
  }
  const std::uint64_t images = number(4);
  if (number(8) != kPixels || number(12) != kPixels) {
    throw InputError(file + ": its images have " + std::to_string(number(8)) + " x " + std::to_string(number(12)) +
                     " pixels; expected 28 x 28");
  }
  constexpr std::size_t kImageBytes = kPixels * kPixels;
  if (bytes.size() - kHeader != images * kImageBytes) {
    throw InputError(file + ": " + std::to_string(images) + " images take " +
                     std::to_string(images * kImageBytes + kHeader) + " bytes; found " + std::to_string(bytes.size()) +
                     (bytes.size() < images * kImageBytes + kHeader ? "; is the file truncated?" : ""));
  }
  const int width = image_width(neurons);
  const Eigen::MatrixXd weights = resampling(width);
  const double threshold = nearest_side(width).threshold;
  Bitmaps bitmaps{static_cast<int>(images), neurons, {}};
  const auto words = static_cast<std::size_t>(bitmaps.words_per_image());
  bitmaps.words.resize(words * images);
  using Image = Eigen::Matrix<unsigned char, kPixels, kPixels, Eigen::RowMajor>;
  parallel_for(bitmaps.images, all_cores(), [&](int image) {
    const auto* pixels = reinterpret_cast<const unsigned char*>(bytes.data() + kHeader) + kImageBytes * image;
    const Eigen::MatrixXd rows = weights * Eigen::Map<const Image>(pixels).cast<double>();
    const Eigen::MatrixXd values = rows * weights.transpose();  // [row, column]
    for (int c = 0; c < width; ++c) {
      for (int r = 0; r < width; ++r) {
        if (values(r, c) >= threshold) {
          const int neuron = c * width + r;
          bitmaps.words[words * image + neuron / 32] |= std::uint32_t{1} << neuron % 32;
        }
      }
    }
  });
  return bitmaps;
}

Bitmaps read_mnist(const std::filesystem::path& file, int neurons) {
  InputFile input(file);
  return parse_mnist(input.bytes(), file.string(), neurons);
}

}  // namespace onchip
