// SPDX-License-Identifier: Apache-2.0
// JSON whose members stay in the order in which they are written.
#pragma once

#include <nlohmann/json.hpp>

#include <concepts>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace onchip {

using Json = nlohmann::ordered_json;

// What a text of others may not have. Each throws InputError with `where`.
class JsonLimits {
 public:
  JsonLimits(std::string_view where, std::size_t most_keys) : where_(where), most_keys_(most_keys) {}

  void open();  // an object or a list
  void add_key(const std::string& name);
  void close() { keys_.pop_back(); }

 private:
  [[noreturn]] void fail(const std::string& what) const;

  std::string_view where_;
  std::size_t most_keys_;
  std::vector<std::unordered_set<std::string>> keys_;  // of each object that is open; of a list none
};

// What every text of others is parsed by: discarded (is_discarded()) for what is no JSON. Throws InputError, with
// `where`, for a text with more than 100 values within each other, which are copied and printed by recursion, a key
// that an object has twice, or an object of more than 1000 keys that stay in order, which are sought one after another.
template <typename J = Json>
J parse_json(std::string_view text, std::string_view where) {
  using Parsed = typename J::parse_event_t;
  JsonLimits limits(where, std::same_as<J, Json> ? 1000 : std::numeric_limits<std::size_t>::max());
  const auto check = [&](int, Parsed event, J& value) {
    if (event == Parsed::key) {
      limits.add_key(value.template get_ref<const std::string&>());
    } else if (event == Parsed::object_start || event == Parsed::array_start) {
      limits.open();
    } else if (event != Parsed::value) {
      limits.close();
    }
    return true;
  };
  return J::parse(text, check, /*allow_exceptions=*/false);
}

}  // namespace onchip
