// SPDX-License-Identifier: Apache-2.0
#include "experiments/page/figures.hpp"

#include "model/base/units.hpp"
#include "model/explore/front.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <string_view>

namespace onchip {
namespace {

constexpr std::array kColors{"blue", "vermilion", "green", "orange", "purple", "sky", "yellow", "grey"};

// From values to pixels, with some space around them; logarithmic where they span more than twelve times.
class Scale {
 public:
  Scale(std::span<const double> values, double from, double to) : from_(from), to_(to) {
    const auto [least, most] = std::ranges::minmax(values);
    is_log_ = least > 0 && most > 12 * least;
    low_ = unit(least);
    high_ = unit(most);
    const double space = 0.05 * (high_ - low_) + (high_ > low_ ? 0 : 1e-6 + 0.1 * std::abs(low_));
    low_ -= space;
    high_ += space;
  }
  double operator()(double value) const { return from_ + (unit(value) - low_) / (high_ - low_) * (to_ - from_); }

  std::vector<double> ticks() const {  // round numbers, at most about ten
    std::vector<double> found;
    double step = std::pow(10, std::floor(std::log10(high_ - low_)));
    step *= is_log_ ? 1 / step : (high_ - low_) / step > 5 ? 1 : (high_ - low_) / step > 2 ? 0.5 : 0.2;
    for (double at = std::floor(low_ / step); at * step <= high_; ++at) {
      for (const double digit : {1.0, 2.0, 5.0}) {
        const double tick = is_log_ ? std::pow(10, at) * digit : at * step;
        if (unit(tick) >= low_ && unit(tick) <= high_ && (digit == 1 || (is_log_ && high_ - low_ < 3))) {
          found.push_back(rounded(tick, 9));
        }
      }
    }
    return found;
  }

 private:
  double unit(double value) const { return is_log_ ? std::log10(value) : value; }

