// SPDX-License-Identifier: Apache-2.0
#include "sim/feed_forward/blocks_trace.hpp"

#include "model/base/parallel.hpp"
#include "model/feed_forward/plan/blocks_price.hpp"
#include "model/feed_forward/structure/remainder_records.hpp"
#include "sim/machine/sm.hpp"
#include "sim/machine/warp_writer.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

namespace onchip {
namespace {

constexpr int kPlaceBytes = 16;
// Counted in machine code for sm_90: a layer's addresses and the rest of its loop.
constexpr int kLayerInstructions = 26;

// Registers of matrices: where WarpWriter has copies that are under way.
constexpr int kSectorBytes = 32;                                // of L2
constexpr int kCopyRegisters = kSumRegisters - kRemainderRing;  // of the last weights, if there are so many
constexpr int kMatrixRegisters = kFirstCopyRegister, kMatrixRegisterCount = 16;

using Numbers = std::array<std::uint32_t, kBlockRows>;  // of places
static_assert(kBlockRows == kBlockColumns);

class Warp {
 public:
  Warp(const BlocksLayout& layout, const BlocksTile& tile, int warp, int ahead)
      : out_(CompilerView{.reorders = false}),
        layout_(layout),
        geometry_(layout.geometry),
        tile_(tile),
        parts_(geometry_),
        warp_(warp),
        ahead_(ahead),
        word_bytes_(std::int64_t{kPlaceBytes} * geometry_.places),
        group_bytes_(word_bytes_ * tile.words) {}

  // Records: the warp's of a layer, part after part of each block.
  void fetch(int layer, int number) {
    const std::int64_t record = record_at(layer, number);
    if (is_copied()) {
      copy(slot_at(number), static_cast<std::int64_t>(geometry_.record_bytes()), copy_register(number));
      return;
    }
    for (int t = 0; t < geometry_.part_tiles(); ++t) {
      load(parts_.place_bytes, input_register(number, t), inputs_at(record, t), kBlockColumns, 1);
      if (t < geometry_.lane_vectors()) {
        load(16, slot_register(number, 4 * t), record + 16 * kWarpLanes * t, kWarpLanes, 1);
      }
    }
    load(8, bias_register(number), record + parts_.biases, kBlockRows / 2, 4);
    load(parts_.place_bytes, destination_register(number), record + parts_.destinations, kBlockRows, 1);
    if (geometry_.remainder) {
      load(4, kNoRegister, record + parts_.remainder, kSectorBytes / 4, 1);
    }
  }

  void begin_remainder() {
    if (geometry_.remainder) {
      for (int i = 0; i < kRemainderRing; ++i) {
        copy_record(i);
      }
    }
  }

  // `buffer` has the inputs. The last blocks fetch from layer `next`.
  void run_layer(int layer, int next, int buffer) {
    out_.fill(kLayerInstructions);
    record_ =
        geometry_.remainder ? layout_.remainder_begin[static_cast<std::size_t>(layer) * geometry_.warps + warp_] : 0;
    const std::int64_t source = buffer_at(buffer), target = buffer_at(tile_.in_place ? buffer : 1 - buffer);
    for (int b = 0; b < geometry_.warp_blocks; ++b) {
      std::vector<int> sums;
      const int last = last_record(b);
      const auto fetch_behind = [&](int record) {
        const int ahead = record + ahead_, records = geometry_.records();
        fetch(ahead < records ? layer : next, ahead % records);
      };
      for (int g = 0; g < tile_.groups; ++g) {
        sums.push_back(out_.temporary());
      }
      for (int record = b * geometry_.parts; record <= last; ++record) {
        multiply(layer, record, source, record == b * geometry_.parts, sums);
        if (record < last) {
          fetch_behind(record);
        }
      }
      add_remainder(layer, last, source, sums);
      const int bias = out_.fp32(bias_register(last));
      out_.fp32(bias_register(last));
      out_.operate(tile_.in_place ? Operation::integer : Operation::fp32, destination_register(last));
      fetch_behind(last);
      const std::vector<int> words = outputs(sums, bias);
      if (!tile_.in_place) {
        store(layer, last, target, words);
      }
    }
    if (tile_.in_place) {
      out_.barrier();
      for (int b = 0; b < geometry_.warp_blocks; ++b) {
        out_.fp32(out_.integer());  // the address
        store(layer, last_record(b), target, std::vector<int>(static_cast<std::size_t>(tile_.groups), kNoRegister));
      }
    }
    out_.barrier();
    out_.branch();
  }

  WarpTrace take() { return out_.take(); }

