// SPDX-License-Identifier: Apache-2.0
#include "model/dense/layout.hpp"

#include "model/banks/bank_rule.hpp"
#include "model/dense/bitmap.hpp"
#include "model/dense/fragments.hpp"
#include "model/workload/row_profile.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace onchip {
namespace {

// Of every group of four columns the values of two, in ascending order: the non-zeros and, where there are fewer, the
// first places beside them, with the value zero.
void pack_groups(Layout& layout, const SparseMatrix& matrix) {
  const Network& network = layout.network;
  const Plan& plan = layout.plan;
  constexpr std::uint32_t kFirstTwo = 0x44444444;  // places 0 and 1 of every group
  layout.metadata.assign(static_cast<std::size_t>(plan.sms) * plan.warps() * metadata_words(network, plan) * kWarpLanes,
                         kFirstTwo);
  check_two_four(RowProfile::from_matrix(matrix));
  for (int row = 0; row < matrix.rows; ++row) {
    for (std::int64_t e = matrix.row_begin[row]; e < matrix.row_begin[row + 1];) {
      const int first_column = matrix.column[e] / 4 * 4;
      std::array<float, 4> values{};
      for (; e < matrix.row_begin[row + 1] && matrix.column[e] / 4 * 4 == first_column; ++e) {
        values[matrix.column[e] - first_column] = matrix.value[e];
      }
      int places[2] = {}, taken = 0;
      for (int place = 0; place < 4; ++place) {
        if (values[place] != 0) {
          places[taken++] = place;
        }
      }
      if (taken < 2) {
        places[1] = std::max(1, places[0]);
        places[0] = 0;
      }
      const std::size_t index = fragment_index(network, plan, row, first_column);
      layout.value[index] = values[places[0]];
      layout.value[index + 1] = values[places[1]];
      const MetadataPlace at = metadata_place(network, plan, row, first_column);
      std::uint32_t& word = layout.metadata[at.word];
      word = (word & ~(15u << at.shift)) | static_cast<std::uint32_t>(places[0] | places[1] << 2) << at.shift;
    }
  }
}

}  // namespace

Layout dense_layout(const Network& network, const Plan& plan, const SparseMatrix& matrix) {
  Layout layout;
  layout.network = network;
  layout.plan = plan;
  layout.order.resize(network.hidden);
  std::iota(layout.order.begin(), layout.order.end(), 0);
  const std::size_t warps = static_cast<std::size_t>(plan.sms) * plan.warps();
  layout.value.assign(warps * warp_tiles(network, plan) * kTileElements, 0.0f);
  if (plan.storage == Storage::structured_2_4) {
    pack_groups(layout, matrix);
    return layout;
  }
  if (plan.storage == Storage::bitmap) {
    check_bank_words(network, plan, word_mask(matrix));
  }
  for (int row = 0; row < matrix.rows; ++row) {
    for (std::int64_t e = matrix.row_begin[row]; e < matrix.row_begin[row + 1]; ++e) {
      layout.value[fragment_index(network, plan, row, matrix.column[e])] = matrix.value[e];
    }
  }
  return layout;
}

namespace {

// A load is of the lanes of a warp that have the word, each in a bank of its own.
Wavefronts bitmap_wavefronts(const Layout& layout) {
  const Plan& plan = layout.plan;
  const int tiles = warp_tiles(layout.network, plan);
  Wavefronts result;
  for (int sm = 0; sm < plan.sms; ++sm) {
    std::int64_t in_sm = 0;
    for (int i = 0; i < plan.warps() * tiles; ++i) {
      const int tile = i % tiles;
      const bool in_shared = is_in_shared(tile, plan.shared_tiles, tiles);
      const std::size_t of_all = static_cast<std::size_t>(sm) * plan.warps() * tiles + i;
      for (int k = 0; in_shared && k < kLaneWords; ++k) {
        bool has_any = false;
        for (int lane = 0; lane < kWarpLanes; ++lane) {
          has_any = has_any || has_word(layout.value.data() + of_all * kTileElements, lane, k);
        }
        in_sm += has_any;
      }
    }
    result.total += in_sm;
    result.busiest_sm = std::max(result.busiest_sm, in_sm);
  }
  result.ideal = result.total;
  return result;
}

}  // namespace

Wavefronts dense_wavefronts(const Layout& layout) {
  const Plan& plan = layout.plan;
  if (plan.storage == Storage::bitmap) {
    return bitmap_wavefronts(layout);
  }
  const std::int64_t of_sm =
      std::int64_t{4} * plan.shared_tiles * plan.warps();  // a tile's 512 bytes, without a conflict
  return {plan.sms * of_sm, of_sm, plan.sms * of_sm};
}

SparseMatrix unpack_dense(const Layout& layout) {
  const Network& network = layout.network;
  SparseMatrix matrix;
  matrix.rows = network.rows();
  matrix.columns = network.hidden;
  matrix.row_begin.push_back(0);
  for (int row = 0; row < matrix.rows; ++row) {
    const bool is_structured = layout.plan.storage == Storage::structured_2_4;
    for (int column = 0; column < matrix.columns; column += is_structured ? 4 : 1) {
      const std::size_t index = fragment_index(network, layout.plan, row, column);
      const auto take = [&](int at, float value) {
        if (value != 0.0f) {
          matrix.column.push_back(at);
          matrix.value.push_back(value);
        }
      };
      if (is_structured) {
        const MetadataPlace at = metadata_place(network, layout.plan, row, column);
        const std::uint32_t places = layout.metadata[at.word] >> at.shift;
        take(column + static_cast<int>(places & 3), layout.value[index]);
        take(column + static_cast<int>(places >> 2 & 3), layout.value[index + 1]);
      } else {
        take(column, layout.value[index]);
      }
    }
    matrix.row_begin.push_back(matrix.nnz());
  }
  return matrix;
}

}  // namespace onchip
