// SPDX-License-Identifier: Apache-2.0
#include "kernels/microbench/cases.hpp"

#include "kernels/microbench/mailbox.hpp"
#include "kernels/microbench/microbench.hpp"
#include "kernels/runtime/sources.hpp"
#include "model/base/error.hpp"

#include <set>
#include <utility>

namespace onchip {
namespace microbench {
namespace {

std::string define(std::string_view name, int value) {
  return "ONCHIP_" + std::string(name) + "=" + std::to_string(value);
}

CompileRequest request(const std::string& architecture, std::string_view name, std::string_view source,
                       std::vector<std::string> defines) {
  return {name, source, architecture, std::move(defines)};
}

using Lane = PatternLane;
// Lanes of a phase, in rows of banks, so many of them to the same banks.
constexpr u32 conflicting(const Lane& l) {
  const u32 distinct = l.lanes / l.degree;
  return l.lanes * l.degree * l.phase + l.lanes * (l.of_phase / distinct) + l.of_phase % distinct;
}
constexpr std::array<Pattern, 14> kPatterns{{
    {"conflict", 1, 4, conflicting},
    {"conflict", 2, 4, conflicting},
    {"conflict", 4, 4, conflicting},
    {"conflict", 8, 4, conflicting},
    {"conflict", 16, 4, conflicting},
    {"conflict", 32, 4, conflicting},
    {"random", 0, 4, [](const Lane& l) { return static_cast<u32>(l.random() % 2048); }},
    {"same", 0, 4, [](const Lane&) { return 5u; }},                // all lanes the same unit
    {"pairs", 0, 4, [](const Lane& l) { return l.lane / 2; }},     // two neighbouring lanes the same unit
    {"halves", 0, 4, [](const Lane& l) { return l.lane % 16; }},   // both halves of the warp the same units
    {"quarters", 0, 4, [](const Lane& l) { return l.lane % 8; }},  // all quarters of the warp the same units
    // The first phase free of conflicts, the others not.
    {"uneven", 4, 8, [](const Lane& l) { return l.phase == 0 ? l.of_phase : conflicting(l); }},
    // Conflicts between neighbours: gone if the phases were even and odd lanes.
    {"interleaved", 2, 8,
     [](const Lane& l) {
       const u32 row = (l.of_phase / 2 + l.phase * l.lanes / 2) % l.lanes;
       return row + l.lanes * (l.of_phase % 2) + 2 * l.lanes * (l.phase / 2);
     }},
    // Lanes of a warp half in each of two distant rows, free of conflicts within a phase.
    {"two_rows", 0, 4, [](const Lane& l) { return l.of_phase + l.lanes * 20 * (l.lane / 16); }},
}};

bool has_clusters(const std::string& architecture) {
  return architecture == "sm_90" || architecture == "sm_100";
}

// An element `times` changes later: 13 x + 57, again and again, modulo a power of two that the caller takes.
struct Changes {
  u32 factor = 1, offset = 0;
  explicit Changes(int times) {
    for (int i = 0; i < times; ++i) {
      offset = 13 * offset + 57;
      factor *= 13;
    }
  }
  u32 operator()(u32 element) const { return factor * element + offset; }
};

}  // namespace

// ---- shared memory --------------------------------------------------------------------------------------------------

u32 pattern_unit(const Pattern& pattern, int width, u32 lane, std::mt19937& random) {
  const auto lanes = static_cast<u32>(128 / width);
  return pattern.unit({static_cast<u32>(pattern.conflict), lanes, lane, lane / lanes, lane % lanes, random});
}

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

// ---- arithmetic -----------------------------------------------------------------------------------------------------

CompileRequest arithmetic_request(const std::string& architecture, int operation, int ilp) {
  return request(architecture, "microbench_arithmetic", kArithmeticSource,
                 {define("OPERATION", operation), define("ILP", ilp)});
}

// ---- loops too long for the instruction cache -----------------------------------------------------------------------

CompileRequest instructions_request(const std::string& architecture, int kibibytes) {
  return request(architecture, "microbench_instructions", kInstructionsSource,
                 {define("INSTRUCTIONS", loop_instructions(kibibytes))});
}

// ---- shuffles, block barriers, tanh ---------------------------------------------------------------------------------

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

// ---- exchange and signals -------------------------------------------------------------------------------------------

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
  // What the poll delay is worth; all of them without it, too, where most polls are in vain, so that
  // what a look takes can be told from the rest of the exchange.
  for (std::size_t i = 0, count = cases.size(); i < count; ++i) {
    cases.push_back(cases[i]);
    cases.back().poll_delay = 0;
  }
  for (const int poll_delay : {0, 60, 120, 240, 320, 420}) {
    for (const auto& [threads, loads] : {std::pair{512, 1}, {256, 2}, {128, 4}}) {
      cases.push_back({8192, 4, std::min(sms, 128), threads, loads, poll_delay});
    }
  }
  // Of as many SMs as plans use, in one round, as plans have it, with waits of which one is nearly best.
  for (const int of : {sms, 128, 96, 64, 32}) {
    for (const int bytes : {2048, 4096, 8192, 16384, 32768}) {
      for (const int threads : {64, 128, 256, 512, 1024}) {
        const int loads = (bytes / 16 + threads - 1) / threads;
        for (const int poll_delay : {100, kExchangePollDelay, 260}) {
          if (loads <= 8 && of <= sms) {
            cases.push_back({bytes, 4, of, threads, loads, poll_delay});
          }
        }
      }
    }
  }
  std::erase_if(cases, [&](const ExchangeCase& c) { return c.smem_bytes() > smem_bytes || c.rows() > 2; });
  return cases;
}

// The constants of a kernel of fp16 states whose batch one load fetches, so in one plane. The exchange does not depend
// on the cell; with four gates any number of units has an input of whole 4-byte words.
CompileRequest exchange_request(const std::string& architecture, const ExchangeCase& c) {
  return request(
      architecture, "microbench_exchange", kExchangeSource,
      {define("HIDDEN", c.units_per_sm() * c.sms), define("BLOCKS", c.sms), define("UNITS_PER_SM", c.units_per_sm()),
       define("LINE_WORDS", c.line_words()), define("BATCH", c.batch), define("BATCH_PADDED", c.batch),
       define("PRECISION", static_cast<int>(Precision::fp16)), define("CELL", static_cast<int>(Cell::lstm)),
       define("PLANE_UNIT_BYTES", 2 * c.batch), define("ZERO_UNITS", ExchangeCase::kZeroUnits),
       define("AT_OUTBOX", c.bytes() + ExchangeCase::kZeroUnits * 2 * c.batch),
       define("EXCHANGE", static_cast<int>(ExchangeProtocol::lamport)), define("THREADS", c.threads),
       define("LOADS_IN_FLIGHT", c.loads), define("AHEAD", kEmptiedAhead), define("POLL_DELAY", c.poll_delay)});
}

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
                  define("LINE_WORDS", kLineWords), define("BATCH", 1), define("BATCH_PADDED", 1),
                  define("BATCH_GROUPS", 1), define("PRECISION", kFp16), define("CELL", kRelu),
                  define("THREADS", c.threads), define("EXCHANGE", kClusterExchange), define("AHEAD", kEmptiedAhead),
                  define("POLL_DELAY", 0), define("STORAGE", static_cast<int>(Storage::dense))});
}

