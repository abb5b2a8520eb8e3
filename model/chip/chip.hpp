// SPDX-License-Identifier: Apache-2.0
// What the hardware offers. One TOML file per chip (model/chips/*.toml); every number there is
//   key = { value = 228, unit = "KiB", source = "...", interval = [227, 229] }      # interval: optional, 95 %
// and is checked against kChipKeys: an unknown, missing, mistyped or impossible number is an error with its place.
#pragma once

#include "model/base/units.hpp"
#include "model/chip/cost_values.hpp"

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// A number in base units with the half-width of its 95 % interval (0: exact by specification).
struct Number {
  double value = 0;
  double half_width = 0;

  constexpr operator double() const { return value; }
};

// Base units throughout: bytes, hertz, seconds, cycles of the SM clock, counts.
struct Chip {
  std::string name;
  std::string architecture;  // the compiler's target, "sm_90"; "" if no current toolkit compiles for this chip

  Number compute_capability_major, compute_capability_minor;

  Number sm_count;
  Number clock_hz;
  Number partitions;  // warp schedulers per SM, each with its own slice of the register file
  Number max_threads_per_sm, max_blocks_per_sm, max_threads_per_block;

  Number registers_per_sm, registers_per_block, registers_per_thread;
  Number register_allocation_unit;  // registers, per warp

  Number smem_bytes_per_sm, smem_bytes_per_block, smem_reserved_bytes_per_block, smem_allocation_unit_bytes;
  Number smem_banks, smem_bank_bytes;

  Number l2_bytes, dram_bytes_per_second;

  // Timing constants: measured by `onchip calibrate` where the source says so, estimated elsewhere.
  Number lds_latency_cycles;             // shared-memory load, one warp, no conflict: issue to use
  Number lds_wavefront_cycles;           // SM cycles per wavefront, unit busy
  Number lds_instruction_cycles;         // SM cycles per load instruction when wavefronts do not bind
  Number fp32_issue_cycles;              // per warp instruction and partition: FFMA
  Number half2_issue_cycles;             // per warp instruction and partition: HFMA2
  Number conversion_issue_cycles;        // per warp instruction and partition: half to float
  Number half2_latency_cycles;           // dependent HFMA2
  Number integer_issue_cycles;           // per warp instruction and partition: LOP3, IADD3, SHF
  Number arithmetic_latency_cycles;      // dependent FFMA
  Number shuffle_latency_cycles;         // dependent SHFL + FADD
  Number tanh_latency_cycles;            // tanh of one fp32 value as the kernels compute it
  Number block_barrier_cycles;           // __syncthreads, arrivals together: fixed part
  Number block_barrier_per_warp_cycles;  // and per warp
  Number grid_barrier_seconds;           // counter barrier over all SMs
  Number instruction_cache_bytes;        // of a partition: what a loop may have and run at full speed
  Number instruction_supply_cycles;      // per instruction of a longer loop, for all warps of a partition
  Number sm_instruction_cache_bytes;     // of an SM: what a loop may have and be supplied so quickly
  Number sm_instruction_supply_cycles;   // per instruction of a still longer loop, for all warps of a partition
  // What the simulator asks for (sim/), and some of it the model of dense kernels.
  Number lds_latency_per_word_cycles;  // shared-memory load: more for every 4 bytes of a lane beyond the first
  Number load_store_queue;             // shared-memory instructions and shuffles of a partition that may wait
  Number special_issue_cycles;         // per warp instruction and partition: MUFU
  Number tensor_issue_cycles;          // per warp instruction and partition: HMMA 16 x 8 x 16
  Number tensor_latency_cycles;        // dependent HMMA
  Number tensor_clock_share;           // of clock_hz that is left while tensor cores multiply, of one SM or of all
  Number l2_latency_cycles;            // load that hits L2, issue to use; mean over the SMs
  Number l2_latency_spread_cycles;     // what the farthest SM takes longer than the nearest
  Number look_cycles;                  // from polled words in registers to the next poll, or to using them
  Number look_per_word_cycles;         // more for every word that a thread polls at once
  Number before_barrier_cycles;        // more after the last poll, until the barrier: stores, and a share of a fence
  Number l2_slices;                    // that serve lines side by side
  Number signal_cycles;                // store by one SM to seen by another that polls
  Number l2_line_cycles;               // of an L2 slice per 128-byte line and reader
  // Of the all-to-all exchange of the state, see model/exchange/exchange_time.hpp.
  Number exchange_latency_seconds;         // emit to first word seen, on few SMs
  Number exchange_per_sm_cycles;           // more for every SM that takes part
  Number exchange_round_trip_cycles;       // for every further round of polling loads
  Number exchange_per_warp_cycles;         // more for every warp of a block
  Number exchange_per_word_cycles;         // for every 16-byte word of a thread, if there are several rounds
  Number exchange_bytes_per_cycle_per_sm;  // copying from L2 when every SM reads the whole state
  Number exchange_scatter;                 // 95 % of exchanges lie within this fraction of the formula
  // Of the same inside one cluster of SMs, through distributed shared memory.
  Number cluster_sms;                     // of the largest cluster; 1: the chip has none
  Number cluster_usable_sms;              // in clusters of that size that run at once
  Number cluster_latency_cycles;          // from storing a word to having waited for it, on the other SMs
  Number cluster_per_sm_cycles;           // more for every SM of the cluster
  Number cluster_per_warp_cycles;         // more for every warp of a block
  Number cluster_bytes_per_cycle;         // that each SM receives, and sends, among few SMs
  Number cluster_per_byte_and_sm_cycles;  // more for every byte of the state and SM of the cluster
  // Of adding up sums of all SMs of a cluster, beyond adding up as many of one SM.
  Number cluster_sums_cycles;           // from sending sums to having the others'
  Number cluster_sums_per_byte_cycles;  // more for every byte that an SM receives
  // Of the libraries, see model/library/price.hpp.
  Number library_l2_bytes_per_second;  // that streaming kernels get from L2, all SMs together
  Number library_dram_share;           // of dram_bytes_per_second that streaming kernels get
  Number library_l2_share;             // of l2_bytes that may be read again and again without going to DRAM
  Number library_sm_bytes_per_cycle;   // that one block copies
  Number library_product_seconds;      // a product in a CUDA graph, beyond its bytes: launch, first loads, last sums
  Number library_node_seconds;         // another kernel of a step, over the state only
  Number library_element_seconds;      // of a sparse product, per non-zero of a row: they come one after another
  Number library_scatter;              // 95 % of steps lie within this fraction of the formula
  Number gather_scatter;               // likewise, of the gathers and what follows them inside an SM

