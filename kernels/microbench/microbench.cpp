// SPDX-License-Identifier: Apache-2.0
#include "kernels/microbench/microbench.hpp"

#include "kernels/microbench/cases.hpp"
#include "kernels/microbench/mailbox.hpp"
#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/runtime/timing.hpp"
#include "model/base/joined.hpp"
#include "model/base/parallel.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace onchip {
namespace microbench {
namespace {

constexpr int kLaunches = 15;  // samples per row at most, after one launch to warm up
constexpr int kPartitions = 4;
constexpr const char *kTimeout = "timeout", *kChecksum = "checksum";  // failures that are rows
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// "width=8 pattern=conflict"
template <typename Value, typename... Rest>
std::string parameters_of(std::string_view name, const Value& value, const Rest&... rest) {
  std::string text = std::string(name) + "=";
  if constexpr (std::is_arithmetic_v<Value>) {
    text += std::to_string(value);
  } else {
    text += value;
  }
  if constexpr (sizeof...(rest) > 0) {
    text += " " + parameters_of(rest...);
  }
  return text;
}

// Kernels by their defines: compiled by several threads at once, loaded when first used.
class Library {
 public:
  Library(const std::vector<CompileRequest>& requests, const MicrobenchProgress& progress) {
    constexpr int kMostThreads = 16;
    if (progress) {
      progress("compiling " + std::to_string(requests.size()) + " kernels", 0, 0);
    }
    std::vector<CompiledKernel> compiled(requests.size());
    parallel_for(static_cast<int>(requests.size()), std::min(all_cores(), kMostThreads), [&](int i) {
      compiled[i] = compile(requests[i]);
      if (compiled[i].resources.spill_bytes != 0) {
        throw CudaError("microbenchmark '" + std::string(requests[i].name) + "' spills registers");
      }
    });
    for (std::size_t i = 0; i < requests.size(); ++i) {
      kernels_[key(requests[i])].compiled = std::move(compiled[i]);
    }
  }

  const Kernel& get(const CompileRequest& wanted) {
    auto& [compiled, loaded] = kernels_.at(key(wanted));
    if (!loaded) {
      loaded.emplace(compiled.cubin, std::string(wanted.name));
    }
    return *loaded;
  }

 private:
  struct OneKernel {
    CompiledKernel compiled = {};
    std::optional<Kernel> loaded = {};
  };
  static std::string key(const CompileRequest& request) {
    return std::string(request.name) + " " + joined(request.defines, " ");
  }

  std::map<std::string, OneKernel> kernels_;
};

MicrobenchRow make_row(std::string bench, std::string parameters, const Timing& timing, std::string unit,
                       double predicted = kNaN) {
  return {std::move(bench), std::move(parameters), timing.median,  timing.low,
          timing.high,      std::move(unit),       timing.samples, predicted};
}

MicrobenchRow failed_row(std::string bench, const std::string& parameters, std::string_view why, std::string unit) {
  return {std::move(bench), parameters + " failed=" + std::string(why), kNaN, kNaN, kNaN, std::move(unit), 0, kNaN};
}

// What `sample` returns, launch by launch. What it throws is the way's failure.
Way timed_launches(std::function<std::vector<double>()> sample) {
  Way way{.name = "launches", .sample = std::move(sample)};
  time_ways({&way, 1}, {.most_samples = kLaunches, .most_warm_ups = 1});
  return way;
}

class Runner {
 public:
  Runner(std::string_view only, const MicrobenchProgress& progress)
      : only_(only),
        progress_(progress),
        info_(device_info()),
        smem_bytes_(device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)),
        // More than half of an SM's shared memory, so that no two blocks share an SM.
        lone_smem_bytes_(
            std::min(smem_bytes_, device_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor) / 2 + 1024)),
        library_(microbench_requests(info_.architecture, info_.sm_count, smem_bytes_, only), progress),
        clocks_(64),
        sink_(1),
        status_(1) {}

