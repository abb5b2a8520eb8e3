// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/staged/price.hpp"

#include "model/banks/bank_rule.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"
#include "model/chip/occupancy.hpp"
#include "model/exchange/exchange_time.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>

namespace onchip {
namespace {

constexpr int kFloatsOfSector = 8, kFloatsOfLine = 32, kBitsOfSector = 256, kSectorBytes = 32;
constexpr int kUnrolled = 4;  // entries of a slice that a thread asks for at once (feed_forward_staged.cu)

// Distinct values of at / unit among neighbours that ascend.
std::int64_t distinct(std::span<const std::uint16_t> ascending, int unit) {
  std::int64_t count = 0;
  int last = -1;
  for (const std::uint16_t at : ascending) {
    count += at / unit != last;
    last = at / unit;
  }
  return count;
}

// ---- one layer ------------------------------------------------------------------------------------------------------

// Cycles that a block keeps each unit busy.
struct Busy {
  double unit = 0, l2 = 0, device_memory = 0, issue = 0;

  double longest() const { return std::max({unit, l2, device_memory, issue}); }
  double sum() const { return unit + l2 + device_memory + issue; }
  friend Busy operator+(const Busy& a, const Busy& b) {
    return {a.unit + b.unit, a.l2 + b.l2, a.device_memory + b.device_memory, a.issue + b.issue};
  }
};

struct Block {
  Busy staging, gathers, output;
  double latency = 0;  // cycles that nothing hides but other blocks
};

// Of a layer, or their sum: the first terms, in their order.
constexpr std::array<std::string_view, 6> kShareNames{"gathers",       "staging",      "l2",
                                                      "device_memory", "instructions", "latency"};
using Shares = std::array<double, kShareNames.size()>;

// Cycles of a block where `customers` of them are on an SM.
Shares cycles(const Block& block, int customers) {
  const Busy busy = block.staging + block.gathers + block.output;
  const std::array<double, 4> service{busy.unit, busy.l2, busy.device_memory, busy.issue};
  const double alone = block.staging.longest() + block.gathers.longest() + block.output.longest();
  const double side_by_side = busy.sum() - alone;
  std::array<double, 4> queue{}, at{};
  double cycle = 0;
  for (int n = 1; n <= customers; ++n) {
    cycle = block.latency - side_by_side;
    for (std::size_t s = 0; s < service.size(); ++s) {
      at[s] = service[s] * (1 + queue[s]);
      cycle += at[s];
    }
    cycle = std::max(cycle, n * busy.longest());
    for (std::size_t s = 0; s < service.size(); ++s) {
      queue[s] = n * at[s] / cycle;
    }
  }
  const double share = cycle / (at[0] + at[1] + at[2] + at[3] + block.latency);
  const double gathers = busy.unit > 0 ? block.gathers.unit / busy.unit : 0;
  return {share * at[0] * gathers, share * at[0] * (1 - gathers), share * at[1], share * at[2],
          share * at[3],           share * block.latency};
}

int usual_registers_of_thread(const Chip& chip, const StagedPlan& plan) {
  return std::min(max_registers_per_thread(chip, plan.block_outputs), usual_registers(plan));
}

std::string none_fits(const Chip& chip, const StagedPlan& plan, int registers) {
  return "a block of the staged plan has " + std::to_string(plan.block_outputs) + " threads of " +
         std::to_string(registers) + " registers and " + std::to_string(plan.shared_bytes()) +
         " bytes of shared memory, of which not one fits on an SM of " + chip.name;
}

class StagedPrice {
 public:
  StagedPrice(const Chip& chip, const StagedPlan& plan, int registers)
      : chip_(chip), plan_(plan), images_(plan.images), staged_(plan.staging == Staging::shared) {
    registers = registers > 0 ? registers : usual_registers_of_thread(chip, plan);
    const Occupancy fits = occupancy(chip, {plan.block_outputs, registers, plan.shared_bytes()});
    blocks_per_sm_ = fits.blocks_per_sm;
    if (blocks_per_sm_ == 0) {
      throw InputError(none_fits(chip, plan, registers));
    }
  }

