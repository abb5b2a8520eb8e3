// SPDX-License-Identifier: Apache-2.0
// What answers say: nested JSON as rows of named cells, a sentence, and where the page of `onchip explore` shows it.
#pragma once

#include "model/answer/json.hpp"
#include "model/base/table.hpp"

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onchip {

// Nested JSON as rows of named cells, under the names that CSV has (docs/output.md): a network's fields stand by
// themselves, a plan is its text, `interval_us` is low_us and high_us, a term is NAME_us.
using NamedCells = std::vector<std::pair<std::string, std::string>>;  // column, text

// Objects inside that are no such part are `outer.inner`; arrays of objects are left out, but for those that
// are_cells().
NamedCells flat(const Json& object);
bool are_cells(const std::string& key, const Json& value);
bool is_array_of_objects(const Json& value);

// All columns in the order in which they are first seen; a cell that a row does not have is empty.
Table to_table(const std::vector<NamedCells>& rows);

// The rows of a table as objects; cells that are JSON numbers are numbers.
Json to_json(const Table& table);

// The cells of a table by the names of its columns, which it need not have.
class Rows {
 public:
  explicit Rows(const Table& table);

  std::size_t size() const { return table_.rows.size(); }
  bool has(std::initializer_list<std::string_view> columns) const;
  std::string text(std::size_t row, std::string_view column) const;
  double number(std::size_t row, std::string_view column) const;  // NaN where there is none
  bool is_yes(std::size_t row, std::string_view column) const;
  bool varies(std::string_view column) const;  // among the rows that have it
  std::string name(std::size_t row) const;     // what of its network is not the same in all rows

 private:
  const Table& table_;
  std::vector<std::string> names_;  // columns of name()
};

// What a result says; "" where its tables say it themselves.
std::string sentence(const Json& answer);
std::string sentence(const Table& rows);

// "#chip=h200&cell=lstm&hidden=6112...": the state of the page that a row is the answer of, in the command line's words
// (docs/page.md). "" for a row without a network.
std::string page_state(const Rows& rows, std::size_t row);

}  // namespace onchip
