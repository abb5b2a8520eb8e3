// SPDX-License-Identifier: Apache-2.0
// What a sweep is: keys that are fixed, axes whose values are combined, and what is kept of a row. From a TOML file, or
// from the command line in the same words:
//
//   cell = "lstm"                          --cell lstm
//   sm.clock = "+10%"                      --set sm.clock=+10%
//   [[axis]]                               --axis hidden=512:8192:256
//   hidden = "512:8192:256"
//   [[axis]]                               --axis "sm.count=100,132; sm.clock=2 GHz,1.7 GHz"
//   sm.count = [100, 132]                  (keys of one axis move together)
//   sm.clock = ["2 GHz", "1.7 GHz"]
//   where = "step_us < 5"                  --where "step_us < 5"
//   column.us_per_sample = "step_us / batch"    --column "us_per_sample=step_us/batch"
//
// Values: a list "1,2,4"; a range "FROM:TO:STEP", "FROM:TO:xFACTOR" or "FROM:TO:logNUMBER" (so many values, evenly in
// the logarithm), of changes of a number of the chip, too: "+0%:+50%:10%"; a column of a CSV file
// "@networks.csv:hidden".
#pragma once

#include "model/answer/json.hpp"
#include "model/explore/keys.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

inline constexpr std::uint64_t kMostRows = 1'000'000'000'000;
inline constexpr std::size_t kMostValues = 1'000'000;  // of all axes together

// The values of one key, as they are written into rows.
struct KeyValues {
  Key key;
  std::vector<KeyValue> values;
};

// Keys that move together: all have as many values.
struct Axis {
  std::vector<KeyValues> keys;
  std::size_t size() const { return keys.front().values.size(); }
};

// A column beyond those that every row has.
struct ExtraColumn {
  std::string name, expression;
};

// The smallest, or the largest, of a column.
struct Objective {
  std::string column;
  bool is_largest = false;
};
// "step_us:min,hidden:max"
std::vector<Objective> parse_objectives(std::string_view text);
std::string to_string(const std::vector<Objective>& objectives);

struct SweepSpec {
  Chips chips;  // that the rows name
  std::shared_ptr<KnownFeedForward> networks = std::make_shared<KnownFeedForward>();
  std::vector<KeyValues> fixed;  // one value each
  std::vector<Axis> axes;        // the first varies slowest
  std::string where;
  std::vector<ExtraColumn> columns;
  std::string engine = "model";
  std::string rows = "exact";         // or expected: of row lengths
  int granule = 32;                   // of hidden units, where the largest size is sought
  std::vector<Objective> keep_front;  // empty: all rows

  std::uint64_t size() const;  // rows before `where`
  const SweptInfo& swept() const;
  void for_each_key(const std::function<void(const KeyValues&)>& use) const;  // the fixed ones, then those of the axes
  bool varies(std::string_view key) const;
  bool has(std::string_view key) const;  // fixed or varied
  bool trains() const;                   // mode is train

  // Each throws InputError, without where it was found.
  void fix(const std::string& key, const std::string& text);  // the last of several counts
  void fix(const std::string& assignment);                    // "sm.clock=+10%"
  void add_axis(std::vector<std::pair<std::string, std::vector<std::string>>> keys);
  void add_axis(const std::string& text);    // "hidden=512:8192:256"
  void add_column(const std::string& text);  // "NAME=EXPRESSION", or the name of a number that every row knows
};

// Throws InputError with file, line and column.
void read_spec_file(SweepSpec& spec, const std::filesystem::path& file);

// Throws InputError for what contradicts itself; completes what was left out.
void finish(SweepSpec& spec);

// The same for specs with the same rows, however they were written.
Json to_json(const SweepSpec& spec);

// 16 hexadecimal digits.
std::string fingerprint(std::string_view bytes);
std::string fingerprint(const Chip& chip);

}  // namespace onchip
