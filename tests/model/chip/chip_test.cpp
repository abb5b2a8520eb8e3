// SPDX-License-Identifier: Apache-2.0
#include "model/chip/chip.hpp"

#include "tests/catch.hpp"
#include "tests/error_of.hpp"
#include "tests/folder.hpp"

#include <stdlib.h>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace onchip;

namespace {

// A chip file as small as one can be. Line numbers of the tests count from the line of `name`; keys that no test names
// follow behind, with an H200's numbers.
const std::string& small_chip() {
  static const std::string made = [] {
    std::string text = R"(name = "Test"
architecture = "sm_90"
[compute_capability]
major = { value = 9, source = "a" }
minor = { value = 0, source = "a" }
[sm]
count = { value = 132, source = "a" }
clock = { value = 1.98, unit = "GHz", source = "a" }
partitions = { value = 4, source = "a" }
max_threads = { value = 2048, source = "a" }
max_blocks = { value = 32, source = "a" }
max_threads_per_block = { value = 1024, source = "a" }
[registers]
per_sm = { value = 65536, source = "a" }
per_block = { value = 65536, source = "a" }
per_thread = { value = 255, source = "a" }
allocation_unit = { value = 256, source = "a" }
[shared_memory]
per_sm = { value = 228, unit = "KiB", source = "a" }
per_block = { value = 227, unit = "KiB", source = "a" }
reserved_per_block = { value = 1, unit = "KiB", source = "a" }
allocation_unit = { value = 128, unit = "B", source = "a" }
banks = { value = 32, source = "a" }
bank_width = { value = 4, unit = "B", source = "a" }
[l2]
size = { value = 50, unit = "MiB", source = "a" }
slices = { value = 160, source = "test" }
[dram]
size = { value = 141, unit = "GiB", source = "a" }
bandwidth = { value = 4800, unit = "GB/s", source = "a" }
[timing]
lds_latency = { value = 29, unit = "cycles", interval = [28, 31], source = "a" }
grid_barrier = { value = 931, unit = "ns", source = "a" }
)";
    const Chip h200 = find_chip("h200").chip;
    std::map<std::string, std::string> more;  // by table
    for (const ChipKey& key : chip_keys()) {
      const std::string table(key.key.substr(0, key.key.find('.'))), name(key.key.substr(table.size() + 1));
      const std::size_t begin = text.find("[" + table + "]\n");
      if (begin != std::string::npos && text.find("\n" + name + " = ", begin) != std::string::npos) {
        continue;
      }
      more[table] += name + " = { value = " + format_number(h200.*key.member) + ", unit = \"" +
                     std::string(base_unit(key.dimension)) + "\", source = \"a\" }\n";
    }
    text += more["timing"];
    more.erase("timing");
    for (const auto& [table, lines] : more) {
      text += "[" + table + "]\n" + lines;
    }
    return text;
  }();
  return made;
}

std::string edited(std::string_view from, std::string_view to) {
  std::string text = small_chip();
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string load_error(std::string_view text) {
  return error_of([&] { load_chip_text(text, "t.toml"); });
}

std::string edit_error(std::string_view from, std::string_view to) {
  return load_error(edited(from, to));
}

// Each with one text for another, and the error behind the file's name.
struct Edit {
  std::string_view from, to, error;
};
void check_edits(std::initializer_list<Edit> edits) {
  for (const Edit& edit : edits) {
    CAPTURE(edit.to);
    REQUIRE(edit_error(edit.from, edit.to) == "t.toml:" + std::string(edit.error));
  }
}

std::string find_error(std::string_view name) {
  return error_of([&] { find_chip(name); });
}

std::string set_error(std::string_view assignment) {
  ChipFile file = load_chip_text(small_chip(), "t.toml");
  const std::string error = error_of([&] { set_chip_key(file, assignment); });
  REQUIRE(file.chip.sm_count == 132);
  return error;
}

double value_after(std::string_view assignment, Number Chip::*member) {
  ChipFile file = load_chip_text(small_chip(), "t.toml");
  set_chip_key(file, assignment);
  return file.chip.*member;
}

struct Environment {
  explicit Environment(const std::string& directory) { ::setenv("ONCHIP_CHIPS", directory.c_str(), 1); }
  ~Environment() { ::unsetenv("ONCHIP_CHIPS"); }
};

}  // namespace

