// SPDX-License-Identifier: Apache-2.0
// MLP attention with random data, by any executor, compared with the reference in double precision.
#pragma once

#include "kernels/attention/attention.hpp"
#include "model/base/numeric.hpp"
#include "model/base/random.hpp"
#include "tests/catch.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace onchip {

struct AttentionCase {
  int batch, queries, keys, hidden;
  Precision precision = Precision::fp16;
  double most = 2;        // of a query's or a key's elements
  bool wants_all = true;  // or the gradient of queries only
  int bytes_aside = 0;    // from the beginning of aligned memory to queries and keys
  int least_blocks = 1;   // of forward
  double far_tile = 1;    // how many times as large elements the keys 32 to 63 have
};

struct AttentionValues {
  std::vector<double> q, k, v, scores, d, dq, dk, dv;
};

// Inputs that the type has, and what follows from them.
inline AttentionValues random_attention(const AttentionCase& c, std::uint64_t seed) {
  Random random(seed, 11);
  const auto drawn = [&](std::size_t count, double most) {
    std::vector<double> all(count);
    for (double& value : all) {
      value = round_to(c.precision, static_cast<float>(most * (2 * random.unit() - 1)));
    }
    return all;
  };
  const auto batch = static_cast<std::size_t>(c.batch), queries = static_cast<std::size_t>(c.queries),
             keys = static_cast<std::size_t>(c.keys), hidden = static_cast<std::size_t>(c.hidden);
  AttentionValues a{.q = drawn(batch * queries * hidden, c.most),
                    .k = drawn(batch * keys * hidden, c.most),
                    .v = drawn(hidden, 1),
                    .scores = std::vector<double>(batch * queries * keys),
                    .d = drawn(batch * queries * keys, 1),
                    .dq = std::vector<double>(batch * queries * hidden),
                    .dk = std::vector<double>(batch * keys * hidden),
                    .dv = std::vector<double>(hidden)};
  for (std::size_t i = 0; i < a.k.size(); ++i) {
    const bool is_of_tile = i / hidden % keys / kAttentionKeys == 1;
    a.k[i] = is_of_tile ? round_to(c.precision, static_cast<float>(c.far_tile * a.k[i])) : a.k[i];
  }
  for (std::size_t pair = 0; pair < a.scores.size(); ++pair) {
    const std::size_t query = pair / keys, key = query / queries * keys + pair % keys;
    for (std::size_t h = 0; h < hidden; ++h) {
      const double y = std::tanh(a.q[query * hidden + h] + a.k[key * hidden + h]);
      a.scores[pair] += a.v[h] * y;
      const double g = a.d[pair] * a.v[h] * (1 - y * y);
      a.dq[query * hidden + h] += g;
      a.dk[key * hidden + h] += g;
      a.dv[h] += a.d[pair] * y;
    }
  }
  return a;
}

enum AttentionArray { kQ, kK, kV, kScores, kD, kDq, kDk, kDv, kPartials };

inline KernelProgram attention_program(const AttentionCase& c, const std::string& architecture) {
  const auto given = [c](ArrayPlaces at) {
    return AttentionArguments{.queries = at[kQ] + c.bytes_aside,
                              .keys = at[kK] + c.bytes_aside,
                              .v = at[kV],
                              .scores = at[kScores],
                              .score_gradients = at[kD],
                              .query_gradients = at[kDq],
                              .key_gradients = c.wants_all ? at[kDk] : nullptr,
                              .v_gradient = c.wants_all ? at[kDv] : nullptr,
                              .partials = array_at<float>(at, kPartials),
                              .batch = c.batch,
                              .query_count = c.queries,
                              .key_count = c.keys,
                              .hidden = c.hidden,
                              .query_groups = 0,
                              .splits = 0,
                              .has_whole_words = 0};
  };
  KernelProgram program{.kernels = attention_kernels(c.precision, architecture)};
  const auto bytes = static_cast<std::size_t>(info(c.precision).bytes);
  const std::size_t of_queries = bytes * static_cast<std::size_t>(c.batch) * c.queries * c.hidden,
                    of_keys = bytes * static_cast<std::size_t>(c.batch) * c.keys * c.hidden,
                    of_v = bytes * static_cast<std::size_t>(c.hidden),
                    of_pairs = bytes * static_cast<std::size_t>(c.batch) * c.queries * c.keys;
  const auto aside = static_cast<std::size_t>(c.bytes_aside);
  for (const std::size_t of :
       {of_queries + aside, of_keys + aside, of_v, of_pairs, of_pairs, of_queries, of_keys, of_v}) {
    program.add_array(of);
  }
  program.add_array(attention_workspace_bytes(given(std::vector<std::byte*>(kPartials + 1))));
  program.nodes = [c, given](ArrayPlaces at) {
    std::vector<ProgramNode> nodes = attention_nodes(given(at), c.precision, AttentionPass::forward, c.least_blocks);
    for (ProgramNode& node : attention_nodes(given(at), c.precision, AttentionPass::backward)) {
      nodes.push_back(std::move(node));
    }
    return nodes;
  };
  return program;
}

