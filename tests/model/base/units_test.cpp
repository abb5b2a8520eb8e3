// SPDX-License-Identifier: Apache-2.0
#include "model/base/units.hpp"

#include "tests/catch.hpp"
#include "tests/error_of.hpp"

#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <string_view>

using namespace onchip;

namespace {

std::string parse_error(std::string_view text, Dimension dimension) {
  return error_of([&] { parse_quantity(text, dimension); });
}

}  // namespace

TEST_CASE("a quantity is read in base units", "[fast]") {
  REQUIRE(parse_quantity("512 KiB", Dimension::bytes) == 524288);
  REQUIRE(parse_quantity("512KiB", Dimension::bytes) == 524288);
  REQUIRE(parse_quantity("\t1.5  MiB ", Dimension::bytes) == 1572864);
  REQUIRE(parse_quantity("4 kB", Dimension::bytes) == 4000);
  REQUIRE(parse_quantity("1.98 GHz", Dimension::hertz) == 1.98e9);
  REQUIRE(parse_quantity("250 ns", Dimension::seconds) == 250 * 1e-9);
  REQUIRE(parse_quantity("29 cycles", Dimension::cycles) == 29);
  REQUIRE(parse_quantity("29", Dimension::cycles) == 29);
  REQUIRE(parse_quantity("132", Dimension::count) == 132);
  REQUIRE(parse_quantity("1e3", Dimension::count) == 1000);
  REQUIRE(parse_quantity("4.8 TB/s", Dimension::bytes_per_second) == 4.8e12);
  REQUIRE(parse_quantity("32 B/cycle", Dimension::bytes_per_cycle) == 32);
  REQUIRE(parse_quantity("-1", Dimension::count) == -1);
}

TEST_CASE("what is no quantity is refused with what was expected", "[fast]") {
  REQUIRE(parse_error("", Dimension::count) == "found '': expected a number");
  REQUIRE(parse_error("KiB", Dimension::bytes) ==
          "found 'KiB': expected a number and a unit, B, kB, MB, GB, KiB, MiB or GiB");
  REQUIRE(parse_error("5", Dimension::bytes) == "number '5' has no unit: expected B, kB, MB, GB, KiB, MiB or GiB");
  REQUIRE(parse_error("5 kib", Dimension::bytes) == "unit 'kib' does not fit: expected B, kB, MB, GB, KiB, MiB or GiB");
  REQUIRE(parse_error("5 MHz", Dimension::seconds) == "unit 'MHz' does not fit: expected s, ms, us or ns");
  REQUIRE(parse_error("5 5", Dimension::count) == "unit '5' does not fit: expected 1");
  REQUIRE(parse_error("5,5", Dimension::count) == "unit ',5' does not fit: expected 1");
  REQUIRE(parse_error("nan", Dimension::count) == "number 'nan' is not finite");
  REQUIRE(parse_error("inf GHz", Dimension::hertz) == "number 'inf GHz' is not finite");
  REQUIRE(parse_error("1e999", Dimension::count) == "number '1e999' is too large or too small to represent");
  REQUIRE(parse_error("1e308 GiB", Dimension::bytes) == "number '1e308 GiB' is too large or too small to represent");
  REQUIRE(parse_error("+5", Dimension::count) == "found '+5': expected a number");
  REQUIRE(parse_error("5 G\n\xffz", Dimension::hertz) ==
          "unit 'G\\x0a\\xffz' does not fit: expected Hz, kHz, MHz or GHz");
}

TEST_CASE("each dimension has a base unit of factor one", "[fast]") {
  const auto dimension = GENERATE(Dimension::count, Dimension::bytes, Dimension::hertz, Dimension::seconds,
                                  Dimension::cycles, Dimension::bytes_per_second, Dimension::bytes_per_cycle);
  REQUIRE_FALSE(base_unit(dimension).empty());
  REQUIRE(unit_factor(dimension, base_unit(dimension)) == 1);
}

TEST_CASE("a formatted number reads back as the same number", "[fast]") {
  REQUIRE(format_number(1.5) == "1.5");
  REQUIRE(format_number(0) == "0");
  REQUIRE(format_number(1e9) == "1000000000");
  REQUIRE(format_number(-65536) == "-65536");
  REQUIRE(format_number(std::numeric_limits<double>::quiet_NaN()) == "nan");
  const double number = GENERATE(0.1, 1.0 / 3, 1e300, 5e-324, 123456789.125, 1e15, 1e22);
  REQUIRE(std::strtod(format_number(number).c_str(), nullptr) == number);
}

TEST_CASE("a rounded number is the one that its digits are read as", "[fast]") {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> exponent(-13, 16);
  for (int i = 0; i < 200'000; ++i) {
    const int digits = 1 + i % 12;
    const double value = (i % 2 ? -1 : 1) * std::pow(10, exponent(random));
    CHECK(rounded(value, digits) == std::strtod(significant(value, digits).c_str(), nullptr));
  }
  for (const double value : {0.0, 0.5, 1.5, 2.5, 999.5, 999999.5, 1e22, 1e-300, 100.0, 1000.0, 0.1, 123456.5}) {
    CHECK(rounded(value) == std::strtod(significant(value, 6).c_str(), nullptr));
  }
}

TEST_CASE("an error has its place before its message", "[fast]") {
  REQUIRE(std::string(InputError("h200.toml", 14, 3, "unknown key").what()) == "h200.toml:14:3: unknown key");
}

TEST_CASE("the nearest name is suggested only if it is near", "[fast]") {
  constexpr std::array<std::string_view, 4> kNames{"A100", "H100 SXM", "sm.max_threads", "sm.max_threads_per_block"};
  REQUIRE(did_you_mean("sm.max_thread", kNames) == "; did you mean 'sm.max_threads'?");
  REQUIRE(did_you_mean("SM.maxthreads", kNames) == "; did you mean 'sm.max_threads'?");
  REQUIRE(did_you_mean("h100", kNames) == "; did you mean 'H100 SXM'?");
  REQUIRE(did_you_mean("a10", kNames) == "; did you mean 'A100'?");
  REQUIRE(did_you_mean("b200", kNames) == "");
  REQUIRE(did_you_mean("", kNames) == "");
  REQUIRE(did_you_mean(std::string(100000, 'a'), kNames) == "");
  REQUIRE(did_you_mean("a100", {}) == "");
}