u32 expected_sent(const SendCase& c, int steps) {
  const Changes last(steps);
  const auto words = static_cast<u32>(c.bytes / 4);
  const u64 shift = static_cast<u64>(words / static_cast<u32>(c.sms) + 1) * static_cast<u64>(steps) % words;
  u32 checksum = 0;
  for (u32 word = 0; word < words; ++word) {
    const u32 source = static_cast<u32>((word + shift) % words);
    checksum += last(source) * (2 * word + 1);
  }
  return checksum;
}

std::vector<SumsCase> sums_cases(const std::string& architecture, int smem_bytes) {
  std::vector<SumsCase> cases;
  if (has_clusters(architecture)) {
    for (const int sms : {2, 4}) {
      for (const int samples : {8, 16, 32, 64}) {
        for (const int threads : {128, 256, 512}) {
          cases.push_back({sms, samples, threads});
        }
      }
    }
  }
  std::erase_if(cases, [&](const SumsCase& c) { return c.smem_bytes() > smem_bytes; });
  return cases;
}

CompileRequest sums_request(const std::string& architecture, const SumsCase& c, bool exchanges) {
  return request(
      architecture, "microbench_cluster_sums", kClusterSumsSource,
      {define("SPLIT", c.sms), define("EXCHANGES", exchanges), define("THREADS", c.threads),
       define("UNITS", SumsCase::kUnits), define("SAMPLES", c.samples), define("SHARED_BYTES", c.smem_bytes())});
}

