// SPDX-License-Identifier: Apache-2.0
#include "model/chip/chip_keys.hpp"

#include "model/base/input_file.hpp"
#include "model/chip/occupancy.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace onchip {
namespace {

constexpr double kKibi = 1024, kMebi = kKibi * 1024, kGibi = kMebi * 1024;

// Bounds are what any machine could have, not what today's have: they catch slips of units and digits.
constexpr std::array kChipKeys{
    ChipKey{"compute_capability.major", Dimension::count, &Chip::compute_capability_major, 1, 99, true,
            "compute capability, before the point"},
    ChipKey{"compute_capability.minor", Dimension::count, &Chip::compute_capability_minor, 0, 9, true,
            "compute capability, after the point"},

    ChipKey{"sm.count", Dimension::count, &Chip::sm_count, 1, 4096, true, "streaming multiprocessors"},
    ChipKey{"sm.clock", Dimension::hertz, &Chip::clock_hz, 1e6, 1e11, false, "SM clock under load"},
    ChipKey{"sm.partitions", Dimension::count, &Chip::partitions, 1, 64, true,
            "warp schedulers per SM, each with its slice of the register file"},
    ChipKey{"sm.max_threads", Dimension::count, &Chip::max_threads_per_sm, 32, 65536, true, "resident threads per SM"},
    ChipKey{"sm.max_blocks", Dimension::count, &Chip::max_blocks_per_sm, 1, 1024, true, "resident blocks per SM"},
    ChipKey{"sm.max_threads_per_block", Dimension::count, &Chip::max_threads_per_block, 32, 65536, true,
            "threads per block"},

    ChipKey{"registers.per_sm", Dimension::count, &Chip::registers_per_sm, 1024, 16777216, true,
            "32-bit registers per SM"},
    ChipKey{"registers.per_block", Dimension::count, &Chip::registers_per_block, 1024, 16777216, true,
            "32-bit registers per block"},
    ChipKey{"registers.per_thread", Dimension::count, &Chip::registers_per_thread, 16, 1024, true,
            "32-bit registers per thread"},
    ChipKey{"registers.allocation_unit", Dimension::count, &Chip::register_allocation_unit, 32, 8192, true,
            "registers by which a warp's share grows"},

    ChipKey{"shared_memory.per_sm", Dimension::bytes, &Chip::smem_bytes_per_sm, kKibi, kGibi, true,
            "shared memory per SM"},
    ChipKey{"shared_memory.per_block", Dimension::bytes, &Chip::smem_bytes_per_block, kKibi, kGibi, true,
            "shared memory that a block can ask for"},
    ChipKey{"shared_memory.reserved_per_block", Dimension::bytes, &Chip::smem_reserved_bytes_per_block, 0, kMebi, true,
            "shared memory that the system takes from each block"},
    ChipKey{"shared_memory.allocation_unit", Dimension::bytes, &Chip::smem_allocation_unit_bytes, 1, kMebi, true,
            "bytes by which a block's share grows"},
    ChipKey{"shared_memory.banks", Dimension::count, &Chip::smem_banks, 1, 1024, true, "banks"},
    ChipKey{"shared_memory.bank_width", Dimension::bytes, &Chip::smem_bank_bytes, 1, 64, true,
            "bytes that a bank delivers per cycle"},

    ChipKey{"l2.size", Dimension::bytes, &Chip::l2_bytes, kKibi, 1024 * kGibi, true, "L2 cache"},
    ChipKey{"l2.slices", Dimension::count, &Chip::l2_slices, 1, 65536, true,
            "L2 slices, each serving a line at a time"},
    ChipKey{"dram.bandwidth", Dimension::bytes_per_second, &Chip::dram_bytes_per_second, 1e6, 1e15, false,
            "DRAM bandwidth"},

    ChipKey{"timing.lds_latency", Dimension::cycles, &Chip::lds_latency_cycles, 1, 1e4, false,
            "shared-memory load of one warp without conflict, issue to use"},
    ChipKey{"timing.lds_wavefront", Dimension::cycles, &Chip::lds_wavefront_cycles, 0.01, 1e3, false,
            "per shared-memory wavefront and SM, unit busy"},
    ChipKey{"timing.lds_instruction", Dimension::cycles, &Chip::lds_instruction_cycles, 0.01, 1e3, false,
            "per shared-memory load instruction and SM when wavefronts do not bind"},
    ChipKey{"timing.fp32_issue", Dimension::cycles, &Chip::fp32_issue_cycles, 0.01, 1e3, false,
            "per fp32 warp instruction and partition"},
    ChipKey{"timing.half2_issue", Dimension::cycles, &Chip::half2_issue_cycles, 0.01, 1e3, false,
            "per half2 warp instruction and partition"},
    ChipKey{"timing.conversion_issue", Dimension::cycles, &Chip::conversion_issue_cycles, 0.01, 1e3, false,
            "per half-to-float warp instruction and partition"},
    ChipKey{"timing.integer_issue", Dimension::cycles, &Chip::integer_issue_cycles, 0.01, 1e3, false,
            "per integer warp instruction and partition"},
    ChipKey{"timing.arithmetic_latency", Dimension::cycles, &Chip::arithmetic_latency_cycles, 1, 1e4, false,
            "dependent fp32 multiply-add"},
    ChipKey{"timing.half2_latency", Dimension::cycles, &Chip::half2_latency_cycles, 1, 1e4, false,
            "dependent half2 multiply-add"},
    ChipKey{"timing.shuffle_latency", Dimension::cycles, &Chip::shuffle_latency_cycles, 1, 1e4, false,
            "dependent shuffle and addition"},
    ChipKey{"timing.tanh_latency", Dimension::cycles, &Chip::tanh_latency_cycles, 1, 1e5, false,
            "hyperbolic tangent of one fp32 value"},
    ChipKey{"timing.block_barrier", Dimension::cycles, &Chip::block_barrier_cycles, 1, 1e5, false,
            "barrier of a block, arrivals together: fixed part"},
    ChipKey{"timing.block_barrier_per_warp", Dimension::cycles, &Chip::block_barrier_per_warp_cycles, 0, 1e4, false,
            "barrier of a block: more for every warp"},
    ChipKey{"timing.grid_barrier", Dimension::seconds, &Chip::grid_barrier_seconds, 1e-9, 1e-2, false,
            "barrier of all SMs"},
    ChipKey{"timing.instruction_cache", Dimension::bytes, &Chip::instruction_cache_bytes, 1, 1e9, false,
            "of a partition: what a loop may have and run at full speed"},
    ChipKey{"timing.instruction_supply", Dimension::cycles, &Chip::instruction_supply_cycles, 0, 1e3, false,
            "per instruction of a longer loop, for all warps of a partition"},
    ChipKey{"timing.sm_instruction_cache", Dimension::bytes, &Chip::sm_instruction_cache_bytes, 1, 1e9, false,
            "of an SM: what a loop may have and be supplied so quickly"},
    ChipKey{"timing.sm_instruction_supply", Dimension::cycles, &Chip::sm_instruction_supply_cycles, 0, 1e3, false,
            "per instruction of a still longer loop, for all warps of a partition"},
    ChipKey{"timing.lds_latency_per_word", Dimension::cycles, &Chip::lds_latency_per_word_cycles, 0, 1e3, false,
            "shared-memory load: more for every 4 bytes of a lane beyond the first"},
    ChipKey{"timing.load_store_queue", Dimension::count, &Chip::load_store_queue, 1, 1024, true,
            "shared-memory instructions and shuffles of a partition that may wait"},
    ChipKey{"timing.special_issue", Dimension::cycles, &Chip::special_issue_cycles, 0.01, 1e3, false,
            "per special-function warp instruction and partition"},
    ChipKey{"timing.tensor_issue", Dimension::cycles, &Chip::tensor_issue_cycles, 0.01, 1e4, false,
            "per tensor-core warp instruction and partition"},
    ChipKey{"timing.tensor_latency", Dimension::cycles, &Chip::tensor_latency_cycles, 1, 1e4, false,
            "dependent tensor-core products"},
    ChipKey{"timing.tensor_clock_share", Dimension::count, &Chip::tensor_clock_share, 0.1, 1, false,
            "share of the SM clock that is left while tensor cores multiply"},

    ChipKey{"exchange.latency", Dimension::seconds, &Chip::exchange_latency_seconds, 1e-9, 1e-2, false,
            "all-to-all exchange: from emitting to seeing the first word, on few SMs"},
    ChipKey{"exchange.per_sm", Dimension::cycles, &Chip::exchange_per_sm_cycles, 0, 1e4, false,
            "all-to-all exchange: more for every SM that takes part"},
    ChipKey{"exchange.round_trip", Dimension::cycles, &Chip::exchange_round_trip_cycles, 1, 1e6, false,
            "all-to-all exchange: for every further round of polling loads"},
    ChipKey{"exchange.per_word", Dimension::cycles, &Chip::exchange_per_word_cycles, 0, 1e5, false,
            "all-to-all exchange: for every 16-byte word of a thread, if there are several rounds"},
    ChipKey{"exchange.per_warp", Dimension::cycles, &Chip::exchange_per_warp_cycles, 0, 1e4, false,
            "all-to-all exchange: more for every warp of a block"},
    ChipKey{"exchange.bytes_per_cycle_per_sm", Dimension::bytes_per_cycle, &Chip::exchange_bytes_per_cycle_per_sm, 0.01,
            1e5, false, "copying from L2 when every SM reads the whole state"},
    ChipKey{"exchange.l2_latency", Dimension::cycles, &Chip::l2_latency_cycles, 1, 1e5, false,
            "load that hits L2, issue to use; mean over the SMs"},
    ChipKey{"exchange.l2_latency_spread", Dimension::cycles, &Chip::l2_latency_spread_cycles, 0, 1e5, false,
            "how much longer the farthest SM waits for L2 than the nearest"},
    ChipKey{"exchange.signal", Dimension::cycles, &Chip::signal_cycles, 1, 1e6, false,
            "from a store on one SM to its value in a register of another that polls"},
    ChipKey{"exchange.look", Dimension::cycles, &Chip::look_cycles, 0, 1e5, false,
            "from polled words in registers to the next poll, or to using them"},
    ChipKey{"exchange.look_per_word", Dimension::cycles, &Chip::look_per_word_cycles, 0, 1e5, false,
            "more of that for every word that a thread polls at once"},
    ChipKey{"exchange.before_barrier", Dimension::cycles, &Chip::before_barrier_cycles, 0, 1e5, false,
            "more, once all polled words are there, until the block's barrier"},
    ChipKey{"exchange.l2_line", Dimension::cycles, &Chip::l2_line_cycles, 0.01, 1e3, false,
            "of an L2 slice, per 128-byte line and reader"},
    ChipKey{"cluster.sms", Dimension::count, &Chip::cluster_sms, 1, 1024, true,
            "SMs of the largest cluster, 1 where there are none"},
    ChipKey{"cluster.usable_sms", Dimension::count, &Chip::cluster_usable_sms, 0, 4096, true,
            "SMs in clusters of that size that run at once"},
    ChipKey{"cluster.latency", Dimension::cycles, &Chip::cluster_latency_cycles, 1, 1e6, false,
            "exchange in a cluster: from storing a word to having waited for it on the other SMs"},
    ChipKey{"cluster.per_sm", Dimension::cycles, &Chip::cluster_per_sm_cycles, 0, 1e4, false,
            "exchange in a cluster: more for every SM of it"},
    ChipKey{"cluster.per_warp", Dimension::cycles, &Chip::cluster_per_warp_cycles, 0, 1e4, false,
            "exchange in a cluster: more for every warp of a block"},
    ChipKey{"cluster.bytes_per_cycle", Dimension::bytes_per_cycle, &Chip::cluster_bytes_per_cycle, 0.01, 1e5, false,
            "exchange in a cluster: that each SM receives, and sends, among few SMs"},
    ChipKey{"cluster.per_byte_and_sm", Dimension::cycles, &Chip::cluster_per_byte_and_sm_cycles, 0, 10, false,
            "exchange in a cluster: more for every byte of the state and SM of the cluster"},
    ChipKey{"cluster.sums", Dimension::cycles, &Chip::cluster_sums_cycles, 0, 1e6, false,
            "adding up sums of SMs of a cluster: from sending sums to having the others'"},
    ChipKey{"cluster.sums_per_byte", Dimension::cycles, &Chip::cluster_sums_per_byte_cycles, 0, 10, false,
            "adding up sums of SMs of a cluster: more for every byte that an SM receives"},
    ChipKey{"exchange.scatter", Dimension::count, &Chip::exchange_scatter, 0, 10, false,
            "95 % of exchanges lie within this fraction of the formula"},
    ChipKey{"timing.gather_scatter", Dimension::count, &Chip::gather_scatter, 0, 10, false,
            "95 % of steps, less the exchange, lie within this fraction of the formula"},

    ChipKey{"library.l2_bandwidth", Dimension::bytes_per_second, &Chip::library_l2_bytes_per_second, 1e6, 1e16, false,
            "what streaming kernels of a library get from L2, all SMs together"},
    ChipKey{"library.dram_share", Dimension::count, &Chip::library_dram_share, 0.01, 1, false,
            "share of the DRAM bandwidth that streaming kernels of a library get"},
    ChipKey{"library.l2_share", Dimension::count, &Chip::library_l2_share, 0.01, 1, false,
            "of L2 that may be read again and again without going to DRAM"},
    ChipKey{"library.sm_bandwidth", Dimension::bytes_per_cycle, &Chip::library_sm_bytes_per_cycle, 0.1, 1e4, false,
            "that one block of a product copies"},
    ChipKey{"library.product", Dimension::seconds, &Chip::library_product_seconds, 1e-9, 1e-2, false,
            "product of a library in a CUDA graph, beyond what its bytes take"},
    ChipKey{"library.node", Dimension::seconds, &Chip::library_node_seconds, 1e-9, 1e-2, false,
            "another kernel of a step in a CUDA graph, over the state only"},
    ChipKey{"library.sparse_element", Dimension::seconds, &Chip::library_element_seconds, 0, 1e-3, false,
            "of a sparse product of a library, per non-zero of a row"},
    ChipKey{"library.scatter", Dimension::count, &Chip::library_scatter, 0, 10, false,
            "95 % of a library's steps lie within this fraction of the formula"},
};

}  // namespace

