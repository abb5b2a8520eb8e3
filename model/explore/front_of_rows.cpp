// SPDX-License-Identifier: Apache-2.0
#include "model/explore/front_of_rows.hpp"

#include "model/base/error.hpp"
#include "model/base/number.hpp"
#include "model/base/table.hpp"
#include "model/base/units.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

namespace onchip {
namespace {

constexpr std::array<std::string_view, 15> kAnswers{"row",     "fits",    "runs",     "tier",     "binding",
                                                    "step_us", "low_us",  "high_us",  "floor_us", "ms",
                                                    "low_ms",  "high_ms", "floor_ms", "problem",  "fingerprint"};

bool is_answer(std::string_view column) {
  return std::ranges::find(kAnswers, column) != kAnswers.end() || column.ends_with("_us") ||
         column.ends_with("_used") || column.ends_with("_available");
}

}  // namespace

std::string cell_text(const Json& value) {
  return value.is_null()      ? ""
         : value.is_string()  ? value.get<std::string>()
         : value.is_boolean() ? value.get<bool>() ? "1" : "0"
                              : value.dump();
}

std::optional<double> cell_number(std::string_view cell) {
  if (cell.empty()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (cell == "true" || cell == "false") {
    return cell == "true" ? 1.0 : 0.0;
  }
  return number_in<double>(cell);
}

double parse_within(std::string_view text) {
  if (text.empty()) {
    return 0;
  }
  const bool is_percent = text.ends_with('%');
  std::string_view digits = text.substr(0, text.size() - (is_percent ? 1 : 0));
  digits = digits.substr(0, digits.find_last_not_of(' ') + 1);
  const double share = number_in<double>(digits).value_or(-1) / (is_percent ? 100 : 1);
  if (!(share >= 0 && share < 1)) {
    throw InputError("found " + in_quotes(text) + ": expected a share such as 2%");
  }
  return share;
}

FrontOfRows::FrontOfRows(std::vector<std::string> columns, std::vector<Objective> objectives, std::string_view where,
                         const std::vector<std::string>& axes)
    : columns_(std::move(columns)), asked_(std::move(objectives)), front_(asked_.size()) {
  for (const Objective& objective : asked_) {
    objectives_.push_back(find_column(columns_, objective.column, where));
  }
  counted_ = objectives_;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const bool is_axis = axes.empty() ? !is_answer(columns_[i])
                                      : columns_[i] == "plan" || std::ranges::find(axes, columns_[i]) != axes.end();
    if (is_axis && std::ranges::find(objectives_, i) == objectives_.end()) {
      axes_.push_back(i);
    }
  }
  for (const char* column : {"runs", "fits"}) {  // of the two the first that there is
    const auto found = std::ranges::find(columns_, column);
    if (found != columns_.end() && counted_.size() == objectives_.size()) {
      counted_.push_back(static_cast<std::size_t>(found - columns_.begin()));
    }
  }
}

void FrontOfRows::add(std::span<const double> values, std::uint64_t id) {
  ++rows_;
  Point point{};
  bool counts = values.size() == asked_.size() || values.back() != 0;
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    point[i] = asked_[i].is_largest ? -values[i] : values[i];
    counts &= std::isfinite(values[i]);
  }
  if (counts) {
    front_.add(point, id);
  } else {
    ++uncounted_;
  }
}

void FrontOfRows::finish(double share) {
  std::vector<Point> points;
  std::vector<const std::vector<std::uint64_t>*> ids;
  for (const auto& [point, of_point] : front_.points()) {
    points.push_back(point);
    ids.push_back(&of_point);
    on_front_ += of_point.size();
  }
  for (const std::size_t place : thinned(points, share)) {
    points_.push_back(points[place]);
    ids_.push_back(*ids[place]);
  }
}

double FrontOfRows::change_percent(std::size_t point, std::size_t objective) const {
  if (point == 0) {
    return 0;
  }
  const double from = std::abs(points_[point - 1][objective]), to = std::abs(points_[point][objective]);
  return from == to ? 0 : from != 0 ? 100 * (to - from) / from : std::numeric_limits<double>::infinity();
}

