// SPDX-License-Identifier: Apache-2.0
// The front of rows with named columns, which are read once in order and, where they are shown, again by number; and
// what changes from one of its rows to the next.
#pragma once

#include "model/answer/json.hpp"
#include "model/explore/expression.hpp"
#include "model/explore/front.hpp"
#include "model/explore/spec.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace onchip {

// What a cell of a row in JSON is in CSV.
std::string cell_text(const Json& value);
// NaN for an empty cell; nothing for what is no number.
std::optional<double> cell_number(std::string_view cell);

// "2%"; 0 for nothing. Throws InputError.
double parse_within(std::string_view text);

class FrontOfRows {
 public:
  using Cells = std::vector<std::string>;
  using CellsOf = std::function<Cells(std::uint64_t id)>;

  // `axes`: the keys of the sweep that the rows are of; if none is known, every column that is no answer counts as one.
  // Throws InputError, with `where` the columns are, for an objective that is none of them.
  FrontOfRows(std::vector<std::string> columns, std::vector<Objective> objectives, std::string_view where,
              const std::vector<std::string>& axes = {});

  const std::vector<std::string>& columns() const { return columns_; }
  const std::vector<std::size_t>& objectives() const { return objectives_; }
  const std::vector<std::size_t>& axes() const { return axes_; }

  // Which columns add() takes of a row: the objectives, and whether it runs, or fits.
  const std::vector<std::size_t>& counted() const { return counted_; }
  void add(std::span<const double> values, std::uint64_t id);
  // After the last row: only so many are shown that each of the front is within the share of one, in every objective.
  void finish(double share);

  std::uint64_t rows() const { return rows_; }
  std::uint64_t uncounted() const { return uncounted_; }  // do not fit, or have no number for an objective
  std::uint64_t on_front() const { return on_front_; }
  std::uint64_t dominated() const { return rows_ - uncounted_ - on_front_; }
  // What is shown, in the order of the first objective: [points][rows with the same numbers].
  const std::vector<std::vector<std::uint64_t>>& ids() const { return ids_; }
  // From the point before.
  double change_percent(std::size_t point, std::size_t objective) const;
  // Of the axes: "hidden 512 -> 768"; of a plan no more than the family, as it is long.
  std::string changed_text(const Cells& from, const Cells& to) const;

  // What is shown, row by row, for many rows: {"row": {...}, "changed": {...}, "percent": {...}}.
  void for_each(const CellsOf& cells_of, const std::function<void(std::uint64_t id, Json row)>& use) const;

 private:
  std::vector<std::string> columns_;
  std::vector<Objective> asked_;
  std::vector<std::size_t> objectives_, axes_, counted_;  // columns
  Front front_;
  std::uint64_t rows_ = 0, uncounted_ = 0, on_front_ = 0;
  std::vector<Point> points_;
  std::vector<std::vector<std::uint64_t>> ids_;
};

// What is asked about the front of rows.
struct FrontAsked {
  std::vector<Objective> objectives;
  std::string by;     // a column: a front for each of its values; "": one
  std::string where;  // an expression of columns that are numbers: rows of which it is false are left out; "": none are
  double within = 0;  // as FrontOfRows::finish()
};

// The front of rows, or one for each value of a column.
class FrontsOfRows {
 public:
  // As FrontOfRows. Throws InputError for a column of `by` or `where` that is none of these.
  FrontsOfRows(const std::vector<std::string>& columns, const FrontAsked& asked, std::string_view source,
               const std::vector<std::string>& axes = {});
  FrontsOfRows(FrontsOfRows&&) = default;

  // Which columns add() takes of a row as numbers, and the one whose value it takes, if there is one.
  const std::vector<std::size_t>& numbers() const { return numbers_; }
  const std::optional<std::size_t>& by() const { return by_; }
  void add(std::span<const double> numbers, const std::string& of_by, std::uint64_t id);
  void finish();  // after the last row

  // With their values, as they are first seen.
  const std::vector<std::pair<std::string, FrontOfRows>>& fronts() const { return fronts_; }
  std::uint64_t sum(std::uint64_t (FrontOfRows::*count)() const) const;
  Json summary() const;

 private:
  FrontAsked asked_;
  FrontOfRows none_;  // without a row
  std::vector<std::size_t> numbers_;
  std::optional<std::size_t> by_;
  std::unique_ptr<std::vector<double>> values_ = std::make_unique<std::vector<double>>();  // that the expression reads
  std::optional<Expression> keeps_;
  std::vector<std::pair<std::string, FrontOfRows>> fronts_;
  std::unordered_map<std::string, std::size_t> places_;
};

}  // namespace onchip