TEST_CASE("a chip file is read in base units with intervals and sources", "[fast]") {
  const ChipFile file = load_chip_text(small_chip(), "t.toml");
  REQUIRE(file.chip.name == "Test");
  REQUIRE(file.chip.architecture == "sm_90");
  REQUIRE(file.chip.clock_hz == 1.98e9);
  REQUIRE(file.chip.smem_bytes_per_block == 227 * 1024);
  REQUIRE(file.chip.grid_barrier_seconds == 931 * 1e-9);
  REQUIRE(file.chip.sm_count.half_width == 0);
  REQUIRE(file.chip.lds_latency_cycles.half_width == 2);  // the longer side of [28, 31] around 29
  REQUIRE(file.provenance.size() == chip_keys().size());
  REQUIRE(file.provenance.at("sm.clock").unit == "GHz");
  REQUIRE(file.provenance.at("sm.count").unit == "1");
  REQUIRE(file.provenance.at("sm.count").source == "a");
}

TEST_CASE("every key of a chip file is needed and has a meaning of one line", "[fast]") {
  for (const ChipKey& key : chip_keys()) {
    CAPTURE(key.key);
    REQUIRE_FALSE(key.meaning.empty());
    REQUIRE(!says(key.meaning, "\n"));
    const std::string line = "\n" + std::string(key.key.substr(key.key.find('.') + 1)) + " = ";
    // Two tables have keys of the same name: look within the table.
    const std::string table = "[" + std::string(key.key.substr(0, key.key.find('.'))) + "]";
    std::string text = small_chip();
    const std::size_t at = text.find(line, text.find(table));
    REQUIRE(at != std::string::npos);
    text.erase(at, text.find('\n', at + 1) - at);
    const std::string error = load_error(text);
    REQUIRE(error.ends_with("missing key '" + std::string(key.key) + "'"));
  }
}

TEST_CASE("every shipped chip loads, and each of its numbers has a source", "[fast]") {
  const std::vector<std::string> names = shipped_chips();
  REQUIRE(names == std::vector<std::string>{"TITAN X Maxwell", "P100", "V100", "T4", "A100", "A100 40GB", "RTX 3090",
                                            "Jetson AGX Orin", "L40S", "RTX 4090", "GH200", "H100 PCIe", "H100 SXM",
                                            "H200", "B200", "B300", "RTX 5090"});
  for (const std::string& name : names) {
    CAPTURE(name);
    const ChipFile file = find_chip(name);
    REQUIRE(file.chip.name == name);
    for (const ChipKey& key : chip_keys()) {
      CAPTURE(key.key);
      const Number& number = file.chip.*key.member;
      const std::string& source = file.provenance.at(std::string(key.key)).source;
      REQUIRE(source.size() > 10);
      // An estimate without an interval would pass for a fact.
      REQUIRE((!says(source, "estimated") || number.half_width > 0));
    }
    // The kernels compile for 8.0 and later.
    REQUIRE(file.chip.architecture.empty() == (file.chip.compute_capability_major < 8));
  }
}

TEST_CASE("a shipped chip is found whatever the case and punctuation of its name", "[fast]") {
  for (const std::string_view name : {"rtx4090", "RTX 4090", "rtx-4090", "RTX_4090"}) {
    REQUIRE(find_chip(name).chip.name == "RTX 4090");
  }
  REQUIRE(find_error("h20") == "unknown chip 'h20'; did you mean 'H200'? docs/add-a-chip.md says how to add one");
  REQUIRE(find_chip("h100").chip.name == "H100 SXM");
  REQUIRE(find_chip("4090").chip.name == "RTX 4090");
  REQUIRE(find_error("h10") == "unknown chip 'h10'; did you mean 'H100 SXM'? docs/add-a-chip.md says how to add one");
  REQUIRE(find_chip("orin").chip.name == "Jetson AGX Orin");
  const std::string unknown = find_error("tpu");
  REQUIRE(unknown.starts_with("unknown chip 'tpu': expected the path of a file ending in .toml or one of 'TITAN X"));
  REQUIRE(unknown.ends_with("'RTX 5090'; docs/add-a-chip.md says how to add one"));
  REQUIRE(find_error("absent.toml") == "absent.toml: cannot read the file: No such file or directory");
  REQUIRE(find_error("/") == "/: cannot read the file: it is a directory");
}