  double from_, to_, low_ = 0, high_ = 0;
  bool is_log_ = false;
};

struct Place {
  double x, y;
  std::string said = {};
};

struct Series {
  std::string name;  // "": not in the legend
  const char* color;
  std::vector<Place> places = {};
  bool is_line = false;
};

std::string scatter(const std::string& title, const std::string& x_label, const std::string& y_label,
                    const std::vector<Series>& all) {
  constexpr double kLeft = 64, kRight = 704, kTop = 66, kBottom = 380;
  std::vector<double> xs, ys;
  for (const Series& one : all) {
    std::ranges::transform(one.places, std::back_inserter(xs), &Place::x);
    std::ranges::transform(one.places, std::back_inserter(ys), &Place::y);
  }
  if (xs.empty()) {
    return "";
  }
  const Scale x(xs, kLeft, kRight), y(ys, kBottom, kTop);
  std::ostringstream out;
  out << std::fixed << std::setprecision(1);
  const auto text = [&](double at_x, double at_y, const std::string& words, const char* kind, const char* anchor) {
    out << "<text x=\"" << at_x << "\" y=\"" << at_y << "\" class=\"" << kind << "\" text-anchor=\"" << anchor << "\">"
        << escaped(words) << "</text>\n";
  };
  out << "<figure><svg viewBox=\"0 0 720 420\" role=\"img\" aria-label=\"" << escaped(title) << "\">\n";
  text(4, 16, title, "title", "start");
  for (const double tick : x.ticks()) {
    out << "<path class=\"grid\" d=\"M" << x(tick) << ' ' << kTop << 'V' << kBottom << "\"/>\n";
    text(x(tick), kBottom + 14, format_number(tick), "", "middle");
  }
  for (const double tick : y.ticks()) {
    out << "<path class=\"grid\" d=\"M" << kLeft << ' ' << y(tick) << 'H' << kRight << "\"/>\n";
    text(kLeft - 6, y(tick) + 4, format_number(tick), "", "end");
  }
  text((kLeft + kRight) / 2, kBottom + 31, x_label, "", "middle");
  text(4, kTop - 10, y_label, "", "start");
  double next = 4;
  for (const Series& one : all) {
    if (!one.name.empty()) {
      out << "<rect class=\"" << one.color << "\" x=\"" << next << "\" y=\"26\" width=\"10\" height=\"10\"/>";
      text(next + 14, 36, one.name, "", "start");
      next += 34 + 6.4 * static_cast<double>(one.name.size());
    }
    for (std::size_t i = 1; i < one.places.size() && one.is_line; ++i) {
      out << "<path class=\"" << one.color << "\" d=\"M" << x(one.places[i - 1].x) << ' ' << y(one.places[i - 1].y)
          << 'L' << x(one.places[i].x) << ' ' << y(one.places[i].y) << "\"/>\n";
    }
    for (const Place& at : one.places) {
      out << "<circle class=\"" << one.color << "\" cx=\"" << x(at.x) << "\" cy=\"" << y(at.y) << "\" r=\"3\"><title>"
          << escaped(at.said) << "</title></circle>\n";
    }
  }
  return out.str() + "</svg></figure>\n";
}

std::string parity(const FlatRows& rows) {
  std::map<std::string, Series> by_precision;
  Series as_predicted{"measured as predicted", "grey", {}, true};
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const double measured = rows.number(row, "measured_us"), predicted = rows.number(row, "predicted_us");
    if (measured > 0 && predicted > 0) {
      const std::string precision = rows.text(row, "precision");
      const char* const color = kColors[by_precision.size() % kColors.size()];
      by_precision.try_emplace(precision, Series{precision, color})
          .first->second.places.push_back({measured, predicted, rows.name(row)});
      as_predicted.places.push_back({measured, measured});
    }
  }
  std::vector<Series> all{std::move(as_predicted)};
  std::ranges::transform(by_precision, std::back_inserter(all), [](const auto& one) { return one.second; });
  return scatter("Predicted against measured step times", "measured, µs per step", "predicted, µs per step", all);
}

std::string front(const FlatRows& rows, std::vector<Objective> objectives, std::string by) {
  if (objectives.empty()) {
    objectives = {{"hidden", true}, {"step_us", false}};
    by = rows.varies("density") ? "density" : "";
  }
  if (objectives.size() < 2 || !rows.varies(objectives[0].column) || !rows.varies(objectives[1].column)) {
    return "";
  }
  std::map<std::string, std::pair<Front, std::vector<Place>>> groups;
  std::vector<Series> all{{"", "grey"}};  // every row
  for (std::size_t row = 0; row < rows.size(); ++row) {
    Point point{};
    for (std::size_t i = 0; i < objectives.size(); ++i) {
      point[i] = (objectives[i].is_largest ? -1 : 1) * rows.number(row, objectives[i].column);
    }
    const bool counts = !rows.has({"fits"}) || rows.is_yes(row, rows.has({"runs"}) ? "runs" : "fits");
    if (counts && std::ranges::none_of(point, [](double value) { return std::isnan(value); })) {
      auto& [front, places] =
          groups.try_emplace(by.empty() ? "" : rows.text(row, by), Front(objectives.size()), std::vector<Place>())
              .first->second;
      front.add(point, places.size());
      places.push_back({std::abs(point[0]), std::abs(point[1]), rows.name(row)});
      all[0].places.push_back(places.back());
    }
  }
  for (const auto& [value, group] : groups) {
    Series& series = all.emplace_back(Series{value.empty() ? "front" : by + ' ' + value,
                                             kColors[(all.size() - 1) % kColors.size()],
                                             {},
                                             objectives.size() == 2});
    for (const auto& [id, point] : group.first.all()) {
      series.places.push_back(group.second[id]);
    }
    std::ranges::sort(series.places, {}, &Place::x);
  }
  const auto label = [&](const Objective& one) {
    return heading(one.column) + (one.is_largest ? " (more is better)" : " (less is better)");
  };
  return groups.size() > kColors.size()
             ? ""
             : scatter("What no other row beats", label(objectives[0]), label(objectives[1]), all);
}

// What fits by hidden size and density or batch, as a table: the more blue, the longer a step.
std::string fit_map(const FlatRows& rows) {
  const std::string down = rows.varies("density") ? "density" : "batch";
  if (!rows.has({"fits", "binding", "step_us"}) || !rows.varies("hidden") || !rows.varies(down)) {
    return "";
  }
  std::map<double, std::map<double, std::size_t>> lines;  // of several rows at one place, one that fits
  std::set<double> sizes;
  double least = INFINITY, most = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    std::size_t& shown = lines[rows.number(row, down)].try_emplace(rows.number(row, "hidden"), row).first->second;
    shown = rows.is_yes(shown, "fits") ? shown : row;
    sizes.insert(rows.number(row, "hidden"));
    if (const double us = rows.number(row, "step_us"); us > 0) {
      least = std::min(least, us);
      most = std::max(most, us);
    }
  }
  constexpr std::size_t kMost = 40;
  if (most == 0 || sizes.size() > kMost || lines.size() > kMost) {
    return "";
  }
  std::string html = "<h3>What fits, by hidden size and " + down + "</h3>\n" +
                     note_html("µs per step, the more blue the longer; grey: it does not fit.") +
                     "<div class=\"wide\"><table class=\"map\">\n<tr><th></th>";
  for (const double size : sizes) {
    html += "<th class=\"number\">" + format_number(size) + "</th>";
  }
  for (const auto& [value, line] : lines) {
    html +=
        "</tr>\n<tr><th>" + (down == "density" ? significant(100 * value, 3) + " %" : format_number(value)) + "</th>";
    for (const double size : sizes) {
      const auto found = line.find(size);
      const double us = found == line.end() ? NAN : rows.number(found->second, "step_us");
      const std::string share = fixed(12 + 50 * std::log(us / least) / std::log(1.001 * most / least), 0);
      html +=
          found == line.end() ? "<td></td>"
          : !rows.is_yes(found->second, "fits")
              ? "<td class=\"no\" title=\"too little of " + escaped(rows.text(found->second, "binding")) + "\"></td>"
              : "<td class=\"number\" style=\"background:rgb(0 114 178/" + share + "%)\">" + three_digits(us) + "</td>";
    }
  }
  return html + "</tr>\n</table></div>\n";
}

}  // namespace

