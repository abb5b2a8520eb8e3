// SPDX-License-Identifier: Apache-2.0
#include "experiments/stream/streams.hpp"

#include "model/base/error.hpp"

#include <algorithm>
#include <cstddef>

namespace onchip {
namespace {

Columns<MeasurableStream> make_columns() {
  using Row = MeasurableStream;
  Columns<Row> columns;
  const auto if_measured = [](auto get) {
    return [get](const Row& row) { return row.measured ? to_value(std::invoke(get, *row.measured)) : ColumnValue(); };
  };
  const auto percentile = [&](const char* name, const char* help, Percentiles MeasuredStream::*of,
                              double Percentiles::*which) {
    columns.add(name, "us", help, if_measured([=](const MeasuredStream& measured) { return measured.*of.*which; }));
  };
  columns.add("device", "", "the GPU", if_measured(&MeasuredStream::device));
  columns.add_all(stream_columns(), &Row::answer);
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

const Columns<MeasurableStream>& columns() {
  static const Columns<MeasurableStream> all = make_columns();
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

ColumnGroup stream_column_group() {
  return columns().group("predict and measure --stream");
}

Report report_of(const MeasurableStream& answer) {
  Report report;
  report.csv = columns().table({&answer, 1});
  report.json = columns().json(answer);
  report.text = list_text(report.csv, columns().infos());
  return report;
}

}  // namespace onchip