// Runs both passes; of each output the bits. What is not written is NaN.
inline std::vector<std::vector<std::byte>> run_attention(ProgramExecutor& executor, const AttentionCase& c,
                                                         const AttentionValues& values) {
  const auto bytes = static_cast<std::size_t>(info(c.precision).bytes);
  const auto write = [&](int array, const std::vector<double>& from, int aside = 0) {
    std::vector<std::byte> to(static_cast<std::size_t>(aside) + from.size() * bytes);
    for (std::size_t i = 0; i < from.size(); ++i) {
      const std::uint32_t bits = to_bits(c.precision, static_cast<float>(from[i]));
      std::memcpy(&to[static_cast<std::size_t>(aside) + i * bytes], &bits, bytes);  // little-endian
    }
    executor.write(array, to);
  };
  write(kQ, values.q, c.bytes_aside);
  write(kK, values.k, c.bytes_aside);
  write(kV, values.v);
  write(kD, values.d);
  for (const int array : {kScores, kDq, kDk, kDv, kPartials}) {
    executor.write(array, std::vector<std::byte>(executor.program().arrays[array].bytes, std::byte{0xff}));
  }
  executor.run();
  std::vector<std::vector<std::byte>> found;
  for (const int array : {kScores, kDq, kDk, kDv}) {
    executor.read(array, found.emplace_back(executor.program().arrays[array].bytes));
  }
  return found;
}

// The norm of the error of scores, dq, dk and dv, relative to that of the values; NaN for what was not written.
inline std::array<double, 4> attention_errors(ProgramExecutor& executor, const AttentionCase& c,
                                              const AttentionValues& values) {
  const std::array expected{&values.scores, &values.dq, &values.dk, &values.dv};
  const auto found = run_attention(executor, c, values);
  const auto bytes = static_cast<std::size_t>(info(c.precision).bytes);
  std::array<double, 4> errors{};
  for (std::size_t of = 0; of < expected.size(); ++of) {
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < expected[of]->size(); ++i) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &found[of][i * bytes], bytes);
      const double value = (*expected[of])[i];
      error += std::pow(from_bits(c.precision, bits) - value, 2);
      norm += value * value;
    }
    errors[of] = std::sqrt(error / norm);
  }
  return errors;
}

inline double most_attention_error(Precision precision) {
  return precision == Precision::fp32 ? 1e-5 : 1.2 * info(precision).unit_roundoff;
}

template <typename Executor>
void check_attention(const AttentionCase& c, std::uint64_t seed, const std::string& architecture) {
  INFO(info(c.precision).name << ", batch " << c.batch << ", " << c.queries << " queries, " << c.keys << " keys of "
                              << c.hidden << ", up to " << c.most << ", seed " << seed);
  Executor executor(attention_program(c, architecture));
  const auto errors = attention_errors(executor, c, random_attention(c, seed));
  const double most = most_attention_error(c.precision);
  CHECK(errors[0] <= most);
  CHECK(errors[1] <= most);
  if (c.wants_all) {
    CHECK(errors[2] <= most);
    CHECK(errors[3] <= most);
  } else {
    CHECK((std::isnan(errors[2]) && std::isnan(errors[3])));
  }
}

}  // namespace onchip
