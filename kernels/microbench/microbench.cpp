// SPDX-License-Identifier: Apache-2.0
#include "kernels/microbench/microbench.hpp"

#include "kernels/microbench/runner.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <random>
#include <set>
#include <span>
#include <thread>

namespace onchip {
namespace microbench {
namespace {

std::string key(const CompileRequest& r) {
  std::string text(r.name);
  for (const std::string& define : r.defines) {
    text += " " + define;
  }
  return text;
}

int attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  ONCHIP_CUDA_CHECK(cudaGetDevice(&device));
  ONCHIP_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

}  // namespace

Library::Library(const std::vector<CompileRequest>& requests, const MicrobenchProgress& progress) {
  compiled_.resize(requests.size());
  std::atomic<std::size_t> next{0};
  std::atomic<int> done{0};
  std::mutex mutex;
  std::exception_ptr error;
  const auto work = [&] {
    for (std::size_t i = next++; i < requests.size(); i = next++) {
      try {
        compiled_[i] = compile(requests[i]);
        if (compiled_[i].resources.spill_bytes != 0) {
          throw CudaError("microbenchmark '" + std::string(requests[i].name) + "' spills registers");
        }
      } catch (...) {
        const std::lock_guard lock(mutex);
        error = std::current_exception();
        next = requests.size();
      }
      ++done;
    }
  };
  if (progress) {
    progress("compiling " + std::to_string(requests.size()) + " kernels", 0, 0);
  }
  {
    std::vector<std::jthread> threads;
    const unsigned count = std::clamp(std::thread::hardware_concurrency(), 1u, 16u);
    for (unsigned i = 0; i < count; ++i) {
      threads.emplace_back(work);
    }
  }
  if (error) {
    std::rethrow_exception(error);
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    index_.emplace(key(requests[i]), i);
  }
}

const Kernel& Library::get(const CompileRequest& wanted) {
  const std::size_t i = index_.at(key(wanted));
  auto place = loaded_.find(i);
  if (place == loaded_.end()) {
    place = loaded_.emplace(i, Kernel(compiled_[i].cubin, std::string(wanted.name))).first;
  }
  return place->second;
}

Runner::Runner(std::string_view only, const MicrobenchProgress& progress)
    : only_(only),
      progress_(progress),
      info_(device_info()),
      smem_bytes_(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)),
      // More than half of an SM's shared memory, so that no two blocks share an SM.
      lone_smem_bytes_(std::min(smem_bytes_, attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor) / 2 + 1024)),
      library_(microbench_requests(info_.architecture, info_.sm_count, smem_bytes_, only), progress),
      clocks_(64),
      sink_(1),
      status_(1) {}

std::vector<MicrobenchRow> Runner::run() {
  struct Job {
    std::string what;
    std::function<void()> run;
  };
  std::vector<Job> jobs;
  const auto add = [&](std::string_view kernel, std::string what, std::function<void()> run) {
    if (only_.empty() || only_ == kernel) {
      jobs.push_back({std::move(what), std::move(run)});
    }
  };
  for (const SharedCase& c : shared_cases()) {
    add("shared", "shared memory", [=, this] { run_shared(c); });
  }
  for (std::size_t i = 0; i < kOperations.size(); ++i) {
    add("arithmetic", "arithmetic", [=, this] { run_arithmetic(static_cast<int>(i)); });
  }
  for (const std::string_view under : {"ffma", "hmma"}) {
    add("arithmetic", "clocks", [=, this] { run_clock(under); });
  }
  for (const int kibibytes : kLoopKibibytes) {
    add("instructions", "loops of many instructions", [=, this] { run_loop(kibibytes); });
  }
  for (const ShuffleCase& c : shuffle_cases()) {
    add("shuffle", "shuffles and block barriers", [=, this] { run_shuffle(c); });
  }
  for (const int part : {8, 4, 2, 1}) {
    add("barrier", "grid barrier", [=, this] { run_grid_barrier(std::max(2, info_.sm_count / part)); });
  }
  add("barrier", "L2 latency", [this] { run_chase(); });
  add("barrier", "signal between two SMs", [this] { run_signal(); });
  std::vector<double> hertz;
  for (const ExchangeCase& c : exchange_cases(info_.sm_count, smem_bytes_)) {
    add("exchange", "exchange of " + std::to_string(c.bytes()) + " bytes",
        [=, this, &hertz] { run_exchange(c, hertz); });
  }
  for (const SendCase& c : send_cases(info_.architecture)) {
    add("cluster", "exchange of " + std::to_string(c.bytes) + " bytes in a cluster", [=, this] { run_sends(c); });
  }
  for (const SumsCase& c : sums_cases(info_.architecture, smem_bytes_)) {
    for (const bool exchanges : {true, false}) {
      add("cluster_sums", "sums of " + std::to_string(c.bytes()) + " bytes in a cluster",
          [=, this] { run_sums(c, exchanges); });
    }
  }
  const auto total = static_cast<int>(jobs.size());
  for (int i = 0; i < total; ++i) {
    if (progress_) {
      progress_(jobs[static_cast<std::size_t>(i)].what, i, total);
    }
    jobs[static_cast<std::size_t>(i)].run();
  }
  if (!hertz.empty()) {
    rows_.push_back(make_row("clock", "under=exchange", summarize(hertz), "Hz"));
  }
  if (progress_) {
    progress_("done", total, total);
  }
  return std::move(rows_);
}

