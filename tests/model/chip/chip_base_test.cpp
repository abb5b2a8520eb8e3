// SPDX-License-Identifier: Apache-2.0
// Chip files that take numbers from another chip, and chip files that are written.
#include "model/chip/chip.hpp"
#include "tests/catch.hpp"
#include "tests/error_of.hpp"
#include "tests/folder.hpp"

#include <string>

using namespace onchip;

namespace {

ChipFile load(const std::string& text) {
  return load_chip_text("name = \"X\"\n" + text, "x.toml");
}

std::string base_error(const std::string& text) {
  return error_of([&] { load(text); });
}

const std::string& source(const ChipFile& file, std::string_view key) {
  return file.provenance.find(key)->second.source;
}

}  // namespace

TEST_CASE("a chip of a few lines takes the rest from its base, as estimates", "[fast]") {
  const ChipFile h200 = find_chip("h200");
  const ChipFile file = load(
      "base = \"h200\"\narchitecture = \"sm_87\"\n[sm]\ncount = 16\nclock = { value = 1300, unit = \"MHz\" }\n"
      "[shared_memory]\nper_sm = \"164 KiB\"\n");
  REQUIRE(file.base == "H200");
  REQUIRE(file.chip.sm_count == 16);
  REQUIRE(file.chip.clock_hz == 1.3e9);
  REQUIRE(source(file, "sm.clock") == "set in x.toml");
  // What follows from what was set.
  REQUIRE(file.chip.compute_capability_major == 8);
  REQUIRE(file.chip.compute_capability_minor == 7);
  REQUIRE(file.chip.smem_bytes_per_block == 163 * 1024);
  REQUIRE(source(file, "shared_memory.per_block") == "follows shared_memory.per_sm");
  REQUIRE(file.chip.cluster_sms == 1);
  REQUIRE(file.chip.cluster_usable_sms == 0);
  REQUIRE(file.chip.l2_slices == 32);  // 240 * 16 / 132 in whole eights
  REQUIRE_THAT(file.chip.library_l2_bytes_per_second,
               Catch::Matchers::WithinRel(h200.chip.library_l2_bytes_per_second * 16 / 132 * 1300 / 1980, 1e-9));
  // What is taken: facts as they are, measurements as estimates, the scatter of a formula doubled.
  REQUIRE(file.chip.registers_per_sm == 65536);
  REQUIRE(file.chip.registers_per_sm.half_width == 0);
  REQUIRE(source(file, "registers.per_sm").starts_with("the H200's: CUDA C++ Programming Guide"));
  REQUIRE(file.chip.fp32_issue_cycles == h200.chip.fp32_issue_cycles);
  REQUIRE(file.chip.fp32_issue_cycles.half_width == h200.chip.fp32_issue_cycles / 10);
  REQUIRE(source(file, "timing.fp32_issue").starts_with("estimated: the H200's figure, measured"));
  REQUIRE(file.chip.exchange_latency_cycles.half_width >= 2 * h200.chip.exchange_latency_cycles.half_width);
  REQUIRE(file.chip.exchange_scatter == 2 * h200.chip.exchange_scatter);
  REQUIRE(load("base = \"h200\"\n[compute_capability]\nmajor = 8\n").chip.architecture == "sm_80");
}

TEST_CASE("errors in a chip with a base stand where they are in the file", "[fast]") {
  const std::string base = "base = \"h200\"\n";
  REQUIRE(base_error(base + "[sm]\n  cuont = 16\n") == "x.toml:4:3: unknown key 'sm.cuont'; did you mean 'sm.count'?");
  REQUIRE(base_error(base + "[sm]\ncount = 0\n") == "x.toml:4:9: 'sm.count' is 0: expected 1 to 4096");
  REQUIRE(base_error(base + "[sm]\nclock = 1300\n") ==
          "x.toml:4:9: 'sm.clock' is an integer: expected { value = ..., unit = \"...\", source = \"...\" }");
  REQUIRE(base_error(base + "[sm]\nclock = \"1300\"\n") ==
          "x.toml:4:9: 'sm.clock': number '1300' has no unit: expected Hz, kHz, MHz or GHz");
  REQUIRE(base_error(base + "[shared_memory]\nper_block = \"300 KiB\"\n") ==
          "x.toml:4:13: 'shared_memory.per_block' (300 KiB) is more than 'shared_memory.per_sm' (228 KiB)");
  REQUIRE(base_error(base + "architecture = \"sm_hopper\"\n").starts_with("x.toml:3:16: 'architecture' is"));
  REQUIRE(base_error("base = \"h20\"\n").starts_with("x.toml:2:8: 'base': unknown chip 'h20'; did you mean 'H200'?"));
  for (const char* none : {"sm_0", "sm_99999999999999999999", "sm_8x"}) {
    REQUIRE(base_error(base + "architecture = \"" + none + "\"\n").starts_with("x.toml:3:16: 'architecture' is"));
  }
  REQUIRE(base_error("base = \"a\\nb.toml\"\n") ==
          "x.toml:2:8: 'base' is 'a\\x0ab.toml': expected printable ASCII text");
  REQUIRE(says(base_error(base + "[shared_memory]\nper_sm = \"1 KiB\"\n"), "together are more than"));
  REQUIRE(base_error("base = 200\n") == "x.toml:2:8: 'base' is an integer: expected a string");
}

TEST_CASE("a base may be a file beside the chip's, but not the chip itself", "[fast]") {
  const Folder directory;
  directory.write("a.toml", "name = \"A\"\nbase = \"h200\"\n[sm]\ncount = 10\n");
  REQUIRE(load_chip(directory.write("b.toml", "name = \"B\"\nbase = \"a.toml\"\n")).chip.sm_count == 10);
  REQUIRE_THROWS_WITH(load_chip(directory.write("c.toml", "name = \"C\"\nbase = \"c.toml\"\n")),
                      Catch::Matchers::Contains("does one lead back to itself?"));
}

TEST_CASE("a chip that is written reads back", "[fast]") {
  for (const std::string& name : shipped_chips()) {
    ChipFile file = find_chip(name);
    set_chip_key(file, "l2.size=+10%");
    const ChipFile read = load_chip_text(chip_text(file), "written.toml");
    CAPTURE(name);
    REQUIRE(read.chip.name == name);
    REQUIRE(read.chip.architecture == file.chip.architecture);
    for (const ChipKey& key : chip_keys()) {
      CAPTURE(key.key);
      REQUIRE_THAT(read.chip.*key.member, Catch::Matchers::WithinRel((file.chip.*key.member).value, 1e-15));
      REQUIRE(source(read, key.key) == source(file, key.key));
      // An interval ends where the number's range does.
      REQUIRE((read.chip.*key.member).half_width <= (file.chip.*key.member).half_width * (1 + 1e-9));
    }
  }
}
