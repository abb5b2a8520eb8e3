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
void pack_groups(DenseLayout& layout, const SparseMatrix& matrix) {
  const DenseGeometry& geometry = layout.geometry;
  constexpr std::uint32_t kFirstTwo = 0x44444444;  // places 0 and 1 of every group
  layout.metadata.assign(
      static_cast<std::size_t>(geometry.sms) * geometry.warps() * geometry.metadata_words * kWarpLanes, kFirstTwo);
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
      const std::size_t index = fragment_index(geometry, row, first_column);
      layout.value[index] = values[places[0]];
      layout.value[index + 1] = values[places[1]];
      const MetadataPlace at = metadata_place(geometry, row, first_column);
      std::uint32_t& word = layout.metadata[at.word];
      word = (word & ~(15u << at.shift)) | static_cast<std::uint32_t>(places[0] | places[1] << 2) << at.shift;
    }
  }
}

}  // namespace

DenseLayout make_layout(const DenseGeometry& geometry, const SparseMatrix& matrix, int) {
  DenseLayout layout(geometry);
  layout.order.resize(geometry.network.hidden);
  std::iota(layout.order.begin(), layout.order.end(), 0);
  const std::size_t warps = static_cast<std::size_t>(geometry.sms) * geometry.warps();
  layout.value.assign(warps * geometry.warp_tiles * kTileElements, 0.0f);
  if (geometry.storage == Storage::structured_2_4) {
    pack_groups(layout, matrix);
    return layout;
  }
  if (geometry.storage == Storage::bitmap) {
    check_bank_words(geometry, word_mask(matrix));
  }
  for (int row = 0; row < matrix.rows; ++row) {
    for (std::int64_t e = matrix.row_begin[row]; e < matrix.row_begin[row + 1]; ++e) {
      layout.value[fragment_index(geometry, row, matrix.column[e])] = matrix.value[e];
    }
  }
  return layout;
}

namespace {

// A load is of the lanes of a warp that have the word, each in a bank of its own.
Wavefronts bitmap_wavefronts(const DenseLayout& layout) {
  const DenseGeometry& geometry = layout.geometry;
  const int tiles = geometry.warp_tiles;
  Wavefronts result;
  for (int sm = 0; sm < geometry.sms; ++sm) {
    std::int64_t in_sm = 0;
    for (int i = 0; i < geometry.warps() * tiles; ++i) {
      const int tile = i % tiles;
      const bool in_shared = is_in_shared(tile, geometry.shared_tiles, tiles);
      const std::size_t of_all = static_cast<std::size_t>(sm) * geometry.warps() * tiles + i;
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

Wavefronts gather_wavefronts(const DenseLayout& layout) {
  const DenseGeometry& geometry = layout.geometry;
  if (geometry.storage == Storage::bitmap) {
    return bitmap_wavefronts(layout);
  }
  const std::int64_t of_sm =
      std::int64_t{4} * geometry.shared_tiles * geometry.warps();  // a tile's 512 bytes, without a conflict
  return {geometry.sms * of_sm, of_sm, geometry.sms * of_sm};
}

SparseMatrix unpack(const DenseLayout& layout) {
  const DenseGeometry& geometry = layout.geometry;
  SparseMatrix matrix;
  matrix.rows = geometry.network.rows();
  matrix.columns = geometry.network.hidden;
  matrix.row_begin.push_back(0);
  for (int row = 0; row < matrix.rows; ++row) {
    const bool is_structured = layout.geometry.storage == Storage::structured_2_4;
    for (int column = 0; column < matrix.columns; column += is_structured ? 4 : 1) {
      const std::size_t index = fragment_index(geometry, row, column);
      const auto take = [&](int at, float value) {
        if (value != 0.0f) {
          matrix.column.push_back(at);
          matrix.value.push_back(value);
        }
      };
      if (is_structured) {
        const MetadataPlace at = metadata_place(geometry, row, column);
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

std::vector<std::int32_t> row_places(const DenseLayout& layout) {
  const Recurrent& network = layout.geometry.network;
  std::vector<std::int32_t> places(network.rows());
  for (int row = 0; row < network.rows(); ++row) {
    places[row] = layout.order[row % network.hidden] * layout.geometry.gates + row / network.hidden;
  }
  return places;
}

}  // namespace onchip