  // Microseconds.
  Shares layer_us(const StagedCounts& layer, std::int64_t alive, bool is_first) const {
    const std::int64_t items = (alive + images_ - 1) / images_ * layer.blocks;
    if (items == 0) {
      return {};
    }
    const auto sms = static_cast<std::int64_t>(chip_.sm_count);
    const std::int64_t of_sm = (items + sms - 1) / sms;
    const int customers = static_cast<int>(std::min<std::int64_t>(of_sm, blocks_per_sm_));
    Shares of = cycles(block_of(layer, alive, is_first, customers), customers);
    const double us = static_cast<double>(of_sm) / customers / chip_.clock_hz * 1e6;
    std::ranges::transform(of, of.begin(), [us](double part) { return part * us; });
    return of;
  }

 private:
  // The mean of the layer's blocks.
  Block block_of(const StagedCounts& layer, std::int64_t alive, bool is_first, int customers) const {
    const CostValues& cost = chip_.cost;
    const double wavefront = chip_.lds_wavefront_cycles / layer.blocks;
    const double slot = chip_.fp32_issue_cycles / chip_.partitions / layer.blocks;
    const double l2_byte = chip_.sm_count * chip_.clock_hz / chip_.library_l2_bytes_per_second / layer.blocks;
    const double device_byte =
        chip_.sm_count * chip_.clock_hz / (chip_.dram_bytes_per_second * chip_.library_dram_share) / layer.blocks;
    // Features before and after the layer, where they do not stay in L2.
    const bool leaves_l2 =
        4.0 * static_cast<double>(alive) * (layer.inputs + layer.outputs) > chip_.l2_bytes * chip_.library_l2_share;
    const double in_bytes = images_ * (is_first ? layer.inputs / 8.0 : leaves_l2 ? 4.0 * layer.inputs : 0);
    const double out_bytes = 4.0 * images_ * layer.outputs;
    const double passes = plan_.blocking == ImageBlocking::registers ? 1 : images_;
    const Busy reads{
        .unit = wavefront * images_ *
                static_cast<double>(layer.store_wavefronts + (is_first ? layer.store_wavefronts : layer.request_lines)),
        .l2 = l2_byte * kSectorBytes * images_ * sectors(layer, is_first, customers),
        .device_memory = device_byte * in_bytes,
        .issue = slot * static_cast<double>(layer.store_wavefronts) *
                 (cost[Cost::staged_slots] + cost[Cost::staged_image_slots] * images_)};
    Block block;
    // An index and a value are a request each.
    block.gathers = {
        .unit = wavefront * (static_cast<double>(layer.gather_wavefronts) * images_ +
                             2 * passes * static_cast<double>(layer.slice_rows)),
        .l2 = l2_byte * static_cast<double>(layer.record_bytes),
        .issue = slot * static_cast<double>(layer.slice_rows) * (cost[Cost::staged_slots] * passes + 3.0 * images_)};
    (staged_ ? block.staging : block.gathers) = (staged_ ? Busy() : block.gathers) + reads;
    block.output = {.unit = wavefront * images_ * layer.outputs / kSliceLanes,
                    .l2 = l2_byte * out_bytes,
                    .device_memory = leaves_l2 ? device_byte * out_bytes : 0,
                    .issue = slot * images_ * layer.outputs / kSliceLanes * cost[Cost::staged_output_slots]};
    block.latency = latency(layer, passes) / layer.blocks;
    return block;
  }

  // Of an image, that come from L2. Gathers that are not staged find the lines of their block again as far as L1 holds
  // the images of all blocks.
  double sectors(const StagedCounts& layer, bool is_first, int customers) const {
    const auto asked = static_cast<double>(is_first ? layer.bitmap_sectors : layer.feature_sectors);
    if (staged_) {
      return asked;
    }
    const double held = std::min(1.0, chip_.smem_bytes_per_sm / (4.0 * customers * images_ * layer.inputs));
    return (1 - held) * asked +
           held * std::min(asked, layer.blocks * layer.inputs / static_cast<double>(kFloatsOfSector));
  }

