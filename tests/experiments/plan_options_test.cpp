// SPDX-License-Identifier: Apache-2.0
// The families' tables of fields are all that text, JSON and options of plans are made of.
#include "experiments/command/plan_options.hpp"
#include "experiments/reports/recurrent_report.hpp"
#include "model/answer/constraint_words.hpp"
#include "model/base/error.hpp"
#include "model/plan/plan_text.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <string>
#include <type_traits>
#include <variant>

using namespace onchip;

namespace {

template <typename... P>
void of_every_family(std::type_identity<std::variant<P...>>, const auto& check) {
  (check(P{}), ...);
}

std::string option_of(std::string_view field) {
  std::string name(field);
  std::ranges::replace(name, '_', '-');
  return name;
}

// A value that the field may have, and that a text says.
template <typename P>
int said_value(const Field<P>& field) {
  for (int value = field.is_number() ? field.minimum : 0;; ++value) {
    if (field.allows(value) && field.usual != value) {
      return value;
    }
  }
}

}  // namespace

TEST_CASE(
    "every field of every family is in the text of its plans, in their JSON, and an option if it may be asked for",
    "[fast]") {
  const OptionGroup options = plan_options();
  int checked = 0;
  of_every_family(std::type_identity<RecurrentPlan>{}, [&](const auto& default_plan) {
    using P = std::remove_cvref_t<decltype(default_plan)>;
    for (const Field<P>& field : fields(default_plan)) {
      if (field.is_list()) {
        continue;  // the next test has the one that there is
      }
      CAPTURE(P::kName, field.name);
      P plan = default_plan;
      const int value = said_value(field);
      field.set(plan, value);
      const std::string text = to_string(plan), word = value_text(field, value);
      CAPTURE(text);
      if (!field.is_said) {
        CHECK(!says(text, std::string(field.name)));
      } else if (field.is_number()) {
        CHECK(says(text + ' ', ' ' + std::string(field.name) + '=' + word + ' '));
      } else {
        CHECK(says(text + ' ', ' ' + word + ' '));
      }
      if constexpr (!requires { plan.slots; }) {
        CHECK(parse_recurrent_plan(text) == RecurrentPlan(plan));
      } else if (field.is_said) {
        CHECK(field.get(std::get<P>(parse_recurrent_plan(text))) == value);
      }
      const Json json = to_json(RecurrentPlan(plan));
      CHECK(json.at(std::string(field.name)) == (field.is_number() ? Json(value) : Json(word)));
      CHECK(json.at("text") == text);
      const auto* option = options.find_nothrow(option_of(field.name), /*approx=*/false);
      CHECK((option != nullptr) == field.is_option());
      if (option != nullptr) {
        CHECK(says(option->description(), field.help));
        Constraints constraints;
        fix_field(constraints, field.name, word);
        REQUIRE(constraints.fixed.size() == 1);
        CHECK(constraints.fixed[0].value == value);
        CHECK(why_not_possible<P>(constraints).empty());
      }
      ++checked;
    }
    CHECK(to_json(RecurrentPlan(default_plan)).at("family") == P::kName);
  });
  CHECK(checked >= 30);
}

TEST_CASE("slots stand behind the lanes of a row in the text, and in JSON", "[fast]") {
  const RecurrentPlan plan = parse_recurrent_plan("sparse_persistent sms=2 threads=64 lanes_per_row=8 slots=5/4/4");
  CHECK(says(to_string(plan), " lanes_per_row=8 slots=5/4/4 "));
  CHECK(to_json(plan).at("slots") == Json{5, 4, 4});
  CHECK(to_json(plan).at("rows_per_group") == 3);
}

TEST_CASE("a field that is asked for has the value of whichever family knows it, or is refused with what all expect",
          "[fast]") {
  Constraints constraints;
  fix_field(constraints, "storage", "bitmap");
  CHECK(why_not_possible<DensePlan>(constraints).empty());
  CHECK(why_not_possible<SparsePlan>(constraints) == "sparse_persistent knows no storage bitmap");
  fix_field(constraints, "storage", "dense");  // takes the place of the first
  CHECK(fixed_value<&SparsePlan::storage>(constraints) == Storage::dense);
  CHECK(fixed_value<&DensePlan::storage>(constraints) == Storage::dense);
  fix_field(constraints, "batch_groups", "1");  // what a family without the field has anyway
  CHECK(why_not_possible<SparsePlan>(constraints).empty());
  fix_field(constraints, "batch_groups", "2");
  CHECK(why_not_possible<SparsePlan>(constraints) == "sparse_persistent has no batch_groups");
  Constraints split;
  fix_field(split, "row_splits", "2");
  CHECK(why_not_possible<CublasPlan>(split) == "cublas_graph has no row_splits");
  CHECK_THROWS_AS(fix_field(constraints, "storage", "sparse"), InputError);
  CHECK_THROWS_AS(fix_field(constraints, "sms", "0"), InputError);
  CHECK_THROWS_AS(fix_field(constraints, "sms", "16 "), InputError);
}
