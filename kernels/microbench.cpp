// SPDX-License-Identifier: Apache-2.0
#include "kernels/microbench.hpp"

#include "kernels/device.hpp"
#include "kernels/sources.hpp"
#include "model/plan.hpp"

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

using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr int kLaunches = 15;  // samples per row, after one launch to warm up
constexpr int kPartitions = 4;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::string define(std::string_view name, int value) {
  return "ONCHIP_" + std::string(name) + "=" + std::to_string(value);
}

CompileRequest request(const std::string& architecture, std::string_view name, std::string_view source,
                       std::vector<std::string> defines) {
  return {name, source, architecture, std::move(defines)};
}

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

// ---- what is measured: shared memory --------------------------------------------------------------------------------

constexpr int kSharedIterations = 64;
constexpr int kChaseLoads = 32;  // per iteration, as in shared.cu
constexpr int slots_in_flight(int width) {
  return width == 16 ? 8 : 16;
}

struct Pattern {
  std::string_view name;
  int conflict;   // degree within a phase, 0 if the pattern has none of its own
  int min_width;  // smallest load for which it says something new
};
constexpr std::array<Pattern, 14> kPatterns{{
    {"conflict", 1, 4},
    {"conflict", 2, 4},
    {"conflict", 4, 4},
    {"conflict", 8, 4},
    {"conflict", 16, 4},
    {"conflict", 32, 4},
    {"random", 0, 4},
    {"same", 0, 4},         // all lanes the same unit
    {"pairs", 0, 4},        // two neighbouring lanes the same unit
    {"halves", 0, 4},       // both halves of the warp the same units
    {"quarters", 0, 4},     // all quarters of the warp the same units
    {"uneven", 4, 8},       // the first phase free of conflicts, the others not
    {"interleaved", 2, 8},  // conflicts between neighbours: gone if the phases were even and odd lanes
    {"two_rows", 0, 4},     // lanes of a warp half in each of two distant rows, free of conflicts within a phase
}};

// The unit (of `width` bytes) that a lane loads.
u32 pattern_unit(const Pattern& pattern, int width, u32 lane, std::mt19937& random) {
  const u32 lanes = static_cast<u32>(128 / width);  // of one phase; also the units in one row of banks
  const u32 phase = lane / lanes, i = lane % lanes;
  if (pattern.name == "conflict" || pattern.name == "uneven") {
    const u32 degree = pattern.name == "uneven" && phase == 0 ? 1u : static_cast<u32>(pattern.conflict);
    const u32 distinct = lanes / degree;
    return lanes * static_cast<u32>(pattern.conflict) * phase + lanes * (i / distinct) + i % distinct;
  }
  if (pattern.name == "random") {
    return static_cast<u32>(random() % 2048);
  }
  if (pattern.name == "same") {
    return 5;
  }
  if (pattern.name == "pairs") {
    return lane / 2;
  }
  if (pattern.name == "halves") {
    return lane % 16;
  }
  if (pattern.name == "quarters") {
    return lane % 8;
  }
  if (pattern.name == "interleaved") {
    return (i / 2 + phase * lanes / 2) % lanes + lanes * (i % 2) + 2 * lanes * (phase / 2);
  }
  return i + lanes * 20 * (lane / 16);  // two_rows
}

struct SharedCase {
  int width, warps;
  const Pattern* pattern;  // null: latency
};

std::vector<SharedCase> shared_cases() {
  std::vector<SharedCase> cases;
  for (const int width : {4, 8, 16}) {
    cases.push_back({width, 1, nullptr});
    for (const Pattern& pattern : kPatterns) {
      if (width < pattern.min_width || pattern.conflict > 128 / width) {
        continue;
      }
      const bool every = pattern.name == "random" || (pattern.name == "conflict" && pattern.conflict == 1);
      for (const int warps : {1, 2, 4, 8, 16, 32}) {
        if (every || warps == 4 || warps >= 16) {
          cases.push_back({width, warps, &pattern});
        }
      }
    }
  }
  return cases;
}

CompileRequest shared_request(const std::string& architecture, int width, bool chase) {
  return request(architecture, "microbench_shared", kSharedSource, {define("WIDTH", width), define("CHASE", chase)});
}

// ---- what is measured: arithmetic -----------------------------------------------------------------------------------

constexpr int kArithmeticIterations = 32;
constexpr int kArithmeticSteps = 64;  // per iteration, as in arithmetic.cu

struct Operation {
  std::string_view name;
  int instructions;  // per step
};
constexpr std::array<Operation, 11> kOperations{{
    {"ffma", 1},
    {"hfma2", 1},
    {"half_to_float", 1},
    {"lop3", 1},
    {"iadd3", 1},
    {"shift", 1},
    {"permute", 1},
    {"select", 2},
    {"bf16_low+ffma", 2},
    {"bf16_high+ffma", 2},
    {"hmma", 1},
}};
constexpr std::array<int, 3> kIlps{1, 2, 4};

