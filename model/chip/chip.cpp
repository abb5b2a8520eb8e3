// SPDX-License-Identifier: Apache-2.0
#include "model/chip/chip.hpp"

#include "model/base/error.hpp"
#include "model/base/input_file.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

// The parser is compiled in, so that the command needs no shared library; a chip file nests two deep. Its assertions
// are off, and not taken for granted either: bad TOML violates some that the code after them handles.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#undef TOML_HEADER_ONLY
#undef TOML_SHARED_LIB
#define TOML_HEADER_ONLY 1
#define TOML_MAX_NESTED_VALUES 8
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

namespace onchip {
namespace {

constexpr double kKibi = 1024, kMebi = kKibi * 1024, kGibi = kMebi * 1024;
constexpr int kWarpThreads = 32;
constexpr std::string_view kSetByUser = "set by user";

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

constexpr std::array<std::string_view, 4> kFields{"value", "unit", "source", "interval"};

// "sm.count" -> "sm", "count"
std::pair<std::string_view, std::string_view> split(std::string_view key) {
  const std::size_t dot = key.find('.');
  return {key.substr(0, dot), key.substr(dot + 1)};
}

const ChipKey* find_key(std::string_view key) {
  const auto found =
      std::find_if(kChipKeys.begin(), kChipKeys.end(), [&](const ChipKey& row) { return row.key == key; });
  return found == kChipKeys.end() ? nullptr : found;
}

std::vector<std::string_view> key_names() {
  std::vector<std::string_view> names;
  for (const ChipKey& row : kChipKeys) {
    names.push_back(row.key);
  }
  return names;
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

struct Problem {
  std::string_view key;
  std::string message;
};

// What no chip can have although each number alone is possible.
std::optional<Problem> inconsistency(const Chip& chip) {
  const auto text = [](std::string_view key, double value) {
    return "'" + std::string(key) + "' (" + format_quantity(value, find_key(key)->dimension) + ")";
  };
  for (const std::string_view key : {"sm.max_threads", "sm.max_threads_per_block"}) {
    const double threads = chip.*find_key(key)->member;
    if (std::fmod(threads, kWarpThreads) != 0) {
      return Problem{key, "'" + std::string(key) + "' is " + format_number(threads) + ": expected a multiple of 32"};
    }
  }
  struct AtMost {
    std::string_view smaller, larger;
  };
  for (const auto& [smaller, larger] :
       {AtMost{"sm.max_threads_per_block", "sm.max_threads"}, AtMost{"registers.per_block", "registers.per_sm"},
        AtMost{"shared_memory.per_block", "shared_memory.per_sm"}}) {
    const double small = chip.*find_key(smaller)->member, large = chip.*find_key(larger)->member;
    if (small > large) {
      return Problem{smaller, text(smaller, small) + " is more than " + text(larger, large)};
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
  const std::string target =
      "sm_" + format_number(chip.compute_capability_major) + format_number(chip.compute_capability_minor);
  if (!chip.architecture.empty() && chip.architecture != target) {
    return Problem{"architecture", "'architecture' is " + in_quotes(chip.architecture) + ": expected '" + target +
                                       "' after the compute capability, or '' if no compiler targets it"};
  }
  return std::nullopt;
}

// Bytes that would break the line of a message, as \xNN.
std::string one_line(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string line;
  for (const char character : text.substr(0, 300)) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte >= 0x20 && byte < 0x7f) {
      line += character;
    } else {
      line += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return line;
}

std::string_view type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "a boolean";
    default:
      return "a date or time";
  }
}

// One chip file while it is read: knows its name for messages and where each key stands.
class Reader {
 public:
  Reader(std::string_view text, std::string_view file_name) : file_name_(file_name) {
    constexpr std::size_t kLargest = std::size_t{1} << 20;
    if (text.size() > kLargest) {
      throw InputError(file_name_ + ": " + std::to_string(text.size()) + " bytes: a chip file has at most 1 MiB");
    }
    try {
      root_ = toml::parse(std::string_view(bearable(text)), file_name_);
    } catch (const toml::parse_error& error) {
      // "Error while parsing string: ..."
      constexpr std::string_view kPrefix = "Error while parsing ";
      std::string_view description = error.description();
      if (description.starts_with(kPrefix)) {
        description.remove_prefix(kPrefix.size());
      }
      fail(error.source(), "not valid TOML: " + one_line(description));
    }
  }

  ChipFile read() {
    refuse_unknown();
    ChipFile file;
    file.chip.name = read_string("name");
    if (file.chip.name.empty() || one_line(file.chip.name) != file.chip.name) {
      fail(root_.get("name")->source(), "'name' is " + in_quotes(file.chip.name) + ": expected printable ASCII text");
    }
    file.chip.architecture = read_string("architecture");
    for (const ChipKey& row : kChipKeys) {
      file.provenance.emplace(row.key, read_number(row, file.chip.*row.member));
    }
    if (const auto problem = inconsistency(file.chip)) {
      const ChipKey* row = find_key(problem->key);
      fail(row ? number(*row).source() : root_.get(problem->key)->source(), problem->message);
    }
    return file;
  }

 private:
  [[noreturn]] void fail(const toml::source_region& place, std::string_view message) const {
    // Nodes that the parser made itself have no place.
    throw InputError(file_name_, std::max<long>(1, place.begin.line), std::max<long>(1, place.begin.column), message);
  }

  // A copy without what toml++ 3.3 does not bear although it should: it nests one table per dot, destroys them
  // recursively and searches them one by one; and where it looks for white space a character outside ASCII is undefined
  // behaviour in it.
  std::string bearable(std::string_view text) const {
    constexpr int kMostDots = 1000;
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    std::string copy(text.substr(text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0));
    long line = 1, column = 0;
    int dots = 0;
    bool in_string = false, in_comment = false;
    char quote = 0;
    for (std::size_t i = 0; i < copy.size(); ++i) {
      char& character = copy[i];
      ++column;
      const auto refuse = [&](std::string_view message) { throw InputError(file_name_, line, column, message); };
      if (character == '\n' || character == '\r') {
        line += character == '\n' ? 1 : 0;
        column = 0;
        in_string = in_comment = false;
      } else if (static_cast<unsigned char>(character) >= 0x80) {
        if (!in_comment) {
          refuse("found byte " + in_quotes({&character, 1}) +
                 " outside of comments: expected ASCII, \\uXXXX in strings");
        }
        character = '?';
      } else if (in_string) {
        if (character == quote) {
          in_string = false;
        } else if (character == '\\' && quote == '"' && i + 1 < copy.size() &&
                   (copy[i + 1] == '"' || copy[i + 1] == '\\')) {
          ++i;
          ++column;
        }
      } else if (!in_comment) {
        if (character == '"' || character == '\'') {
          if (copy.compare(i, 3, std::string(3, character)) == 0) {
            refuse("found a string of several lines: expected one line");
          }
          in_string = true;
          quote = character;
        } else if (character == '#') {
          in_comment = true;
        } else if (character == '.' && ++dots > kMostDots) {
          refuse("more than 1000 dots outside of strings: a key has at most one");
        }
      }
    }
    return copy;
  }

  void refuse_unknown() const {
    std::vector<std::string_view> tables{"name", "architecture"};
    for (const ChipKey& row : kChipKeys) {
      const std::string_view table = split(row.key).first;
      if (tables.back() != table) {
        tables.push_back(table);
      }
    }
    for (const auto& [table_key, node] : root_) {
      const std::string_view table_name = table_key.str();
      if (std::find(tables.begin(), tables.end(), table_name) == tables.end()) {
        fail(table_key.source(), std::string(node.is_table() ? "unknown table " : "unknown key ") +
                                     in_quotes(table_name) + did_you_mean(table_name, tables));
      }
      if (table_name == "name" || table_name == "architecture") {
        continue;
      }
      const toml::table* table = node.as_table();
      if (!table) {
        fail(table_key.source(), in_quotes(table_name) + " is " + std::string(type_name(node)) + ": expected a table");
      }
      for (const auto& [key, unused] : *table) {
        const std::string full = std::string(table_name) + "." + std::string(key.str());
        if (!find_key(full)) {
          fail(key.source(), "unknown key " + in_quotes(full) + did_you_mean(full, key_names()));
        }
      }
    }
  }

  std::string read_string(std::string_view key) const {
    const toml::node* node = root_.get(key);
    if (!node) {
      throw InputError(file_name_, 1, 1, "missing key '" + std::string(key) + "'");
    }
    const auto* text = node->as_string();
    if (!text) {
      fail(node->source(), "'" + std::string(key) + "' is " + std::string(type_name(*node)) + ": expected a string");
    }
    return text->get();
  }

  // The inline table of a key that must be there.
  const toml::table& number(const ChipKey& row) const {
    const auto [table_name, key] = split(row.key);
    const toml::node* table_node = root_.get(table_name);
    if (!table_node) {
      throw InputError(file_name_, 1, 1, "missing table '" + std::string(table_name) + "'");
    }
    const toml::table& table = *table_node->as_table();
    const toml::node* node = table.get(key);
    if (!node) {
      fail(table.source(), "missing key " + in_quotes(row.key));
    }
    const toml::table* fields = node->as_table();
    if (!fields) {
      fail(node->source(), in_quotes(row.key) + " is " + std::string(type_name(*node)) +
                               ": expected { value = ..., unit = \"...\", source = \"...\" }");
    }
    return *fields;
  }

  double read_value(const ChipKey& row, const toml::node& node, std::string_view what) const {
    if (!node.is_integer() && !node.is_floating_point()) {
      fail(node.source(), std::string(what) + " of '" + std::string(row.key) + "' is " + std::string(type_name(node)) +
                              ": expected a number");
    }
    // toml::node::value<double> has no value for integers that a double cannot hold exactly.
    return node.is_integer() ? static_cast<double>(node.as_integer()->get()) : node.as_floating_point()->get();
  }

  // Text of the field `field`, "" if it is not there.
  std::string read_field(const ChipKey& row, const toml::table& fields, std::string_view field) const {
    const toml::node* node = fields.get(field);
    if (!node) {
      return "";
    }
    const auto* text = node->as_string();
    if (!text) {
      fail(node->source(), "'" + std::string(field) + "' of '" + std::string(row.key) + "' is " +
                               std::string(type_name(*node)) + ": expected a string");
    }
    return text->get();
  }

  Provenance read_number(const ChipKey& row, Number& result) const {
    const toml::table& fields = number(row);
    const std::string key = "'" + std::string(row.key) + "'";
    for (const auto& [field, unused] : fields) {
      if (std::find(kFields.begin(), kFields.end(), field.str()) == kFields.end()) {
        fail(field.source(),
             "unknown field " + in_quotes(field.str()) + " of " + key + did_you_mean(field.str(), kFields));
      }
    }
    const toml::node* value_node = fields.get("value");
    if (!value_node) {
      fail(fields.source(), key + " has no 'value'");
    }
    Provenance provenance{read_field(row, fields, "unit"), read_field(row, fields, "source")};

    double factor = 1;
    if (const toml::node* unit = fields.get("unit")) {
      factor = checked_factor(row, unit->source(), provenance.unit);
    } else if (row.dimension == Dimension::count) {
      provenance.unit = base_unit(row.dimension);
    } else {
      fail(fields.source(), key + " has no 'unit'");
    }

    const double written = read_value(row, *value_node, "'value'");
    result = {written * factor, 0};
    if (const std::string problem = number_problem(row, result.value); !problem.empty()) {
      fail(value_node->source(), key + " " + problem);
    }
    if (const toml::node* interval = fields.get("interval")) {
      result.half_width = read_half_width(row, *interval, factor, result.value);
    }
    if (!fields.contains("source")) {
      fail(fields.source(), key + " has no 'source': say where the number comes from");
    }
    if (provenance.source.find_first_not_of(" \t\r\n") == std::string::npos) {
      fail(fields.get("source")->source(), "'source' of " + key + " is empty: say where the number comes from");
    }
    return provenance;
  }

  double checked_factor(const ChipKey& row, const toml::source_region& place, std::string_view unit) const {
    try {
      return unit_factor(row.dimension, unit);
    } catch (const InputError& error) {
      fail(place, "'" + std::string(row.key) + "': " + error.what());
    }
  }

  // An interval need not be centred; the half-width returned covers its longer side.
  double read_half_width(const ChipKey& row, const toml::node& node, double factor, double value) const {
    const toml::array* bounds = node.as_array();
    const std::string key = "'" + std::string(row.key) + "'";
    if (!bounds || bounds->size() != 2) {
      fail(node.source(),
           "'interval' of " + key + " is " +
               (bounds ? "an array of " + std::to_string(bounds->size()) : std::string(type_name(node))) +
               ": expected [low, high]");
    }
    const double low = read_value(row, *bounds->get(0), "'interval'") * factor;
    const double high = read_value(row, *bounds->get(1), "'interval'") * factor;
    // In this form NaN fails, too.
    if (!(low <= value && value <= high)) {
      fail(node.source(), "'interval' of " + key + " is not around its value");
    }
    if (low < row.minimum || high > row.maximum) {
      fail(node.source(), "'interval' of " + key + " reaches beyond " + format_quantity(row.minimum, row.dimension) +
                              " to " + format_quantity(row.maximum, row.dimension));
    }
    return std::max(value - low, high - value);
  }

  std::string file_name_;
  toml::table root_;
};

// Letters and digits in lower case: "RTX 4090" and "rtx-4090" are the same name.
std::string normalised(std::string_view name) {
  std::string result;
  for (const char character : name) {
    if ((character >= 'a' && character <= 'z') || (character >= '0' && character <= '9')) {
      result += character;
    } else if (character >= 'A' && character <= 'Z') {
      result += static_cast<char>(character - 'A' + 'a');
    }
  }
  return result;
}

// The shipped files, sorted by name.
std::vector<std::filesystem::path> shipped_files() {
  const char* chosen = std::getenv("ONCHIP_CHIPS");
  const std::filesystem::path directory = chosen && *chosen ? chosen : ONCHIP_CHIPS_DIR;
  std::vector<std::filesystem::path> files;
  std::error_code problem;
  std::filesystem::directory_iterator entry(directory, problem);
  for (const std::filesystem::directory_iterator end; !problem && entry != end; entry.increment(problem)) {
    if (entry->path().extension() == ".toml") {
      files.push_back(entry->path());
    }
  }
  if (problem) {
    throw InputError(directory.string() + ": cannot read the directory of chip files: " + problem.message() +
                     (chosen && *chosen ? " (ONCHIP_CHIPS names it)" : " (ONCHIP_CHIPS can name another)"));
  }
  std::sort(files.begin(), files.end());
  return files;
}

// "+10%" -> 1.1; nothing if the text is no relative change.
std::optional<double> relative_factor(std::string_view text) {
  if (text.size() < 3 || (text.front() != '+' && text.front() != '-') || text.back() != '%') {
    return std::nullopt;
  }
  std::string_view digits = text.substr(1, text.size() - 2);
  while (!digits.empty() && digits.back() == ' ') {
    digits.remove_suffix(1);
  }
  double percent = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), percent);
  if (problem != std::errc{} || end != digits.data() + digits.size() || !std::isfinite(percent) || digits[0] == '-') {
    throw InputError("found " + in_quotes(text) + ": expected a change such as +10% or -10%");
  }
  return 1 + (text.front() == '+' ? percent : -percent) / 100;
}

// The steps in which the hardware can have this number; 0 if it is continuous.
double granule(const Chip& chip, const ChipKey& row) {
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

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// set_chip_key on a copy; errors without the assignment they belong to.
ChipFile with_key(ChipFile file, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    throw InputError("expected key=quantity");
  }
  const std::string_view key = trim(assignment.substr(0, equals));
  const std::string_view quantity = trim(assignment.substr(equals + 1));
  const ChipKey* row = find_key(key);
  if (!row) {
    throw InputError("unknown key " + in_quotes(key) + did_you_mean(key, key_names()));
  }
  Number& number = file.chip.*row->member;
  Provenance& provenance = file.provenance[std::string(key)];
  if (const auto factor = relative_factor(quantity)) {
    number.value *= *factor;
    number.half_width *= std::abs(*factor);
    if (const double step = granule(file.chip, *row); step > 0) {
      number.value = std::round(number.value / step) * step;
    }
  } else {
    number = {parse_quantity(quantity, row->dimension), 0};
    provenance.unit = base_unit(row->dimension);
  }
  provenance.source = kSetByUser;
  if (const std::string problem = number_problem(*row, number.value); !problem.empty()) {
    throw InputError("'" + std::string(key) + "' " + problem);
  }
  if (const auto problem = inconsistency(file.chip)) {
    throw InputError(problem->message);
  }
  return file;
}

}  // namespace

