// SPDX-License-Identifier: Apache-2.0
// Feeds bytes as a chip file and, after the first zero byte, as an assignment for it: only InputError may escape, its
// text is one line, and what is accepted is possible.
#include "model/chip/chip.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace {

void require_possible(const onchip::ChipFile& file) {
  for (const onchip::ChipKey& key : onchip::chip_keys()) {
    const onchip::Number& number = file.chip.*key.member;
    require(number.value >= key.minimum && number.value <= key.maximum && std::isfinite(number.half_width));
    require(!key.integral || std::trunc(number.value) == number.value);
    require(!file.provenance.at(std::string(key.key)).source.empty());
  }
}

const onchip::ChipFile& shipped() {
  static const onchip::ChipFile file = onchip::find_chip("h200");
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = input.find('\0');
  const std::string_view text = input.substr(0, end);
  const std::string_view assignment = end == std::string_view::npos ? "" : input.substr(end + 1);

  onchip::ChipFile file = shipped();
  try {
    file = onchip::load_chip_text(text, "fuzz.toml");
    require_possible(file);
  } catch (const onchip::InputError& error) {
    require(std::strchr(error.what(), '\n') == nullptr);
  }
  try {
    onchip::set_chip_key(file, assignment);
    require_possible(file);
  } catch (const onchip::InputError& error) {
    require(std::strchr(error.what(), '\n') == nullptr);
  }
  return 0;
}