CompileRequest arithmetic_request(const std::string& architecture, int operation, int ilp) {
  return request(architecture, "microbench_arithmetic", kArithmeticSource,
                 {define("OPERATION", operation), define("ILP", ilp)});
}

// ---- what is measured: shuffles, block barriers, tanh ---------------------------------------------------------------

constexpr int kShuffleIterations = 32;
constexpr int kShuffleSteps = 32;  // per iteration, as in shuffle.cu

struct ShuffleCase {
  std::string_view kind;
  int kind_number, ilp, warps;
  std::string_view lanes;  // of tanh: on which side of its branch
  float even_bias, odd_bias;
};

std::vector<ShuffleCase> shuffle_cases() {
  std::vector<ShuffleCase> cases;
  for (const int ilp : {1, 4}) {
    for (const int warps : {1, 4, 8, 16, 32}) {
      cases.push_back({"shuffle", 0, ilp, warps, "", 0, 0});
    }
  }
  for (const int warps : {2, 4, 8, 12, 16, 18, 22, 24, 32}) {
    cases.push_back({"barrier", 1, 1, warps, "", 0, 0});
  }
  cases.push_back({"tanh", 2, 1, 1, "small", 0.1f, 0.1f});
  cases.push_back({"tanh", 2, 1, 1, "large", 2.0f, 2.0f});
  cases.push_back({"tanh", 2, 1, 1, "mixed", 0.1f, 2.0f});
  cases.push_back({"tanh", 2, 1, 16, "mixed", 0.1f, 2.0f});
  return cases;
}

CompileRequest shuffle_request(const std::string& architecture, const ShuffleCase& c) {
  return request(architecture, "microbench_shuffle", kShuffleSource,
                 {define("KIND", c.kind_number), define("ILP", c.ilp)});
}

// ---- what is measured: exchange and signals -------------------------------------------------------------------------

constexpr int kExchangeWarmup = 32, kExchangeSteps = 300;

struct ExchangeCase {
  int nominal_bytes, batch, sms, threads, loads;
  int cluster = 1;  // SMs that fetch the state together

  int words_per_sm() const { return std::max(1, (nominal_bytes + 8 * sms) / (16 * sms)); }
  int bytes() const { return 16 * words_per_sm() * sms; }
  int line_words() const { return cluster > 1 ? kLineWords : line_words_for(words_per_sm()); }
  // In L2, of byte `offset` of a state.
  std::size_t in_l2(std::size_t offset) const {
    const auto held = static_cast<std::size_t>(16 * line_words());
    return offset / held * (16 * kLineWords) + offset % held;
  }
  int units_per_sm() const { return 16 * words_per_sm() / (2 * batch); }
  // As few lanes per row as have one for every sample: few rows per group, so that emitting them hardly counts.
  int lanes() const { return std::max(batch, 4); }
  int rows(int lanes_per_row) const {
    const int groups = threads / lanes_per_row;
    return (units_per_sm() + groups - 1) / groups;
  }
  static constexpr int kZeroUnits = 8;  // behind the state: at most 16 bytes each
  int smem_bytes() const {
    return cluster > 1 ? 2 * bytes() + 16 * words_per_sm() + 16
                       : bytes() + kZeroUnits * 2 * batch + 16 * words_per_sm();
  }
};

std::vector<ExchangeCase> exchange_cases(int sms, int smem_bytes) {
  std::vector<ExchangeCase> cases;
  // What the fit uses: every block size that plans use, from one word per thread to many.
  for (const int threads : {64, 128, 256, 384, 512, 576, 704, 1024}) {
    for (int loads = 1; loads <= 8; ++loads) {
      for (const int bytes : {2112, 8448, 19008, 38016, 65472, 73920, 131072, 204800}) {
        const int rounds = (bytes / 16 + threads * loads - 1) / (threads * loads);
        const bool wasteful = threads * (loads - 1) >= bytes / 16;  // a load fewer would do as well
        if (rounds <= 6 && !wasteful) {
          cases.push_back({bytes, 4, sms, threads, loads});
        }
      }
    }
  }
  for (const int batch : {1, 8}) {
    cases.push_back({18432, batch, sms, 512, 2});
  }
  for (const int part : {8, 4, 2}) {
    for (const int bytes : {2112, 8448, 19008, 73920}) {
      for (const int threads : {128, 512, 1024}) {
        const int loads = std::min(8, (bytes / 16 + threads - 1) / threads);
        cases.push_back({bytes, 4, std::max(2, sms / part), threads, loads});
      }
    }
  }
  std::erase_if(cases, [&](const ExchangeCase& c) { return c.smem_bytes() > smem_bytes || c.rows(c.lanes()) > 2; });
  return cases;
}