std::string charts_html(const FlatRows& rows, const std::vector<Objective>& objectives, const std::string& by) {
  return (rows.has({"measured_us", "predicted_us", "precision"}) ? parity(rows) : "") +
         (objectives.empty() ? fit_map(rows) : "") + front(rows, objectives, by);
}

void add_bars(const FlatRows& rows, std::vector<HtmlColumn>& columns) {
  constexpr std::array kNoParts{"step", "low", "high", "floor", "measured", "predicted", "library", "fp16"};
  const bool is_change = rows.has({"key", "d_step_percent"});
  std::string time = "step_us", unit = "_us";  // of a step, an iteration, all images
  if (is_change || rows.has({"us"}) || rows.has({"ms"})) {
    time = is_change ? "d_step_percent" : rows.has({"us"}) ? "us" : "ms";
    unit = time == "ms" ? "_ms" : "_us";
  }
  std::vector<std::size_t> parts;
  for (std::size_t i = 0; i < rows.columns().size(); ++i) {
    const std::string& name = rows.columns()[i];
    const bool is_part =
        name.ends_with(unit) && std::ranges::find(kNoParts, name.substr(0, name.rfind('_'))) == kNoParts.end();
    parts.insert(parts.end(), (is_change ? name == time : is_part) ? 1 : 0, i);
  }
  double longest = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    longest = std::fmax(longest, std::fmax(std::abs(rows.number(row, time)), rows.number(row, "high" + unit)));
  }
  HtmlColumn bars{is_change ? "change of a step" : "time by its parts, with its interval", {}, "", true};
  for (std::size_t row = 0; row < rows.size(); ++row) {
    double at = 0;
    std::ostringstream out;
    out << std::fixed << std::setprecision(1) << "<svg class=\"bar\" viewBox=\"0 0 240 16\" role=\"img\" aria-label=\""
        << three_digits(rows.number(row, time)) << "\">";
    const auto place = [&](double value) { return 240 * value / longest; };
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string& part = rows.columns()[parts[i]];
      if (const double value = rows.number(row, part); std::abs(value) > 0) {
        out << "<rect class=\"" << (value < 0 ? "green" : kColors[i % kColors.size()]) << "\" x=\"" << place(at)
            << "\" y=\"1\" width=\"" << place(std::abs(value)) << "\" height=\"10\"><title>" << escaped(heading(part))
            << ": " << three_digits(value) << "</title></rect>";
        at += std::abs(value);
      }
    }
    if (const double low = rows.number(row, "low" + unit), high = rows.number(row, "high" + unit); low < high) {
      out << "<path class=\"mark\" d=\"M" << place(low) << " 14H" << place(high) << "\"/>";
    }
    const bool is_whole = at > 0 && std::abs(at - std::abs(rows.number(row, time))) <= 0.01 * at;
    bars.cells.push_back(is_whole ? out.str() + "</svg>" : "");
  }
  if (std::ranges::all_of(bars.cells, &std::string::empty)) {
    return;
  }
  for (std::size_t i = 0; i < parts.size() && !is_change; ++i) {
    HtmlColumn& column = columns[parts[i]];
    column.heading = "<span class=\"" + std::string(kColors[i % kColors.size()]) + "\">■</span> " + column.heading;
    column.is_kept = true;
  }
  columns.insert(columns.begin() + 1, std::move(bars));
}

}  // namespace onchip