 private:
  std::int64_t buffer_at(int buffer) const { return buffer * group_bytes_ * tile_.groups; }
  int last_record(int block) const { return (block + 1) * geometry_.parts - 1; }
  std::int64_t record_at(int layer, int number) const {
    const std::size_t of_layer = static_cast<std::size_t>(warp_) * geometry_.records() + number;
    return static_cast<std::int64_t>(geometry_.layer_bytes() * layer + geometry_.record_bytes() * of_layer);
  }
  std::int64_t inputs_at(std::int64_t record, int tile) const {
    return record + parts_.inputs + std::int64_t{tile} * parts_.place_bytes * kBlockColumns;
  }
  Numbers read(std::int64_t at) const {
    Numbers numbers{};
    for (int i = 0; i < kBlockRows; ++i) {
      std::memcpy(&numbers[i], layout_.records.data() + at + i * parts_.place_bytes, parts_.place_bytes);
    }
    return numbers;
  }

  // Of a slot of weights; a number of registers that does not fit is as if they were shared.
  int slot_register(int record, int i) const {
    return WarpWriter::sum(record % ahead_ * (weight_registers() + geometry_.part_tiles() + 3) + i);
  }
  int weight_registers() const { return 4 * geometry_.lane_vectors(); }
  int input_register(int record, int tile) const { return slot_register(record, weight_registers() + tile); }
  int bias_register(int record) const { return input_register(record, geometry_.part_tiles()); }
  int destination_register(int record) const { return input_register(record, geometry_.part_tiles() + 2); }

  void load(int width, int destination, std::int64_t at, int lanes, int apart) {
    out_.access(Operation::global_load, width, destination, kNoRegister, [&](int lane) {
      const bool is_active = lane % apart == 0 && lane / apart < lanes;
      return is_active ? at + lane / apart * width : -1;
    });
  }

  // Matrices of one instruction: of both words of a group, or of one word of two groups, or, at the end, of one.
  struct Matrices {
    int group, count;  // 8-row matrices
  };
  std::vector<Matrices> matrices() const {
    std::vector<Matrices> all;
    for (int g = 0; g < tile_.groups; g += tile_.words == 2 ? 1 : 2) {
      all.push_back({g, tile_.words == 2 || g + 1 < tile_.groups ? 4 : 2});
    }
    return all;
  }
  std::int64_t address(std::int64_t begin, const Matrices& of, int lane, const Numbers& places) const {
    const std::int64_t second = tile_.words == 2 ? word_bytes_ : group_bytes_;
    return lane >= 8 * of.count ? -1
                                : begin + of.group * group_bytes_ + lane / kBlockRows * second +
                                      (places[lane % kBlockRows] & ~parts_.same) * kPlaceBytes;
  }
  int matrix_register(std::size_t of_instruction) const {
    return kMatrixRegisters + static_cast<int>(4 * of_instruction) % kMatrixRegisterCount;
  }

  // Registers of mma's A, the first and the last: as loaded, expanded, or always the same.
  std::pair<int, int> fragment(int record, int tile) {
    if (geometry_.weight_bytes == 0) {
      return {kNoRegister, kNoRegister};
    }
    if (geometry_.weight_bytes == 2) {
      return {slot_register(record, 4 * tile), slot_register(record, 4 * tile) + 3};
    }
    int expanded = kNoRegister;
    for (int i = 0; i < 4; ++i) {
      expanded = out_.conversion(slot_register(record, 2 * tile + i / 2));
    }
    return {expanded, expanded};
  }

  // A record without weights, from its slot.
  void take(int record) {
    const std::int64_t slot = slot_at(record);
    const int copied = out_.integers(1, copy_register(record));
    const auto read = [&](int width, int destination, std::int64_t at, int apart, int lanes) {
      out_.access(Operation::shared_load, width, destination, copied,
                  [&](int lane) { return at + std::int64_t{lane / apart % lanes} * width; });
    };
    for (int t = 0; t < geometry_.part_tiles(); ++t) {
      read(parts_.place_bytes, input_register(record, t), slot + inputs_at(0, t), 1, kBlockColumns);
    }
    read(8, bias_register(record), slot + parts_.biases, 4, kBlockRows / 2);
    read(parts_.place_bytes, destination_register(record), slot + parts_.destinations, 1, kBlockRows);
    out_.fill(4);
  }

