// SPDX-License-Identifier: Apache-2.0
// The tables of fields, family by family: every field is said and read, and its range holds.
#include "model/plan/field.hpp"

#include "model/families/plan.hpp"
#include "model/plan/plan_text.hpp"
#include "tests/catch.hpp"
#include "tests/error_of.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

using namespace onchip;

namespace {

// The fields of a plan that have one number each.
template <typename P>
std::vector<Field<P>> single_fields(const P& plan) {
  std::vector<Field<P>> single;
  std::ranges::copy_if(fields(plan), std::back_inserter(single),
                       [](const Field<P>& field) { return !field.is_list(); });
  return single;
}

// Calls `visit` with a plan of every family.
template <typename Visit>
void for_each_family(Visit&& visit) {
  [&]<typename... P>(std::type_identity<std::variant<P...>>) {
    (visit(P{}), ...);
  }(std::type_identity<RecurrentPlan>{});
}

// Values that a field allows: the least, the largest, and one between.
template <typename P>
std::vector<int> allowed_values(const Field<P>& field) {
  std::vector<int> values{field.minimum, field.minimum + 1, (field.minimum + field.maximum) / 2, field.maximum};
  if (!field.is_number()) {
    values.resize(field.names.size());
    std::iota(values.begin(), values.end(), 0);
  }
  std::erase_if(values, [&](int value) { return !field.allows(value); });
  return values;
}

// A plan whose fields are within their ranges.
template <typename P>
P plan_within_ranges(std::mt19937& random) {
  P plan;
  for (const Field<P>& field : single_fields(plan)) {
    const std::vector<int> values = allowed_values(field);
    field.set(plan, values[random() % values.size()]);
  }
  if constexpr (requires { plan.slots; }) {
    for (int r = 0; r < plan.rows_per_group; ++r) {
      plan.slots[r] = static_cast<int>(random() % 100000);
    }
  }
  return plan;
}

}  // namespace

TEST_CASE("every field has a name of its own, and values that it allows", "[fast]") {
  for_each_family([]<typename P>(const P& plan) {
    std::set<std::string_view> names;
    for (const Field<P>& field : single_fields(plan)) {
      CAPTURE(P::kName, field.name);
      CHECK(names.insert(field.name).second);
      const std::vector<int> values = allowed_values(field);
      REQUIRE(values.size() >= (field.is_option() ? 2U : 1U));
      CHECK(field.is_option() == !field.argument.empty());
      CHECK((!field.usual || field.allows(*field.usual)));
      CHECK((field.is_number() || field.is_said));
      // What is expected names the first and the last.
      for (const int value : {values.front(), values.back()}) {
        const std::string named = field.is_number() ? std::to_string(value) : std::string(field.names[value]);
        CHECK(says(expected_text(field), named));
      }
    }
  });
}

TEST_CASE("what a field sets is what it gets, and no other field changes", "[fast]") {
  std::mt19937 random(5);
  for_each_family([&]<typename P>(const P&) {
    const P plan = plan_within_ranges<P>(random);
    const auto table = single_fields(plan);
    for (const Field<P>& field : table) {
      for (const int value : allowed_values(field)) {
        P other = plan;
        field.set(other, value);
        CAPTURE(P::kName, field.name, value);
        CHECK(field.get(other) == value);
        CHECK((other == plan) == (value == field.get(plan)));
        CHECK(std::ranges::count_if(table, [&](const Field<P>& f) { return f.get(other) != f.get(plan); }) ==
              (value != field.get(plan)));
      }
    }
  });
}

TEST_CASE("every field of every family survives being written and read", "[fast]") {
  std::mt19937 random(3);
  for_each_family([&]<typename P>(const P&) {
    for (int round = 0; round < 300; ++round) {
      const P plan = plan_within_ranges<P>(random);
      const std::string text = to_string(RecurrentPlan(plan));
      CAPTURE(text);
      CHECK(parse_recurrent_plan(text) == RecurrentPlan(plan));
      CHECK(!says(text, "\n"));
    }
    // Field by field, so that none is read into another's place.
    const P plan = plan_within_ranges<P>(random);
    for (const Field<P>& field : single_fields(plan)) {
      for (const int value : allowed_values(field)) {
        P other = plan;
        if (field.is_said) {  // what is not said follows from slots
          field.set(other, value);
        }
        CAPTURE(P::kName, field.name, value);
        CHECK(parse_recurrent_plan(to_string(RecurrentPlan(other))) == RecurrentPlan(other));
        CHECK((to_string(RecurrentPlan(other)) == to_string(RecurrentPlan(plan))) == (other == plan));
      }
    }
  });
}

TEST_CASE("numbers outside a field's range are refused by its name", "[fast]") {
  std::mt19937 random(4);
  for_each_family([&]<typename P>(const P&) {
    const P plan = plan_within_ranges<P>(random);
    CHECK_NOTHROW(check_ranges(plan));
    for (const Field<P>& field : single_fields(plan)) {
      std::vector<int> outside{-1, field.is_number() ? field.maximum + 1 : static_cast<int>(field.names.size())};
      if (field.is_number()) {
        outside.push_back(field.minimum - 1);
      }
      for (int i = 0; field.is_power_of_two && i < 1; ++i) {
        outside.push_back(3);
      }
      for (std::size_t i = 0; !field.is_number() && i < field.names.size(); ++i) {
        if (!field.allows(static_cast<int>(i))) {
          outside.push_back(static_cast<int>(i));
        }
      }
      for (const int value : outside) {
        P other = plan;
        field.set(other, value);
        if (field.get(other) != value) {
          continue;  // an enumeration of 8 bits
        }
        CAPTURE(P::kName, field.name, value);
        CHECK(error_of([&] { check_ranges(other); }) == "plan: expected " + std::string(field.name) + " to be " +
                                                            expected_text(field) + ", found " + std::to_string(value));
        CHECK_THROWS_AS(check_plan({Cell::relu, Precision::fp16, 64, 4, 1, 0.1}, RecurrentPlan(other)), InputError);
      }
    }
  });
}
