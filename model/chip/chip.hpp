// SPDX-License-Identifier: Apache-2.0
// What the hardware offers. One TOML file per chip (model/chips/*.toml); every number there is
//   key = { value = 228, unit = "KiB", source = "...", interval = [227, 229] }      # interval: optional, 95 %
// and is checked against kChipKeys: an unknown, missing, mistyped or impossible number is an error with its place.
#pragma once

#include "model/base/units.hpp"
#include "model/chip/cost_terms.hpp"

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// A number in base units with the half-width of its 95 % interval (0: exact by specification).
struct Number {
  double value = 0;
  double half_width = 0;

  constexpr operator double() const { return value; }
};

// Base units throughout: bytes, hertz, seconds, cycles of the SM clock, counts.
struct Chip {
  std::string name;
  std::string architecture;  // the compiler's target, "sm_90"; "" if no current toolkit compiles for this chip

#define CHIP_NUMBER(member, ...) Number member;
#include "model/chip/chip_numbers.inc"

  CostValues cost;  // what prices multiply with beside these numbers (cost_terms.hpp)
};

// One row per number: where it stands in the file, what it measures, and what is possible.
struct ChipKey {
  std::string_view key;  // "shared_memory.per_sm"
  Dimension dimension;
  Number Chip::*member;
  double minimum, maximum;  // inclusive, base units
  bool integral;
  std::string_view meaning;  // one line for `onchip chips NAME`
};
std::span<const ChipKey> chip_keys();

// Where a number came from; parallel to chip_keys().
struct Provenance {
  std::string unit;    // as written in the file
  std::string source;  // datasheet, paper, or the measurement
};

struct ChipFile {
  Chip chip;
  std::string base;  // name of the chip that it takes numbers from, "" if it has all itself
  std::map<std::string, Provenance, std::less<>> provenance;  // by key
};

// Reads a chip file. Errors (InputError): unreadable file, bad TOML, unknown or missing key, wrong unit, number out of
// range, missing source; each with file:line:column and the nearest valid name.
//
// With `base = "h200"`, or the path of a file beside it, what the file lacks is taken from that chip (chip_base.hpp);
// compute capability and architecture follow from each other. Numbers may then be as short as `count = 16` and
// `clock = "1300 MHz"`, and a number without a source has the file as its source.
ChipFile load_chip(const std::filesystem::path& file);

// The same for the text of a chip file; `file_name` is what errors call it.
ChipFile load_chip_text(std::string_view text, std::string_view file_name);

// A chip file with all numbers, which reads back as the same chip.
std::string chip_text(const ChipFile& file);

// A shipped chip by name (case and punctuation ignored: "h200", "RTX 4090", "rtx4090") or, if it contains '/' or ends
// in ".toml", the path of a file. Shipped files stand in the directory that the environment variable ONCHIP_CHIPS
// names, else in that of the installation or of the sources (base/shipped.hpp).
ChipFile find_chip(std::string_view name_or_file);

// Of these chips that of a GPU, by the name that its driver gives, "NVIDIA H100 80GB HBM3" or "Tesla T4", and its
// number of SMs: the name has all model numbers of the chip's, and of several chips most other words. Null if there is
// none.
const Chip* chip_of_gpu(std::span<const Chip> chips, std::string_view gpu, int sms);

// Names of the shipped chips, in the order of their compute capability.
std::vector<std::string> shipped_chips();

// Applies "key=quantity" ("shared_memory.per_sm=512 KiB", "sm.clock=+10%", "sm.count=x2", "cost.overflow_parting=0")
// as `--set` does; the result is validated like a file and the provenance says "set by user". A relative change is
// rounded to what the hardware can have: whole numbers, whole warps of threads, whole allocation units. Throws
// InputError and then leaves `file` as it was.
void set_chip_key(ChipFile& file, std::string_view assignment);

}  // namespace onchip
