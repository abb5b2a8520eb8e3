// SPDX-License-Identifier: Apache-2.0
// Figures of rows for a page without scripts: charts as SVG, each drawn where the rows have its columns, and bars
// inside a table's cells. What a mark means is its title, which a browser shows to those who point at it.
#pragma once

#include "experiments/page/answers.hpp"
#include "experiments/page/html.hpp"
#include "model/explore/spec.hpp"

#include <string>
#include <vector>

namespace onchip {

// `objectives`: of rows that are a front; none: hidden size and step time. `by`: a front for each value of this column.
std::string charts_html(const FlatRows& rows, const std::vector<Objective>& objectives, const std::string& by);

// Puts a column of bars behind the first of `columns`, which are those of `rows`: of what a time is made, or what a
// number of a chip changes.
void add_bars(const FlatRows& rows, std::vector<HtmlColumn>& columns);

}  // namespace onchip