Timing Runner::block_cycles(const Kernel& kernel, int warps, void** arguments, double divisor) {
  const Way way = timed_launches([&] {
    kernel.launch(stream_.get(), 1, 32 * warps, 0, false, arguments);
    stream_.synchronize();
    const std::vector<long long> clocks = clocks_.download();
    long long first = clocks[0], last = clocks[1];
    for (int w = 1; w < warps; ++w) {
      first = std::min(first, clocks[2 * w]);
      last = std::max(last, clocks[2 * w + 1]);
    }
    return std::vector{static_cast<double>(last - first) / divisor};
  });
  if (!way.failure.empty()) {
    throw CudaError(way.failure);
  }
  return way.time;
}

void Runner::run_shared(const SharedCase& c) {
  const int slots = slots_in_flight(c.width);
  std::vector<u32> offsets(static_cast<std::size_t>(c.warps) * slots * 32);
  std::mt19937 random(1);
  double wavefronts = 0;
  for (std::size_t instruction = 0; instruction < offsets.size() / 32; ++instruction) {
    const std::span<u32, 32> lanes(offsets.data() + 32 * instruction, 32);
    for (u32 lane = 0; lane < 32; ++lane) {
      lanes[lane] = static_cast<u32>(c.width) * (c.pattern ? pattern_unit(*c.pattern, c.width, lane, random) : lane);
    }
    wavefronts += predict_wavefronts(lanes, c.width) / (static_cast<double>(offsets.size()) / 32);
  }
  const DeviceBuffer<u32> device_offsets{std::span<const u32>(offsets)};
  const u32* offsets_pointer = device_offsets.data();
  long long* clocks = clocks_.data();
  u32* sink = sink_.data();
  int iterations = kSharedIterations;
  void* arguments[] = {&offsets_pointer, &clocks, &sink, &iterations};
  const Kernel& kernel = library_.get(shared_request(info_.architecture, c.width, c.pattern == nullptr));
  const double loads = static_cast<double>(kSharedIterations) * (c.pattern ? slots * c.warps : kChaseLoads);
  const Timing cycles = block_cycles(kernel, c.warps, arguments, loads);
  if (c.pattern == nullptr) {
    rows_.push_back(make_row("shared", join("kind=latency", parameter("width", c.width)), cycles, "cycles"));
  } else {
    rows_.push_back(make_row("shared",
                             join("kind=throughput", parameter("width", c.width), parameter("pattern", c.pattern->name),
                                  parameter("conflict", c.pattern->conflict), parameter("warps", c.warps)),
                             cycles, "cycles", wavefronts));
  }
}

void Runner::run_arithmetic(int operation) {
  u32 a = 0x3f7ff001u, b = 0x3a80fff3u;  // 0.99976 and 0.00098, or harmless halves
  if (kOperations[operation].name == "shift") {
    a = 1;
  }
  long long* clocks = clocks_.data();
  u32* sink = sink_.data();
  int iterations = kArithmeticIterations;
  void* arguments[] = {&a, &b, &clocks, &sink, &iterations};
  for (const int ilp : kIlps) {
    const Kernel& kernel = library_.get(arithmetic_request(info_.architecture, operation, ilp));
    for (const int warps : {1, 2, 4, 8}) {
      const double instructions = static_cast<double>(kArithmeticIterations) * kArithmeticSteps * ilp * warps *
                                  kOperations[operation].instructions;
      rows_.push_back(make_row(
          "arithmetic",
          join(parameter("operation", kOperations[operation].name), parameter("warps", warps), parameter("ilp", ilp)),
          block_cycles(kernel, warps * kPartitions, arguments, instructions), "cycles"));
    }
  }
}

