// SPDX-License-Identifier: Apache-2.0
#include "kernels/training/sparse_layout.hpp"

#include "kernels/runtime/defines.hpp"
#include "kernels/runtime/sources.hpp"
#include "kernels/sparse/program.hpp"
#include "model/base/numeric.hpp"
#include "model/base/parallel.hpp"
#include "model/sparse/layout/layout.hpp"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <utility>

namespace onchip {
namespace {

constexpr int kUnitGates = 4;

// Of an SM: its rows of W, or its columns' part of its cluster's rows of W transposed. An element's value is its number
// in `sources`, from 1 on.
struct Block {
  SparseMatrix matrix;
  std::vector<std::int32_t> sources;  // where it is in W
};

void add(Block& block, std::int32_t column, std::int64_t source) {
  block.matrix.column.push_back(column);
  block.sources.push_back(static_cast<std::int32_t>(source));
  block.matrix.value.push_back(static_cast<float>(block.sources.size()));
}

std::vector<Block> blocks_of(const TrainingSize& size, const SparseMatrix& w, int units, int blocks, int split,
                             bool is_backward) {
  const std::int64_t hidden = size.hidden;
  const int columns = units * blocks / split * (is_backward ? kUnitGates : 1);
  std::vector<Block> all(static_cast<std::size_t>(blocks));
  std::vector<std::vector<std::pair<std::int32_t, std::int64_t>>> of_unit;  // transposed: column, source
  if (is_backward) {
    of_unit.resize(static_cast<std::size_t>(hidden));
    for (int from = 0; from < size.hidden; ++from) {
      for (int gate = 0; gate < kUnitGates; ++gate) {
        const std::int64_t row = gate * hidden + from;
        for (std::int64_t e = w.row_begin[row]; e < w.row_begin[row + 1]; ++e) {
          of_unit[w.column[e]].emplace_back(from * kUnitGates + gate, row * hidden + w.column[e]);
        }
      }
    }
  }
  for (int sm = 0; sm < blocks; ++sm) {
    Block& block = all[static_cast<std::size_t>(sm)];
    const int rows = is_backward ? units * split : units * kUnitGates;
    block.matrix.rows = rows;
    block.matrix.columns = columns;
    block.matrix.row_begin.push_back(0);
    for (int row = 0; row < rows; ++row) {
      const int unit = is_backward ? sm / split * rows + row : sm * units + row / kUnitGates;
      if (unit < size.hidden && is_backward) {
        const std::int32_t first = sm % split * columns;
        for (const auto& [column, source] : of_unit[unit]) {
          if (column >= first && column < first + columns) {
            add(block, column - first, source);
          }
        }
      } else if (unit < size.hidden) {
        const std::int64_t of_w = row % kUnitGates * hidden + unit;
        for (std::int64_t e = w.row_begin[of_w]; e < w.row_begin[of_w + 1]; ++e) {
          add(block, w.column[e], of_w * hidden + w.column[e]);
        }
      }
      block.matrix.row_begin.push_back(block.matrix.nnz());
    }
  }
  return all;
}

}  // namespace

int weight_scale(Precision precision, bool is_backward) {
  constexpr int kOfSmallGradients = 64;
  return is_backward && precision == Precision::fp16 ? kOfSmallGradients : 1;
}

CompileRequest compile_request(const SparseRecurrence& recurrence, const TrainingSize& size, Precision precision,
                               bool is_backward, const std::string& architecture) {
  const SparseGeometry& geometry = recurrence.geometry;
  CompileRequest request{"sparse_training", kSparseRecurrenceSource, architecture, {}};
  define_gather(request.defines, geometry);
  // As those of plans with producer warps, passes come one after another.
  std::ranges::replace(request.defines, "ONCHIP_PRODUCER_WARPS=0", "ONCHIP_PRODUCER_WARPS=1");
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, std::int64_t>>{
           {"precision", static_cast<int>(precision)},
           {"backward", is_backward},
           {"hidden", size.hidden},
           {"batch", size.batch},
           {"blocks", recurrence.blocks},
           {"turns", recurrence.turns},
           {"samples", recurrence.plan.samples},
           {"batch_padded", geometry.batch_padded},
           {"split", recurrence.plan.split},
           {"units", recurrence.units},
           {"ahead", recurrence.plan.ahead},
           {"weight_scale", weight_scale(precision, is_backward)},
           {"buffers", recurrence.plan.buffers},
           {"chunks_from", geometry.bytes_without_weights()},
           {"shared_bytes", static_cast<std::int64_t>(recurrence.shared_bytes)}}) {
    define(request.defines, name, value);
  }
  return request;
}

SparseWords lay_out(const SparseRecurrence& recurrence, const TrainingSize& size, const SparseMatrix& w_hh,
                    bool is_backward, int threads) {
  const SparseGeometry& geometry = recurrence.geometry;
  const std::vector<Block> blocks =
      blocks_of(size, w_hh, recurrence.units, recurrence.blocks, recurrence.plan.split, is_backward);
  std::vector<Encoded> words(blocks.size());
  std::vector<std::vector<std::int32_t>> sources(blocks.size()), rows(blocks.size());
  parallel_for(recurrence.blocks, threads, [&](int sm) {
    const Block& block = blocks[static_cast<std::size_t>(sm)];
    SparseLayout layout = make_block_layout(geometry, block.matrix);
    // An element's number goes where its value would, in two digits that fp16 has; padding has 0.
    constexpr int kDigits = 2048;
    const std::vector<float> numbers = std::move(layout.value);
    const auto encoded = [&](auto digit) {
      layout.value.resize(numbers.size());
      std::ranges::transform(numbers, layout.value.begin(),
                             [&](float number) { return static_cast<float>(digit(static_cast<int>(number))); });
      return encode(layout);
    };
    Encoded& of_block = words[static_cast<std::size_t>(sm)];
    of_block = encoded([](int) { return 0; });
    const Encoded low = encoded([](int number) { return number % kDigits; });
    const Encoded high = encoded([](int number) { return number / kDigits; });
    std::vector<std::int32_t>& of_halves = sources[static_cast<std::size_t>(sm)];
    for (std::size_t i = 0; i < low.weights.size(); ++i) {
      for (const int shift : {0, 16}) {
        const auto digit = [&](const Encoded& encoding) {
          const std::uint32_t bits = (encoding.weights[i] ^ of_block.weights[i]) >> shift & 0xffff;
          return static_cast<int>(from_bits(Precision::fp16, bits));
        };
        const int number = digit(low) + kDigits * digit(high);
        of_halves.push_back(number == 0 ? -1 : block.sources[static_cast<std::size_t>(number) - 1]);
      }
    }
    rows[static_cast<std::size_t>(sm)] = std::move(layout.rows);
  });
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  SparseWords all;
  for (std::size_t sm = 0; sm < blocks.size(); ++sm) {
    append(all.words, words[sm].weights);
    append(all.sources, sources[sm]);
    append(all.tables, words[sm].overflow);
    append(all.tables, rows[sm]);
  }
  return all;
}

}  // namespace onchip
