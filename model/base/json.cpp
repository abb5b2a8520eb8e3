// SPDX-License-Identifier: Apache-2.0
#include "model/base/json.hpp"

#include "model/base/error.hpp"

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

namespace onchip {
namespace {

class Limits final : public nlohmann::json_sax<Json> {
 public:
  Limits(std::string_view where, std::size_t most_keys) : where_(where), most_keys_(most_keys) {}

  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    std::unordered_set<std::string>& keys = keys_.back();
    if (!keys.insert(name).second) {
      fail("the key " + in_quotes(name) + " is there twice");
    }
    if (keys.size() > most_keys_) {
      fail("more than " + std::to_string(most_keys_) + " keys in one object");
    }
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  bool open() {
    constexpr std::size_t kMostDepth = 100;
    keys_.emplace_back();
    return keys_.size() <= kMostDepth || (fail("more than 100 brackets within each other"), false);
  }
  bool close() {
    keys_.pop_back();
    return true;
  }
  [[noreturn]] void fail(const std::string& what) const { throw InputError(std::string(where_) + ": " + what); }

  std::string_view where_;
  std::size_t most_keys_;
  std::vector<std::unordered_set<std::string>> keys_;  // of each object that is open; of an array none
};

}  // namespace

void check_json(std::string_view text, std::string_view where, std::size_t most_keys) {
  Limits limits(where, most_keys);
  Json::sax_parse(text, &limits);
}

}  // namespace onchip