  std::vector<MicrobenchRow> run() {
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
    add("mailbox", "a mailbox of the host", [this] { run_mailbox(); });
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

 private:
  // Cycles from the first warp's start to the last warp's end, one sample per launch of one block, over `divisor`. Of a
  // kernel that takes these values, then where clocks and results go and how often it repeats what it does.
  template <typename... Values>
  Timing cycles_of(const Kernel& kernel, int warps, int iterations, double divisor, Values... values) {
    long long* clocks = clocks_.data();
    u32* sink = sink_.data();
    void* arguments[] = {&values..., &clocks, &sink, &iterations};
    const Way way = timed_launches([&] {
      kernel.launch(stream_.get(), 1, 32 * warps, 0, false, arguments);
      stream_.synchronize();
      const std::vector<long long> read = clocks_.download();
      long long first = read[0], last = read[1];
      for (int w = 1; w < warps; ++w) {
        first = std::min(first, read[2 * w]);
        last = std::max(last, read[2 * w + 1]);
      }
      return std::vector{static_cast<double>(last - first) / divisor};
    });
    if (!way.failure.empty()) {
      throw CudaError(way.failure);
    }
    return way.time;
  }

  void run_shared(const SharedCase& c) {
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
    const u32* const offsets_pointer = device_offsets.data();
    const Kernel& kernel = library_.get(shared_request(info_.architecture, c.width, c.pattern == nullptr));
    const double loads = static_cast<double>(kSharedIterations) * (c.pattern ? slots * c.warps : kChaseLoads);
    rows_.push_back(make_row("shared",
                             c.pattern == nullptr
                                 ? parameters_of("kind", "latency", "width", c.width)
                                 : parameters_of("kind", "throughput", "width", c.width, "pattern", c.pattern->name,
                                                 "conflict", c.pattern->conflict, "warps", c.warps),
                             cycles_of(kernel, c.warps, kSharedIterations, loads, offsets_pointer), "cycles",
                             c.pattern ? wavefronts : kNaN));
  }

  void run_arithmetic(int operation) {
    // 0.99976 and 0.00098, or harmless halves.
    const u32 a = kOperations[operation].name == "shift" ? 1u : 0x3f7ff001u, b = 0x3a80fff3u;
    for (const int ilp : kIlps) {
      const Kernel& kernel = library_.get(arithmetic_request(info_.architecture, operation, ilp));
      for (const int warps : {1, 2, 4, 8}) {
        const double instructions = static_cast<double>(kArithmeticIterations) * kArithmeticSteps * ilp * warps *
                                    kOperations[operation].instructions;
        rows_.push_back(
            make_row("arithmetic", parameters_of("operation", kOperations[operation].name, "warps", warps, "ilp", ilp),
                     cycles_of(kernel, warps * kPartitions, kArithmeticIterations, instructions, a, b), "cycles"));
      }
    }
  }

  // The SM clock while one SM does nothing but this operation: more cycles by clock64, in more time by events.
  void run_clock(std::string_view under) {
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
      const double ms = timer.milliseconds_of(
          stream_.get(), [&] { kernel.launch(stream_.get(), 1, 32 * kWarps, 0, false, arguments); });
      const std::vector<long long> read = clocks_.download();
      return std::pair(static_cast<double>(read[1] - read[0]), 1e-3 * ms);  // of one warp, as good as of all
    };
    const Way hertz = timed_launches([&] {
      const auto [short_cycles, short_seconds] = run(kClockIterations);
      const auto [long_cycles, long_seconds] = run(4 * kClockIterations);
      return std::vector{(long_cycles - short_cycles) / (long_seconds - short_seconds)};
    });
    push_rows("clock", parameters_of("under", under), hertz, {"Hz"});
  }

  // Cycles of a partition per instruction of the loop, whichever number of warps issue it.
  void run_loop(int kibibytes) {
    const Kernel& kernel = library_.get(instructions_request(info_.architecture, kibibytes));
    for (const int warps : {1, 2, 4}) {
      const double instructions = static_cast<double>(kLoopIterations) * loop_instructions(kibibytes);
      rows_.push_back(make_row(
          "loop", parameters_of("kib", kibibytes, "warps", warps),
          cycles_of(kernel, warps * kPartitions, kLoopIterations, instructions, 0.99976F, 0.00098F), "cycles"));
    }
  }

