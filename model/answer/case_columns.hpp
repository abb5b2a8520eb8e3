// SPDX-License-Identifier: Apache-2.0
// What cases say, column by column: their CSV, JSON and the page on output are made of these lists.
#pragma once

#include "model/answer/answer.hpp"
#include "model/answer/columns.hpp"
#include "model/plan/plan_text.hpp"

#include <string>
#include <string_view>

namespace onchip {

// ---- parts of several workloads -------------------------------------------------------------------------------------

// cell, hidden, batch, steps, density, precision
const Columns<Recurrent>& network_columns();
Json to_json(const Recurrent& network);
// These, mask, seed, weights, tensor, transpose.
const Columns<Configuration>& configuration_table();

// Of each resource what is used and what there is; in JSON a list.
const Columns<Footprint>& resource_columns();

Json list_json(std::string_view text);  // of a list in a plan's text
// The fields of a family's plan by their names, and its text.
template <typename P>
Json plan_json(const P& plan) {
  Json json{{"family", P::kName}};
  for (const Field<P>& field : fields(plan)) {
    json[std::string(field.name)] = field.is_list()     ? list_json(field.write(plan))
                                    : field.is_number() ? Json(field.get(plan))
                                                        : Json(value_text(field, field.get(plan)));
  }
  json["text"] = plan_text(plan);
  return json;
}
// Of whatever family of a variant.
template <typename... P>
Json to_json(const std::variant<P...>& plan) {
  return std::visit([](const auto& of_family) { return plan_json(of_family); }, plan);
}

// ---- of a recurrent network -----------------------------------------------------------------------------------------

// What `binding` names: the resource that is used most, or the largest term of the step time.
enum class Binding { resource, term };
std::string_view binding_name(const Prediction& prediction, Binding binding);

const Columns<RecurrentCase>& recurrent_columns(Binding binding);
inline const Columns<RecurrentCase>& columns_of(const RecurrentCase&) {
  return recurrent_columns(Binding::term);
}

}  // namespace onchip
