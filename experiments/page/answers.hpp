// SPDX-License-Identifier: Apache-2.0
// What answers say: nested JSON as flat rows, a sentence, and where the page of `onchip explore` shows it.
#pragma once

#include "model/answer/json.hpp"
#include "model/base/table.hpp"

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

bool is_array_of_objects(const Json& value);

// Nested JSON as one object of scalars, under the names that CSV has (docs/output.md): a network's fields stand by
// themselves, a plan is its text, `interval_us` is low_us and high_us, a term is NAME_us, the phases of a training are
// summed by their names. Objects inside that are no such part are `outer.inner`; other arrays of objects are left out.
Json flat(const Json& object);
bool is_in_flat(const std::string& key, const Json& value);  // whether flat() of the object around it has all of it

// The rows of a table as objects; cells that are JSON numbers are numbers.
Json to_json(const Table& table);

// Flat objects, which need not have the same fields.
class FlatRows {
 public:
  explicit FlatRows(std::vector<Json> rows);

  std::size_t size() const { return rows_.size(); }
  const std::vector<std::string>& columns() const { return columns_; }  // in the order in which they are first seen
  bool has(std::initializer_list<std::string_view> columns) const;
  const Json& at(std::size_t row, std::string_view column) const;  // null where there is none
  std::string text(std::size_t row, std::string_view column) const;
  double number(std::size_t row, std::string_view column) const;  // NaN where there is none
  bool is_yes(std::size_t row, std::string_view column) const;
  bool varies(std::string_view column) const;  // among the rows that have it
  std::string name(std::size_t row) const;     // what of its network is not the same in all rows

 private:
  std::vector<Json> rows_;
  std::vector<std::string> columns_, names_;  // names_: columns of name()
};
FlatRows rows_of(const Json& array);  // what is no object in it is a `value`

// What a result says; "" where its tables say it themselves.
std::string sentence(const Json& answer);
std::string sentence(const FlatRows& rows);

std::string three_digits(double value);

// "#chip=h200&cell=lstm&hidden=6112...": the state of the page that a row is the answer of, in the command line's words
// (docs/page.md). "" for a row without a network.
std::string page_state(const FlatRows& rows, std::size_t row);

}  // namespace onchip
