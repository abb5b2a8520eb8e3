// SPDX-License-Identifier: Apache-2.0
// Functions of single operands, applied to the lanes of a warp. All lanes are computed, so that the compiler may use
// vectors; only those of the mask are written.
#pragma once

#include "sim/ptx/instructions.hpp"
#include "sim/ptx/warp.hpp"

#include <cstddef>
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
    u32& to = *warp.lanes<u32>(i.at[0]);
    to = (to & ~lanes) | (bits & lanes);
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
  Meaning meaning;
  meaning.execute = Applied<kOf, R, Operands...>::run;
  meaning.form = Applied<kOf, R, Operands...>::form(std::is_same_v<R, bool>);
  return meaning;
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
  u32& to = *warp.lanes<u32>(i.at[0]);
  const u32 a = *warp.lanes<u32>(i.at[1]), b = i.operands > 2 ? *warp.lanes<u32>(i.at[2]) : 0;
  to = (to & ~lanes) | (kOf(a, b) & lanes);
}

}  // namespace onchip::ptx
