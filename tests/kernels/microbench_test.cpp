// SPDX-License-Identifier: Apache-2.0
#include "kernels/microbench/microbench.hpp"
#include "kernels/runtime/sources.hpp"
#include "model/exchange/exchange_time.hpp"

#include "model/exchange/state.hpp"
#include "tests/catch.hpp"

#include <array>
#include <cmath>
#include <map>
#include <random>
#include <set>

namespace onchip {
namespace {

// Rows as run_microbenchmarks would make them on a chip whose constants are known.
class SyntheticChip {
 public:
  static constexpr std::array<double, 6> kExchange{1100, 3, 1 / 70.0, 250, 50, 8};  // as exchange_terms() orders them
  static constexpr double kBarrier = 12, kBarrierPerWarp = 2, kSignal = 500, kLoad = 30;

  explicit SyntheticChip(double noise) : noise_(noise) {}

  void add(const std::string& bench, const std::string& parameters, double value, const std::string& unit = "cycles",
           double predicted = std::nan("")) {
    const double measured = value * (1 + noise_ * normal_(random_));
    rows.push_back({bench, parameters, measured, measured * 0.999, measured * 1.001, unit, 15, predicted});
  }

  void add_barriers() {
    for (const int warps : {2, 8, 16, 32}) {
      add("shuffle", "kind=barrier warps=" + std::to_string(warps), kBarrier + kBarrierPerWarp * warps);
    }
  }

  void add_exchange(int bytes, int sms, int threads, int loads, int poll_delay, double cycles) {
    add("exchange",
        "bytes=" + std::to_string(bytes) + " batch=4 sms=" + std::to_string(sms) + " threads=" +
            std::to_string(threads) + " loads=" + std::to_string(loads) + " poll_delay=" + std::to_string(poll_delay),
        cycles);
  }

  // `per_warp`: which no chip has below zero, but a fit may, where the formula leaves something out.
  void add_exchanges(double per_warp = kExchange[5]) {
    std::array<double, 6> constants = kExchange;
    constants[5] = per_warp;
    for (const int threads : {128, 256, 512, 1024}) {
      for (const int loads : {1, 2, 4}) {
        for (const int bytes : {4608, 18432, 45056, 90112}) {
          for (const int sms : {16, 66, 132}) {
            const std::array<double, 6> terms = exchange_terms(
                CostValues{}, {static_cast<double>(bytes), sms, threads, loads, line_words_for(bytes / 16 / sms)});
            double cycles = 2 * (kBarrier + kBarrierPerWarp * threads / 32);
            for (std::size_t i = 0; i < terms.size(); ++i) {
              cycles += constants[i] * terms[i];
            }
            for (const auto& [poll_delay, late] : {std::pair{100, 1.1}, {180, 1.0}}) {
              add_exchange(bytes, sms, threads, loads, poll_delay, late * cycles);
            }
          }
        }
      }
    }
    // A measurement that failed is no measurement.
    rows.push_back({"exchange", "bytes=18432 batch=4 sms=132 threads=512 loads=2 poll_delay=180 failed=timeout",
                    std::nan(""), std::nan(""), std::nan(""), "cycles", 0, std::nan("")});
    add("signal", "sms=2", kSignal);
    add("shared", "kind=latency width=4", kLoad);
  }

  std::map<std::string, CalibratedConstant> fit() const {
    std::map<std::string, CalibratedConstant> by_key;
    for (const CalibratedConstant& constant : fit_constants(rows)) {
      CHECK(by_key.emplace(constant.key, constant).second);
    }
    return by_key;
  }

  std::vector<MicrobenchRow> rows;

