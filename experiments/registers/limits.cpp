// SPDX-License-Identifier: Apache-2.0
#include "experiments/registers/limits.hpp"

#include <cstdint>

namespace onchip::registers {
namespace {

// Every third, by a hash.
bool held_out(const std::string& shape) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char byte : shape) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  }
  return (hash >> 32) % 3 == 0;
}

void read_limits(const std::string& path, std::vector<Measured>& all) {
  const CsvReader file(path);
  for (std::size_t row = 0; row < file.size(); ++row) {
    Measured measured;
    measured.shape = read_shape(file, row);
    const int registers = static_cast<int>(file.number(row, "registers"));
    measured.most = registers - static_cast<int>(file.number(row, "words"));
    measured.least = registers - static_cast<int>(file.number(row, "spilling_words")) + 1;
    measured.architecture = architecture_of(std::string(file.text(row, "architecture")));
    measured.held_out = held_out(text_of(measured.shape));
    if (file.number(row, "words") > 0) {  // else no plan of this shape is kept
      all.push_back(measured);
    }
  }
}

}  // namespace

std::vector<Measured> read_limits(const std::vector<std::string>& paths) {
  std::vector<Measured> all;
  for (const std::string& path : paths) {
    read_limits(path, all);
  }
  return all;
}

}  // namespace onchip::registers