// The constants of a kernel of fp16 states whose batch one load fetches, so in one plane. The exchange does not depend
// on the cell; with four gates any number of units has an input of whole 4-byte pieces.
CompileRequest exchange_request(const std::string& architecture, const ExchangeCase& c) {
  return request(
      architecture, "microbench_exchange", kExchangeSource,
      {define("HIDDEN", c.units_per_sm() * c.sms), define("BLOCKS", c.sms), define("UNITS_PER_SM", c.units_per_sm()),
       define("LINE_WORDS", c.line_words()), define("BATCH", c.batch), define("BATCH_PADDED", c.batch),
       define("PRECISION", static_cast<int>(Precision::fp16)), define("CELL", static_cast<int>(Cell::lstm)),
       define("PLANE_UNIT_BYTES", 2 * c.batch), define("ZERO_UNITS", ExchangeCase::kZeroUnits),
       define("EXCHANGE", static_cast<int>(ExchangeProtocol::lamport)), define("THREADS", c.threads),
       define("LOADS_IN_FLIGHT", c.loads), define("AHEAD", kEmptiedAhead)});
}

CompileRequest cluster_request(const std::string& architecture, const ExchangeCase& c) {
  return request(architecture, "microbench_cluster_exchange", kClusterExchangeSource,
                 {define("WORDS_PER_SM", c.words_per_sm()), define("BATCH_PADDED", c.batch), define("BLOCKS", c.sms),
                  define("THREADS", c.threads), define("LANES_PER_ROW", c.lanes()), define("LOADS_IN_FLIGHT", c.loads),
                  define("AHEAD", kEmptiedAhead), define("CLUSTER", c.cluster)});
}

bool has_clusters(const std::string& architecture) {
  return architecture == "sm_90" || architecture == "sm_100";
}

// The state fetched once per cluster, and by each SM for itself, over as many SMs as hold whole clusters of four: the
// groups of SMs that clusters lie in are no multiples of four. Nothing is fitted to these.
std::vector<ExchangeCase> cluster_cases(const std::string& architecture, int sms, int smem_bytes) {
  std::vector<ExchangeCase> cases;
  if (!has_clusters(architecture)) {
    return cases;
  }
  for (const int bytes : {8448, 19008, 38016, 73920}) {
    for (const int cluster : {1, 2, 4}) {
      const int share = bytes / 16 / cluster;
      constexpr int kClusterThreads = 512;
      cases.push_back(
          {bytes, 4, sms * 7 / 8 / 4 * 4, kClusterThreads, (share + kClusterThreads - 1) / kClusterThreads, cluster});
    }
  }
  std::erase_if(cases, [&](const ExchangeCase& c) { return c.smem_bytes() > smem_bytes; });
  return cases;
}

// The exchange inside one cluster, of the kernel's own code.
struct SendCase {
  int sms, bytes, threads;

  int smem_bytes() const { return 2 * bytes + 16; }
};

std::vector<SendCase> send_cases(const std::string& architecture) {
  std::vector<SendCase> cases;
  if (has_clusters(architecture)) {
    for (const int sms : {4, 8, 16}) {
      for (const int bytes : {1024, 2048, 4096, 8192, 16384, 32768}) {
        for (const int threads : {128, 256, 512}) {
          cases.push_back({sms, bytes, threads});
        }
      }
    }
  }
  return cases;
}

// As for a network of one sample, of which the state has so many bytes.
CompileRequest send_request(const std::string& architecture, const SendCase& c) {
  constexpr int kRelu = 0, kFp16 = 0, kClusterExchange = 3;
  const int units = c.bytes / 2;
  return request(architecture, "microbench_cluster", kClusterSource,
                 {define("HIDDEN", units), define("BLOCKS", c.sms), define("UNITS_PER_SM", units / c.sms),
                  define("LINE_WORDS", kLineWords), define("BATCH", 1), define("BATCH_PADDED", 1), define("TEAMS", 1),
                  define("PRECISION", kFp16), define("CELL", kRelu), define("THREADS", c.threads),
                  define("EXCHANGE", kClusterExchange), define("AHEAD", kEmptiedAhead)});
}

