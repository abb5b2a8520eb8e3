// SPDX-License-Identifier: Apache-2.0
// onchip predict --stream and measure --stream: how long a request to a stack takes that stays on the chip.
#pragma once

#include "experiments/command/options.hpp"
#include "experiments/command/output.hpp"
#include "model/answer/stream.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace onchip {

OptionGroup stream_options();
// Of --stream; throws InputError for what has no kernel, and for other questions beside it.
StreamSize read_stream(const Options& options);

// In us.
struct Percentiles {
  double least = 0, p50 = 0, p99 = 0, p999 = 0, most = 0;
};
Percentiles percentiles(std::vector<float> us);

struct MeasuredStream {
  std::string device;
  std::int64_t requests = 0;
  Percentiles request, mailbox;  // the latter alone, in the same run
  double relative_error = 0;     // of some steps, against the reference in double precision
  bool has_same_bits = false;    // as where the same steps wait in the mailbox
  int launches = 0;              // how often the kernel began
};
// On the current device. Throws CudaError.
MeasuredStream measure_stream(const StreamSize& size, const StreamPlan& plan, std::int64_t requests,
                              std::uint64_t seed);

struct MeasurableStream {
  StreamAnswer answer;
  std::optional<MeasuredStream> measured = {};
};
ColumnGroup stream_column_group();
Report report_of(const MeasurableStream& stream);

}  // namespace onchip