TEST_CASE("the chip of a GPU is found by the name that its driver gives and its SMs", "[fast]") {
  std::vector<Chip> chips;
  for (const std::string& name : shipped_chips()) {
    chips.push_back(find_chip(name).chip);
  }
  struct Product {
    const char* gpu;
    int sms;
    const char* chip;  // "": none of ours
  };
  for (const auto& [gpu, sms, name] : {Product{"NVIDIA H100 80GB HBM3", 132, "H100 SXM"},
                                       {"NVIDIA H100 PCIe", 114, "H100 PCIe"},
                                       {"NVIDIA H100 NVL", 132, "H100 SXM"},
                                       {"NVIDIA H100 80GB HBM3 MIG 1g.10gb", 16, ""},
                                       {"NVIDIA H200", 132, "H200"},
                                       {"NVIDIA GH200 480GB", 132, "GH200"},
                                       {"NVIDIA A100-SXM4-40GB", 108, "A100 40GB"},
                                       {"A100-PCIE-40GB", 108, "A100 40GB"},
                                       {"NVIDIA A100 80GB PCIe", 108, "A100"},
                                       {"NVIDIA A100-SXM4-80GB", 108, "A100"},
                                       {"NVIDIA A10", 72, ""},
                                       {"NVIDIA B200", 148, "B200"},
                                       {"NVIDIA B300 SXM6 AC", 148, "B300"},
                                       {"NVIDIA GB200", 152, ""},
                                       {"NVIDIA L40S", 142, "L40S"},
                                       {"NVIDIA L40", 142, ""},
                                       {"NVIDIA RTX 6000 Ada Generation", 142, ""},
                                       {"NVIDIA GeForce RTX 3090", 82, "RTX 3090"},
                                       {"NVIDIA GeForce RTX 3090 Ti", 84, ""},
                                       {"NVIDIA GeForce RTX 4090", 128, "RTX 4090"},
                                       {"NVIDIA GeForce RTX 4090 Laptop GPU", 76, ""},
                                       {"NVIDIA GeForce RTX 5090", 170, "RTX 5090"},
                                       {"Tesla T4", 40, "T4"},
                                       {"Tesla V100-SXM2-16GB", 80, "V100"},
                                       {"Tesla P100-PCIE-16GB", 56, "P100"},
                                       {"NVIDIA GeForce GTX TITAN X", 24, "TITAN X Maxwell"},
                                       {"NVIDIA TITAN X (Pascal)", 28, ""},
                                       {"Orin", 16, "Jetson AGX Orin"},
                                       {"", 132, ""}}) {
    const Chip* const found = chip_of_gpu(chips, gpu, sms);
    CAPTURE(gpu, sms);
    CHECK((found != nullptr ? found->name : "") == name);
  }
}

TEST_CASE("chips are looked for where ONCHIP_CHIPS says", "[fast]") {
  const Folder directory;
  const std::string file = directory.write("chips/test.toml", small_chip());
  {
    const Environment environment((directory / "chips").string());
    REQUIRE(shipped_chips() == std::vector<std::string>{"Test"});
    REQUIRE(find_chip("TEST").chip.sm_count == 132);
    REQUIRE(find_chip(file).chip.sm_count == 132);
  }
  const std::string nowhere = (directory / "nowhere").string();
  const Environment environment(nowhere);
  REQUIRE(find_error("h200") == nowhere +
                                    ": cannot read the directory of chip files: No such file or directory "
                                    "(ONCHIP_CHIPS names it)");
}

