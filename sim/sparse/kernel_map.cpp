// SPDX-License-Identifier: Apache-2.0
#include "sim/sparse/kernel_map.hpp"

#include <algorithm>

namespace onchip {
namespace {

std::uint64_t whole_words(std::int64_t bytes) {
  return static_cast<std::uint64_t>((bytes + 15) / 16 * 16);
}

}  // namespace

KernelMap::KernelMap(const Network& network, const Plan& plan)
    : gates(info(network.cell).gates),
      element_bytes(info(network.precision).bytes),
      units_per_sm(onchip::units_per_sm(network, plan)),
      plane_unit_bytes(onchip::plane_unit_bytes(network, plan)),
      planes(onchip::planes(network, plan)),
      plane_samples(plan.batch_padded / planes),
      pass_samples(plan.pass_planes * plane_samples),
      tile_height(onchip::tile_height(network, plan)),
      tiles(onchip::tiles(network, plan)),
      passes(planes / plan.pass_planes),
      values(plan.tile_rows * pass_samples),
      outputs(std::max(1, values / plan.lanes_per_row)),
      plane_words(static_cast<std::int64_t>(state_units(network, plan)) * plane_unit_bytes / 16),
      state_words(planes * plane_words),
      outbox_plane_words(units_per_sm * plane_unit_bytes / 16),
      outbox_words(planes * outbox_plane_words),
      input_pieces(units_per_sm * gates * element_bytes / 4),
      unit_words((plane_unit_bytes + 3) / 4),
      half2_sums(state_type(network.precision) == Precision::fp16 && plan.promote_every > 1),
      chunk_slots(onchip::chunk_slots(network, plan)),
      chunk_words(onchip::chunk_words(network, plan)),
      chunk_bytes(onchip::chunk_bytes(network, plan)),
      plane_bytes(static_cast<std::uint64_t>(state_units(network, plan) + zero_units(network, plan)) *
                  static_cast<std::uint64_t>(plane_unit_bytes)),
      zero_bytes_(static_cast<std::uint64_t>(zero_units(network, plan)) *
                  static_cast<std::uint64_t>(plane_unit_bytes)) {
  const bool carries = gates > 1;
  outbox_at = static_cast<std::uint64_t>(planes) * plane_bytes;
  input_at = outbox_at + 16 * static_cast<std::uint64_t>(outbox_words);
  carry_at = input_at + 2 * whole_words(4ll * network.batch * input_pieces);
  lengths_at = carry_at + (carries ? whole_words(4ll * units_per_sm * plan.batch_padded) : 0);
  gates_at = lengths_at + (carries ? whole_words(4ll * plan.batch_padded) : 0);
  bias_at = gates_at + (carries ? whole_words(4ll * units_per_sm) : 0);
  scale_at = bias_at + (network.cell == Cell::gru ? whole_words(4ll * units_per_sm) : 0);
  tails_at = scale_at + (network.precision == Precision::fp8 ? whole_words(4ll * units_per_sm * gates) : 0);
  partials_at = tails_at + (plan.has_tail() ? whole_words(4ll * (plan.all_rows() + 1) * plan.warps()) : 0);
  piece_table_at = partials_at + whole_words(4ll * plan.pieces * plan.groups() * plan.batch_padded);
  chunks_at = piece_table_at + (plan.pieces > 0 ? whole_words(4ll * units_per_sm * gates) : 0) +
              (plan.exchange_warps > 0 ? whole_words(8ll * passes) : 0);
  const auto bytes = static_cast<std::uint64_t>(chunk_bytes);
  ring_at = chunks_at + bytes * static_cast<std::uint64_t>(plan.shared_chunks);
  end = ring_at + bytes * static_cast<std::uint64_t>(plan.ring_chunks * plan.warps());
}

std::uint64_t KernelMap::staged_at(std::int64_t word) const {
  return 16 * static_cast<std::uint64_t>(word) + static_cast<std::uint64_t>(word / plane_words) * zero_bytes_;
}

std::int64_t KernelMap::outbox_index(int unit, int sample) const {
  return (static_cast<std::int64_t>(sample / plane_samples) * units_per_sm + unit) * plane_samples +
         sample % plane_samples;
}

std::uint64_t KernelMap::outbox_offset(int sm, int word) const {
  const int plane = word / outbox_plane_words;
  return 16 * static_cast<std::uint64_t>(plane * plane_words + sm * static_cast<std::int64_t>(outbox_plane_words) +
                                         (word - plane * outbox_plane_words));
}

KernelTables::KernelTables(const Layout& layout, const KernelMap& map) {
  const Plan& plan = layout.plan;
  if (plan.has_tail()) {
    tails = split_tails(layout);
    for (int sm = 0; sm < plan.sms; ++sm) {
      std::uint64_t at = map.chunks_at;
      for (int warp = 0; warp < plan.warps(); ++warp) {
        first_chunk.push_back(at);
        for (int r = 0; r < plan.all_rows(); ++r) {
          at += static_cast<std::uint64_t>(tails[layout.warp_row(sm, r, warp)].shared * map.chunk_bytes);
        }
      }
    }
  }
  pieces = pieces_of_rows(layout);
  gates.resize(static_cast<std::size_t>(plan.sms * map.units_per_sm * map.gates));
  const std::vector<std::int32_t> places = row_places(layout);
  for (std::size_t row = 0; row < places.size(); ++row) {
    gates[places[row]] = static_cast<std::uint8_t>(row / static_cast<std::size_t>(layout.network.hidden));
  }
}

}  // namespace onchip