  CostValues cost;  // what prices multiply with beside these numbers (cost_terms.hpp)
};

// One row per number: where it stands in the file, what it measures, and what is possible.
struct ChipKey {
  std::string_view key;  // "shared_memory.per_sm"
  Dimension dimension;
  Number Chip::*member;
  double minimum, maximum;  // inclusive, base units
  bool integral;
  std::string_view meaning;  // one line for `onchip chips NAME`
};
std::span<const ChipKey> chip_keys();

// Where a number came from; parallel to chip_keys().
struct Provenance {
  std::string unit;    // as written in the file
  std::string source;  // datasheet, paper, or the measurement
};

struct ChipFile {
  Chip chip;
  std::string base;  // name of the chip that it takes numbers from, "" if it has all itself
  std::map<std::string, Provenance, std::less<>> provenance;  // by key
};

// Reads a chip file. Errors (InputError): unreadable file, bad TOML, unknown or missing key, wrong unit, number out of
// range, missing source; each with file:line:column and the nearest valid name.
//
// With `base = "h200"`, or the path of a file beside it, what the file lacks is taken from that chip (chip_base.hpp);
// compute capability and architecture follow from each other. Numbers may then be as short as `count = 16` and
// `clock = "1300 MHz"`, and a number without a source has the file as its source.
ChipFile load_chip(const std::filesystem::path& file);

// The same for the text of a chip file; `file_name` is what errors call it.
ChipFile load_chip_text(std::string_view text, std::string_view file_name);

// A chip file with all numbers, which reads back as the same chip.
std::string chip_text(const ChipFile& file);

// A shipped chip by name (case and punctuation ignored: "h200", "RTX 4090", "rtx4090") or, if it contains '/' or ends
// in ".toml", the path of a file. Shipped files stand in the directory that the environment variable ONCHIP_CHIPS
// names, else in that of the installation or of the sources (base/shipped.hpp).
ChipFile find_chip(std::string_view name_or_file);

// Names of the shipped chips, in the order of their compute capability.
std::vector<std::string> shipped_chips();

// Applies "key=quantity" ("shared_memory.per_sm=512 KiB", "sm.clock=+10%", "sm.count=x2", "cost.overflow_parting=0")
// as `--set` does; the result is validated like a file and the provenance says "set by user". A relative change is
// rounded to what the hardware can have: whole numbers, whole warps of threads, whole allocation units. Throws
// InputError and then leaves `file` as it was.
void set_chip_key(ChipFile& file, std::string_view assignment);

}  // namespace onchip