  // For each chunk its map, the features and two barriers; weights, asked for by fours, where their gathers take less;
  // the block's first loads.
  double latency(const StagedCounts& layer, double passes) const {
    const double from_l2 = chip_.l2_latency_cycles;
    const double gather = staged_ ? chip_.lds_latency_cycles.value : from_l2;
    const double weights = static_cast<double>(layer.chain) * passes * (from_l2 + gather) / kUnrolled;
    const double gathers = chip_.lds_wavefront_cycles * static_cast<double>(layer.gather_wavefronts) * images_;
    const double barrier = block_barrier_cycles(chip_, plan_.block_outputs);
    return (staged_ ? static_cast<double>(layer.chunks) * (2 * from_l2 + 2 * barrier) : 0) +
           std::max(0.0, weights - gathers) + layer.blocks * from_l2;
  }

  const Chip& chip_;
  const StagedPlan& plan_;
  int images_, blocks_per_sm_ = 0;
  bool staged_;
};

}  // namespace

int usual_registers(const StagedPlan& plan) {
  return 8 * (4 + (plan.images + 3) / 4);
}

int read_wavefronts(std::span<const std::uint16_t> words) {
  std::array<std::uint16_t, kSliceLanes> sorted;
  std::copy(words.begin(), words.end(), sorted.begin());
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(words.size());
  std::sort(sorted.begin(), end);
  std::array<int, kBanks> of_bank{};
  int most = 0;
  for (auto word = sorted.begin(); word != end; ++word) {
    if (word == sorted.begin() || *word != word[-1]) {
      most = std::max(most, ++of_bank[*word % kBanks]);
    }
  }
  return most;
}

StagedCounts count(const StagedLayer& layer, const StagedPlan& plan) {
  StagedCounts counts{.inputs = layer.inputs,
                      .outputs = layer.outputs,
                      .blocks = layer.blocks(),
                      .slice_rows = layer.slice_rows(),
                      .chunks = layer.chunks(),
                      .record_bytes = layer.slice_rows() * kSliceLanes * (2 + plan.weight_bytes()) +
                                      2 * static_cast<std::int64_t>(layer.map.size())};
  const std::span<const std::uint16_t> map = layer.map, index = layer.index;
  const bool staged = plan.staging == Staging::shared;
  for (std::int64_t chunk = 0; chunk < layer.chunks(); ++chunk) {
    const auto words = map.subspan(layer.chunk_map[chunk], layer.chunk_map[chunk + 1] - layer.chunk_map[chunk]);
    for (std::size_t first = 0; first < words.size(); first += kSliceLanes) {
      const auto request = words.subspan(first, std::min<std::size_t>(kSliceLanes, words.size() - first));
      ++counts.store_wavefronts;
      counts.request_lines += distinct(request, kFloatsOfLine);
      counts.feature_sectors += distinct(request, kFloatsOfSector);
      counts.bitmap_sectors += distinct(request, kBitsOfSector);
    }
    std::uint32_t longest = 0;
    for (int warp = 0; warp < plan.warps(); ++warp) {
      const std::size_t slice = static_cast<std::size_t>(chunk) * plan.warps() + warp;
      longest = std::max(longest, layer.slice_begin[slice + 1] - layer.slice_begin[slice]);
    }
    counts.chain += longest;
  }
  for (std::size_t at = 0; at < index.size(); at += kSliceLanes) {
    const auto lanes = index.subspan(at, kSliceLanes);
    if (staged) {
      counts.gather_wavefronts += read_wavefronts(lanes);
      continue;
    }
    std::array<std::uint16_t, kSliceLanes> sorted;
    std::ranges::copy(lanes, sorted.begin());
    std::ranges::sort(sorted);
    counts.gather_wavefronts += distinct(sorted, kFloatsOfLine);
    counts.feature_sectors += distinct(sorted, kFloatsOfSector);
    counts.bitmap_sectors += distinct(sorted, kBitsOfSector);
  }
  return counts;
}

std::int64_t shared_wavefronts(const StagedPlan& plan, std::span<const StagedCounts> layers,
                               std::span<const std::int64_t> alive) {
  std::int64_t sum = 0;
  for (std::size_t l = 0; plan.staging == Staging::shared && l < layers.size(); ++l) {
    const std::int64_t tiles = (alive[l] + plan.images - 1) / plan.images;
    sum += tiles * plan.images * (layers[l].gather_wavefronts + layers[l].store_wavefronts);
  }
  return sum;
}

Price price_staged(const Chip& chip, const StagedPlan& plan, std::span<const StagedCounts> layers,
                   std::span<const std::int64_t> alive, int registers) {
  const StagedPrice price(chip, plan, registers);
  const bool on_host = plan.compaction == Compaction::host;
  Shares sum{};
  double copies_us = 0;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const Shares us = price.layer_us(layers[l], alive[l], l == 0);
    std::ranges::transform(sum, us, sum.begin(), std::plus<>());
    const double copy_us =
        static_cast<double>(layers[l].record_bytes) / (1e9 * chip.cost[Cost::staged_host_bandwidth]) * 1e6;
    copies_us += plan.residency == Residency::resident ? 0
                 : plan.residency == Residency::copied
                     ? copy_us
                     : std::max(0.0, copy_us - std::accumulate(us.begin(), us.end(), 0.0));
  }
  const double launches = static_cast<double>(layers.size()) * (plan.compaction == Compaction::device ? 2 : 1);
  Terms terms;
  for (std::size_t share = 0; share < sum.size(); ++share) {
    terms.add(kShareNames[share], sum[share]);
  }
  const double host_us = static_cast<double>(layers.size()) * chip.cost[Cost::staged_host_round_trip] +
                         std::accumulate(alive.begin(), alive.end(), 0.0) * chip.cost[Cost::staged_host_image];
  if (on_host) {
    terms.add("host", host_us);
  } else {
    terms.add("launches", launches * chip.library_node_seconds * 1e6);
  }
  terms.add("weight_copies", copies_us);
  const double us = terms.total();
  const double floor_us = static_cast<double>(shared_wavefronts(plan, layers, alive)) * chip.lds_wavefront_cycles /
                          chip.sm_count / chip.clock_hz * 1e6;
  return {terms, us * chip.gather_scatter, us * chip.gather_scatter, floor_us};
}

