// SPDX-License-Identifier: Apache-2.0
// What the time of a step follows from beside the instructions and addresses of its SMs: how they exchange the state. A
// plan says it, and a recorded trace carries it, so that both take the same time. All of it whole numbers.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace onchip {

struct StepShape {
  std::int64_t threads = 0;           // of a block, that compute
  std::int64_t fetching_threads = 0;  // that poll: the same; or, where passes are pipelined, those of the warps behind
  std::int64_t passes = 1;            // each with a body of its own
  std::int64_t is_pipelined = 0;      // passes are exchanged one by one, by warps that do nothing else
  std::int64_t is_bulk_copied = 0;    // they wait for a copy of the whole pass
  std::int64_t word_bytes = 16;       // of the state, that a thread publishes at once
  std::int64_t state_words = 0;       // of all passes: they lie at [0, state_words) and are published one state later
  std::int64_t line_words = 8;        // in a line of L2, a power of two
  std::int64_t loads_in_flight = 1;   // words of a thread and round
  std::int64_t poll_delay = 0;        // cycles, before the first poll
  std::int64_t address_instructions = 0, placing_instructions = 0;  // see ExchangeShape
  // Where passes are pipelined: the words of a plane of the state, and of one in what an SM publishes.
  std::int64_t plane_words = 1, outbox_plane_words = 1;
  // Where the state goes from L2 into registers, warp by warp: warp w of an SM polls `polled_words` words from w *
  // `warp_words` on, of a state of `group_words` that `group_sms` SMs share. Else 0: all warps together poll all words,
  // store them to shared memory, and wait for one another.
  std::int64_t polled_words = 0, warp_words = 0, group_words = 0, group_sms = 0;

  std::int64_t body_words() const { return state_words / passes; }
  friend bool operator==(const StepShape&, const StepShape&) = default;
};

struct StepField {
  std::string_view name;
  std::int64_t StepShape::*value;
  std::int64_t least, most;
};
inline constexpr std::int64_t kMostStateWords = std::int64_t{1} << 24;
// In the order in which files have them.
inline constexpr std::array<StepField, 18> kStepFields{{
    {"threads", &StepShape::threads, 32, 2048},
    {"fetching threads", &StepShape::fetching_threads, 32, 2048},
    {"passes", &StepShape::passes, 1, 64},
    {"pipelined", &StepShape::is_pipelined, 0, 1},
    {"bulk copies", &StepShape::is_bulk_copied, 0, 1},
    {"bytes of a word", &StepShape::word_bytes, 4, 16},
    {"words of the state", &StepShape::state_words, 1, kMostStateWords},
    {"words of a line", &StepShape::line_words, 1, 128},
    {"loads in flight", &StepShape::loads_in_flight, 1, 1024},
    {"poll delay", &StepShape::poll_delay, 0, 1 << 20},
    {"address instructions", &StepShape::address_instructions, 0, 64},
    {"placing instructions", &StepShape::placing_instructions, 0, 64},
    {"words of a plane", &StepShape::plane_words, 1, kMostStateWords},
    {"published words of a plane", &StepShape::outbox_plane_words, 1, kMostStateWords},
    {"polled words of a warp", &StepShape::polled_words, 0, kMostStateWords},
    {"words of a warp", &StepShape::warp_words, 0, kMostStateWords},
    {"words of a group", &StepShape::group_words, 0, kMostStateWords},
    {"SMs of a group", &StepShape::group_sms, 0, 1 << 20},
}};
static_assert(sizeof(StepShape) == kStepFields.size() * sizeof(std::int64_t), "every member has a row");

}  // namespace onchip
