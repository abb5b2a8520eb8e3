// SPDX-License-Identifier: Apache-2.0
// Functions of single operands, applied to the lanes of a warp. All lanes are computed, so that the compiler may use
// vectors; only those of the mask are written.
#pragma once

#include "sim/ptx/instructions.hpp"
#include "sim/ptx/warp.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace onchip::ptx {

template <typename T>
inline void write_lanes(T* to, const T (&values)[kLanes], u32 lanes) {
  if (lanes == ~0u) {
    for (int lane = 0; lane < kLanes; ++lane) {
      to[lane] = values[lane];
    }
  } else {
    for (int lane = 0; lane < kLanes; ++lane) {
      to[lane] = (lanes >> lane & 1) != 0 ? values[lane] : to[lane];
    }
  }
}

// Of a predicate, the bits of the mask's lanes.
inline void write_predicate(Warp& warp, u32 at, u32 bits, u32 lanes) {
  u32& to = *warp.lanes<u32>(at);
  to = (to & ~lanes) | (bits & lanes);
}

// Calls f(lane) for each lane of the mask.
template <typename F>
inline void for_lanes(u32 lanes, F f) {
  for (; lanes != 0; lanes &= lanes - 1) {
    f(__builtin_ctz(lanes));
  }
}

namespace detail {

template <typename T>
inline constexpr char kLetter = sizeof(T) == 2   ? 'h'
                                : sizeof(T) == 4 ? 'w'
                                                 : 'q';

template <auto kOf, typename R, typename... Operands>
struct Applied {
  static std::string form(bool is_predicate) {
    const char result = is_predicate ? 'P' : static_cast<char>(kLetter<R> - 'a' + 'A');
    return std::string{result, kLetter<Operands>...};
  }
  template <std::size_t... kAt>
  static void map(Warp& warp, const Instruction& i, u32 lanes, std::index_sequence<kAt...>) {
    R values[kLanes];
    compute(values, warp.lanes<Operands>(i.at[kAt + 1])...);
    write_lanes(warp.lanes<R>(i.at[0]), values, lanes);
  }
  static void compute(R (&values)[kLanes], const Operands* __restrict... operands) {
    for (int lane = 0; lane < kLanes; ++lane) {
      values[lane] = kOf(operands[lane]...);
    }
  }
  template <std::size_t... kAt>
  static void compare(Warp& warp, const Instruction& i, u32 lanes, std::index_sequence<kAt...>) {
    u32 bits = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      bits |= u32{kOf(warp.lanes<Operands>(i.at[kAt + 1])[lane]...)} << lane;
    }
    write_predicate(warp, i.at[0], bits, lanes);
  }
  static void run(Warp& warp, const Instruction& i, u32 lanes) {
    if constexpr (std::is_same_v<R, bool>) {
      compare(warp, i, lanes, std::index_sequence_for<Operands...>());
    } else {
      map(warp, i, lanes, std::index_sequence_for<Operands...>());
    }
  }
};

template <auto kOf, typename L, typename R, typename... Operands>
Meaning applied(R (L::*)(Operands...) const) {
  using Of = Applied<kOf, R, Operands...>;
  return as(Of::form(std::is_same_v<R, bool>), Of::run);
}

}  // namespace detail

// The meaning of an instruction that is a function of u16, u32 or u64 operands, lane by lane; to bool: a comparison.
template <auto kOf>
Meaning each() {
  return detail::applied<kOf>(&decltype(kOf)::operator());
}

// One of predicates, all lanes at once.
template <auto kOf>
void predicates(Warp& warp, const Instruction& i, u32 lanes) {
  const u32 a = *warp.lanes<u32>(i.at[1]), b = i.operands > 2 ? *warp.lanes<u32>(i.at[2]) : 0;
  write_predicate(warp, i.at[0], kOf(a, b), lanes);
}

// ---- what single lanes compute: the arithmetic of PTX where it is not that of C++ -----------------------------------

