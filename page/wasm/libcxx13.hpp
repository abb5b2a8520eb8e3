// SPDX-License-Identifier: Apache-2.0
// What model/ takes from C++20 and Debian 12's Emscripten (libc++ of LLVM 13) lacks: std::bit_cast, algorithms of
// std::ranges, std::jthread, from_chars and to_chars of doubles. It is included before every file of that build alone,
// so that model/ stays plain C++20. A newer libc++ has them, and then nothing of this is compiled.
#pragma once

#include <version>

#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 15000

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <compare>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

namespace std {

template <typename To, typename From>
requires(sizeof(To) == sizeof(From) && is_trivially_copyable_v<To> && is_trivially_copyable_v<From>) constexpr To
    bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}

// Without -pthread there are no threads: parallel_for, the only user, works through everything before it starts any.
class jthread {
 public:
  template <typename Work>
  explicit jthread(Work&& work) {
    work();
  }
};

// ---- doubles as text ------------------------------------------------------------------------------------------------

// As C++17 has it: no sign but '-', no hexadecimal digits, no white space.
template <typename T>
requires is_floating_point_v<T> from_chars_result from_chars(const char* first, const char* last, T& value) {
  const char* at = first + (first != last && *first == '-');
  const auto digits = [&] {
    const char* begin = at;
    while (at != last && *at >= '0' && *at <= '9') {
      ++at;
    }
    return at - begin;
  };
  const auto word = [&](const char* name) {
    const std::size_t length = std::strlen(name);
    const bool is_there = static_cast<std::size_t>(last - at) >= length &&
                          equal(at, at + length, name, [](char a, char b) { return (a | 0x20) == b; });
    at += is_there ? length : 0;
    return is_there;
  };
  if (!word("infinity") && !word("inf") && !word("nan")) {
    auto count = digits();
    if (at != last && *at == '.') {
      ++at;
      const auto fraction = digits();
      at -= count + fraction == 0;
      count += fraction;
    }
    if (count == 0) {
      return {first, errc::invalid_argument};
    }
    if (at != last && (*at | 0x20) == 'e') {
      const char* mantissa = at++;
      at += at != last && (*at == '-' || *at == '+');
      at = digits() == 0 ? mantissa : at;
    }
  }
  errno = 0;
  const string text(first, at);
  const T number = is_same_v<T, float> ? strtof(text.c_str(), nullptr) : strtod(text.c_str(), nullptr);
  if (errno == ERANGE) {
    return {at, errc::result_out_of_range};
  }
  value = number;
  return {at, errc()};
}

inline to_chars_result to_chars(char* first, char* last, double value, chars_format format, int precision) {
  const char* form = format == chars_format::fixed ? "%.*f" : format == chars_format::scientific ? "%.*e" : "%.*g";
  char text[400];
  const int length = snprintf(text, sizeof text, form, precision, value);
  if (length > last - first) {
    return {last, errc::value_too_large};
  }
  return {copy(text, text + length, first), errc()};
}

// The shortest text that reads back as the same number: the first precision that does, since each is rounded right.
inline to_chars_result to_chars(char* first, char* last, double value) {
  if (!isfinite(value) || value == 0) {
    return to_chars(first, last, value, chars_format::general, 6);
  }
  char text[32];
  int digits = 0;
  do {
    snprintf(text, sizeof text, "%.*e", digits, value);
  } while (strtod(text, nullptr) != value && ++digits < 17);
  const int exponent = atoi(strchr(text, 'e') + 1);
  // Without an exponent where that is no longer; large whole numbers then have all their digits.
  const int scientific = static_cast<int>(strlen(text)) - (text[0] == '-');
  const int fixed = exponent >= digits ? exponent + 1 : digits + 1 + (exponent < 0 ? 1 - exponent : 1);
  return fixed <= scientific ? to_chars(first, last, value, chars_format::fixed, max(0, digits - exponent))
                             : to_chars(first, last, value, chars_format::scientific, digits);
}

// ---- comparisons that members of structs are defaulted from
// ----------------------------------------------------------

inline strong_ordering operator<=>(const string& a, const string& b) {
  const int order = a.compare(b);
  return order < 0 ? strong_ordering::less : order > 0 ? strong_ordering::greater : strong_ordering::equal;
}

// ---- algorithms with projections ------------------------------------------------------------------------------------