std::string FrontOfRows::changed_text(const Cells& from, const Cells& to) const {
  std::string text;
  for (const std::size_t column : axes_) {
    const std::string& before = from[column];
    const std::string& after = to[column];
    if (before == after) {
      continue;
    }
    const bool is_plan = columns_[column] == "plan";
    const auto shown = [&](const std::string& cell) { return is_plan ? cell.substr(0, cell.find(' ')) : cell; };
    text += text.empty() ? "" : ", ";
    text += is_plan && shown(before) == shown(after) ? "another plan"
                                                     : columns_[column] + ' ' + shown(before) + " -> " + shown(after);
  }
  return text;
}

void FrontOfRows::for_each(const CellsOf& cells_of, const std::function<void(std::uint64_t id, Json row)>& use) const {
  Cells before;
  for (std::size_t point = 0; point < ids_.size(); ++point) {
    for (const std::uint64_t id : ids_[point]) {
      const bool is_first = id == ids_[point].front();
      const Cells cells = cells_of(id);
      Json one{{"row", Json::object()}, {"changed", Json::object()}, {"percent", Json::object()}};
      for (std::size_t column = 0; column < cells.size(); ++column) {
        one["row"][columns_[column]] = cells[column];
      }
      for (std::size_t i = 0; i < objectives_.size(); ++i) {
        one["percent"][columns_[objectives_[i]]] =
            point == 0 || !is_first ? Json(0) : Json(rounded(change_percent(point, i)));
      }
      for (const std::size_t column : axes_) {
        if (!before.empty() && before[column] != cells[column]) {
          one["changed"][columns_[column]] = {before[column], cells[column]};
        }
      }
      use(id, std::move(one));
      before = cells;
    }
  }
}

FrontsOfRows::FrontsOfRows(const std::vector<std::string>& columns, const FrontAsked& asked, std::string_view source,
                           const std::vector<std::string>& axes)
    : asked_(asked), none_(columns, asked.objectives, source, axes), numbers_(none_.counted()) {
  if (!asked.where.empty()) {
    keeps_.emplace("where", asked.where, [&](std::string_view name) -> Number_of {
      numbers_.push_back(find_column(columns, name, source));
      return [values = values_.get(), place = numbers_.size() - 1](const Answered&) {
        return place < values->size() ? (*values)[place] : std::numeric_limits<double>::quiet_NaN();
      };
    });
  }
  if (!asked.by.empty()) {
    by_ = find_column(columns, asked.by, "by: " + std::string(source));
  } else {
    fronts_.emplace_back("", none_);
    places_.emplace("", 0);
  }
}

void FrontsOfRows::add(std::span<const double> numbers, const std::string& of_by, std::uint64_t id) {
  values_->assign(numbers.begin(), numbers.end());
  if (const double kept = keeps_ ? (*keeps_)({}) : 1; std::isnan(kept) || kept == 0) {
    return;
  }
  const auto [place, is_new] = places_.try_emplace(of_by, fronts_.size());
  if (is_new) {
    fronts_.emplace_back(of_by, none_);
  }
  fronts_[place->second].second.add(numbers.first(none_.counted().size()), id);
}

void FrontsOfRows::finish() {
  std::ranges::for_each(fronts_, [&](auto& front) { front.second.finish(asked_.within); });
}

std::uint64_t FrontsOfRows::sum(std::uint64_t (FrontOfRows::*count)() const) const {
  return std::transform_reduce(fronts_.begin(), fronts_.end(), std::uint64_t{0}, std::plus<>(),
                               [&](const auto& front) { return (front.second.*count)(); });
}

Json FrontsOfRows::summary() const {
  Json summary{{"objectives", to_string(asked_.objectives)},
               {"rows", sum(&FrontOfRows::rows)},
               {"on_front", sum(&FrontOfRows::on_front)},
               {"dominated", sum(&FrontOfRows::dominated)},
               {"not_counted", sum(&FrontOfRows::uncounted)}};
  if (by_) {
    summary["by"] = asked_.by;
  }
  return summary;
}

}  // namespace onchip