  // sums: their registers, by group; they begin with the first record of a block.
  void multiply(int layer, int record, std::int64_t source, bool begins, const std::vector<int>& sums) {
    const std::vector<Matrices> all = matrices();
    if (is_copied()) {
      take(record);
    }
    for (int t = 0; t < geometry_.part_tiles(); ++t) {
      const Numbers places = read(inputs_at(record_at(layer, record), t));
      const bool is_same = (places[0] & parts_.same) != 0;
      const int condition = out_.integers(2, input_register(record, t));
      int at = condition;
      for (int i = 0; i < 3; ++i) {
        at = out_.fp32(at);
      }
      out_.operate(Operation::other);  // the warp together
      for (std::size_t m = 0; m < all.size(); ++m) {
        out_.access(
            Operation::matrix_load, 16, matrix_register(m), at,
            [&](int lane) { return is_same ? -1 : address(source, all[m], lane, places); }, /*anyway=*/true);
      }
      out_.operate(Operation::other);
      const auto [first, last] = fragment(record, t);
      for (int word = 0; word < tile_.words; ++word) {
        for (int g = 0; g < tile_.groups; ++g) {
          const bool is_first = begins && t == 0 && word == 0;
          out_.operate(Operation::tensor, sums[g],
                       {is_first ? kNoRegister : sums[g], first, last,
                        matrix_register(static_cast<std::size_t>(tile_.words == 2 ? g : g / 2))});
        }
      }
    }
  }

  // Behind all features: where a record of the remainder's ring lies, or a record without weights.
  std::int64_t ring_at(std::int64_t record) const {
    return 2 * group_bytes_ * tile_.groups + (warp_ * kRemainderRing + record % kRemainderRing) * record_bytes();
  }
  std::int64_t slot_at(int record) const {
    return 2 * group_bytes_ * tile_.groups +
           (std::int64_t{warp_} * ahead_ + record % ahead_) * static_cast<std::int64_t>(geometry_.record_bytes());
  }
  bool is_copied() const { return geometry_.weight_bytes == 0; }
  int copy_register(int record) const { return kCopyRegisters + record % ahead_; }
  std::int64_t record_bytes() const { return static_cast<std::int64_t>(remainder_record_bytes(parts_.place_bytes)); }
  void copy_record(std::int64_t record) {
    copy(ring_at(record), record_bytes(), kCopyRegisters + static_cast<int>(record % kRemainderRing));
  }
  void copy(std::int64_t to, std::int64_t bytes, int destination) {
    out_.access(Operation::async_copy, kPlaceBytes, destination, kNoRegister, [&](int lane) {
      const std::int64_t of_lane = std::int64_t{kPlaceBytes} * lane;
      return of_lane < bytes ? to + of_lane : -1;
    });
    out_.fill(4);
  }

  void add_remainder(int layer, int number, std::int64_t source, const std::vector<int>& sums) {
    const std::uint32_t count = remainder_count(geometry_, layout_.records.data() + record_at(layer, number));
    for (std::uint32_t i = 0; i < count; ++i, ++taken_, ++record_) {
      const std::vector<OutsideWeight> inputs =
          read_remainder_record(layout_.remainder.data() + record_ * record_bytes(), parts_.place_bytes);
      const int copied = out_.integers(1, kCopyRegisters + static_cast<int>(taken_ % kRemainderRing));
      const std::int64_t ring = ring_at(taken_), rows_at = ring + 2 * kRecordWeights;
      const int halves = out_.load(16, copied, [&](int lane) { return ring + lane % 4 * 16; });
      int rows = out_.load(4, copied, [&](int lane) { return rows_at + lane % 4 * 4; });
      const int places = out_.load(parts_.place_bytes, copied, [&](int lane) {
        return rows_at + kRecordWeights / 2 + lane * std::int64_t{parts_.place_bytes};
      });
      copy_record(taken_ + kRemainderRing);
      const int at = out_.fp32(places);
      rows = out_.integers(3, rows);
      int tile = kNoRegister;
      for (int half = 0; half < kRecordWeights / 4; ++half) {
        tile = out_.integer(out_.integer(rows), halves + half / 2);
      }
      for (int g = 0; g < tile_.groups; ++g) {
        for (int word = 0; word < tile_.words; ++word) {
          const int matrices = matrix_register(static_cast<std::size_t>(g + word));
          out_.access(Operation::matrix_load, 16, matrices, at, [&](int lane) {
            return source + g * group_bytes_ + word * word_bytes_ + std::int64_t{kPlaceBytes} * inputs[lane].place;
          });
          for (int t = 0; t < 2; ++t) {
            out_.operate(Operation::tensor, sums[g], {sums[g], tile, matrices + 2 * t, kNoRegister});
          }
        }
      }
      out_.branch();
    }
  }

  // One register of each group's words. Stage by stage: four values of each group.
  std::vector<int> outputs(const std::vector<int>& sums, int bias) {
    constexpr int kValues = 4;
    std::vector<int> values;
    for (const int sum : sums) {
      for (int i = 0; i < kValues; ++i) {
        values.push_back(out_.fp32(sum, bias));
      }
    }
    const auto each = [&](Operation operation) {
      for (int& value : values) {
        value = out_.operate(operation, value);
      }
    };
    const auto packed = [&] {
      std::vector<int> pairs;
      for (std::size_t i = 0; i < values.size(); i += 2) {
        pairs.push_back(out_.conversion(values[i], values[i + 1]));
      }
      return pairs;
    };
    each(Operation::integer);  // the clip
    if (tile_.words == 1) {
      each(Operation::integer);  // rounds up
    }
    std::vector<int> pairs = packed();
    if (tile_.words == 2) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = out_.fp32(values[i], out_.conversion(pairs[i / 2]));
      }
      pairs = packed();
    }
    std::vector<int> words;
    for (std::size_t g = 0; g < sums.size(); ++g) {
      words.push_back(pairs[2 * g + 1]);
    }
    return words;
  }

