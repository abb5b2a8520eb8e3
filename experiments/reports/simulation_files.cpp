// SPDX-License-Identifier: Apache-2.0
#include "experiments/reports/simulation_files.hpp"

#include "experiments/command/output.hpp"
#include "experiments/reports/simulation_report.hpp"
#include "model/base/error.hpp"
#include "model/base/table.hpp"
#include "sim/machine/timeline.hpp"
#include "sim/machine/trace_run.hpp"
#include "sim/trace/compact_trace.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace onchip {
namespace {

void write_record(const std::string& path, const TraceSource& source) {
  OutputFile file(path);
  file.write(compact_trace_header(source.blocks(), source.resources(), source.step()));
  for (int block = 0; block < source.blocks(); ++block) {
    file.write(encode_block(source, block));
  }
  file.commit();
}

void write_accesses(const std::string& path, const Chip& chip, const TraceSource& source, int sm) {
  Table table{{"warp", "instruction", "operation", "bytes", "lanes", "wavefronts", "ideal_wavefronts", "words",
               "multicasts", "banks", "addresses"},
              {}};
  for (const AccessCost& access : count_accesses(chip, source, sm).accesses) {
    table.rows.push_back({std::to_string(access.warp), std::to_string(access.instruction),
                          std::string(name(access.operation)), std::to_string(access.width),
                          std::to_string(access.lanes), std::to_string(access.cost.wavefronts),
                          std::to_string(access.cost.ideal), std::to_string(access.cost.words),
                          std::to_string(access.cost.multicasts), joined(access.busiest), joined(access.addresses)});
  }
  OutputFile file(path);
  file.write(to_csv(table));
  file.commit();
}

// Every SM's body and wait, and every warp of one SM.
void write_step_timeline(const std::string& path, const Chip& chip, const TraceSource& trace,
                         const Simulation& simulation, SmOptions options, int shown) {
  options.events = true;
  Timeline timeline{{"one step of all SMs", "the warps of SM " + std::to_string(shown)}, {"SM", "warp"}, {}};
  for (std::size_t sm = 0; sm < simulation.body_us.size(); ++sm) {
    double end = 0;
    for (const PassBodies& pass : simulation.passes) {
      const double begin = pass.begin_us[sm];
      if (begin > end && &pass != &simulation.passes.front()) {
        timeline.spans.push_back({0, static_cast<int>(sm), "exchange", end, begin - end});
      }
      timeline.spans.push_back({0, static_cast<int>(sm), "body", begin, pass.body_us[sm]});
      end = begin + pass.body_us[sm];
    }
    const double next = simulation.passes.front().begin_us[sm] + simulation.body_us[sm] + simulation.wait_us[sm];
    if (next > end) {
      timeline.spans.push_back({0, static_cast<int>(sm), "exchange", end, next - end});
    }
  }
  for (int pass = 0; pass < trace.step()->passes; ++pass) {
    const BlockTrace block = trace.body(shown, pass);
    const SmRun run = run_sm(chip, {&block, 1}, options);
    for (TimelineSpan& span : warp_spans(block, run, 1, 1e6 / chip.clock_hz)) {
      span.begin_us += simulation.passes[static_cast<std::size_t>(pass)].begin_us[static_cast<std::size_t>(shown)];
      timeline.spans.push_back(std::move(span));
    }
  }
  OutputFile file(path);
  file.write(to_chrome_trace(timeline));
  file.commit();
}

void write_block_timeline(const std::string& path, const Chip& chip, const TraceSource& source, SmOptions options,
                          int shown) {
  options.events = true;
  const BlockTrace block = source.block(shown);
  const SmRun run = run_sm(chip, {&block, 1}, options);
  OutputFile file(path);
  file.write(
      to_chrome_trace({{"block " + std::to_string(shown)}, {"warp"}, warp_spans(block, run, 0, 1e6 / chip.clock_hz)}));
  file.commit();
}

}  // namespace

int sm_of(const Options& options, const TraceSource& source) {
  const auto sm = options.given("sm") ? options.whole("sm", 0, 1 << 20) : 0;
  if (sm >= source.blocks()) {
    throw InputError("--sm " + std::to_string(sm) + ": expected at most " + std::to_string(source.blocks() - 1) +
                     ", the last SM or block");
  }
  return static_cast<int>(sm);
}

void write_files(const Options& options, const Chip& chip, const TraceSource& source, const Simulation* step,
                 const SmOptions& sm_options) {
  const int sm = sm_of(options, source);
  if (options.given("record")) {
    write_record(options.text("record"), source);
  }
  if (options.given("timeline") && step) {
    const auto slowest = std::max_element(step->body_us.begin(), step->body_us.end()) - step->body_us.begin();
    write_step_timeline(options.text("timeline"), chip, source, *step, sm_options,
                        options.given("sm") ? sm : static_cast<int>(slowest));
  } else if (options.given("timeline")) {
    write_block_timeline(options.text("timeline"), chip, source, sm_options, sm);
  }
  if (options.given("accesses")) {
    write_accesses(options.text("accesses"), chip, source, sm);
  }
}

}  // namespace onchip
