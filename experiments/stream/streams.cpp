// SPDX-License-Identifier: Apache-2.0
#include "experiments/stream/streams.hpp"

#include "model/base/error.hpp"
#include "model/plan/plan_text.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace onchip {
namespace {

double term_us(const StreamAnswer& answer, std::string_view name) {
  const auto term = std::ranges::find(answer.price.terms, name, &std::pair<std::string, double>::first);
  return term->second;
}

Columns<StreamAnswer> make_columns() {
  using Row = StreamAnswer;
  Columns<Row> columns;
  const auto if_measured = [](auto get) {
    return [get](const Row& row) { return row.measured ? to_value(std::invoke(get, *row.measured)) : ColumnValue(); };
  };
  const auto percentile = [&](const char* name, const char* help, Percentiles MeasuredStream::*of,
                              double Percentiles::*which) {
    columns.add(name, "us", help, if_measured([=](const MeasuredStream& measured) { return measured.*of.*which; }));
  };
  columns.add("device", "", "the GPU", if_measured(&MeasuredStream::device));
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
  columns.add("requests", "", "that were timed, one after another", if_measured(&MeasuredStream::requests));
  percentile("p50_us", "a request, the median", &MeasuredStream::request, &Percentiles::p50);
  percentile("p99_us", "99 % of requests take no longer", &MeasuredStream::request, &Percentiles::p99);
  percentile("p999_us", "nor 99.9 %", &MeasuredStream::request, &Percentiles::p999);
  percentile("least_us", "the shortest", &MeasuredStream::request, &Percentiles::least);
  percentile("most_us", "the longest", &MeasuredStream::request, &Percentiles::most);
  percentile("mailbox_p50_us", "a word there and back in the same run", &MeasuredStream::mailbox, &Percentiles::p50);
  percentile("mailbox_p99_us", "likewise", &MeasuredStream::mailbox, &Percentiles::p99);
  percentile("mailbox_p999_us", "likewise", &MeasuredStream::mailbox, &Percentiles::p999);
  columns.add("relative_error", "", "of the answers, against double precision",
              if_measured(&MeasuredStream::relative_error));
  columns.add("same_bits", "", "whether steps that wait in the mailbox have the same answers",
              if_measured(&MeasuredStream::has_same_bits));
  columns.add("launches", "", "how often the kernel began", if_measured(&MeasuredStream::launches));
  return columns;
}

const Columns<StreamAnswer>& columns() {
  static const Columns<StreamAnswer> all = make_columns();
  return all;
}

}  // namespace

OptionGroup stream_options() {
  return option_group(
      "Stream (a stack that stays on the chip and answers a step at a time)",
      {{"stream", "", "Ask for the time of a request, from the host's memory and back: one step of --layers."},
       {"streams", "N", "Let one kernel serve this many, each on SMs of its own.", "1"},
       {"requests", "N", "Time this many, one after another.", "1000000"}});
}

StreamSize read_stream(const Options& options) {
  options.refuse({"mode", "bidirectional", "density", "weights", "steps"},
                 "is not of --stream, whose layers are dense and go forwards, a step at a time");
  StreamSize size;
  size.cell = parse_cell(options.text("cell"));
  size.precision = parse_precision(options.text("precision"));
  size.layers = static_cast<int>(options.whole("layers", 1, kMostStreamLayers));
  size.hidden = static_cast<int>(options.whole("hidden", 1, kMaxHidden));
  size.input = options.count("input", kMaxHidden, size.hidden);
  size.batch = options.given("batch") ? static_cast<int>(options.whole("batch", 1, kMostOfStream)) : 1;
  size.streams = static_cast<int>(options.whole("streams", 1, kMostStreams));
  check(size);
  return size;
}

Percentiles percentiles(std::vector<float> us) {
  std::ranges::sort(us);
  const auto at = [&](double share) {
    return static_cast<double>(
        us[std::min(us.size() - 1, static_cast<std::size_t>(share * static_cast<double>(us.size())))]);
  };
  return {us.front(), at(0.5), at(0.99), at(0.999), us.back()};
}

StreamAnswer predict_stream(const Chip& chip, const StreamSize& size, std::string_view plan_words) {
  const StreamPlan plan =
      plan_words.empty() ? choose_stream(chip, size).value_or_throw() : parse_stream_plan(chip, size, plan_words);
  return {.chip = chip.name,
          .size = size,
          .plan = plan,
          .shape = stream_shape(size, plan),
          .price = stream_price(chip, size, plan)};
}

ColumnGroup stream_columns() {
  return columns().group("predict and measure --stream");
}

Report report_of(const StreamAnswer& answer) {
  Report report;
  report.csv = columns().table({&answer, 1});
  report.json = columns().json(answer);
  report.text = list_text(report.csv, columns().infos());
  return report;
}

}  // namespace onchip
