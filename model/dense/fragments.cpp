// SPDX-License-Identifier: Apache-2.0
#include "model/dense/fragments.hpp"

namespace onchip {
namespace {

// Of a weight: its tile among those of all warps, and its row in it, as rows of the SM go.
struct TilePlace {
  std::size_t warp;  // of all SMs
  int tile;          // of the warp; dense: of the first half of the span
  int g, upper_row;
};

TilePlace tile_place(const DenseGeometry& geometry, int row, int column) {
  const int units = geometry.units_per_sm;
  const int gate = row / geometry.network.hidden, unit = row % geometry.network.hidden;
  const int sm = unit / units;
  const int row_of_sm = unit % units * geometry.gates + gate;
  const int span = column / kSpanUnits;
  const int warp = span / geometry.warp_spans, span_of_warp = span % geometry.warp_spans;
  const int tile = span_of_warp * geometry.span_tiles * geometry.row_tiles + row_of_sm / 16;
  return {static_cast<std::size_t>(sm) * geometry.warps() + warp, tile, row_of_sm % 16 / 2, row_of_sm % 2};
}

}  // namespace

std::size_t fragment_index(const DenseGeometry& geometry, int row, int column) {
  const TilePlace place = tile_place(geometry, row, column);
  const int in_span = column % kSpanUnits;
  int tile = place.tile, c = 0, upper_columns = 0, last = 0;
  if (geometry.storage == Storage::structured_2_4) {
    const int group = in_span / 4 % 4 * 2 + in_span / 16;  // of the product
    c = group % 4;
    upper_columns = group / 4;
  } else {
    tile += in_span % 8 / 4 * geometry.row_tiles;
    c = in_span / 8;
    upper_columns = in_span % 4 / 2;
    last = in_span % 2;
  }
  const int lane = 4 * place.g + c;
  const int element = (2 * upper_columns + place.upper_row) * 2 + last;
  return (place.warp * geometry.warp_tiles + tile) * kTileElements + static_cast<std::size_t>(lane) * 8 + element;
}

MetadataPlace metadata_place(const DenseGeometry& geometry, int row, int column) {
  const TilePlace place = tile_place(geometry, row, column);
  const int in_span = column % kSpanUnits;
  const int group = in_span / 4 % 4 * 2 + in_span / 16;
  const int lane = 4 * place.g + 2 * (place.tile % 2) + group / 4;
  return {(place.warp * geometry.metadata_words + place.tile / 2) * 32 + lane, 16 * place.upper_row + 4 * (group % 4)};
}

}  // namespace onchip