  void run_shuffle(const ShuffleCase& c) {
    double steps = static_cast<double>(kShuffleIterations) * kShuffleSteps;
    std::string parameters = parameters_of("kind", c.kind, "warps", c.warps);
    if (c.kind == "shuffle") {
      steps *= c.ilp * c.warps;
      parameters += " " + parameters_of("ilp", c.ilp);
    } else if (c.kind == "tanh") {
      parameters += " " + parameters_of("lanes", c.lanes);
    }
    const Kernel& kernel = library_.get(shuffle_request(info_.architecture, c));
    rows_.push_back(make_row("shuffle", parameters,
                             cycles_of(kernel, c.warps, kShuffleIterations, steps, c.even_bias, c.odd_bias), "cycles"));
  }

  // ---- the exchange between SMs, and what it is made of: barriers, loads from L2, signals
  // -----------------------------

  // As in barrier.cu.
  struct SignalArguments {
    u32* flags;
    const u64* chain;
    long long* times;
    u32* status;
    int steps, partner;
  };

  // A launch, to its end. Throws CudaError(kTimeout) if it gave up waiting.
  void launch(const Kernel& kernel, int blocks, int threads, int shared_bytes, bool cooperative,
              void** arguments) const {
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(status_.data(), 0, status_.bytes(), stream_.get()));
    kernel.launch(stream_.get(), blocks, threads, static_cast<std::size_t>(shared_bytes), cooperative, arguments);
    stream_.synchronize();
    if (status_.download()[0] != 0) {
      throw CudaError(kTimeout);
    }
  }

  // `expected`: of the first blocks, and of the others again.
  static void check(const DeviceBuffer<u32>& checksums, const std::vector<u32>& expected) {
    const std::vector<u32> found = checksums.download();
    for (std::size_t block = 0; block < found.size(); ++block) {
      if (found[block] != expected[block % expected.size()]) {
        throw CudaError(kChecksum);
      }
    }
  }

  // [blocks][4] times of one launch. Throws CudaError if a wait was given up.
  std::vector<long long> launch_signal(int kind, int blocks, int steps, int partner, const u64* chain) {
    DeviceBuffer<u32> flags(64);
    DeviceBuffer<long long> times(static_cast<std::size_t>(blocks) * 4);
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(flags.data(), 0, flags.bytes(), stream_.get()));
    SignalArguments values{flags.data(), chain, times.data(), status_.data(), steps, partner};
    void* arguments[] = {&values};
    launch(library_.get(barrier_request(info_.architecture, kind)), blocks, 256, lone_smem_bytes_, true, arguments);
    return times.download();
  }

  // Of block 0's clocks and its nanoseconds, as launch_signal() has them.
  static std::vector<double> cycles_and_us(const std::vector<long long>& times, double divisor) {
    return {static_cast<double>(times[1] - times[0]) / divisor,
            static_cast<double>(times[3] - times[2]) * 1e-3 / divisor};
  }

  // Rows of a way that was timed, one for each unit; a row that says why where it failed.
  void push_rows(const std::string& bench, const std::string& parameters, const Way& way,
                 const std::vector<std::string>& units) {
    if (way.failure == kTimeout || way.failure == kChecksum) {
      rows_.push_back(failed_row(bench, parameters, way.failure, units.front()));
      return;
    }
    if (!way.failure.empty()) {
      throw CudaError(way.failure);
    }
    for (std::size_t i = 0; i < units.size(); ++i) {
      rows_.push_back(make_row(bench, parameters, i == 0 ? way.time : way.parts[i - 1], units[i]));
    }
  }

  void run_grid_barrier(int sms) {
    constexpr int kSteps = 400;
    const std::string parameters = parameters_of("sms", sms, "threads", 256);
    const Way way = timed_launches([&] { return cycles_and_us(launch_signal(0, sms, kSteps, 0, nullptr), kSteps); });
    push_rows("barrier", parameters, way, {"cycles", "us"});
  }

  void run_mailbox() {
    constexpr int kRequests = 20'000;
    Way way{.name = "mailbox", .sample = [] {
              EmptyMailbox mailbox;
              std::vector<float> us;
              time_calls(us, kRequests, [&] { mailbox.ask(); });
              std::ranges::nth_element(us, us.begin() + kRequests / 2);
              return std::vector{static_cast<double>(us[kRequests / 2])};
            }};
    time_ways({&way, 1}, {.most_samples = kLaunches, .most_warm_ups = 1});
    push_rows("mailbox", "words=1", way, {"us"});
  }

  void run_chase() {
    constexpr std::size_t kLines = 1024;  // of 128 bytes, one random cycle
    constexpr int kSteps = 512;
    DeviceBuffer<u64> chain(kLines * 16);
    std::vector<u64> host(kLines * 16);
    std::vector<std::size_t> order(kLines);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::mt19937 random(1);
    for (std::size_t i = kLines - 1; i > 0; --i) {
      std::swap(order[i], order[random() % (i + 1)]);
    }
    for (std::size_t i = 0; i < kLines; ++i) {
      host[16 * order[i]] = reinterpret_cast<u64>(chain.data() + 16 * order[(i + 1) % kLines]);
    }
    chain.upload(host);
    const Way way = timed_launches([&] {
      const std::vector<long long> times =
          launch_signal(1, std::min<int>(info_.sm_count, kLines), kSteps, 0, chain.data());
      std::vector<double> latency;
      for (std::size_t i = 0; i < times.size(); i += 4) {
        latency.push_back(static_cast<double>(times[i + 1] - times[i]) / kSteps);
      }
      const auto [least, most] = std::minmax_element(latency.begin(), latency.end());
      return std::vector{std::accumulate(latency.begin(), latency.end(), 0.0) / static_cast<double>(latency.size()),
                         *least, *most};
    });
    push_rows("l2", "statistic=mean", way, {"cycles"});
    if (way.ran()) {
      rows_.push_back(make_row("l2", "statistic=min", way.parts[0], "cycles"));
      rows_.push_back(make_row("l2", "statistic=max", way.parts[1], "cycles"));
    }
  }

  // One sample per partner of block 0: the spread is that of the distances on the chip.
  void run_signal() {
    constexpr int kSteps = 300;
    const int partners = std::min(2 * kLaunches, info_.sm_count - 1);
    int i = 0;
    Way way{.name = "signal", .sample = [&] {
              const int partner = 1 + i++ * (info_.sm_count - 1) / partners;
              return cycles_and_us(launch_signal(2, info_.sm_count, kSteps, partner, nullptr), 2 * kSteps);
            }};
    time_ways({&way, 1}, {.most_samples = partners, .within = -1, .most_warm_ups = 0});
    push_rows("signal", "sms=2", way, {"cycles", "us"});
  }

  void run_exchange(const ExchangeCase& c, std::vector<double>& hertz) {
    const std::string parameters = parameters_of("bytes", c.bytes(), "batch", c.batch, "sms", c.sms, "threads",
                                                 c.threads, "loads", c.loads, "poll_delay", c.poll_delay);
    struct {  // as in exchange.cu
      char* states;
      u32* checksums;
      long long* times;
      u32* status;
      int warmup, steps;
    } values{};
    constexpr int kSteps = kExchangeWarmup + kExchangeSteps;
    static_assert(kSteps % 2 == 0);
    const auto state_bytes = static_cast<std::size_t>(c.bytes());
    constexpr std::size_t kLine = 128;
    const std::size_t stride = c.in_l2(state_bytes - 1) / kLine * kLine + kLine;
    DeviceBuffer<char> states((kSteps + 1) * stride);
    const DeviceBuffer<u32> checksums(static_cast<std::size_t>(c.sms));
    const DeviceBuffer<long long> times(4);
    std::vector<char> initial(stride);
    for (std::size_t i = 0; i < state_bytes / 2; ++i) {
      const auto element = static_cast<std::uint16_t>(initial_element(static_cast<u32>(i)));
      std::memcpy(initial.data() + c.in_l2(2 * i), &element, sizeof element);
    }
    states.upload(initial);
    values = {states.data(), checksums.data(), times.data(), status_.data(), kExchangeWarmup, kSteps};
    void* arguments[] = {&values};
    const Kernel& kernel = library_.get(exchange_request(info_.architecture, c));
    const int smem = std::max(c.smem_bytes(), lone_smem_bytes_);
    const std::vector<u32> expected{expected_checksum(c, kSteps)};
    std::vector<double> hertz_here;
    const Way way = timed_launches([&] {
      ONCHIP_CUDA_CHECK(cudaMemsetAsync(states.data() + stride, 0xff, kEmptiedAhead * stride, stream_.get()));
      launch(kernel, c.sms, c.threads, smem, /*cooperative=*/true, arguments);
      check(checksums, expected);
      const std::vector<long long> t = times.download();
      hertz_here.push_back(static_cast<double>(t[1] - t[0]) / (static_cast<double>(t[3] - t[2]) * 1e-9));
      return cycles_and_us(t, kExchangeSteps);
    });
    push_rows("exchange", parameters, way, {"cycles", "us"});
    if (way.ran()) {
      hertz.insert(hertz.end(), hertz_here.begin() + 1, hertz_here.end());  // all but the launch that warms up
    }
  }

  struct ClusterCase {
    CompileRequest request;
    int sms, blocks, threads, smem_bytes;  // of a cluster; of all
    std::vector<u32> expected;             // checksums, of each SM of a cluster
  };
  // A row of the cycles of a step, of block 0.
  void run_clusters(const std::string& bench, const std::string& parameters, const ClusterCase& c,
                    const u32* initial = nullptr) {
    constexpr int kSteps = kExchangeWarmup + kExchangeSteps;
    DeviceBuffer<u32> checksums(static_cast<std::size_t>(c.blocks));
    const DeviceBuffer<long long> times(2);
    struct {  // as in cluster.cu and, without the last, cluster_sums.cu
      u32* checksums;
      long long* times;
      u32* status;
      int warmup, steps;
      const u32* initial;
    } values{checksums.data(), times.data(), status_.data(), kExchangeWarmup, kSteps, initial};
    void* arguments[] = {&values};
    const Kernel& kernel = library_.get(c.request);
    const int smem = std::max(c.smem_bytes, lone_smem_bytes_);
    if (kernel.clusters(c.sms, c.threads, static_cast<std::size_t>(smem)) < 1) {
      rows_.push_back(failed_row(bench, parameters, "residency", "cycles"));
      return;
    }
    const Way way = timed_launches([&] {
      ONCHIP_CUDA_CHECK(cudaMemsetAsync(checksums.data(), 0, checksums.bytes(), stream_.get()));
      launch(kernel, c.blocks, c.threads, smem, /*cooperative=*/false, arguments);
      check(checksums, c.expected);
      const std::vector<long long> t = times.download();
      return std::vector{static_cast<double>(t[1] - t[0]) / kExchangeSteps};
    });
    push_rows(bench, parameters, way, {"cycles"});
  }

  void run_sends(const SendCase& c) {
    std::vector<u32> words(static_cast<std::size_t>(c.bytes) / 4);
    std::iota(words.begin(), words.end(), 0u);
    const DeviceBuffer<u32> initial{std::span<const u32>(words)};
    run_clusters("cluster", parameters_of("bytes", c.bytes, "sms", c.sms, "threads", c.threads),
                 {send_request(info_.architecture, c),
                  c.sms,
                  c.sms,
                  c.threads,
                  c.smem_bytes(),
                  {expected_sent(c, kExchangeWarmup + kExchangeSteps)}},
                 initial.data());
  }

  // Of as many clusters as the SMs are.
  void run_sums(const SumsCase& c, bool exchanges) {
    run_clusters("cluster_sums",
                 parameters_of("bytes", c.bytes(), "sms", c.sms, "samples", c.samples, "threads", c.threads,
                               "exchanges", exchanges),
                 {sums_request(info_.architecture, c, exchanges), c.sms, info_.sm_count / c.sms * c.sms, c.threads,
                  c.smem_bytes(), expected_sums(c, exchanges, kExchangeWarmup + kExchangeSteps)});
  }

  std::string_view only_;
  const MicrobenchProgress& progress_;
  DeviceInfo info_;
  int smem_bytes_, lone_smem_bytes_;
  Library library_;
  Stream stream_;
  DeviceBuffer<long long> clocks_;  // [warps][2]
  DeviceBuffer<u32> sink_, status_;
  std::vector<MicrobenchRow> rows_;
};

}  // namespace
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
