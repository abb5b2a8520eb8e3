// SPDX-License-Identifier: Apache-2.0
// The exchange between SMs, and what it is made of: barriers, loads from L2, signals.
#include "kernels/microbench/runner.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>

namespace onchip::microbench {
namespace {

// As in barrier.cu.
struct SignalArguments {
  u32* flags;
  const u64* chain;
  long long* times;
  u32* status;
  int steps, partner;
};

}  // namespace

// [blocks][4] times of one launch. Throws CudaError if a wait was given up.
std::vector<long long> Runner::launch_signal(int kind, int blocks, int steps, int partner, const u64* chain) {
  DeviceBuffer<u32> flags(64);
  DeviceBuffer<long long> times(static_cast<std::size_t>(blocks) * 4);
  ONCHIP_CUDA_CHECK(cudaMemsetAsync(flags.data(), 0, flags.bytes(), stream_.get()));
  ONCHIP_CUDA_CHECK(cudaMemsetAsync(status_.data(), 0, status_.bytes(), stream_.get()));
  SignalArguments values{flags.data(), chain, times.data(), status_.data(), steps, partner};
  void* arguments[] = {&values};
  library_.get(barrier_request(info_.architecture, kind))
      .launch(stream_.get(), blocks, 256, static_cast<std::size_t>(lone_smem_bytes_), true, arguments);
  stream_.synchronize();
  check_status();
  return times.download();
}

void Runner::check_status() const {
  if (status_.download()[0] != 0) {
    throw CudaError(kTimeout);
  }
}

std::vector<double> Runner::cycles_and_us(const std::vector<long long>& times, double divisor) {
  return {static_cast<double>(times[1] - times[0]) / divisor,
          static_cast<double>(times[3] - times[2]) * 1e-3 / divisor};
}

void Runner::push_rows(const std::string& bench, const std::string& parameters, const Way& way,
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

void Runner::run_grid_barrier(int sms) {
  constexpr int kSteps = 400;
  const std::string parameters = join(parameter("sms", sms), "threads=256");
  const Way way = timed_launches([&] { return cycles_and_us(launch_signal(0, sms, kSteps, 0, nullptr), kSteps); });
  push_rows("barrier", parameters, way, {"cycles", "us"});
}

void Runner::run_chase() {
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
void Runner::run_signal() {
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

void Runner::run_exchange(const ExchangeCase& c, std::vector<double>& hertz) {
  const std::string parameters =
      join(parameter("bytes", c.bytes()), parameter("batch", c.batch), parameter("sms", c.sms),
           parameter("threads", c.threads), parameter("loads", c.loads), parameter("poll_delay", c.poll_delay));
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
  const u32 expected = expected_checksum(c, kSteps);
  std::vector<double> hertz_here;
  const Way way = timed_launches([&] {
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(states.data() + stride, 0xff, kEmptiedAhead * stride, stream_.get()));
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(status_.data(), 0, status_.bytes(), stream_.get()));
    kernel.launch(stream_.get(), c.sms, c.threads, static_cast<std::size_t>(smem), true, arguments);
    stream_.synchronize();
    check_status();
    const std::vector<u32> found = checksums.download();
    if (std::any_of(found.begin(), found.end(), [&](u32 sum) { return sum != expected; })) {
      throw CudaError(kChecksum);
    }
    const std::vector<long long> t = times.download();
    hertz_here.push_back(static_cast<double>(t[1] - t[0]) / (static_cast<double>(t[3] - t[2]) * 1e-9));
    return cycles_and_us(t, kExchangeSteps);
  });
  push_rows("exchange", parameters, way, {"cycles", "us"});
  if (way.ran()) {
    hertz.insert(hertz.end(), hertz_here.begin() + 1, hertz_here.end());  // all but the launch that warms up
  }
}

// A row of the cycles of a step, of block 0.
void Runner::run_clusters(const std::string& bench, const std::string& parameters, const ClusterCase& c,
                          const u32* initial) {
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
  const auto smem = static_cast<std::size_t>(std::max(c.smem_bytes, lone_smem_bytes_));
  if (kernel.clusters(c.sms, c.threads, smem) < 1) {
    rows_.push_back(failed_row(bench, parameters, "residency", "cycles"));
    return;
  }
  const Way way = timed_launches([&] {
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(checksums.data(), 0, checksums.bytes(), stream_.get()));
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(status_.data(), 0, status_.bytes(), stream_.get()));
    kernel.launch(stream_.get(), c.blocks, c.threads, smem, /*cooperative=*/false, arguments);
    stream_.synchronize();
    check_status();
    const std::vector<u32> found = checksums.download();
    for (std::size_t block = 0; block < found.size(); ++block) {
      if (found[block] != c.expected[block % c.expected.size()]) {
        throw CudaError(kChecksum);
      }
    }
    const std::vector<long long> t = times.download();
    return std::vector{static_cast<double>(t[1] - t[0]) / kExchangeSteps};
  });
  push_rows(bench, parameters, way, {"cycles"});
}

void Runner::run_sends(const SendCase& c) {
  std::vector<u32> words(static_cast<std::size_t>(c.bytes) / 4);
  std::iota(words.begin(), words.end(), 0u);
  const DeviceBuffer<u32> initial{std::span<const u32>(words)};
  run_clusters("cluster", join(parameter("bytes", c.bytes), parameter("sms", c.sms), parameter("threads", c.threads)),
               {send_request(info_.architecture, c),
                c.sms,
                c.sms,
                c.threads,
                c.smem_bytes(),
                {expected_sent(c, kExchangeWarmup + kExchangeSteps)}},
               initial.data());
}

// Of as many clusters as the SMs are.
void Runner::run_sums(const SumsCase& c, bool exchanges) {
  run_clusters("cluster_sums",
               join(parameter("bytes", c.bytes()), parameter("sms", c.sms), parameter("samples", c.samples),
                    parameter("threads", c.threads), parameter("exchanges", exchanges)),
               {sums_request(info_.architecture, c, exchanges), c.sms, info_.sm_count / c.sms * c.sms, c.threads,
                c.smem_bytes(), expected_sums(c, exchanges, kExchangeWarmup + kExchangeSteps)});
}

}  // namespace onchip::microbench