// The SM clock while one SM does nothing but this operation: more cycles by clock64, in more time by events.
void Runner::run_clock(std::string_view under) {
  const auto operation =
      static_cast<int>(std::ranges::find(kOperations, under, &Operation::name) - kOperations.begin());
  const Kernel& kernel = library_.get(arithmetic_request(info_.architecture, operation, kIlps.front()));
  u32 a = 0x3f7ff001u, b = 0x3a80fff3u;
  long long* clocks = clocks_.data();
  u32* sink = sink_.data();
  int iterations = 0;
  void* arguments[] = {&a, &b, &clocks, &sink, &iterations};
  constexpr int kWarps = 32;
  EventTimer timer;
  const auto run = [&](int loops) {
    iterations = loops;
    const double ms = timer.milliseconds_of(stream_.get(),
                                            [&] { kernel.launch(stream_.get(), 1, 32 * kWarps, 0, false, arguments); });
    const std::vector<long long> read = clocks_.download();
    return std::pair(static_cast<double>(read[1] - read[0]), 1e-3 * ms);  // of one warp, as good as of all
  };
  const Way hertz = timed_launches([&] {
    const auto [short_cycles, short_seconds] = run(kClockIterations);
    const auto [long_cycles, long_seconds] = run(4 * kClockIterations);
    return std::vector{(long_cycles - short_cycles) / (long_seconds - short_seconds)};
  });
  push_rows("clock", join(parameter("under", under)), hertz, {"Hz"});
}

// Cycles of a partition per instruction of the loop, whichever number of warps issue it.
void Runner::run_loop(int kibibytes) {
  float a = 0.99976F, b = 0.00098F;
  long long* clocks = clocks_.data();
  u32* sink = sink_.data();
  int iterations = kLoopIterations;
  void* arguments[] = {&a, &b, &clocks, &sink, &iterations};
  const Kernel& kernel = library_.get(instructions_request(info_.architecture, kibibytes));
  for (const int warps : {1, 2, 4}) {
    const double instructions = static_cast<double>(kLoopIterations) * loop_instructions(kibibytes);
    rows_.push_back(make_row("loop", join(parameter("kib", kibibytes), parameter("warps", warps)),
                             block_cycles(kernel, warps * kPartitions, arguments, instructions), "cycles"));
  }
}

void Runner::run_shuffle(const ShuffleCase& c) {
  float even = c.even_bias, odd = c.odd_bias;
  long long* clocks = clocks_.data();
  u32* sink = sink_.data();
  int iterations = kShuffleIterations;
  void* arguments[] = {&even, &odd, &clocks, &sink, &iterations};
  double steps = static_cast<double>(kShuffleIterations) * kShuffleSteps;
  std::string parameters = join(parameter("kind", c.kind), parameter("warps", c.warps));
  if (c.kind == "shuffle") {
    steps *= c.ilp * c.warps;
    parameters = join(parameters, parameter("ilp", c.ilp));
  } else {
    parameters = c.kind == "tanh" ? join(parameters, parameter("lanes", c.lanes)) : parameters;
  }
  const Kernel& kernel = library_.get(shuffle_request(info_.architecture, c));
  rows_.push_back(make_row("shuffle", parameters, block_cycles(kernel, c.warps, arguments, steps), "cycles"));
}

}  // namespace microbench

int predict_wavefronts(std::span<const unsigned, 32> offsets, int width) {
  const int lanes = std::min(32, 128 / width);
  int wavefronts = 0;
  for (int first = 0; first < 32; first += lanes) {
    std::array<std::set<unsigned>, 32> words;  // distinct words of each bank
    std::size_t most = 0;
    for (int lane = first; lane < first + lanes; ++lane) {
      for (int i = 0; i < std::max(1, width / 4); ++i) {
        const unsigned word = offsets[static_cast<std::size_t>(lane)] / 4 + static_cast<unsigned>(i);
        words[word % 32].insert(word);
        most = std::max(most, words[word % 32].size());
      }
    }
    wavefronts += static_cast<int>(most);
  }
  return wavefronts;
}

std::vector<MicrobenchRow> run_microbenchmarks(std::string_view only, const MicrobenchProgress& progress) {
  return microbench::Runner(only, progress).run();
}

}  // namespace onchip