std::span<const ChipKey> chip_keys() {
  return kChipKeys;
}

// "227 KiB" where that is exact, else base units.
std::string format_quantity(double value, Dimension dimension) {
  if (dimension == Dimension::count) {
    return format_number(value);
  }
  if (dimension == Dimension::bytes && value >= kKibi && std::fmod(value, kKibi) == 0) {
    return format_number(value / kKibi) + " KiB";
  }
  return format_number(value) + " " + std::string(base_unit(dimension));
}

const ChipKey* find_key(std::string_view key) {
  const auto found =
      std::find_if(kChipKeys.begin(), kChipKeys.end(), [&](const ChipKey& row) { return row.key == key; });
  return found == kChipKeys.end() ? nullptr : found;
}

namespace {

std::string_view key_of(Number Chip::*member) {
  return std::ranges::find(kChipKeys, member, &ChipKey::member)->key;
}

}  // namespace

std::vector<std::string_view> key_names() {
  std::vector<std::string_view> names;
  for (const ChipKey& row : kChipKeys) {
    names.push_back(row.key);
  }
  return names;
}

double hardware_step(const Chip& chip, const ChipKey& row) {
  if (row.member == &Chip::max_threads_per_sm || row.member == &Chip::max_threads_per_block) {
    return kWarpThreads;
  }
  if (row.member == &Chip::registers_per_sm || row.member == &Chip::registers_per_block) {
    return chip.register_allocation_unit * chip.partitions;
  }
  if (row.member == &Chip::smem_bytes_per_sm || row.member == &Chip::smem_bytes_per_block ||
      row.member == &Chip::smem_reserved_bytes_per_block) {
    return chip.smem_allocation_unit_bytes;
  }
  return row.integral ? 1 : 0;
}