template <typename T>
constexpr T shift_left(T a, u32 by) {
  return by < 8 * sizeof(T) ? static_cast<T>(a << by) : T{0};
}
template <typename T>  // signed ones fill with the sign
constexpr T shift_right(T a, u32 by) {
  return static_cast<T>(a >> std::min<u32>(by, 8 * sizeof(T) - 1) >> (by >= 8 * sizeof(T) && std::is_unsigned_v<T>));
}
template <typename T>  // PTX leaves a division by zero open
constexpr T divided(T a, T b) {
  return b == 0                                           ? static_cast<T>(-1)
         : std::is_signed_v<T> && b == static_cast<T>(-1) ? static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a))
                                                          : static_cast<T>(a / b);
}
template <typename T>
constexpr T remainder_of(T a, T b) {
  return b == 0 ? a : std::is_signed_v<T> && b == static_cast<T>(-1) ? T{0} : static_cast<T>(a % b);
}
constexpr u32 bits_below(u32 count) {
  return count >= 32 ? ~0u : (1u << count) - 1;
}
template <typename T>
constexpr T insert_bits(T a, T into, u32 first, u32 count) {
  const T mask = shift_left(static_cast<T>(shift_left(T{1}, count & 255) - 1), first & 255);
  return (into & ~mask) | (shift_left(a, first & 255) & mask);
}
constexpr u32 extract_bits(u32 a, u32 first, u32 count, bool is_signed) {
  first &= 255;
  count &= 255;
  const u32 last = std::min(31u, first + count - 1);
  const bool fill = is_signed && count > 0 && (a >> last & 1) != 0;
  const u32 field = first >= 32 ? 0 : a >> first & bits_below(std::min(count, 32 - first));
  const u32 width = first >= 32 ? 0 : std::min(count, 32 - first);
  return fill ? field | ~bits_below(width) : field;
}
constexpr u32 permute(u32 a, u32 b, u32 selector) {
  const u64 bytes = u64{b} << 32 | a;
  u32 result = 0;
  for (int i = 0; i < 4; ++i) {
    const u32 one = selector >> (4 * i);
    const auto byte = static_cast<u32>(bytes >> (8 * (one & 7)) & 255);
    result |= ((one & 8) == 0 ? byte : (byte & 128) != 0 ? 255u : 0u) << (8 * i);
  }
  return result;
}
constexpr u32 reversed(u32 a) {
  u32 result = 0;
  for (int i = 0; i < 32; ++i) {
    result |= (a >> i & 1) << (31 - i);
  }
  return result;
}
// Of three operands, bit by bit: the table's bit at their number.
constexpr u32 looked_up(u32 a, u32 b, u32 c, u32 table) {
  u32 result = 0;
  for (u32 i = 0; i < 8; ++i) {
    if ((table >> i & 1) != 0) {
      result |= ((i & 4) != 0 ? a : ~a) & ((i & 2) != 0 ? b : ~b) & ((i & 1) != 0 ? c : ~c);
    }
  }
  return result;
}
// The nearest float of what a function says of the flushed operand, flushed.
template <typename Of>
u32 approximately(u32 a, Of of) {
  return float_bits(flushed(static_cast<float>(of(double{flushed(as_float(a))}))));
}
// To an integer, towards zero, at most its largest; NaN: 0.
template <typename T>
T truncated(float value) {
  if (value != value) {
    return 0;
  }
  constexpr double kLow = static_cast<double>(std::numeric_limits<T>::min());
  constexpr double kHigh = static_cast<double>(std::numeric_limits<T>::max());
  const double whole = std::trunc(static_cast<double>(value));
  return whole <= kLow    ? std::numeric_limits<T>::min()
         : whole >= kHigh ? std::numeric_limits<T>::max()
                          : static_cast<T>(whole);
}

// What atomics and reductions make of two values.
inline constexpr auto kAdded = [](auto a, auto b) { return a + b; };
inline constexpr auto kSmaller = [](auto a, auto b) { return std::min(a, b); };
inline constexpr auto kLarger = [](auto a, auto b) { return std::max(a, b); };
inline constexpr auto kBoth = [](auto a, auto b) { return a & b; };
inline constexpr auto kEither = [](auto a, auto b) { return a | b; };
inline constexpr auto kDiffer = [](auto a, auto b) { return a ^ b; };

// ---- moves ----------------------------------------------------------------------------------------------------------

// A register as two of half its bytes, and back.
template <typename Whole, typename Half>
void split(Warp& warp, const Instruction& i, u32 lanes) {
  for_lanes(lanes, [&](int lane) {
    const std::byte* const from = warp.registers + i.at[2] + lane * sizeof(Whole);
    Half parts[2];
    std::memcpy(parts, from, sizeof parts);
    std::memcpy(warp.registers + i.at[0] + lane * sizeof(Half), &parts[0], sizeof(Half));
    std::memcpy(warp.registers + i.at[1] + lane * sizeof(Half), &parts[1], sizeof(Half));
  });
}
template <typename Whole, typename Half>
void join(Warp& warp, const Instruction& i, u32 lanes) {
  for_lanes(lanes, [&](int lane) {
    Half parts[2];
    std::memcpy(&parts[0], warp.registers + i.at[1] + lane * sizeof(Half), sizeof(Half));
    std::memcpy(&parts[1], warp.registers + i.at[2] + lane * sizeof(Half), sizeof(Half));
    std::memcpy(warp.registers + i.at[0] + lane * sizeof(Whole), parts, sizeof parts);
  });
}
struct Word16 {
  u64 low, high;
};
// d = p ? a : b
template <typename T>
void select(Warp& warp, const Instruction& i, u32 lanes) {
  const T *const a = warp.lanes<T>(i.at[1]), *const b = warp.lanes<T>(i.at[2]);
  const u32 p = *warp.lanes<u32>(i.at[3]);
  T values[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    values[lane] = (p >> lane & 1) != 0 ? a[lane] : b[lane];
  }
  write_lanes(warp.lanes<T>(i.at[0]), values, lanes);
}
template <typename T>
void move(Warp& warp, const Instruction& i, u32 lanes) {
  T values[kLanes];
  std::copy_n(warp.lanes<T>(i.at[1]), kLanes, values);
  write_lanes(warp.lanes<T>(i.at[0]), values, lanes);
}

}  // namespace onchip::ptx