std::vector<std::vector<StagedCounts>> sampled_counts(const FeedForward& network, std::span<const StagedPlan> plans) {
  const int layers = network.layers();
  std::vector<std::vector<StagedCounts>> counts(plans.size(), std::vector<StagedCounts>(layers));
  for (int l = 0, next = 1; l < layers; l = next, next = 2 * l) {
    const SparseLayer layer = network.layer(l);
    parallel_for(static_cast<int>(plans.size()), all_cores(), [&](int p) {
      std::fill(counts[p].begin() + l, counts[p].begin() + std::min(layers, next),
                count(stage(layer, plans[p]), plans[p]));
    });
  }
  return counts;
}

std::string why_not_fitting(const Chip& chip, const FeedForward& network, const StagedPlan& plan) {
  const int inputs = *std::max_element(network.neurons.begin(), network.neurons.end() - 1);
  if (inputs > kMostStagedInputs) {
    return "staged plans name a layer's inputs by 16 bits, at most " + std::to_string(kMostStagedInputs) +
           " of them; there are " + std::to_string(inputs);
  }
  const BlockResources needs{plan.block_outputs, usual_registers_of_thread(chip, plan), plan.shared_bytes()};
  if (plan.shared_bytes() > chip.smem_bytes_per_block || occupancy(chip, needs).blocks_per_sm == 0) {
    return none_fits(chip, plan, needs.registers_per_thread);
  }
  return "";
}

}  // namespace onchip
