// SPDX-License-Identifier: Apache-2.0
// The keys that a sweep may fix or vary, of chip, network and plan, and what a value of one does to a question.
#pragma once

#include "model/answer/configuration.hpp"
#include "model/answer/feed_forward/asked.hpp"
#include "model/answer/training/training.hpp"
#include "model/chip/chip_keys.hpp"

#include <array>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// What of a question a key belongs to. Only what has changed from one row to the next is made again.
enum class Subject : std::uint8_t { chip, weights, sequence, plan };
inline constexpr int kSubjects = 4;

// What the rows of a sweep are of: a step of a recurrent network, an inference of a feed-forward one, or a training.
enum class Swept : std::uint8_t { recurrent, feed_forward, training };

// Columns of every row: a time, its interval, its floor; then what else is of the workload.
inline constexpr std::array<std::string_view, 4> kStepTimes{"step_us", "low_us", "high_us", "floor_us"};
inline constexpr std::array<std::string_view, 4> kInferenceTimes{"ms", "low_ms", "high_ms", "floor_ms"};
inline constexpr std::array<std::string_view, 7> kTrainingTimes{
    "step_us", "low_us", "high_us", "floor_us", "stash_bytes", "workspace_bytes", "peak_bytes"};

struct SweptInfo {
  Swept swept;
  std::string_view key;   // that says so; "": no other says what it is
  std::string_view what;  // "a feed-forward network"
  bool may_seek_size;     // without a hidden size a row has the largest network that fits
  bool is_models_only;    // no other engine, no rows as expected
  std::span<const std::string_view> times;
};
inline constexpr std::array kSwept{
    SweptInfo{Swept::recurrent, "", "a recurrent network", true, false, kStepTimes},
    SweptInfo{Swept::feed_forward, "network", "a feed-forward network", false, true, kInferenceTimes},
    SweptInfo{Swept::training, "mode=train", "a training", true, true, kTrainingTimes}};
constexpr unsigned bit(Swept swept) {
  return 1u << static_cast<unsigned>(swept);
}
inline constexpr unsigned kOfRecurrent = bit(Swept::recurrent), kOfFeedForward = bit(Swept::feed_forward),
                          kOfTraining = bit(Swept::training), kOfBoth = kOfRecurrent | kOfTraining,
                          kOfAll = (1u << kSwept.size()) - 1;

// Chips by the name that the user gave: each is read once.
using Chips = std::map<std::string, ChipFile, std::less<>>;

// A question while the values of its keys are set; chip.changes become part of the chip when all are known.
struct Draft {
  const Chips* chips = nullptr;
  const Chip* base = nullptr;
  std::vector<ChipChange> changes;
  Configuration configuration;
  FeedForwardAsked feed_forward;  // instead, if it names a network
  bool trains = false;            // instead a training of the configuration's network
  Stack stack = {};
  TrainingConstraints training = {};

  explicit Draft(const Chips& all);
  void reset(Subject subject);  // to what a command takes without options
};

struct KeyValue {
  std::string text;        // as in a row; "" where only the changed chip tells it
  double number = 0;       // of a key with numbers
  bool is_factor = false;  // of a number of the chip: "+10%"
};

struct Key {
  std::string name;
  Subject subject = Subject::chip;
  bool is_number = false, is_whole = false;
  unsigned of = kOfAll;               // bits of Swept
  bool needs_plan = false;            // a field that only a whole plan has: the planner cannot be bound to it
  double minimum = 0, maximum = 0;    // inclusive, of a number of the network
  const ChipKey* chip_key = nullptr;  // null for a cost term, too
  std::function<void(Draft&, const KeyValue&)> apply;  // throws InputError
};

// Throws InputError with the nearest name.
Key find_sweep_key(std::string_view name);

// A value as the user writes it: a name, a number, or a quantity. Throws InputError.
KeyValue read_value(const Key& key, const std::string& text);
// The value for a number in base units, as ranges make them.
KeyValue value_of(const Key& key, double number);
double read_number(const Key& key, const std::string& text);

}  // namespace onchip