namespace ranges {

template <typename Of, typename Projection>
constexpr auto projected_by(Of& of, Projection& projection) {
  return [&](auto&&... values) -> decltype(auto) {
    return std::invoke(of, std::invoke(projection, std::forward<decltype(values)>(values))...);
  };
}

template <typename R, typename T, typename P = identity>
constexpr auto find(R&& range, const T& value, P projection = {}) {
  return std::find_if(std::begin(range), std::end(range),
                      [&](auto&& one) { return std::invoke(projection, one) == value; });
}
template <typename R, typename F, typename P = identity>
constexpr auto find_if(R&& range, F test, P projection = {}) {
  return std::find_if(std::begin(range), std::end(range), projected_by(test, projection));
}
template <typename R, typename F, typename P = identity>
constexpr bool any_of(R&& range, F test, P projection = {}) {
  return std::any_of(std::begin(range), std::end(range), projected_by(test, projection));
}
template <typename R, typename F, typename P = identity>
constexpr bool all_of(R&& range, F test, P projection = {}) {
  return std::all_of(std::begin(range), std::end(range), projected_by(test, projection));
}
template <typename R, typename F, typename P = identity>
constexpr bool none_of(R&& range, F test, P projection = {}) {
  return std::none_of(std::begin(range), std::end(range), projected_by(test, projection));
}
template <typename R, typename T, typename P = identity>
constexpr auto count(R&& range, const T& value, P projection = {}) {
  return std::count_if(std::begin(range), std::end(range),
                       [&](auto&& one) { return std::invoke(projection, one) == value; });
}
template <typename R, typename F, typename P = identity>
constexpr auto count_if(R&& range, F test, P projection = {}) {
  return std::count_if(std::begin(range), std::end(range), projected_by(test, projection));
}
template <typename R, typename F, typename P = identity>
constexpr auto for_each(R&& range, F use, P projection = {}) {
  std::for_each(std::begin(range), std::end(range), projected_by(use, projection));
}
template <typename R, typename C = less, typename P = identity>
constexpr auto sort(R&& range, C compare = {}, P projection = {}) {
  std::sort(std::begin(range), std::end(range), projected_by(compare, projection));
  return std::end(range);
}
template <typename R, typename C = less, typename P = identity>
auto stable_sort(R&& range, C compare = {}, P projection = {}) {
  std::stable_sort(std::begin(range), std::end(range), projected_by(compare, projection));
  return std::end(range);
}
template <typename I, typename C = less, typename P = identity>
requires requires(I i) {
  *i;
}
auto stable_sort(I first, I last, C compare = {}, P projection = {}) {
  std::stable_sort(first, last, projected_by(compare, projection));
  return last;
}
template <typename R, typename C = less, typename P = identity>
constexpr bool is_sorted(R&& range, C compare = {}, P projection = {}) {
  return std::is_sorted(std::begin(range), std::end(range), projected_by(compare, projection));
}
template <typename R, typename C = less, typename P = identity>
constexpr auto max_element(R&& range, C compare = {}, P projection = {}) {
  return std::max_element(std::begin(range), std::end(range), projected_by(compare, projection));
}
template <typename R, typename C = less, typename P = identity>
constexpr auto min_element(R&& range, C compare = {}, P projection = {}) {
  return std::min_element(std::begin(range), std::end(range), projected_by(compare, projection));
}
template <typename R>
constexpr auto max(R&& range) {
  return *std::max_element(std::begin(range), std::end(range));
}
template <typename R, typename O>
constexpr auto copy(R&& range, O out) {
  return std::copy(std::begin(range), std::end(range), out);
}
template <typename R, typename O, typename F>
constexpr auto copy_if(R&& range, O out, F test) {
  return std::copy_if(std::begin(range), std::end(range), out, test);
}
template <typename R, typename O>
constexpr auto move(R&& range, O out) {
  return std::move(std::begin(range), std::end(range), out);
}
template <typename R, typename O, typename T>
constexpr auto remove_copy(R&& range, O out, const T& value) {
  return std::remove_copy(std::begin(range), std::end(range), out, value);
}
template <typename R, typename O, typename F>
requires(!requires(O out) { std::begin(out); }) constexpr auto transform(R&& range, O out, F change) {
  return std::transform(std::begin(range), std::end(range), out,
                        [&](auto&& one) -> decltype(auto) { return std::invoke(change, one); });
}
template <typename R, typename S, typename O, typename F>
requires requires(S second) {
  std::begin(second);
}
constexpr auto transform(R&& range, S&& second, O out, F change) {
  return std::transform(std::begin(range), std::end(range), std::begin(second), out, change);
}
template <typename R, typename T>
constexpr void fill(R&& range, const T& value) {
  std::fill(std::begin(range), std::end(range), value);
}
template <typename R, typename F>
constexpr void generate(R&& range, F make) {
  std::generate(std::begin(range), std::end(range), make);
}
template <typename R, typename T>
constexpr void replace(R&& range, const T& from, const T& to) {
  std::replace(std::begin(range), std::end(range), from, to);
}
template <typename R, typename C = equal_to>
constexpr auto adjacent_find(R&& range, C compare = {}) {
  return std::adjacent_find(std::begin(range), std::end(range), compare);
}
template <typename R, typename S, typename C = equal_to, typename P = identity, typename Q = identity>
constexpr bool equal(R&& a, S&& b, C compare = {}, P of_a = {}, Q of_b = {}) {
  return std::equal(std::begin(a), std::end(a), std::begin(b), std::end(b), [&](auto&& one, auto&& other) {
    return std::invoke(compare, std::invoke(of_a, one), std::invoke(of_b, other));
  });
}
template <typename R, typename T, typename C = less>
constexpr auto lower_bound(R&& range, const T& value, C compare = {}) {
  return std::lower_bound(std::begin(range), std::end(range), value, compare);
}
template <typename R, typename I>
constexpr auto nth_element(R&& range, I nth) {
  std::nth_element(std::begin(range), nth, std::end(range));
  return std::end(range);
}

}  // namespace ranges
}  // namespace std

#endif