std::vector<u32> expected_sums(const SumsCase& c, bool exchanges, int steps) {
  const auto sms = static_cast<u32>(c.sms), warps = static_cast<u32>(c.threads / 32);
  std::vector<u32> checksums(sms);
  for (u32 item = 0; item < static_cast<u32>(c.items()); ++item) {
    std::vector<u32> values(sms, item);
    for (int t = 0; t < steps; ++t) {
      const std::vector<u32> before = values;
      for (u32 sm = 0; sm < sms; ++sm) {
        const u32 from = exchanges ? (sm + sms - 1) % sms : sm;
        const u32 constant = warps * (exchanges ? sms * (sms + 1) / 2 : sms * (sm + 1)) - (from + 1);
        values[sm] = (13 * (constant + before[from]) + 57) & 1023;
        checksums[sm] += values[sm] * (2 * item + 1);
      }
    }
  }
  return checksums;
}

CompileRequest barrier_request(const std::string& architecture, int kind) {
  return request(architecture, "microbench_barrier", kBarrierSource, {define("KIND", kind)});
}

u32 expected_checksum(const ExchangeCase& c, int steps) {
  const Changes last(steps / 2);
  const auto elements = static_cast<u32>(c.bytes() / 2), of_sm = static_cast<u32>(8 * c.words_per_sm());
  const auto shift = static_cast<u32>(u64{of_sm} * static_cast<u64>(steps / 2) % elements);
  u32 checksum = 0;
  for (u32 element = 0; element < elements; ++element) {
    const u32 value = last(initial_element((element + shift) % elements)) & kElementMask;
    checksum += (value << 16 * (element % 2)) * (element / 2 * 2 + 1);
  }
  return checksum;
}

}  // namespace microbench

std::vector<CompileRequest> microbench_requests(const std::string& architecture, int sm_count, int smem_bytes_per_block,
                                                std::string_view only) {
  using namespace microbench;
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
  for (const int kibibytes : kLoopKibibytes) {
    requests.push_back(instructions_request(architecture, kibibytes));
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
  for (const SendCase& c : send_cases(architecture)) {
    requests.push_back(send_request(architecture, c));
  }
  for (const SumsCase& c : sums_cases(architecture, smem_bytes_per_block)) {
    for (const bool exchanges : {true, false}) {
      requests.push_back(sums_request(architecture, c, exchanges));
    }
  }
  requests.push_back(mailbox_request(architecture));
  // Several measurements share a kernel.
  std::set<std::pair<std::string_view, std::vector<std::string>>> seen;
  std::erase_if(requests, [&](const CompileRequest& r) { return !seen.emplace(r.name, r.defines).second; });
  if (!only.empty()) {
    constexpr std::string_view kPrefix = "microbench_";
    std::vector<std::string_view> names;
    for (const CompileRequest& r : requests) {
      names.push_back(r.name.substr(kPrefix.size()));
    }
    std::erase_if(requests, [&](const CompileRequest& r) { return r.name.substr(kPrefix.size()) != only; });
    if (requests.empty()) {
      throw InputError("no microbenchmark " + in_quotes(only) + " of " + architecture + did_you_mean(only, names));
    }
  }
  return requests;
}

}  // namespace onchip
