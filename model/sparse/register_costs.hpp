// SPDX-License-Identifier: Apache-2.0
// The costs of register_costs.inc as an enumeration and a table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace onchip {

enum class RegisterCost : std::uint8_t {
#define REGISTER_COST(name, ...) name,
#include "model/sparse/register_costs.inc"
  end
};

inline constexpr std::array<std::string_view, 4> kRegisterArchitectures{"sm_80", "sm_90", "sm_100", "sm_120"};

struct RegisterCostRow {
  std::string_view name;
  std::array<double, kRegisterArchitectures.size()> registers;  // of a thread
  std::string_view meaning, source;
};

inline constexpr std::string_view kSpills = "480 shapes";

inline constexpr std::array<RegisterCostRow, static_cast<std::size_t>(RegisterCost::end)> kRegisterCosts{{
#define REGISTER_COST(name, sm_80, sm_90, sm_100, sm_120, meaning, source) \
  {#name, {sm_80, sm_90, sm_100, sm_120}, meaning, source},
#include "model/sparse/register_costs.inc"
}};

// Those of an architecture.
struct RegisterCosts {
  std::size_t architecture = 0;  // of kRegisterArchitectures
  constexpr double operator[](RegisterCost cost) const {
    return kRegisterCosts[static_cast<std::size_t>(cost)].registers[architecture];
  }
};

}  // namespace onchip
