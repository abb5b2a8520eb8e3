// SPDX-License-Identifier: Apache-2.0
#include "sim/machine/timeline.hpp"

#include <array>
#include <charconv>

namespace onchip {
namespace {

// What a stretch of instructions is called: address arithmetic and multiply-adds alternate from one to the next.
constexpr std::string_view kind(Operation operation) {
  switch (operation) {
    case Operation::shared_load:
    case Operation::shared_store:
    case Operation::matrix_load:
    case Operation::shared_atomic:
      return "shared memory";
    case Operation::global_load:
    case Operation::global_store:
    case Operation::async_copy:
      return "L2";
    case Operation::shuffle:
    case Operation::barrier:
    case Operation::tensor:
    case Operation::special:
      return name(operation);
    default:
      return "arithmetic";
  }
}

void append_quoted(std::string& out, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += '"';
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte >= 0x7f) {
      out += {'\\', 'u', '0', '0', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      out += character == '"' || character == '\\' ? std::string{'\\', character} : std::string{character};
    }
  }
  out += '"';
}

// Whole picoseconds, so that times are the same everywhere.
void append_us(std::string& out, double us) {
  std::array<char, 64> digits;
  const auto end = std::to_chars(digits.begin(), digits.end(), us, std::chars_format::fixed, 6).ptr;
  out.append(digits.begin(), end);
}

void append_name(std::string& out, std::string_view event, int process, int thread, std::string_view name) {
  out += R"({"ph":"M","name":")" + std::string(event) + R"(","pid":)" + std::to_string(process) + R"(,"tid":)" +
         std::to_string(thread) + R"(,"args":{"name":)";
  append_quoted(out, name);
  out += "}},\n";
}

}  // namespace

std::string to_chrome_trace(const Timeline& timeline) {
  std::string out = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  std::vector<std::vector<bool>> named(timeline.process_names.size());
  for (std::size_t process = 0; process < timeline.process_names.size(); ++process) {
    append_name(out, "process_name", static_cast<int>(process), 0, timeline.process_names[process]);
  }
  for (const TimelineSpan& span : timeline.spans) {
    std::vector<bool>& threads = named[static_cast<std::size_t>(span.process)];
    if (static_cast<std::size_t>(span.thread) >= threads.size()) {
      threads.resize(static_cast<std::size_t>(span.thread) + 1);
    }
    if (!threads[static_cast<std::size_t>(span.thread)]) {
      threads[static_cast<std::size_t>(span.thread)] = true;
      append_name(out, "thread_name", span.process, span.thread,
                  timeline.thread_names[static_cast<std::size_t>(span.process)] + " " + std::to_string(span.thread));
    }
    out += R"({"ph":"X","name":)";
    append_quoted(out, span.name);
    out += R"(,"pid":)" + std::to_string(span.process) + R"(,"tid":)" + std::to_string(span.thread) + R"(,"ts":)";
    append_us(out, span.begin_us);
    out += R"(,"dur":)";
    append_us(out, span.us);
    out += "},\n";
  }
  if (out.ends_with(",\n")) {
    out.erase(out.size() - 2, 1);
  }
  return out + "]}\n";
}

std::vector<TimelineSpan> warp_spans(const BlockTrace& block, const SmRun& run, int process, double us_per_cycle) {
  constexpr std::size_t kNone = ~std::size_t{0};
  std::vector<TimelineSpan> spans;
  std::vector<std::size_t> open(block.warps.size(), kNone);
  for (const IssueEvent& event : run.events) {
    const std::string_view what = kind(block.warps[event.warp].instructions[event.instruction].operation);
    const double begin = static_cast<double>(event.cycle) * us_per_cycle;
    std::size_t& last = open[event.warp];
    if (last != kNone) {
      // Until the next instruction, whatever it waits for: the wait belongs to what came before it.
      spans[last].us = begin - spans[last].begin_us;
    }
    if (last == kNone || spans[last].name != what) {
      last = spans.size();
      spans.push_back({process, event.warp, std::string(what), begin, us_per_cycle});
    } else {
      spans[last].us += us_per_cycle;
    }
  }
  return spans;
}

}  // namespace onchip
