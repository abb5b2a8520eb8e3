// SPDX-License-Identifier: Apache-2.0
#include "model/answer/stream.hpp"

#include "model/plan/plan_text.hpp"

#include <algorithm>
#include <utility>

namespace onchip {
namespace {

double term_us(const StreamAnswer& answer, std::string_view name) {
  const auto term = std::ranges::find(answer.price.terms, name, &std::pair<std::string, double>::first);
  return term->second;
}

Columns<StreamAnswer> make_stream_columns() {
  using Row = StreamAnswer;
  Columns<Row> columns;
  columns.add("chip", "", "that is predicted for", &Row::chip);
  columns.add("cell", "", "lstm or gru", [](const Row& row) { return info(row.size.cell).name; });
  columns.add("precision", "", "of weights and states", [](const Row& row) { return info(row.size.precision).name; });
  columns.add("layers", "", "one on the other", [](const Row& row) { return row.size.layers; });
  columns.add("hidden", "", "units of a layer", [](const Row& row) { return row.size.hidden; });
  columns.add("input", "", "elements of a sample's input", [](const Row& row) { return row.size.input; });
  columns.add("batch", "", "samples of a request", [](const Row& row) { return row.size.batch; });
  columns.add("streams", "", "in one kernel", [](const Row& row) { return row.size.streams; });
  columns.add("plan", "", "tiles of 4 units of an SM, spans of 16 columns of a warp",
              [](const Row& row) { return plan_text(row.plan); });
  columns.add("sms", "", "that the kernel takes; other kernels have the rest",
              [](const Row& row) { return row.shape.blocks; });
  columns.add("threads", "", "of an SM", [](const Row& row) { return row.shape.threads(); });
  columns.add("predicted_us", "us", "a request, from the first word that the host writes to the last that it reads",
              [](const Row& row) { return row.price.us; });
  columns.add("low_us", "us", "the interval's least", [](const Row& row) { return row.price.low_us; });
  columns.add("high_us", "us", "the interval's most", [](const Row& row) { return row.price.high_us; });
  const auto term = [&](const std::string& name, const char* help) {
    columns.add(name + "_us", "us", help, [name](const Row& row) { return term_us(row, name); });
  };
  term("mailbox", "of that: a word there and back");
  term("reads", "a read of the host's memory that began before the request came");
  term("broadcast", "the input, from the SM of the mailbox to those of the first layer");
  term("exchange", "states, from the SMs of a layer to those of the next");
  term("products", "of the inputs' weights; those of the states are done before");
  term("cells", "sums of warps, the cell, and its state");
  return columns;
}

}  // namespace

const Columns<StreamAnswer>& stream_columns() {
  static const Columns<StreamAnswer> all = make_stream_columns();
  return all;
}

StreamAnswer predict(const Chip& chip, const StreamSize& size, std::string_view plan_words) {
  const StreamPlan plan =
      plan_words.empty() ? choose_stream(chip, size).value_or_throw() : parse_stream_plan(chip, size, plan_words);
  return {.chip = chip.name,
          .size = size,
          .plan = plan,
          .shape = stream_shape(size, plan),
          .price = stream_price(chip, size, plan)};
}

}  // namespace onchip