 private:
  double noise_;
  std::mt19937 random_{7};
  std::normal_distribution<double> normal_;
};

TEST_CASE("the fit recovers the exchange constants from noisy rows", "[fast][microbench]") {
  SyntheticChip chip(0.003);
  chip.add_barriers();
  chip.add_exchanges();
  const auto found = chip.fit();
  const auto& truth = SyntheticChip::kExchange;
  const std::map<std::string, double> expected{
      {"exchange.latency", truth[0] - SyntheticChip::kSignal - 3 * SyntheticChip::kLoad},
      {"exchange.per_sm", truth[1]},
      {"exchange.bytes_per_cycle_per_sm", 1 / truth[2]},
      {"exchange.round_trip", truth[3]},
      {"exchange.per_word", truth[4]},
      {"exchange.per_warp", truth[5]}};
  for (const auto& [key, value] : expected) {
    INFO(key << ": " << found.at(key).method);
    CHECK(std::abs(found.at(key).value / value - 1) < 0.03);
    CHECK(found.at(key).half_width > 0);
    CHECK(found.at(key).half_width < 0.1 * value);
  }
  CHECK(found.at("exchange.scatter").value < 0.02);
}

TEST_CASE("a small exchange that was measured with one wait says nothing of how fast it can be", "[fast][microbench]") {
  SyntheticChip chip(0);
  chip.add_barriers();
  chip.add_exchanges();
  const double latency = chip.fit().at("exchange.latency").value;
  for (const int threads : {192, 320}) {
    chip.add_exchange(/*bytes=*/4608, /*sms=*/66, threads, /*loads=*/2, /*poll_delay=*/180, /*cycles=*/5000);
  }
  CHECK(chip.fit().at("exchange.latency").value == latency);
}

TEST_CASE("a cost that would be below zero is none, and the others are fitted without it", "[fast][microbench]") {
  SyntheticChip chip(0);
  chip.add_barriers();
  chip.add_exchanges(/*per_warp=*/-1);
  const auto found = chip.fit();
  CHECK(found.at("exchange.per_warp").value == 0);
  CHECK(found.at("exchange.latency").half_width > 0);
  CHECK(std::abs(found.at("exchange.round_trip").value / SyntheticChip::kExchange[3] - 1) < 0.05);
}

TEST_CASE("loads from L2 and signals become constants as they were measured", "[fast][microbench]") {
  SyntheticChip chip(0);
  CHECK(chip.fit().count("exchange.l2_latency_spread") == 0);
  chip.add("l2", "statistic=mean", 281);
  chip.add("l2", "statistic=min", 269);
  chip.add("l2", "statistic=max", 298);
  chip.add("signal", "sms=2", 619);
  const auto found = chip.fit();
  CHECK(std::abs(found.at("exchange.l2_latency").value - 281) < 1e-9);
  CHECK(std::abs(found.at("exchange.l2_latency_spread").value - 29) < 1e-9);
  CHECK(std::abs(found.at("exchange.signal").value - 619) < 1e-9);
}

TEST_CASE("the fit recovers the constants of a cluster", "[fast][microbench]") {
  SyntheticChip chip(0.003);
  chip.add_barriers();
  CHECK(chip.fit().count("cluster.latency") == 0);
  for (const int sms : {4, 8, 16}) {
    for (const int bytes : {1024, 4096, 16384, 32768}) {
      for (const int warps : {4, 8, 16}) {
        chip.add(
            "cluster",
            "bytes=" + std::to_string(bytes) + " sms=" + std::to_string(sms) + " threads=" + std::to_string(32 * warps),
            470 + 15 * sms + 6 * warps + bytes / 20.0 + 0.001 * bytes * sms +
                2 * (SyntheticChip::kBarrier + warps * SyntheticChip::kBarrierPerWarp));
      }
    }
  }
  const auto found = chip.fit();
  CHECK(std::abs(found.at("cluster.latency").value / 470 - 1) < 0.02);
  CHECK(std::abs(found.at("cluster.per_sm").value / 15 - 1) < 0.1);
  CHECK(std::abs(found.at("cluster.per_warp").value / 6 - 1) < 0.1);
  CHECK(std::abs(found.at("cluster.bytes_per_cycle").value / 20 - 1) < 0.02);
  CHECK(std::abs(found.at("cluster.per_byte_and_sm").value / 0.001 - 1) < 0.1);
}

TEST_CASE("what sums take in a cluster is beyond what as many take in an SM", "[fast][microbench]") {
  SyntheticChip chip(0.001);
  for (const int sms : {2, 4}) {
    for (const int samples : {8, 16, 32, 64}) {
      for (const int warps : {4, 8}) {
        const int bytes = 4 * 16 * samples * (sms - 1);
        const double own = 40 + sms * samples * 2.0 / warps;
        for (const int exchanges : {1, 0}) {
          chip.add("cluster_sums",
                   "bytes=" + std::to_string(bytes) + " sms=" + std::to_string(sms) +
                       " samples=" + std::to_string(samples) + " threads=" + std::to_string(32 * warps) +
                       " exchanges=" + std::to_string(exchanges),
                   own + exchanges * (400 + 0.03 * bytes));
        }
      }
    }
  }
  auto found = chip.fit();
  CHECK(std::abs(found.at("cluster.sums").value / 400 - 1) < 0.01);
  CHECK(std::abs(found.at("cluster.sums_per_byte").value / 0.03 - 1) < 0.05);
  std::erase_if(chip.rows, [](const MicrobenchRow& row) { return row.parameters.ends_with("exchanges=0"); });
  CHECK(chip.fit().empty());
}

TEST_CASE("the fit recovers the constants of one SM", "[fast][microbench]") {
  SyntheticChip chip(0.001);
  for (const int width : {4, 8, 16}) {
    chip.add("shared", "kind=latency width=" + std::to_string(width), 29 + width / 4);
    for (const int warps : {1, 16, 32}) {
      for (int conflict = 1; conflict <= 128 / width; conflict *= 2) {
        const double wavefronts = conflict * width / 4;
        chip.add("shared",
                 "kind=throughput width=" + std::to_string(width) +
                     " pattern=conflict conflict=" + std::to_string(conflict) + " warps=" + std::to_string(warps),
                 warps == 1 ? 40 : std::max(2.0, 1.02 * wavefronts), "cycles", wavefronts);
      }
    }
  }
  const std::map<std::string, double> issue{{"ffma", 1},   {"hfma2", 1}, {"half_to_float", 2},
                                            {"lop3", 2},   {"iadd3", 2}, {"permute", 2},
                                            {"select", 2}, {"shift", 2}, {"hmma", 4}};
  for (const auto& [operation, interval] : issue) {
    for (const int warps : {1, 2, 4, 8}) {
      for (const int ilp : {1, 2, 4}) {
        chip.add("arithmetic",
                 "operation=" + operation + " warps=" + std::to_string(warps) + " ilp=" + std::to_string(ilp),
                 std::max(interval, 4.0 / (warps * ilp)));
      }
    }
  }
  chip.add("clock", "under=ffma", 1.98e9, "Hz");
  chip.add("clock", "under=hmma", 1.8e9, "Hz");
  for (const int kibibytes : {8, 24, 30, 32, 34, 48, 96, 160, 192}) {
    const double supply = kibibytes <= 32 ? 1 : kibibytes <= 128 ? 2.2 : 5;
    for (const int warps : {1, 2}) {
      chip.add("loop", "kib=" + std::to_string(kibibytes) + " warps=" + std::to_string(warps),
               std::max<double>(warps, supply));
    }
  }
  chip.add("shuffle", "kind=shuffle warps=1 ilp=1", 33);
  chip.add("shuffle", "kind=shuffle warps=16 ilp=1", 2);
  chip.add("shuffle", "kind=tanh warps=1 lanes=mixed", 104);
  chip.add_barriers();
  chip.add("barrier", "sms=66 threads=256", 0.7, "us");
  chip.add("barrier", "sms=132 threads=256", 0.93, "us");
  chip.add("barrier", "sms=132 threads=256", 1800, "cycles");

  const auto found = chip.fit();
  const std::map<std::string, double> truth{{"timing.lds_latency", 30},
                                            {"timing.lds_wavefront", 1.02},
                                            {"timing.lds_instruction", 2},
                                            {"timing.fp32_issue", 1},
                                            {"timing.half2_issue", 1},
                                            {"timing.conversion_issue", 2},
                                            {"timing.integer_issue", 2},
                                            {"timing.tensor_issue", 4},
                                            {"timing.tensor_latency", 4},
                                            {"timing.tensor_clock_share", 1.8 / 1.98},
                                            {"timing.half2_latency", 4},
                                            {"timing.instruction_cache", 33 * 1024},
                                            {"timing.instruction_supply", 2.2},
                                            {"timing.sm_instruction_cache", 128 * 1024},
                                            {"timing.sm_instruction_supply", 5},
                                            {"timing.arithmetic_latency", 4},
                                            {"timing.shuffle_latency", 33},
                                            {"timing.tanh_latency", 100},
                                            {"timing.grid_barrier", 0.93e-6},
                                            {"timing.block_barrier", SyntheticChip::kBarrier},
                                            {"timing.block_barrier_per_warp", SyntheticChip::kBarrierPerWarp}};
  CHECK(found.size() == truth.size());
  for (const auto& [key, value] : truth) {
    INFO(key);
    REQUIRE(found.count(key) == 1);
    CHECK(std::abs(found.at(key).value / value - 1) < 0.01);
    CHECK(found.at(key).half_width >= 0);
    CHECK_FALSE(found.at(key).method.empty());
  }
}

TEST_CASE("a constant whose rows are missing or failed is left out", "[fast][microbench]") {
  CHECK(fit_constants({}).empty());
  SyntheticChip chip(0);
  chip.add("shuffle", "kind=shuffle warps=1 ilp=1", 33);
  chip.rows.push_back(
      {"barrier", "sms=132 failed=timeout", std::nan(""), std::nan(""), std::nan(""), "us", 0, std::nan("")});
  const auto found = chip.fit();
  REQUIRE(found.size() == 1);
  CHECK(found.begin()->first == "timing.shuffle_latency");
}

TEST_CASE("loops say nothing of an instruction cache that all of them stay in", "[fast][microbench]") {
  SyntheticChip chip(0);
  const auto add = [&](int kibibytes, double cycles) {
    chip.add("loop", "kib=" + std::to_string(kibibytes) + " warps=1", cycles);
  };
  add(8, 1);
  add(32, 1.2);
  CHECK(chip.fit().empty());
  add(34, 1.5);  // half of its instructions are still found
  REQUIRE(chip.fit().size() == 1);
  CHECK(chip.fit().at("timing.instruction_cache").value == 33 * 1024);
  add(48, 2);
  add(96, 2.4);
  REQUIRE(chip.fit().size() == 2);
  CHECK(chip.fit().at("timing.instruction_supply").value == 2.2);
  add(160, 5);
  REQUIRE(chip.fit().size() == 3);
  CHECK(chip.fit().at("timing.sm_instruction_cache").value == 128 * 1024);
}

TEST_CASE("wavefronts follow the phase rule", "[fast][microbench]") {
  const auto count = [](int width, auto unit) {
    std::array<unsigned, 32> offsets{};
    for (unsigned lane = 0; lane < 32; ++lane) {
      offsets[lane] = static_cast<unsigned>(width) * unit(lane);
    }
    return predict_wavefronts(offsets, width);
  };
  const auto own = [](unsigned lane) { return lane; };
  CHECK(count(4, own) == 1);
  CHECK(count(8, own) == 2);
  CHECK(count(16, own) == 4);
  const auto same = [](unsigned) { return 3u; };
  CHECK(count(4, same) == 1);
  CHECK(count(16, same) == 4);
  const auto column = [](unsigned lane) { return lane * 32; };
  CHECK(count(4, column) == 32);
  CHECK(count(8, column) == 32);
  CHECK(count(16, column) == 32);
  CHECK(count(8, [](unsigned lane) { return lane % 16 * 2; }) == 4);
}

TEST_CASE("one microbenchmark is asked for by the name of its kernel", "[fast][microbench]") {
  const auto some = microbench_requests("sm_90", 132, 232448, "cluster_sums");
  CHECK(some.size() > 20);
  CHECK(std::ranges::all_of(some, [](const CompileRequest& r) { return r.name == "microbench_cluster_sums"; }));
  CHECK_THROWS_WITH(microbench_requests("sm_90", 132, 232448, "cluster_sum"),
                    "no microbenchmark 'cluster_sum' of sm_90; did you mean 'cluster_sums'?");
}

TEST_CASE("every microbenchmark compiles without a spill", "[slow][microbench]") {
  const std::string architecture = GENERATE("sm_80", "sm_90", "sm_100", "sm_120");
  const auto requests = microbench_requests(architecture, 132, architecture == "sm_120" ? 101376 : 166912);
  CHECK(requests.size() > 80);
  // All of one-SM kernels, and of loops, exchanges and sums every hundredth: the rest differ in sizes only.
  int sizes = 0;
  std::set<std::string_view> names;
  for (const CompileRequest& request : requests) {
    names.insert(request.name);
    const bool has_512_threads = request.name == "microbench_cluster" || request.name == "microbench_cluster_sums";
    const bool is_one_of_many = request.name == "microbench_instructions" || request.name.ends_with("exchange") ||
                                request.name.ends_with("sums");
    if (is_one_of_many && sizes++ % 100 != 0) {
      continue;
    }
    INFO(architecture << " " << request.name << " " << (request.defines.empty() ? "" : request.defines.front()));
    const CompiledKernel kernel = compile(request);
    CHECK(kernel.resources.spill_bytes == 0);
    CHECK(kernel.resources.stack_bytes == 0);
    CHECK(kernel.resources.registers <= (has_512_threads ? 128 : 64));  // else 1024
  }
  const bool has_clusters = architecture == "sm_90" || architecture == "sm_100";
  CHECK(names.size() == (has_clusters ? 9 : 7));
}

}  // namespace
}  // namespace onchip