// What is wrong with a number in base units: "is 0: expected 1 to 4096", or "".
std::string number_problem(const ChipKey& row, double value) {
  if (!std::isfinite(value)) {
    return "is not a finite number";
  }
  if (value < row.minimum || value > row.maximum) {
    return "is " + format_quantity(value, row.dimension) + ": expected " + format_quantity(row.minimum, row.dimension) +
           " to " + format_quantity(row.maximum, row.dimension);
  }
  if (row.integral && std::trunc(value) != value) {
    return "is " + format_quantity(value, row.dimension) + ": expected a whole number" +
           (row.dimension == Dimension::bytes ? " of bytes" : "");
  }
  return "";
}

// What no chip can have although each number alone is possible.
std::optional<Problem> inconsistency(const Chip& chip) {
  const auto text = [](std::string_view key, double value) {
    return "'" + std::string(key) + "' (" + format_quantity(value, find_key(key)->dimension) + ")";
  };
  for (const auto member : {&Chip::max_threads_per_sm, &Chip::max_threads_per_block}) {
    const double threads = chip.*member;
    if (std::fmod(threads, kWarpThreads) != 0) {
      const std::string_view key = key_of(member);
      return Problem{key, "'" + std::string(key) + "' is " + format_number(threads) + ": expected a multiple of 32"};
    }
  }
  struct AtMost {
    Number Chip::*smaller;
    Number Chip::*larger;
  };
  for (const auto& [smaller, larger] : {AtMost{&Chip::max_threads_per_block, &Chip::max_threads_per_sm},
                                        AtMost{&Chip::registers_per_block, &Chip::registers_per_sm},
                                        AtMost{&Chip::smem_bytes_per_block, &Chip::smem_bytes_per_sm}}) {
    if (chip.*smaller > chip.*larger) {
      const std::string_view small = key_of(smaller), large = key_of(larger);
      return Problem{small, text(small, chip.*smaller) + " is more than " + text(large, chip.*larger)};
    }
  }
  if (chip.smem_bytes_per_block + chip.smem_reserved_bytes_per_block > chip.smem_bytes_per_sm) {
    return Problem{"shared_memory.per_block",
                   text("shared_memory.per_block", chip.smem_bytes_per_block) + " and " +
                       text("shared_memory.reserved_per_block", chip.smem_reserved_bytes_per_block) +
                       " together are more than " + text("shared_memory.per_sm", chip.smem_bytes_per_sm)};
  }
  if (chip.registers_per_thread * kWarpThreads > chip.registers_per_block) {
    return Problem{"registers.per_thread", text("registers.per_thread", chip.registers_per_thread) +
                                               " for each of 32 threads is more than " +
                                               text("registers.per_block", chip.registers_per_block)};
  }
  if (chip.architecture.empty()) {
    return std::nullopt;
  }
  const std::string target =
      "sm_" + format_number(chip.compute_capability_major) + format_number(chip.compute_capability_minor);
  if (chip.architecture != target) {
    return Problem{"architecture", "'architecture' is " + in_quotes(chip.architecture) + ": expected '" + target +
                                       "' after the compute capability, or '' if no compiler targets it"};
  }
  return std::nullopt;
}

}  // namespace onchip
