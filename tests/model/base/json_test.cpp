// SPDX-License-Identifier: Apache-2.0
#include "model/base/json.hpp"

#include "model/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/error_of.hpp"

#include <chrono>
#include <random>
#include <string>

using namespace onchip;

namespace {

template <typename J = Json>
std::string refused(const std::string& text) {
  return error_of([&] { parse_json<J>(text, "x.json"); });
}

std::string object_of(int keys) {
  std::string text = "{";
  for (int i = 0; i < keys; ++i) {
    text += (i ? ",\"" : "\"") + std::to_string(i) + "\":" + std::to_string(i);
  }
  return text + "}";
}

}  // namespace

TEST_CASE("JSON of any shape is read as it is, or is none", "[fast]") {
  std::mt19937 draw(45);
  for (int round = 0; round < 300; ++round) {
    Json json = Json::object();
    Json* at = &json;
    for (int i = 0; i < 40; ++i) {
      const std::string key = std::to_string(i);
      switch (draw() % 5) {
        case 0:
          (*at)[key] = Json::array({nullptr, true, -1.5, 7, "\"x\n"});
          break;
        case 1:
          at = &((*at)[key] = Json::object());
          break;
        default:
          (*at)[key] = draw();
      }
    }
    const std::string text = json.dump(draw() % 2 ? 2 : -1);
    CHECK(parse_json(text, "x.json") == json);
    CHECK(parse_json(text.substr(0, draw() % text.size()), "x.json").is_discarded());
    CHECK(parse_json(text + "}", "x.json").is_discarded());
  }
}

TEST_CASE("JSON has a bound for its depth, and a key once", "[fast]") {
  CHECK(parse_json(std::string(100, '[') + std::string(100, ']'), "x.json").is_array());
  CHECK(refused(std::string(101, '[')) == "x.json: more than 100 brackets within each other");
  CHECK(refused(R"({"a":1,"b":{"c":1,"a":1},"a":2})") == "x.json: the key 'a' is there twice");
  CHECK(refused(R"([{"a":1},{"a":1,"a":2}])") == "x.json: the key 'a' is there twice");
  CHECK(parse_json(R"([{"a":{"a":1}},{"a":1}])", "x.json").size() == 2);
}

TEST_CASE("many rows and many keys are read in linear time, or the keys are refused", "[fast]") {
  const auto begin = std::chrono::steady_clock::now();
  std::string rows = "[";
  for (int i = 0; i < 100'000; ++i) {
    rows += (i ? ",{\"a\":" : "{\"a\":") + std::to_string(i) + "}";
  }
  CHECK(parse_json(rows + "]", "x.json").size() == 100'000);
  CHECK(parse_json(object_of(1000), "x.json").size() == 1000);
  CHECK(refused(object_of(1001)) == "x.json: more than 1000 keys in one object");
  CHECK(refused(object_of(100'000)) == "x.json: more than 1000 keys in one object");
  CHECK(parse_json<nlohmann::json>(object_of(100'000), "x.json").size() == 100'000);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
}
