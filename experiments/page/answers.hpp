// SPDX-License-Identifier: Apache-2.0
// What answers say: nested JSON as rows of named cells, and a sentence.
#pragma once

#include "model/answer/json.hpp"
#include "model/base/table.hpp"

#include <string>
#include <utility>
#include <vector>

namespace onchip {

// Nested JSON as rows of named cells, under the names that CSV has (docs/output.md): a network's fields stand by
// themselves, a plan is its text, `interval_us` is low_us and high_us, a term is NAME_us.
using NamedCells = std::vector<std::pair<std::string, std::string>>;  // column, text

// Objects inside that are no such part are `outer.inner`; arrays of objects are left out.
NamedCells flat(const Json& object);

// Whether flat() of the object around it takes it in whole.
bool is_flat(const std::string& key, const Json& value);
bool is_array_of_objects(const Json& value);

// All columns in the order in which they are first seen; a cell that a row does not have is empty.
Table to_table(const std::vector<NamedCells>& rows);

// The rows of a table as objects; cells that are JSON numbers are numbers.
Json to_json(const Table& table);

// What a result says, in a sentence.
struct Summary {
  std::string kind;      // "what-if"
  std::string sentence;  // "" where the rows say it themselves
};

Summary summary(const Json& answer);
Summary summary(const Table& rows);

}  // namespace onchip
