// SPDX-License-Identifier: Apache-2.0
// What a family says of its kernel (kernels/sparse/program.hpp, kernels/dense/program.hpp), and how it makes the
// definitions that the kernel is compiled with.
#pragma once

#include "kernels/persistent/arguments.hpp"
#include "kernels/runtime/compiler.hpp"
#include "model/exchange/state.hpp"
#include "model/plan/choices.hpp"
#include "model/plan/field.hpp"
#include "model/plan/shared_memory.hpp"
#include "model/workload/recurrent.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace onchip {

// `exchange_only`: the steps without their gathers and cells, every state zero: what the exchange of the plan's state
// takes, the larger part of the floor that no kernel gets below.
// `clocked`: every warp writes down when it passes each point of a step; this takes a little time itself.
// `captured`: every warp writes down each of its accesses to shared memory of one step (capture.cuh), which takes long;
// not of every plan.
enum class Work : std::uint8_t { whole, exchange_only, clocked, captured };

// Of what one warp captures (capture.cuh).
struct CaptureSize {
  int accesses = 0;
  std::size_t words() const { return 2 + static_cast<std::size_t>(accesses) * kAccessWords; }
};
inline constexpr int kCapturedStep = 2;

// How a family's kernel is launched, and what the translations of its sequences take.
struct LaunchShape {
  std::string_view kernel;  // its name
  int blocks = 0, threads = 0;
  std::int64_t shared_bytes = 0;  // of a block
  ExchangeProtocol exchange = ExchangeProtocol::lamport;
  int cluster_blocks = 0;  // of a cluster; 0: a cooperative launch
  int recorded_sms = 0;    // that write down clocks or accesses, with each of their
  int recorded_warps = 0;
  std::int64_t staged_bytes = 0;  // of shared memory, to which a state is copied before it is translated; 0: it is not
};

// Where element `index` of a state is in lines of L2 of so many words (kernels/persistent/state.cuh).
constexpr std::int64_t in_l2(std::int64_t index, Precision precision, int line_words) {
  const std::int64_t in_line = 16 / info(precision).bytes * line_words;
  return index / in_line * (16 / info(precision).bytes * kLineWords) + index % in_line;
}

// ---- definitions: "ONCHIP_NAME=VALUE" -------------------------------------------------------------------------------

// Those of a plan's fields that its kernel is compiled with.
template <typename P>
void define_fields(Defines& defines, const P& plan) {
  for (const Field<P>& field : fields(plan)) {
    if (field.is_defined) {
      define(defines, field.name, field.get(plan));
    }
  }
}

// Where each region of a block's shared memory begins: ONCHIP_AT_<REGION>.
template <typename Region, std::size_t kRegions>
void define_regions(Defines& defines, const SharedMemory<Region>& memory,
                    const std::array<std::string_view, kRegions>& names) {
  static_assert(kRegions == SharedMemory<Region>::kRegions, "every region has its name");
  for (std::size_t i = 0; i < kRegions; ++i) {
    define(defines, "at_" + std::string(names[i]), memory.at(static_cast<Region>(i)));
  }
  define(defines, "shared_bytes", memory.bytes());
}

// Of the network and its state: what a family's kernel and the translations of its sequences have in common.
template <typename Geometry>
Defines state_defines(const Geometry& geometry) {
  Defines defines;
  define(defines, "hidden", geometry.network.hidden);
  define(defines, "batch", geometry.samples);
  define(defines, "precision", static_cast<int>(geometry.network.precision));
  define(defines, "cell", static_cast<int>(geometry.network.cell));
  define(defines, "blocks", geometry.sms);
  define(defines, "units_per_sm", geometry.units_per_sm);
  define(defines, "batch_padded", geometry.batch_padded);
  return defines;
}

inline void define_work(Defines& defines, Work work) {
  define(defines, "exchange_only", work == Work::exchange_only);
  define(defines, "clocks", work == Work::clocked);
  define(defines, "ahead", kEmptiedAhead);
}

}  // namespace onchip