TEST_CASE("a file that is not TOML is refused with its place", "[fast]") {
  REQUIRE(load_error("") == "t.toml:1:1: missing key 'name'");
  REQUIRE(load_error("name = ") == "t.toml:1:8: not valid TOML: key-value pair: encountered end-of-file");
  REQUIRE(load_error("name = \"a\"\nname = \"b\"\n")
              .starts_with("t.toml:2:8: not valid TOML: key-value pair: cannot redefine existing string 'name'"));
  REQUIRE(load_error(std::string("\xff\xfe\x00\x01", 4)) ==
          "t.toml:1:1: found byte '\\xff' outside of comments: expected ASCII, \\uXXXX in strings");
  REQUIRE(load_error("# \xd0\x91\nname = \"a\" \xd0\x91") ==
          "t.toml:2:12: found byte '\\xd0' outside of comments: expected ASCII, \\uXXXX in strings");
  REQUIRE(edit_error("\"Test\"", "\"\"\"Test\"\"\"") ==
          "t.toml:1:8: found a string of several lines: expected one line");
  REQUIRE(load_error("\xef\xbb\xbf" + small_chip()) == "no error");
  REQUIRE(edit_error("source = \"a\"", "source = \"M\xc3\xbcller\"") ==
          "t.toml:4:33: found byte '\\xc3' outside of comments: expected ASCII, \\uXXXX in strings");
  REQUIRE(edit_error("source = \"a\"", R"(source = "M\u00fcller \"2024\" \\")") == "no error");
  REQUIRE(edit_error("[l2]", "[sm]").starts_with("t.toml:25:1: not valid TOML: "));
  REQUIRE(edit_error("value = 132", "value = 132, value = 133").starts_with("t.toml:7:32: not valid TOML: "));
  REQUIRE(load_error(std::string(100, '[')).starts_with("t.toml:1:"));
  REQUIRE(load_error("a = " + std::string(100000, '[')).starts_with("t.toml:1:"));
}

TEST_CASE("a hostile file costs neither the stack nor the time", "[fast]") {
  std::string deep = "a";
  for (int i = 0; i < 100000; ++i) {
    deep += ".a";
  }
  REQUIRE(load_error(deep + " = 1") == "t.toml:1:2002: more than 1000 dots outside of strings: a key has at most one");
  REQUIRE(load_error("name = \"a\"\n[" + deep + "]") ==
          "t.toml:2:2003: more than 1000 dots outside of strings: a key has at most one");
  REQUIRE(load_error(std::string(1048577, '#')) == "t.toml: 1048577 bytes: expected at most 1 MiB");
  REQUIRE(load_error(std::string(1048576, '#')) == "t.toml:1:1: missing key 'name'");
}

TEST_CASE("an unknown name is refused with the nearest known one", "[fast]") {
  check_edits({
      {"banks", "bankz", "23:1: unknown key 'shared_memory.bankz'; did you mean 'shared_memory.banks'?"},
      {"[timing]", "[timings]", "31:2: unknown table 'timings'; did you mean 'timing'?"},
      {"name =", "nam =", "1:1: unknown key 'nam'; did you mean 'name'?"},
      {"[l2]", "extra = 1\n[l2]", "25:1: unknown key 'shared_memory.extra'"},
      {"count = { value", "count = { vlaue", "7:11: unknown field 'vlaue' of 'sm.count'; did you mean 'value'?"},
      {"[l2]", "[l2.x]", "25:5: unknown key 'l2.x'"},
      {"[l2]", "[\"l\\n2\"]", "25:2: unknown table 'l\\x0a2'; did you mean 'l2'?"},
  });
}

TEST_CASE("a missing name is refused at its table", "[fast]") {
  check_edits({
      {"count = { value = 132, source = \"a\" }\n", "", "6:1: missing key 'sm.count'"},
      {"[l2]\nsize = { value = 50, unit = \"MiB\", source = \"a\" }\nslices = { value = 160, source = \"test\" }\n", "",
       "1:1: missing table 'l2'; with base = \"h200\" it is taken from that chip"},
      {"architecture = \"sm_90\"\n", "", "1:1: missing key 'architecture'"},
      {"value = 132, ", "", "7:9: 'sm.count' has no 'value'"},
      {"132, source = \"a\"", "132", "7:9: 'sm.count' has no 'source': say where the number comes from"},
      {"132, source = \"a\"", "132, source = \" \"",
       "7:33: 'source' of 'sm.count' is empty: say where the number comes from"},
      {"1.98, unit = \"GHz\"", "1.98", "8:9: 'sm.clock' has no 'unit'"},
  });
}

TEST_CASE("a wrong type is refused with what was expected", "[fast]") {
  check_edits({
      {"count = { value = 132, source = \"a\" }", "count = 132",
       "7:9: 'sm.count' is an integer: expected { value = ..., unit = \"...\", source = \"...\" }"},
      {"132", "\"132\"", "7:19: 'value' of 'sm.count' is a string: expected a number"},
      {"132", "true", "7:19: 'value' of 'sm.count' is a boolean: expected a number"},
      {"132", "1979-05-27", "7:19: 'value' of 'sm.count' is a date or time: expected a number"},
      {"\"GHz\"", "9", "8:32: 'unit' of 'sm.clock' is an integer: expected a string"},
      {"\"sm_90\"", "90.5", "2:16: 'architecture' is a number: expected a string"},
      {"\"Test\"", "\"a\\nb\"", "1:8: 'name' is 'a\\x0ab': expected printable ASCII text"},
      {"\"Test\"", "\"\"", "1:8: 'name' is '': expected printable ASCII text"},
  });
  REQUIRE(edit_error("name = \"Test\"\n", "l2 = [1]\nname = \"Test\"\n").starts_with("t.toml:26:1: not valid TOML: "));
  REQUIRE(load_error("name = \"a\"\nsm = 3") == "t.toml:2:1: 'sm' is an integer: expected a table");
}

TEST_CASE("an impossible number is refused with what is possible", "[fast]") {
  check_edits({
      {"132", "0", "7:19: 'sm.count' is 0: expected 1 to 4096"},
      {"132", "-5", "7:19: 'sm.count' is -5: expected 1 to 4096"},
      {"132", "131.5", "7:19: 'sm.count' is 131.5: expected a whole number"},
      {"132", "nan", "7:19: 'sm.count' is not a finite number"},
      {"132", "-inf", "7:19: 'sm.count' is not a finite number"},
      {"132", "9223372036854775807", "7:19: 'sm.count' is 9223372036854775808: expected 1 to 4096"},
      {"1.98", "1e300", "8:19: 'sm.clock' is not a finite number"},
      {"\"GHz\"", "\"Hz\"", "8:19: 'sm.clock' is 1.98 Hz: expected 1000000 Hz to 100000000000 Hz"},
      {"\"GHz\"", "\"KiB\"", "8:32: 'sm.clock': unit 'KiB' does not fit: expected Hz, kHz, MHz or GHz"},
      {"227, unit = \"KiB\"", "0.3, unit = \"MB\"",
       "20:13: 'shared_memory.per_block' (300000 B) is more than 'shared_memory.per_sm' (228 KiB)"},
      {"value = 50, unit = \"MiB\"", "value = 50000.5, unit = \"B\"",
       "26:18: 'l2.size' is 50000.5 B: expected a whole number of bytes"},
  });
}

TEST_CASE("an interval must be two possible numbers around the value", "[fast]") {
  check_edits({
      {"[28, 31]", "[30, 31]", "32:57: 'interval' of 'timing.lds_latency' is not around its value"},
      {"[28, 31]", "[31, 28]", "32:57: 'interval' of 'timing.lds_latency' is not around its value"},
      {"[28, 31]", "[nan, 31]", "32:57: 'interval' of 'timing.lds_latency' is not around its value"},
      {"[28, 31]", "[28]", "32:57: 'interval' of 'timing.lds_latency' is an array of 1: expected [low, high]"},
      {"[28, 31]", "2", "32:57: 'interval' of 'timing.lds_latency' is an integer: expected [low, high]"},
      {"[28, 31]", "[28, \"x\"]", "32:62: 'interval' of 'timing.lds_latency' is a string: expected a number"},
      {"[28, 31]", "[-28, inf]", "32:57: 'interval' of 'timing.lds_latency' reaches beyond 1 cycles to 10000 cycles"},
  });
}

TEST_CASE("numbers that contradict each other are refused", "[fast]") {
  check_edits({
      {"227", "228",
       "20:13: 'shared_memory.per_block' (228 KiB) and 'shared_memory.reserved_per_block' (1 KiB) together are more "
       "than 'shared_memory.per_sm' (228 KiB)"},
      {"2048", "2047", "10:15: 'sm.max_threads' is 2047: expected a multiple of 32"},
      {"1024", "1000", "12:25: 'sm.max_threads_per_block' is 1000: expected a multiple of 32"},
      {"2048", "512", "12:25: 'sm.max_threads_per_block' (1024) is more than 'sm.max_threads' (512)"},
      {"per_sm = { value = 65536", "per_sm = { value = 32768",
       "15:13: 'registers.per_block' (65536) is more than 'registers.per_sm' (32768)"},
      {"per_block = { value = 65536", "per_block = { value = 4096",
       "16:14: 'registers.per_thread' (255) for each of 32 threads is more than 'registers.per_block' (4096)"},
      {"sm_90", "sm_80",
       "2:16: 'architecture' is 'sm_80': expected 'sm_90' after the compute capability, or '' if no compiler targets "
       "it"},
  });
  REQUIRE(edit_error("sm_90", "") == "no error");
}

TEST_CASE("a key is set to a quantity, and the user is its source", "[fast]") {
  ChipFile file = load_chip_text(small_chip(), "t.toml");
  set_chip_key(file, " timing.lds_latency = 31 ");
  REQUIRE(file.chip.lds_latency_cycles == 31);
  REQUIRE(file.chip.lds_latency_cycles.half_width == 0);
  REQUIRE(file.provenance.at("timing.lds_latency").source == "set by user");
  set_chip_key(file, "shared_memory.per_sm=512 KiB");
  REQUIRE(file.chip.smem_bytes_per_sm == 524288);
  REQUIRE(file.provenance.at("shared_memory.per_sm").unit == "B");
}

TEST_CASE("a relative change is rounded to what the hardware can have", "[fast]") {
  REQUIRE_THAT(value_after("sm.clock=+10%", &Chip::clock_hz), Catch::Matchers::WithinRel(2.178e9, 1e-12));
  REQUIRE(value_after("sm.count=-10%", &Chip::sm_count) == 119);                          // 118.8
  REQUIRE(value_after("shared_memory.per_sm=+10%", &Chip::smem_bytes_per_sm) == 256768);  // 256819.2, units of 128
  REQUIRE(value_after("sm.max_threads=+1%", &Chip::max_threads_per_sm) == 2080);          // 2068.48, warps
  REQUIRE(value_after("registers.per_sm=+1 %", &Chip::registers_per_sm) == 66560);        // 66191.36, 4 x 256
  REQUIRE(value_after("sm.count=+0%", &Chip::sm_count) == 132);
  REQUIRE(value_after("sm.count=x2", &Chip::sm_count) == 264);
  REQUIRE(value_after("shared_memory.per_sm = x0.5", &Chip::smem_bytes_per_sm) == 114 * 1024);
  REQUIRE(set_error("sm.count=x-2").ends_with("found 'x-2': expected a change such as +10%, -10% or x2"));
  REQUIRE(set_error("sm.count=x0") == "cannot set 'sm.count=x0': 'sm.count' is 0: expected 1 to 4096");
  ChipFile file = load_chip_text(small_chip(), "t.toml");
  set_chip_key(file, "timing.lds_latency=+100%");
  REQUIRE(file.chip.lds_latency_cycles == 58);
  REQUIRE(file.chip.lds_latency_cycles.half_width == 4);
  REQUIRE(file.provenance.at("timing.lds_latency").source == "set by user");
}

TEST_CASE("a bad assignment is refused and changes nothing", "[fast]") {
  for (const auto& [assignment, error] : std::initializer_list<std::pair<std::string, std::string>>{
           {"sm.clokc=1", "unknown key 'sm.clokc'; did you mean 'sm.clock'?"},
           {"", "expected key=quantity"},
           {"=", "unknown key ''"},
           {"sm.count=", "found '': expected a number"},
           {"sm.count=0", "'sm.count' is 0: expected 1 to 4096"},
           {"sm.count=1.5", "'sm.count' is 1.5: expected a whole number"},
           {"sm.count=-200%", "'sm.count' is -132: expected 1 to 4096"},
           {"sm.count=+x%", "found '+x%': expected a change such as +10%, -10% or x2"},
           {"sm.count=+-1%", "found '+-1%': expected a change such as +10%, -10% or x2"},
           {"sm.count=+ %", "found '+ %': expected a change such as +10%, -10% or x2"},
           {"sm.count=10%", "unit '%' does not fit: expected 1"},
           {"sm.clock=2", "number '2' has no unit: expected Hz, kHz, MHz or GHz"},
           {"shared_memory.per_block=300 KiB",
            "'shared_memory.per_block' (300 KiB) is more than 'shared_memory.per_sm' (228 KiB)"},
       }) {
    REQUIRE(set_error(assignment) == "cannot set '" + assignment + "': " + error);
  }
}