  void store(int layer, int record, std::int64_t target, const std::vector<int>& words) {
    const Numbers places = read(record_at(layer, record) + parts_.destinations);
    for (const Matrices& of : matrices()) {
      const int last = of.group + (tile_.words == 1 && of.count == 4 ? 1 : 0);
      out_.access(Operation::shared_store, 16, kNoRegister, words[static_cast<std::size_t>(last)],
                  [&](int lane) { return address(target, of, lane, places); });
    }
  }

  WarpWriter out_;
  const BlocksLayout& layout_;
  const BlocksGeometry& geometry_;
  BlocksTile tile_;
  RecordParts parts_;
  int warp_, ahead_;
  std::int64_t record_ = 0, taken_ = 0;  // of the remainder: the next one, and how many were taken from the ring
  std::int64_t word_bytes_, group_bytes_;
};

// ---- counts ---------------------------------------------------------------------------------------------------------

// Layers of a trace, by its barriers.
void count(const BlockTrace& block, int barriers_of_a_layer, const BankGeometry& geometry,
           std::span<LayerCounts> layers) {
  BankModel banks(geometry);
  for (const WarpTrace& warp : block.warps) {
    std::size_t barriers = 0;
    for (const Instruction& instruction : warp.instructions) {
      const std::size_t layer = barriers / static_cast<std::size_t>(barriers_of_a_layer);
      if (layer == layers.size()) {
        break;
      }
      LayerCounts& of = layers[layer];
      ++of.instructions;
      barriers += instruction.operation == Operation::barrier ? 1 : 0;
      if (instruction.operation == Operation::global_load || instruction.operation == Operation::async_copy) {
        of.l2_bytes += std::int64_t{instruction.width} * std::popcount(instruction.mask);
      } else if (instruction.operation == Operation::shared_store) {
        of.writes += banks.count(shared_access(warp, instruction));
      } else if (instruction.operation == Operation::matrix_load) {
        of.reads += banks.count(shared_access(warp, instruction));
      }
    }
  }
}

}  // namespace

BlocksTrace::BlocksTrace(const BlocksLayout& layout, const BlocksTile& tile, std::vector<int> layers, int ahead)
    : layout_(layout), tile_(tile), layers_(std::move(layers)), ahead_(ahead) {}

BlockTrace BlocksTrace::block(int) const {
  BlockTrace block;
  for (int w = 0; w < layout_.geometry.warps; ++w) {
    Warp warp(layout_, tile_, w, ahead_);
    for (int b = 0; b < ahead_; ++b) {
      warp.fetch(layers_.front(), b);
    }
    warp.begin_remainder();
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      warp.run_layer(layers_[i], layers_[(i + 1) % layers_.size()], static_cast<int>(i % 2) * (tile_.in_place ? 0 : 1));
    }
    block.warps.push_back(warp.take());
    block.loop_instructions =
        std::max(block.loop_instructions,
                 static_cast<double>(block.warps.back().instructions.size()) / static_cast<double>(layers_.size()));
  }
  return block;
}

std::vector<LayerCounts> count_blocks(const Chip& chip, const BlocksLayout& layout, const BlocksTile& tile,
                                      int first_layer, int end_layer, int threads) {
  std::vector<LayerCounts> result(static_cast<std::size_t>(end_layer - first_layer));
  const int ahead = weights_ahead(chip, layout.geometry, tile);
  // A few layers at a time, and one before them, which is only there to ask for their weights.
  constexpr int kLayersAtOnce = 8;
  const int chunks = (end_layer - first_layer + kLayersAtOnce - 1) / kLayersAtOnce;
  parallel_for(chunks, threads, [&](int chunk) {
    const int first = first_layer + chunk * kLayersAtOnce, end = std::min(end_layer, first + kLayersAtOnce);
    std::vector<int> layers(static_cast<std::size_t>(end - first) + 1);
    std::iota(layers.begin(), layers.end(), first - 1);
    layers[0] = std::max(layers[0], 0);
    std::vector<LayerCounts> runs(layers.size());
    const BlocksTrace trace(layout, tile, std::move(layers), ahead);
    count(trace.block(0), trace.barriers_of_a_layer(), bank_geometry(chip), runs);
    std::copy(runs.begin() + 1, runs.end(), result.begin() + (first - first_layer));
  });
  return result;
}

}  // namespace onchip
