// SPDX-License-Identifier: Apache-2.0
#include "kernels/microbench/microbench.hpp"

#include "kernels/runtime/device.hpp"
#include "kernels/microbench/cases.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <utility>

namespace onchip {

namespace {

using namespace microbench;

constexpr int kLaunches = 15;  // samples per row, after one launch to warm up
constexpr int kPartitions = 4;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::string parameter(std::string_view name, int value) {
  return std::string(name) + "=" + std::to_string(value);
}
std::string parameter(std::string_view name, std::string_view value) {
  return std::string(name) + "=" + std::string(value);
}
template <typename... Rest>
std::string join(std::string first, const Rest&... rest) {
  ((first.append(" ").append(rest)), ...);
  return first;
}

// ---- running --------------------------------------------------------------------------------------------------------

// Kernels by their defines: compiled by several threads at once, loaded when first used.
class Library {
 public:
  Library(const std::vector<CompileRequest>& requests, const MicrobenchProgress& progress) {
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

  const Kernel& get(const CompileRequest& wanted) {
    const std::size_t i = index_.at(key(wanted));
    auto place = loaded_.find(i);
    if (place == loaded_.end()) {
      place = loaded_.emplace(i, Kernel(compiled_[i].cubin, std::string(wanted.name))).first;
    }
    return place->second;
  }

 private:
  static std::string key(const CompileRequest& r) {
    std::string text(r.name);
    for (const std::string& define : r.defines) {
      text += " " + define;
    }
    return text;
  }

  std::vector<CompiledKernel> compiled_;
  std::map<std::string, std::size_t> index_;
  std::map<std::size_t, Kernel> loaded_;
};

MicrobenchRow make_row(std::string bench, std::string parameters, const std::vector<double>& samples, std::string unit,
                       double predicted = kNaN) {
  const Timing timing = summarize(samples);
  return {std::move(bench), std::move(parameters), timing.median,  timing.low,
          timing.high,      std::move(unit),       timing.samples, predicted};
}

MicrobenchRow failed_row(std::string bench, const std::string& parameters, std::string_view why, std::string unit) {
  return {std::move(bench), parameters + " failed=" + std::string(why), kNaN, kNaN, kNaN, std::move(unit), 0, kNaN};
}

class Runner {
 public:
  explicit Runner(const MicrobenchProgress& progress)
      : progress_(progress),
        info_(device_info()),
        smem_bytes_(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)),
        // More than half of an SM's shared memory, so that no two blocks share an SM.
        lone_smem_bytes_(std::min(smem_bytes_, attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor) / 2 + 1024)),
        library_(microbench_requests(info_.architecture, info_.sm_count, smem_bytes_), progress),
        clocks_(64),
        sink_(1),
        status_(1) {}

  std::vector<MicrobenchRow> run() {
    const auto shared = shared_cases();
    const auto shuffles = shuffle_cases();
    const auto exchanges = exchange_cases(info_.sm_count, smem_bytes_);
    const auto clustered = cluster_cases(info_.architecture, info_.sm_count, smem_bytes_);
    const auto sends = send_cases(info_.architecture);
    total_ = static_cast<int>(shared.size() + kOperations.size() + kLoopKibibytes.size() + shuffles.size() +
                              exchanges.size() + clustered.size() + sends.size()) +
             7;
    for (const SharedCase& c : shared) {
      tell("shared memory");
      run_shared(c);
    }
    for (std::size_t i = 0; i < kOperations.size(); ++i) {
      tell("arithmetic");
      run_arithmetic(static_cast<int>(i));
    }
    tell("clocks");
    for (const std::string_view under : {"ffma", "hmma"}) {
      run_clock(under);
    }
    for (const int kibibytes : kLoopKibibytes) {
      tell("loops of many instructions");
      run_loop(kibibytes);
    }
    for (const ShuffleCase& c : shuffles) {
      tell("shuffles and block barriers");
      run_shuffle(c);
    }
    for (const int part : {8, 4, 2, 1}) {
      tell("grid barrier");
      run_grid_barrier(std::max(2, info_.sm_count / part));
    }
    tell("L2 latency");
    run_chase();
    tell("signal between two SMs");
    run_signal();
    std::vector<double> hertz;
    for (const ExchangeCase& c : exchanges) {
      tell("exchange of " + std::to_string(c.bytes()) + " bytes");
      run_exchange(c, /*is_clustered=*/false, hertz);
    }
    for (const ExchangeCase& c : clustered) {
      tell("exchange of " + std::to_string(c.bytes()) + " bytes by clusters");
      run_exchange(c, /*is_clustered=*/true, hertz);
    }
    for (const SendCase& c : sends) {
      tell("exchange of " + std::to_string(c.bytes) + " bytes in a cluster");
      run_sends(c);
    }
    if (!hertz.empty()) {
      rows_.push_back(make_row("clock", "under=exchange", hertz, "Hz"));
    }
    if (progress_) {
      progress_("done", total_, total_);
    }
    return std::move(rows_);
  }

