// SPDX-License-Identifier: Apache-2.0
// What the microbenchmarks measure, case by case: the kernels that are compiled for each, and the checksums that they
// must come to. No GPU.
#pragma once

#include "kernels/runtime/compiler.hpp"
#include "model/chip/instructions.hpp"
#include "model/exchange/state.hpp"
#include "model/families/plan.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace onchip::microbench {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

// ---- shared memory --------------------------------------------------------------------------------------------------

inline constexpr int kSharedIterations = 64;
inline constexpr int kChaseLoads = 32;  // per iteration, as in shared.cu
constexpr int slots_in_flight(int width) {
  return width == 16 ? 8 : 16;
}

struct PatternLane {
  u32 degree;  // of the pattern's conflicts
  u32 lanes;   // of one phase; also the units in one row of banks
  u32 lane, phase, of_phase;
  std::mt19937& random;
};
struct Pattern {
  std::string_view name;
  int conflict;   // degree within a phase, 0 if the pattern has none of its own
  int min_width;  // smallest load for which it says something new
  u32 (*unit)(const PatternLane&);
};

// The unit (of `width` bytes) that a lane loads.
u32 pattern_unit(const Pattern& pattern, int width, u32 lane, std::mt19937& random);

struct SharedCase {
  int width, warps;
  const Pattern* pattern;  // null: latency
};
std::vector<SharedCase> shared_cases();
CompileRequest shared_request(const std::string& architecture, int width, bool chase);

// ---- arithmetic -----------------------------------------------------------------------------------------------------

inline constexpr int kArithmeticIterations = 32;
inline constexpr int kArithmeticSteps = 64;  // per iteration, as in arithmetic.cu

struct Operation {
  std::string_view name;
  int instructions;  // per step
};
inline constexpr std::array<Operation, 11> kOperations{{
    {"ffma", 1},
    {"hfma2", 1},
    {"half_to_float", 1},
    {"lop3", 1},
    {"iadd3", 1},
    {"shift", 1},
    {"permute", 1},
    {"select", 2},
    {"bf16_low+ffma", 2},
    {"bf16_high+ffma", 2},
    {"hmma", 1},
}};
inline constexpr std::array<int, 3> kIlps{1, 2, 4};
inline constexpr int kClockIterations = 1024;  // of the shorter of two runs: most of a millisecond
CompileRequest arithmetic_request(const std::string& architecture, int operation, int ilp);

// ---- loops too long for the instruction cache -----------------------------------------------------------------------

inline constexpr int kLoopIterations = 16;
inline constexpr std::array<int, 18> kLoopKibibytes{8,  16, 24, 28, 30, 31,  32,  33,  34,
                                                    36, 40, 48, 64, 96, 128, 144, 160, 192};
constexpr int loop_instructions(int kibibytes) {
  return kibibytes * 1024 / kInstructionBytes;
}
CompileRequest instructions_request(const std::string& architecture, int kibibytes);

// ---- shuffles, block barriers, tanh ---------------------------------------------------------------------------------

inline constexpr int kShuffleIterations = 32;
inline constexpr int kShuffleSteps = 32;  // per iteration, as in shuffle.cu

struct ShuffleCase {
  std::string_view kind;
  int kind_number, ilp, warps;
  std::string_view lanes;  // of tanh: on which side of its branch
  float even_bias, odd_bias;
};
std::vector<ShuffleCase> shuffle_cases();
CompileRequest shuffle_request(const std::string& architecture, const ShuffleCase& c);

// ---- exchange and signals -------------------------------------------------------------------------------------------

inline constexpr int kExchangeWarmup = 32, kExchangeSteps = 300;
inline constexpr int kExchangePollDelay = 180;  // cycles, as most plans have

struct ExchangeCase {
  int nominal_bytes, batch, sms, threads, loads;
  int poll_delay = kExchangePollDelay;

  int words_per_sm() const { return std::max(1, (nominal_bytes + 8 * sms) / (16 * sms)); }
  int bytes() const { return 16 * words_per_sm() * sms; }
  int line_words() const { return line_words_for(words_per_sm()); }
  // In L2, of byte `offset` of a state.
  std::size_t in_l2(std::size_t offset) const {
    const auto held = static_cast<std::size_t>(16 * line_words());
    return offset / held * (16 * kLineWords) + offset % held;
  }
  int units_per_sm() const { return 16 * words_per_sm() / (2 * batch); }
  // Units of a group of lanes, of which there is one for every sample, and four at least.
  int rows() const {
    const int groups = threads / std::max(batch, 4);
    return (units_per_sm() + groups - 1) / groups;
  }
  static constexpr int kZeroUnits = 8;  // behind the state: at most 16 bytes each
  int smem_bytes() const { return bytes() + kZeroUnits * 2 * batch + 16 * words_per_sm(); }
};
std::vector<ExchangeCase> exchange_cases(int sms, int smem_bytes);
CompileRequest exchange_request(const std::string& architecture, const ExchangeCase& c);

// The exchange inside one cluster, of the kernel's own code.
struct SendCase {
  int sms, bytes, threads;

  int smem_bytes() const { return 2 * bytes + 16; }
};
std::vector<SendCase> send_cases(const std::string& architecture);
CompileRequest send_request(const std::string& architecture, const SendCase& c);

// The sums that SMs of a cluster add up, and as many of their own memory instead.
struct SumsCase {
  static constexpr int kUnits = 16;  // of an SM
  int sms, samples, threads;         // of a cluster; of an SM

  int items() const { return kUnits * samples; }
  int thread_items() const { return (items() + threads - 1) / threads; }
  int bytes() const { return 4 * (sms - 1) * items(); }  // that an SM receives
  // Floats of a warp's sums, of one sample and of all.
  int rows() const { return kUnits * sms + 4; }
  int warp_sums() const { return (samples + 7) / 8 * 8 * rows(); }
  int smem_bytes() const { return 4 * (threads / 32 * warp_sums() + 2 * sms * thread_items() * threads) + 16; }
};
std::vector<SumsCase> sums_cases(const std::string& architecture, int smem_bytes);
CompileRequest sums_request(const std::string& architecture, const SumsCase& c, bool exchanges);

CompileRequest barrier_request(const std::string& architecture, int kind);

// ---- what must come out ---------------------------------------------------------------------------------------------

inline constexpr u32 kElementMask = 0x7fff;
constexpr u32 initial_element(u32 element) {
  return element * 40503u >> 3 & kElementMask;
}

// The checksum of exchange.cu after an even number of steps from initial_element.
u32 expected_checksum(const ExchangeCase& c, int steps);
// The checksum of cluster.cu after `steps` steps from `word` i = i.
u32 expected_sent(const SendCase& c, int steps);
// The checksums of cluster_sums.cu after `steps` steps, of each SM of a cluster.
std::vector<u32> expected_sums(const SumsCase& c, bool exchanges, int steps);

}  // namespace onchip::microbench
