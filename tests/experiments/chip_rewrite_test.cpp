// SPDX-License-Identifier: Apache-2.0
#include "experiments/calibration/chip_rewrite.hpp"
#include "model/base/error.hpp"
#include "tests/catch.hpp"

#include <fstream>
#include <iterator>

using namespace onchip;
using Catch::Matchers::WithinRel;

namespace {

std::string h200_text() {
  std::ifstream file(ONCHIP_CHIPS_DIR "/h200.toml");
  return "# kept\n" + std::string(std::istreambuf_iterator<char>(file), {});
}

std::string without_line(const std::string& text, const std::string& start) {
  const std::size_t begin = text.find('\n' + start) + 1;
  return text.substr(0, begin) + text.substr(text.find('\n', begin) + 1);
}

}  // namespace

TEST_CASE("calibrated numbers replace only their own lines", "[fast]") {
  const std::string before = h200_text();
  const std::vector<Replacement> replacements{
      {"timing.lds_latency", 31.26, 0.5, "measured \"so\", with a \\"},
      {"exchange.latency", 612.5, 20, "measured"},
  };
  const std::string after = rewrite_chip(before, "h200.toml", replacements);
  const ChipFile file = load_chip_text(after, "after");
  CHECK_THAT(file.chip.lds_latency_cycles.value, WithinRel(31.26, 1e-9));
  CHECK_THAT(file.chip.lds_latency_cycles.half_width, WithinRel(0.5, 1e-2));
  CHECK_THAT(file.chip.exchange_latency_cycles.value, WithinRel(612.5, 1e-9));
  CHECK(file.provenance.at("timing.lds_latency").source == "measured \"so\", with a \\");
  CHECK(file.provenance.at("exchange.latency").unit == "cycles");
  const auto rest = [](const std::string& text) {
    const std::size_t exchange = text.find("[exchange]");
    return without_line(text.substr(0, exchange), "lds_latency") + without_line(text.substr(exchange), "latency");
  };
  CHECK(rest(after) == rest(before));
}

TEST_CASE("numbers that a chip cannot have, or has no line for, are refused", "[fast]") {
  const std::vector<Replacement> negative{{"timing.lds_latency", -3, 0, "measured"}};
  CHECK_THROWS_AS(rewrite_chip(h200_text(), "h200.toml", negative), InputError);
  const std::vector<Replacement> unknown{{"timing.no_such_number", 3, 0, "measured"}};
  CHECK_THROWS_AS(rewrite_chip(h200_text(), "h200.toml", unknown), InputError);
}