 private:
  static int attribute(cudaDeviceAttr which) {
    int device = 0, value = 0;
    ONCHIP_CUDA_CHECK(cudaGetDevice(&device));
    ONCHIP_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, device));
    return value;
  }

  void tell(std::string_view what) {
    if (progress_) {
      progress_(what, done_, total_);
    }
    ++done_;
  }

  // Cycles from the first warp's start to the last warp's end, one sample per launch of one block.
  std::vector<double> block_cycles(const Kernel& kernel, int warps, void** arguments) {
    std::vector<double> samples;
    for (int launch = -1; launch < kLaunches; ++launch) {
      kernel.launch(stream_.get(), 1, 32 * warps, 0, false, arguments);
      stream_.synchronize();
      const std::vector<long long> clocks = clocks_.download();
      long long first = clocks[0], last = clocks[1];
      for (int w = 1; w < warps; ++w) {
        first = std::min(first, clocks[2 * w]);
        last = std::max(last, clocks[2 * w + 1]);
      }
      if (launch >= 0) {
        samples.push_back(static_cast<double>(last - first));
      }
    }
    return samples;
  }

  static void divide(std::vector<double>& samples, double by) {
    for (double& sample : samples) {
      sample /= by;
    }
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
    const u32* offsets_pointer = device_offsets.data();
    long long* clocks = clocks_.data();
    u32* sink = sink_.data();
    int iterations = kSharedIterations;
    void* arguments[] = {&offsets_pointer, &clocks, &sink, &iterations};
    const Kernel& kernel = library_.get(shared_request(info_.architecture, c.width, c.pattern == nullptr));
    std::vector<double> samples = block_cycles(kernel, c.warps, arguments);
    if (c.pattern == nullptr) {
      divide(samples, kSharedIterations * kChaseLoads);
      rows_.push_back(make_row("shared", join("kind=latency", parameter("width", c.width)), samples, "cycles"));
    } else {
      divide(samples, static_cast<double>(kSharedIterations) * slots * c.warps);
      rows_.push_back(
          make_row("shared",
                   join("kind=throughput", parameter("width", c.width), parameter("pattern", c.pattern->name),
                        parameter("conflict", c.pattern->conflict), parameter("warps", c.warps)),
                   samples, "cycles", wavefronts));
    }
  }

  void run_arithmetic(int operation) {
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
        std::vector<double> samples = block_cycles(kernel, warps * kPartitions, arguments);
        divide(samples, static_cast<double>(kArithmeticIterations) * kArithmeticSteps * ilp * warps *
                            kOperations[operation].instructions);
        rows_.push_back(make_row(
            "arithmetic",
            join(parameter("operation", kOperations[operation].name), parameter("warps", warps), parameter("ilp", ilp)),
            samples, "cycles"));
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
    const auto run = [&](int loops) {
      iterations = loops;
      EventTimer timer;
      timer.start(stream_.get());
      kernel.launch(stream_.get(), 1, 32 * kWarps, 0, false, arguments);
      timer.stop(stream_.get());
      const double seconds = timer.milliseconds() * 1e-3;
      const std::vector<long long> read = clocks_.download();
      return std::pair(static_cast<double>(read[1] - read[0]), seconds);  // of one warp, as good as of all
    };
    std::vector<double> hertz;
    for (int launch = -1; launch < kLaunches; ++launch) {
      const auto [short_cycles, short_seconds] = run(kClockIterations);
      const auto [long_cycles, long_seconds] = run(4 * kClockIterations);
      if (launch >= 0) {
        hertz.push_back((long_cycles - short_cycles) / (long_seconds - short_seconds));
      }
    }
    rows_.push_back(make_row("clock", join(parameter("under", under)), hertz, "Hz"));
  }

  // Cycles of a partition per instruction of the loop, whichever number of warps issue it.
  void run_loop(int kibibytes) {
    float a = 0.99976F, b = 0.00098F;
    long long* clocks = clocks_.data();
    u32* sink = sink_.data();
    int iterations = kLoopIterations;
    void* arguments[] = {&a, &b, &clocks, &sink, &iterations};
    const Kernel& kernel = library_.get(instructions_request(info_.architecture, kibibytes));
    for (const int warps : {1, 2, 4}) {
      std::vector<double> samples = block_cycles(kernel, warps * kPartitions, arguments);
      divide(samples, static_cast<double>(kLoopIterations) * loop_instructions(kibibytes));
      rows_.push_back(
          make_row("loop", join(parameter("kib", kibibytes), parameter("warps", warps)), samples, "cycles"));
    }
  }

  void run_shuffle(const ShuffleCase& c) {
    float even = c.even_bias, odd = c.odd_bias;
    long long* clocks = clocks_.data();
    u32* sink = sink_.data();
    int iterations = kShuffleIterations;
    void* arguments[] = {&even, &odd, &clocks, &sink, &iterations};
    std::vector<double> samples =
        block_cycles(library_.get(shuffle_request(info_.architecture, c)), c.warps, arguments);
    const double steps = static_cast<double>(kShuffleIterations) * kShuffleSteps;
    std::string parameters = join(parameter("kind", c.kind), parameter("warps", c.warps));
    if (c.kind == "shuffle") {
      divide(samples, steps * c.ilp * c.warps);
      parameters = join(parameters, parameter("ilp", c.ilp));
    } else {
      divide(samples, steps);
      parameters = c.kind == "tanh" ? join(parameters, parameter("lanes", c.lanes)) : parameters;
    }
    rows_.push_back(make_row("shuffle", parameters, samples, "cycles"));
  }

  // As in barrier.cu.
  struct SignalArguments {
    u32* flags;
    const u64* chain;
    long long* times;
    u32* status;
    int steps, partner;
  };

  // [blocks][4] times of one launch, or nothing if a wait was given up.
  std::optional<std::vector<long long>> launch_signal(int kind, int blocks, int steps, int partner, const u64* chain) {
    DeviceBuffer<u32> flags(64);
    DeviceBuffer<long long> times(static_cast<std::size_t>(blocks) * 4);
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(flags.data(), 0, flags.bytes(), stream_.get()));
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(status_.data(), 0, status_.bytes(), stream_.get()));
    SignalArguments values{flags.data(), chain, times.data(), status_.data(), steps, partner};
    void* arguments[] = {&values};
    library_.get(barrier_request(info_.architecture, kind))
        .launch(stream_.get(), blocks, 256, static_cast<std::size_t>(lone_smem_bytes_), true, arguments);
    stream_.synchronize();
    if (status_.download()[0] != 0) {
      return std::nullopt;
    }
    return times.download();
  }

  // A row in cycles and one in microseconds, of block 0's times divided by `divisor`.
  void push_times(const std::string& bench, const std::string& parameters,
                  const std::vector<std::vector<long long>>& launches, double divisor) {
    std::vector<double> cycles, us;
    for (const auto& times : launches) {
      cycles.push_back(static_cast<double>(times[1] - times[0]) / divisor);
      us.push_back(static_cast<double>(times[3] - times[2]) * 1e-3 / divisor);
    }
    rows_.push_back(make_row(bench, parameters, cycles, "cycles"));
    rows_.push_back(make_row(bench, parameters, us, "us"));
  }

  void run_grid_barrier(int sms) {
    constexpr int kSteps = 400;
    const std::string parameters = join(parameter("sms", sms), "threads=256");
    std::vector<std::vector<long long>> launches;
    for (int launch = -1; launch < kLaunches; ++launch) {
      auto times = launch_signal(0, sms, kSteps, 0, nullptr);
      if (!times) {
        rows_.push_back(failed_row("barrier", parameters, "timeout", "us"));
        return;
      }
      if (launch >= 0) {
        launches.push_back(std::move(*times));
      }
    }
    push_times("barrier", parameters, launches, kSteps);
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
    std::vector<double> mean, least, most;
    for (int launch = -1; launch < kLaunches; ++launch) {
      const auto times = launch_signal(1, std::min<int>(info_.sm_count, kLines), kSteps, 0, chain.data());
      if (!times) {
        rows_.push_back(failed_row("l2", "statistic=mean", "timeout", "cycles"));
        return;
      }
      std::vector<double> latency;
      for (std::size_t i = 0; i < times->size(); i += 4) {
        latency.push_back(static_cast<double>((*times)[i + 1] - (*times)[i]) / kSteps);
      }
      if (launch >= 0) {
        mean.push_back(std::accumulate(latency.begin(), latency.end(), 0.0) / static_cast<double>(latency.size()));
        least.push_back(*std::min_element(latency.begin(), latency.end()));
        most.push_back(*std::max_element(latency.begin(), latency.end()));
      }
    }
    rows_.push_back(make_row("l2", "statistic=mean", mean, "cycles"));
    rows_.push_back(make_row("l2", "statistic=min", least, "cycles"));
    rows_.push_back(make_row("l2", "statistic=max", most, "cycles"));
  }

  // One sample per partner of block 0: the spread is that of the distances on the chip.
  void run_signal() {
    constexpr int kSteps = 300;
    std::vector<std::vector<long long>> launches;
    const int partners = std::min(2 * kLaunches, info_.sm_count - 1);
    for (int i = 0; i < partners; ++i) {
      const int partner = 1 + i * (info_.sm_count - 1) / partners;
      auto times = launch_signal(2, info_.sm_count, kSteps, partner, nullptr);
      if (!times) {
        rows_.push_back(failed_row("signal", "sms=2", "timeout", "us"));
        return;
      }
      launches.push_back(std::move(*times));
    }
    push_times("signal", "sms=2", launches, 2 * kSteps);
  }

  void run_exchange(const ExchangeCase& c, bool is_clustered, std::vector<double>& hertz) {
    std::string parameters = join(parameter("bytes", c.bytes()), parameter("batch", c.batch), parameter("sms", c.sms),
                                  parameter("threads", c.threads), parameter("loads", c.loads));
    const std::string operation = is_clustered ? "cluster_exchange" : "exchange";
    if (is_clustered) {
      const int lanes = c.lanes();
      parameters = join(parameters, parameter("lanes", lanes), parameter("rows", c.rows(lanes)),
                        parameter("cluster", c.cluster));
    } else {
      parameters = join(parameters, parameter("first_look", c.first_look));
    }
    struct {  // as in both kernels
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
    const std::size_t stride = is_clustered ? state_bytes : c.in_l2(state_bytes - 1) / kLine * kLine + kLine;
    DeviceBuffer<char> states((kSteps + 1) * stride);
    const DeviceBuffer<u32> checksums(static_cast<std::size_t>(c.sms));
    const DeviceBuffer<long long> times(4);
    std::vector<char> initial(is_clustered ? state_bytes : stride);
    for (std::size_t i = 0; i < state_bytes / 2; ++i) {
      const auto element = static_cast<std::uint16_t>(initial_element(static_cast<u32>(i)));
      std::memcpy(initial.data() + (is_clustered ? 2 * i : c.in_l2(2 * i)), &element, sizeof element);
    }
    states.upload(initial);
    values = {states.data(), checksums.data(), times.data(), status_.data(), kExchangeWarmup, kSteps};
    void* arguments[] = {&values};
    const Kernel& kernel =
        library_.get(is_clustered ? cluster_request(info_.architecture, c) : exchange_request(info_.architecture, c));
    const int smem = std::max(c.smem_bytes(), lone_smem_bytes_);
    const u32 expected = is_clustered ? expected_cluster_checksum(c, kSteps) : expected_checksum(c, kSteps);
    std::vector<std::vector<long long>> launches;
    for (int launch = -1; launch < kLaunches; ++launch) {
      ONCHIP_CUDA_CHECK(cudaMemsetAsync(states.data() + stride, 0xff, kEmptiedAhead * stride, stream_.get()));
      ONCHIP_CUDA_CHECK(cudaMemsetAsync(status_.data(), 0, status_.bytes(), stream_.get()));
      kernel.launch(stream_.get(), c.sms, c.threads, static_cast<std::size_t>(smem), true, arguments);
      stream_.synchronize();
      if (status_.download()[0] != 0) {
        rows_.push_back(failed_row(operation, parameters, "timeout", "cycles"));
        return;
      }
      const std::vector<u32> found = checksums.download();
      if (std::any_of(found.begin(), found.end(), [&](u32 sum) { return sum != expected; })) {
        rows_.push_back(failed_row(operation, parameters, "checksum", "cycles"));
        return;
      }
      if (launch >= 0) {
        launches.push_back(times.download());
        const std::vector<long long>& t = launches.back();
        hertz.push_back(static_cast<double>(t[1] - t[0]) / (static_cast<double>(t[3] - t[2]) * 1e-9));
      }
    }
    push_times(operation, parameters, launches, kExchangeSteps);
  }

  void run_sends(const SendCase& c) {
    const std::string parameters =
        join(parameter("bytes", c.bytes), parameter("sms", c.sms), parameter("threads", c.threads));
    constexpr std::string_view kBench = "cluster";
    struct {  // as in cluster.cu
      const char* initial;
      u32* checksums;
      long long* times;
      u32* status;
      int warmup, steps;
    } values{};
    constexpr int kSteps = kExchangeWarmup + kExchangeSteps;
    DeviceBuffer<u32> initial(static_cast<std::size_t>(c.bytes) / 4);
    DeviceBuffer<u32> checksums(static_cast<std::size_t>(c.sms));
    const DeviceBuffer<long long> times(2);
    std::vector<u32> words(initial.size());
    std::iota(words.begin(), words.end(), 0u);
    initial.upload(words);
    values = {reinterpret_cast<const char*>(initial.data()),
              checksums.data(),
              times.data(),
              status_.data(),
              kExchangeWarmup,
              kSteps};
    void* arguments[] = {&values};
    const Kernel& kernel = library_.get(send_request(info_.architecture, c));
    const auto smem = static_cast<std::size_t>(std::max(c.smem_bytes(), lone_smem_bytes_));
    if (kernel.clusters(c.sms, c.threads, smem) < 1) {
      rows_.push_back(failed_row(std::string(kBench), parameters, "residency", "cycles"));
      return;
    }
    const u32 expected = expected_sent(c, kSteps);
    std::vector<double> cycles;
    for (int launch = -1; launch < kLaunches; ++launch) {
      ONCHIP_CUDA_CHECK(cudaMemsetAsync(checksums.data(), 0, checksums.bytes(), stream_.get()));
      ONCHIP_CUDA_CHECK(cudaMemsetAsync(status_.data(), 0, status_.bytes(), stream_.get()));
      kernel.launch(stream_.get(), c.sms, c.threads, smem, /*cooperative=*/false, arguments);
      stream_.synchronize();
      const std::vector<u32> found = checksums.download();
      const bool timed_out = status_.download()[0] != 0;
      if (timed_out || std::any_of(found.begin(), found.end(), [&](u32 sum) { return sum != expected; })) {
        rows_.push_back(failed_row(std::string(kBench), parameters, timed_out ? "timeout" : "checksum", "cycles"));
        return;
      }
      if (launch >= 0) {
        const std::vector<long long> t = times.download();
        cycles.push_back(static_cast<double>(t[1] - t[0]) / kExchangeSteps);
      }
    }
    rows_.push_back(make_row(std::string(kBench), parameters, cycles, "cycles"));
  }

  const MicrobenchProgress& progress_;
  DeviceInfo info_;
  int smem_bytes_, lone_smem_bytes_;
  Library library_;
  Stream stream_;
  DeviceBuffer<long long> clocks_;  // [warps][2]
  DeviceBuffer<u32> sink_, status_;
  std::vector<MicrobenchRow> rows_;
  int done_ = 0, total_ = 0;
};

}  // namespace

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

std::vector<MicrobenchRow> run_microbenchmarks(const MicrobenchProgress& progress) {
  return Runner(progress).run();
}

}  // namespace onchip
