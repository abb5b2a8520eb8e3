// SPDX-License-Identifier: Apache-2.0
// The model in a page: questions and answers as texts of JSON. The same code answers as behind onchip_ask() of the C
// API (model/ask/ask.hpp), and a test compares both byte for byte.
#include "model/ask/ask.hpp"
#include "model/base/error.hpp"
#include "model/base/units.hpp"
#include "model/chip/chip_keys.hpp"
#include "model/workload/files/weights_file.hpp"

#include <emscripten/emscripten.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace onchip {
namespace {

// A shipped chip's name or the text of a chip file; changes as --set takes them, a line each.
ChipFile chip_of(std::string_view chip, std::string_view changes) {
  ChipFile file = chip.find('\n') == std::string_view::npos ? find_chip(chip) : load_chip_text(chip, "chip.toml");
  while (!changes.empty()) {
    const std::size_t end = std::min(changes.find('\n'), changes.size());
    set_chip_key(file, changes.substr(0, end));
    changes.remove_prefix(std::min(end + 1, changes.size()));
  }
  return file;
}

// Every number of a chip, with where it came from.
Json numbers_of(const ChipFile& file) {
  Json keys = Json::array();
  for (const ChipKey& row : chip_keys()) {
    const double value = (file.chip.*row.member).value;
    keys.push_back({{"key", row.key},
                    {"value", value},
                    {"text", format_quantity(value, row.dimension)},
                    {"unit", base_unit(row.dimension)},
                    {"minimum", row.minimum},
                    {"maximum", row.maximum},
                    {"step", hardware_step(file.chip, row)},
                    {"meaning", row.meaning},
                    {"source", file.provenance.find(row.key)->second.source}});
  }
  return {{"chip", file.chip.name}, {"architecture", file.chip.architecture}, {"keys", std::move(keys)}};
}

// Of a file in the module's memory, read as --weights is; kept, because the same is asked about many times.
const SparseMatrix& weights_in(const std::string& file, std::string_view question) {
  const Json asked = parse_json(question, "question");
  const Json network = asked.is_object() ? asked.value("network", Json()) : Json();
  const int gates = network.is_object() ? info(parse_cell(network.value("cell", "relu"))).gates : 1;
  static std::optional<SparseMatrix> kept;
  static std::pair<std::string, int> kept_of;
  if (!kept || kept_of != std::pair(file, gates)) {
    kept = read_weights(file, {.gates = gates});
    kept_of = {file, gates};
  }
  return *kept;
}

// A text that stays until the next one. What is refused is {"error": "..."}.
template <typename Make>
const char* text_of(Make&& make) {
  static std::string text;
  try {
    text = make();
  } catch (const std::exception& error) {
    text = Json{{"error", error.what()}}.dump();
  }
  return text.c_str();
}

}  // namespace
}  // namespace onchip

using namespace onchip;

extern "C" {

EMSCRIPTEN_KEEPALIVE const char* page_ask(const char* chip, const char* changes, const char* question) {
  return text_of([&] { return json_text(ask(chip_of(chip, changes), question)); });
}

EMSCRIPTEN_KEEPALIVE const char* page_ask_weights(const char* chip, const char* changes, const char* question,
                                                  const char* file) {
  return text_of([&] { return json_text(ask(chip_of(chip, changes), question, &weights_in(file, question))); });
}

EMSCRIPTEN_KEEPALIVE const char* page_chips() {
  return text_of([] { return Json(shipped_chips()).dump(); });
}

EMSCRIPTEN_KEEPALIVE const char* page_numbers(const char* chip, const char* changes) {
  return text_of([&] { return numbers_of(chip_of(chip, changes)).dump(); });
}

// A chip file, as 'onchip chips NAME --export' has it.
EMSCRIPTEN_KEEPALIVE const char* page_chip_file(const char* chip, const char* changes) {
  return text_of([&] { return chip_text(chip_of(chip, changes)); });
}
}
