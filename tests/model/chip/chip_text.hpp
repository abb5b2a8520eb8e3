// SPDX-License-Identifier: Apache-2.0
// A chip file as small as one can be.
#pragma once

#include <string_view>

namespace onchip {

// Line numbers of the tests count from the line of `name`.
inline constexpr std::string_view kChipText = R"(name = "Test"
architecture = "sm_90"
[compute_capability]
major = { value = 9, source = "a" }
minor = { value = 0, source = "a" }
[sm]
count = { value = 132, source = "a" }
clock = { value = 1.98, unit = "GHz", source = "a" }
partitions = { value = 4, source = "a" }
max_threads = { value = 2048, source = "a" }
max_blocks = { value = 32, source = "a" }
max_threads_per_block = { value = 1024, source = "a" }
[registers]
per_sm = { value = 65536, source = "a" }
per_block = { value = 65536, source = "a" }
per_thread = { value = 255, source = "a" }
allocation_unit = { value = 256, source = "a" }
[shared_memory]
per_sm = { value = 228, unit = "KiB", source = "a" }
per_block = { value = 227, unit = "KiB", source = "a" }
reserved_per_block = { value = 1, unit = "KiB", source = "a" }
allocation_unit = { value = 128, unit = "B", source = "a" }
banks = { value = 32, source = "a" }
bank_width = { value = 4, unit = "B", source = "a" }
[l2]
size = { value = 50, unit = "MiB", source = "a" }
slices = { value = 160, source = "test" }
[dram]
bandwidth = { value = 4800, unit = "GB/s", source = "a" }
[timing]
lds_latency = { value = 29, unit = "cycles", interval = [28, 31], source = "a" }
lds_wavefront = { value = 1, unit = "cycles", source = "a" }
lds_instruction = { value = 1, unit = "cycles", source = "a" }
fp32_issue = { value = 1, unit = "cycles", source = "a" }
half2_issue = { value = 1, unit = "cycles", source = "a" }
integer_issue = { value = 2, unit = "cycles", source = "a" }
arithmetic_latency = { value = 4, unit = "cycles", source = "a" }
shuffle_latency = { value = 27, unit = "cycles", source = "a" }
tanh_latency = { value = 40, unit = "cycles", source = "a" }
block_barrier = { value = 34, unit = "cycles", source = "a" }
grid_barrier = { value = 931, unit = "ns", source = "a" }
conversion_issue = { value = 2, unit = "cycles", source = "a" }
half2_latency = { value = 8, unit = "cycles", source = "a" }
block_barrier_per_warp = { value = 2, unit = "cycles", source = "a" }
instruction_cache = { value = 32, unit = "KiB", source = "test" }
instruction_supply = { value = 2, unit = "cycles", source = "test" }
sm_instruction_cache = { value = 128, unit = "KiB", source = "test" }
sm_instruction_supply = { value = 6, unit = "cycles", source = "test" }
lds_latency_per_word = { value = 3, unit = "cycles", source = "test" }
load_store_queue = { value = 8, source = "test" }
special_issue = { value = 8, unit = "cycles", source = "test" }
tensor_issue = { value = 2, unit = "cycles", source = "test" }
tensor_latency = { value = 33, unit = "cycles", source = "test" }
tensor_clock_share = { value = 0.9, source = "test" }
gather_scatter = { value = 0.2, source = "a" }
[exchange]
latency = { value = 0.75, unit = "us", source = "a" }
round_trip = { value = 510, unit = "cycles", source = "a" }
bytes_per_cycle_per_sm = { value = 32, unit = "B/cycle", source = "a" }
per_sm = { value = 3, unit = "cycles", source = "a" }
per_word = { value = 50, unit = "cycles", source = "a" }
per_warp = { value = 5, unit = "cycles", source = "a" }
l2_latency = { value = 280.5, unit = "cycles", source = "test" }
l2_latency_spread = { value = 30, unit = "cycles", source = "test" }
signal = { value = 614.6, unit = "cycles", source = "test" }
look = { value = 140, unit = "cycles", source = "test" }
look_per_word = { value = 30, unit = "cycles", source = "test" }
before_barrier = { value = 100, unit = "cycles", source = "test" }
l2_line = { value = 2, unit = "cycles", source = "test" }
scatter = { value = 0.1, source = "a" }

[cluster]
sms = { value = 16, source = "a" }
usable_sms = { value = 112, source = "a" }
latency = { value = 500, unit = "cycles", source = "a" }
per_sm = { value = 5, unit = "cycles", source = "a" }
per_warp = { value = 4, unit = "cycles", source = "a" }
bytes_per_cycle = { value = 13, unit = "B/cycle", source = "a" }
per_byte_and_sm = { value = 0.001, unit = "cycles", source = "a" }
sums = { value = 600, unit = "cycles", source = "a" }
sums_per_byte = { value = 0.05, unit = "cycles", source = "a" }

[library]
l2_bandwidth = { value = 6800, unit = "GB/s", source = "a" }
dram_share = { value = 0.93, source = "a" }
l2_share = { value = 0.7, source = "a" }
sm_bandwidth = { value = 40, unit = "B/cycle", source = "a" }
product = { value = 3, unit = "us", source = "a" }
node = { value = 2.6, unit = "us", source = "a" }
sparse_element = { value = 20, unit = "ns", source = "a" }
scatter = { value = 0.35, source = "a" }
)";

}  // namespace onchip