// The checksum of cluster.cu after `steps` steps from `word` i = i.
u32 expected_sent(const SendCase& c, int steps) {
  u32 factor = 1, offset = 0;
  for (int t = 0; t < steps; ++t) {
    offset = 13 * offset + 57;
    factor *= 13;
  }
  const auto words = static_cast<u32>(c.bytes / 4);
  const u64 shift = static_cast<u64>(words / static_cast<u32>(c.sms) + 1) * static_cast<u64>(steps) % words;
  u32 checksum = 0;
  for (u32 word = 0; word < words; ++word) {
    const u32 source = static_cast<u32>((word + shift) % words);
    checksum += (factor * source + offset) * (2 * word + 1);
  }
  return checksum;
}

CompileRequest barrier_request(const std::string& architecture, int kind) {
  return request(architecture, "microbench_barrier", kBarrierSource, {define("KIND", kind)});
}

constexpr u32 kElementMask = 0x7fff;
constexpr u32 initial_element(u32 element) {
  return element * 40503u >> 3 & kElementMask;
}

// An element `times` changes later: (13 x + 57) mod 2^15, again and again.
struct Changes {
  u32 factor = 1, offset = 0;
  explicit Changes(int times) {
    for (int i = 0; i < times; ++i) {
      offset = (13 * offset + 57) & kElementMask;
      factor = 13 * factor & kElementMask;
    }
  }
  u32 operator()(u32 element) const { return (factor * element + offset) & kElementMask; }
};

u32 weigh(u32 element, u32 last) {
  return (last << 16 * (element % 2)) * (element / 2 * 2 + 1);
}

// The checksum of exchange.cu after an even number of steps from initial_element.
u32 expected_checksum(const ExchangeCase& c, int steps) {
  const Changes last(steps / 2);
  const auto elements = static_cast<u32>(c.bytes() / 2), of_sm = static_cast<u32>(8 * c.words_per_sm());
  const auto shift = static_cast<u32>(u64{of_sm} * static_cast<u64>(steps / 2) % elements);
  u32 checksum = 0;
  for (u32 element = 0; element < elements; ++element) {
    checksum += weigh(element, last(initial_element((element + shift) % elements)));
  }
  return checksum;
}

// The checksum of cluster_exchange.cu after `steps` steps from initial_element.
u32 expected_cluster_checksum(const ExchangeCase& c, int steps) {
  const Changes last(steps);
  const auto batch = static_cast<u32>(c.batch), units = static_cast<u32>(c.units_per_sm() * c.sms);
  const u64 shift = static_cast<u64>(c.units_per_sm() + 1) * static_cast<u64>(steps) % units;
  u32 checksum = 0;
  for (u32 element = 0; element < units * batch; ++element) {
    const u32 source = static_cast<u32>((element / batch + shift) % units) * batch + element % batch;
    checksum += weigh(element, last(initial_element(source)));
  }
  return checksum;
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
    total_ = static_cast<int>(shared.size() + kOperations.size() + shuffles.size() + exchanges.size() +
                              clustered.size() + sends.size()) +
             6;
    for (const SharedCase& c : shared) {
      tell("shared memory");
      run_shared(c);
    }
    for (std::size_t i = 0; i < kOperations.size(); ++i) {
      tell("arithmetic");
      run_arithmetic(static_cast<int>(i));
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

std::vector<CompileRequest> microbench_requests(const std::string& architecture, int sm_count,
                                                int smem_bytes_per_block) {
  std::vector<CompileRequest> requests;
  for (const int width : {4, 8, 16}) {
    for (const bool chase : {false, true}) {
      requests.push_back(shared_request(architecture, width, chase));
    }
  }
  for (int operation = 0; operation < static_cast<int>(kOperations.size()); ++operation) {
    for (const int ilp : kIlps) {
      requests.push_back(arithmetic_request(architecture, operation, ilp));
    }
  }
  for (const ShuffleCase& c : shuffle_cases()) {
    requests.push_back(shuffle_request(architecture, c));
  }
  for (const int kind : {0, 1, 2}) {
    requests.push_back(barrier_request(architecture, kind));
  }
  for (const ExchangeCase& c : exchange_cases(sm_count, smem_bytes_per_block)) {
    requests.push_back(exchange_request(architecture, c));
  }
  for (const ExchangeCase& c : cluster_cases(architecture, sm_count, smem_bytes_per_block)) {
    requests.push_back(cluster_request(architecture, c));
  }
  for (const SendCase& c : send_cases(architecture)) {
    requests.push_back(send_request(architecture, c));
  }
  // Several measurements share a kernel.
  std::set<std::pair<std::string, std::vector<std::string>>> seen;
  std::erase_if(requests,
                [&](const CompileRequest& r) { return !seen.emplace(std::string(r.name), r.defines).second; });
  return requests;
}

std::vector<MicrobenchRow> run_microbenchmarks(const MicrobenchProgress& progress) {
  return Runner(progress).run();
}

}  // namespace onchip
