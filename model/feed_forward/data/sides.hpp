// SPDX-License-Identifier: Apache-2.0
// What is known of the challenge's images of each size.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace onchip {

struct Side {
  int width;
  std::int64_t set_pixels;  // of the 60,000 official images
  double heavy_tail;        // how much more set pixels the fullest synthetic images have
  double threshold;         // of upscaled MNIST images, from 0 to 255: chosen to match set_pixels
};
inline constexpr std::array kSides{
    Side{32, 6'374'505, 0.155, 184.632},
    Side{64, 25'019'051, 0.20, 188.711},
    Side{128, 98'858'913, 0.265, 191.001},
    Side{256, 392'191'985, 0.33, 192.538},
};

inline int image_width(int neurons) {
  auto width = static_cast<int>(std::sqrt(static_cast<double>(neurons)));
  return width * width > neurons ? width - 1 : width;
}

constexpr const Side& nearest_side(int width) {
  const Side* nearest = &kSides.front();
  for (const Side& side : kSides) {
    // 45 is nearer to 64 than to 32: as ratios.
    if (static_cast<std::int64_t>(width) * width > static_cast<std::int64_t>(side.width) * nearest->width) {
      nearest = &side;
    }
  }
  return *nearest;
}

}  // namespace onchip