std::span<const ChipKey> chip_keys() {
  return kChipKeys;
}

ChipFile load_chip_text(std::string_view text, std::string_view file_name) {
  return Reader(text, file_name).read();
}

ChipFile load_chip(const std::filesystem::path& file) {
  const MappedFile mapped(file);
  return load_chip_text(mapped.bytes(), file.string());
}

ChipFile find_chip(std::string_view name_or_file) {
  if (name_or_file.find('/') != std::string_view::npos || name_or_file.ends_with(".toml")) {
    return load_chip(name_or_file);
  }
  const std::string name = normalised(name_or_file);
  for (const std::filesystem::path& file : shipped_files()) {
    if (normalised(file.stem().string()) == name) {
      return load_chip(file);
    }
  }
  const std::vector<std::string> names = shipped_chips();
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  std::string message = "unknown chip " + in_quotes(name_or_file) + did_you_mean(name_or_file, candidates);
  if (message.back() != '?') {
    message += ": expected the path of a file ending in .toml or one of ";
    for (const std::string& shipped : names) {
      message += (&shipped == &names.front() ? "'" : ", '") + shipped + "'";
    }
  }
  throw InputError(message);
}

std::vector<std::string> shipped_chips() {
  std::vector<Chip> chips;
  for (const std::filesystem::path& file : shipped_files()) {
    chips.push_back(load_chip(file).chip);
  }
  std::stable_sort(chips.begin(), chips.end(), [](const Chip& a, const Chip& b) {
    return std::pair<double, double>(a.compute_capability_major, a.compute_capability_minor) <
           std::pair<double, double>(b.compute_capability_major, b.compute_capability_minor);
  });
  std::vector<std::string> names;
  for (Chip& chip : chips) {
    names.push_back(std::move(chip.name));
  }
  return names;
}

void set_chip_key(ChipFile& file, std::string_view assignment) {
  try {
    file = with_key(file, assignment);
  } catch (const InputError& error) {
    throw InputError("cannot set " + in_quotes(assignment) + ": " + error.what());
  }
}

}  // namespace onchip
