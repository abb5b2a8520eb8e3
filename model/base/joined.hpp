// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <iterator>
#include <string>
#include <string_view>

namespace onchip {

// "a, b, c" of what `text_of` makes of each; with a last separator of its own "a, b or c".
template <typename Range, typename TextOf = std::identity>
std::string joined(const Range& range, std::string_view between = ", ", std::string_view last = {},
                   TextOf text_of = {}) {
  std::string text;
  for (auto one = std::begin(range); one != std::end(range); ++one) {
    const bool is_last = std::next(one) == std::end(range);
    text += one == std::begin(range) ? "" : is_last && !last.empty() ? last : between;
    text += std::invoke(text_of, *one);
  }
  return text;
}

}  // namespace onchip
