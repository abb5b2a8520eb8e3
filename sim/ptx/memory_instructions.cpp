// SPDX-License-Identifier: Apache-2.0
#include "sim/ptx/memory_instructions.hpp"

#include "sim/ptx/lanes.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <iterator>
#include <span>
#include <string>

namespace onchip::ptx {

// ---- places ---------------------------------------------------------------------------------------------------------

std::string hex(u64 value) {
  char digits[16];
  return "0x" + std::string(digits, std::to_chars(digits, std::end(digits), value, 16).ptr);
}

u64 address_of(Warp& warp, const Instruction& i, int operand, int which, int lane) {
  const u64 base = i.wide[which] ? warp.lanes<u64>(i.at[operand])[lane] : u64{warp.lanes<u32>(i.at[operand])[lane]};
  const u64 address = base + static_cast<u64>(i.offset[which]);
  return i.wide[which] ? address : address & 0xffffffffu;
}

void check_aligned(int lane, u64 address, std::size_t bytes) {
  if (address % bytes != 0) {
    throw LaneFault{lane, "address " + hex(address) + " is not aligned to " + std::to_string(bytes) + " bytes"};
  }
}

std::byte* in_global(Warp& warp, int lane, u64 address, std::size_t bytes, bool writes) {
  std::byte* const place = warp.block.grid.memory.find(address, bytes, writes);
  if (place == nullptr) {
    throw LaneFault{lane, "address " + hex(address) + " lies in no range of global memory that may be " +
                              (writes ? "written" : "read")};
  }
  return place;
}

namespace {

constexpr std::uint8_t kAllWritten[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

std::byte* in_shared(Warp& warp, int lane, u64 address, std::size_t bytes, bool writes) {
  const SharedPlace place = shared_place(warp, lane, address, bytes);
  std::uint8_t* const written = &place.block->written[place.at];
  if (writes) {
    std::memset(written, kWritten, bytes);
  } else if (std::memcmp(written, kAllWritten, bytes) != 0) {
    if (std::memchr(written, kNeverWritten, bytes) != nullptr) {
      throw LaneFault{lane, "shared memory at " + hex(address - kSharedBegin) + " is read, but was never written"};
    }
    static std::byte unknown[16];
    std::memset(unknown, 0xff, sizeof unknown);
    return unknown;
  }
  return &place.block->shared[place.at];
}

std::byte* in_local(Warp& warp, int lane, u64 address, std::size_t bytes) {
  const std::size_t size = warp.block.grid.kernel.local_bytes;
  if (address > size || bytes > size - address) {
    throw LaneFault{lane, "address " + hex(address) + " is outside of the thread's local memory of " +
                              std::to_string(size) + " bytes"};
  }
  return &warp.local[static_cast<std::size_t>(lane) * size + address];
}

}  // namespace

std::byte* at_place(Warp& warp, Space space, int lane, u64 address, std::size_t bytes, bool writes) {
  check_aligned(lane, address, bytes);
  switch (space) {
    case Space::global:
      return in_global(warp, lane, address, bytes, writes);
    case Space::shared:
      if (address >> 24 != 0) {
        throw LaneFault{lane, "address " + hex(address) + " is not in this block's shared memory"};
      }
      return in_shared(warp, lane, address, bytes, writes);
    case Space::cluster:
      return in_shared(warp, lane, address, bytes, writes);
    case Space::local:
      return in_local(warp, lane, address, bytes);
    case Space::generic:
      if ((address & kSharedWindow) != 0) {
        return in_shared(warp, lane, address & ~kSharedWindow, bytes, writes);
      }
      if ((address & kLocalWindow) != 0) {
        return in_local(warp, lane, address & ~kLocalWindow, bytes);
      }
      return in_global(warp, lane, address, bytes, writes);
    case Space::param:
      break;
  }
  const std::span<const std::byte> parameters = warp.block.grid.launch.parameters;
  if (writes || address > parameters.size() || bytes > parameters.size() - address) {
    throw LaneFault{lane, "address " + hex(address) + " is outside of the parameters"};
  }
  return const_cast<std::byte*>(parameters.data() + address);  // only read
}

std::byte* lane_bytes(Warp& warp, u32 at, int lane, int bytes) {
  return warp.registers + at + lane * bytes;
}

// ---- counts ---------------------------------------------------------------------------------------------------------

namespace {

constexpr u64 kSectorBytes = 32;  // that L2 gives

u64 sectors(std::span<u64> addresses) {
  std::ranges::transform(addresses, addresses.begin(), [](u64 address) { return address / kSectorBytes; });
  std::ranges::sort(addresses);
  return static_cast<u64>(std::unique(addresses.begin(), addresses.end()) - addresses.begin());
}

Sharing sharing_of(Access access) {
  return access == Access::load                               ? Sharing::words_and_phases
         : access == Access::atomic || access == Access::copy ? Sharing::nothing
                                                              : Sharing::words;
}

}  // namespace

void count_access(Warp& warp, const Instruction& i, u32 lanes) {
  Grid& grid = warp.block.grid;
  const bool is_matrix = i.access == Access::matrix_load || i.access == Access::matrix_store;
  const bool is_copy = i.access == Access::copy;
  const u32 accessing = is_matrix ? lanes & ~0u >> (kLanes - 8 * i.count) : lanes;
  std::array<u64, kLanes> shared, global;
  std::size_t in_shared = 0, in_global = 0;
  SharedAccess access;
  access.sharing = sharing_of(i.access);
  access.width = static_cast<int>(is_matrix ? 16
                                  : is_copy ? *warp.lanes<u32>(i.at[2])
                                            : u32{i.bytes} * std::max(i.count, std::uint8_t{1}));
  for_lanes(accessing, [&](int lane) {
    const u64 address = address_of(warp, i, i.address, 0, lane);
    if (i.space == Space::shared || i.space == Space::cluster ||
        (i.space == Space::generic && (address & kSharedWindow) != 0)) {
      access.mask |= 1u << lane;
      shared[in_shared++] = (address & 0xffffff) - kSharedBegin;
    } else if (i.access == Access::load && (i.space == Space::global || i.space == Space::generic)) {
      global[in_global++] = address;
    }
    if (is_copy && (i.operands == 3 || warp.lanes<u32>(i.at[3])[lane] > 0)) {
      global[in_global++] = address_of(warp, i, 1, 1, lane);
    }
  });
  grid.counts.global_bytes += kSectorBytes * sectors({global.data(), in_global});
  if (in_shared > 0) {
    access.addresses = {shared.data(), in_shared};
    const BankCost cost = grid.banks->count(access);
    AccessCounts& counts = grid.counts.shared[static_cast<std::size_t>(i.access)];
    counts.instructions += 1;
    counts.wavefronts += static_cast<u64>(cost.wavefronts);
    counts.ideal += static_cast<u64>(cost.ideal);
  }
}

// ---- loads, stores, atomics -----------------------------------------------------------------------------------------

namespace {

// Elements of kBytes into registers of kRegister bytes and back, widened with zeros or the sign, or cut.
template <int kBytes, int kRegister>
void load(Warp& warp, const Instruction& i, u32 lanes) {
  for_lanes(lanes, [&](int lane) {
    const u64 address = address_of(warp, i, i.count, 0, lane);
    const std::byte* from = at_place(warp, i.space, lane, address, static_cast<std::size_t>(kBytes) * i.count, false);
    for (int element = 0; element < i.count; ++element, from += kBytes) {
      std::byte* const to = lane_bytes(warp, i.at[element], lane, kRegister);
      if constexpr (kBytes >= kRegister) {
        std::memcpy(to, from, kRegister);
      } else {
        u64 value = 0;
        std::memcpy(&value, from, kBytes);
        if (i.is_signed && (value >> (8 * kBytes - 1) & 1) != 0) {
          value |= ~u64{0} << (8 * kBytes - 1);
        }
        std::memcpy(to, &value, kRegister);
      }
    }
  });
}

template <int kBytes, int kRegister>
void store(Warp& warp, const Instruction& i, u32 lanes) {
  static_assert(kBytes <= kRegister);
  for_lanes(lanes, [&](int lane) {
    const u64 address = address_of(warp, i, 0, 0, lane);
    std::byte* to = at_place(warp, i.space, lane, address, static_cast<std::size_t>(kBytes) * i.count, true);
    for (int element = 0; element < i.count; ++element, to += kBytes) {
      std::memcpy(to, lane_bytes(warp, i.at[1 + element], lane, kRegister), kBytes);
    }
  });
}

constexpr auto kExchanged = [](auto, auto b) { return b; };
constexpr auto kExchangedIfEqual = [](auto old, auto expected, auto next) { return old == expected ? next : old; };

// kOf: what an atomic leaves of the old value and its operands.
template <typename T, bool kReturns, auto kOf>
void atomic(Warp& warp, const Instruction& i, u32 lanes) {
  constexpr int kAddress = kReturns ? 1 : 0;
  for_lanes(lanes, [&](int lane) {
    std::byte* const place =
        at_place(warp, i.space, lane, address_of(warp, i, kAddress, 0, lane), sizeof(T), /*writes=*/true);
    const auto operand = [&](int which) { return warp.lanes<T>(i.at[kAddress + which])[lane]; };
    T old, next;
    std::memcpy(&old, place, sizeof old);
    if constexpr (std::is_invocable_v<decltype(kOf), T, T>) {
      next = kOf(old, operand(1));
    } else {
      next = kOf(old, operand(1), operand(2));
    }
    std::memcpy(place, &next, sizeof next);
    if constexpr (kReturns) {
      warp.lanes<T>(i.at[0])[lane] = old;
    }
  });
}

template <bool kReturns>
Execute atomic_of(std::string_view what, std::string_view type) {
  struct Row {
    std::string_view what, type;
    Execute execute;
  };
  static constexpr Row kRows[] = {
      {"add", "u32", atomic<u32, kReturns, kAdded>},
      {"add", "s32", atomic<u32, kReturns, kAdded>},
      {"add", "u64", atomic<u64, kReturns, kAdded>},
      {"exch", "b32", atomic<u32, kReturns, kExchanged>},
      {"exch", "b64", atomic<u64, kReturns, kExchanged>},
      {"min", "u32", atomic<u32, kReturns, kSmaller>},
      {"min", "s32", atomic<s32, kReturns, kSmaller>},
      {"max", "u32", atomic<u32, kReturns, kLarger>},
      {"max", "s32", atomic<s32, kReturns, kLarger>},
      {"and", "b32", atomic<u32, kReturns, kBoth>},
      {"or", "b32", atomic<u32, kReturns, kEither>},
      {"xor", "b32", atomic<u32, kReturns, kDiffer>},
      {"cas", "b32", atomic<u32, kReturns, kExchangedIfEqual>},
      {"cas", "b64", atomic<u64, kReturns, kExchangedIfEqual>},
  };
  for (const Row& row : kRows) {
    if (row.what == what && row.type == type) {
      return row.execute;
    }
  }
  return nullptr;
}

template <int kBytes, int kRegister>
Execute move_of(bool is_load) {
  if constexpr (kBytes <= kRegister) {
    return is_load ? load<kBytes, kRegister> : store<kBytes, kRegister>;
  } else {
    return is_load && kRegister < 16 ? load<kBytes, kRegister> : nullptr;
  }
}

Execute move_of(int bytes, int register_bytes, bool is_load) {
  struct Row {
    int bytes, register_bytes;
    Execute (*of)(bool);
  };
  static constexpr Row kRows[] = {{1, 2, move_of<1, 2>},    {1, 4, move_of<1, 4>}, {1, 8, move_of<1, 8>},
                                  {2, 2, move_of<2, 2>},    {2, 4, move_of<2, 4>}, {2, 8, move_of<2, 8>},
                                  {4, 4, move_of<4, 4>},    {4, 8, move_of<4, 8>}, {8, 8, move_of<8, 8>},
                                  {16, 16, move_of<16, 16>}};
  for (const Row& row : kRows) {
    if (row.bytes == bytes && row.register_bytes == register_bytes) {
      return row.of(is_load);
    }
  }
  return nullptr;
}

// Takes one of these words off the front, if it is there.
std::string_view take(std::span<const std::string_view>& parts, std::initializer_list<std::string_view> words) {
  if (parts.empty() || std::ranges::find(words, parts.front()) == words.end()) {
    return "";
  }
  const std::string_view word = parts.front();
  parts = parts.subspan(1);
  return word;
}

Space take_space(std::span<const std::string_view>& parts) {
  const std::string_view word =
      take(parts, {"global", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry"});
  return word == "global"             ? Space::global
         : word == "local"            ? Space::local
         : word == "shared::cluster"  ? Space::cluster
         : word.starts_with("shared") ? Space::shared
         : word.starts_with("param")  ? Space::param
                                      : Space::generic;
}

}  // namespace

std::optional<Meaning> memory_meaning(std::span<const std::string_view> parts, std::string_view operands) {
  const std::string_view what = take(parts, {"ld", "st", "atom", "red"});
  if (what.empty()) {
    return std::nullopt;
  }
  const bool is_load = what == "ld", moves = is_load || what == "st";
  Meaning meaning;
  const std::string_view order = take(parts, {"weak", "volatile", "relaxed", "acquire", "release", "acq_rel"});
  take(parts, {"cta", "cluster", "gpu", "sys"});
  meaning.space = take_space(parts);
  meaning.polls = is_load && !order.empty() && order != "weak";
  if (moves) {
    take(parts, {"ca", "cg", "cs", "cv", "nc", "wb", "wt"});
    take(parts, {"L1::no_allocate", "L1::evict_last"});
    const std::string_view vector = take(parts, {"v2", "v4"});
    meaning.count = vector == "v2" ? 2 : vector == "v4" ? 4 : 1;
  }
  const std::string_view operation = moves ? "" : take(parts, {"add", "exch", "min", "max", "and", "or", "xor", "cas"});
  if (parts.size() != 1 || (meaning.bytes = static_cast<std::uint8_t>(type_bytes(parts[0]))) == 0) {
    return std::nullopt;
  }
  meaning.is_signed = parts[0][0] == 's';
  meaning.access = is_load ? Access::load : moves ? Access::store : Access::atomic;
  if (!moves) {
    const bool returns = what == "atom";
    meaning.execute = returns ? atomic_of<true>(operation, parts[0]) : atomic_of<false>(operation, parts[0]);
    const std::string letter(1, meaning.bytes == 8 ? 'q' : 'w');
    meaning.form =
        (returns ? meaning.bytes == 8 ? "Q" : "W" : "") + ("[" + letter) + (operation == "cas" ? letter : "");
    return meaning.execute == nullptr ? std::nullopt : std::optional(meaning);
  }
  // The registers may be wider than the elements: the first that is one says.
  const std::size_t first = operands.find_first_of("hwqx");
  char letter = meaning.bytes == 16                                     ? 'x'
                : meaning.bytes == 8                                    ? 'q'
                : meaning.bytes == 4 || first == std::string_view::npos ? 'w'
                                                                        : 'h';
  if (first != std::string_view::npos) {
    letter = operands[first];
  }
  meaning.register_bytes = static_cast<std::uint8_t>(letter == 'h' ? 2 : letter == 'w' ? 4 : letter == 'q' ? 8 : 16);
  meaning.execute = move_of(meaning.bytes, meaning.register_bytes, is_load);
  std::string registers(meaning.count, is_load ? static_cast<char>(letter - 'a' + 'A') : letter);
  if (meaning.count > 1) {
    registers = "{" + registers + "}";
  }
  meaning.form = is_load ? registers + "[" : "[" + registers;
  const bool fits_type =
      meaning.execute != nullptr && meaning.bytes * meaning.count <= 16 && (meaning.space != Space::param || is_load);
  return fits_type ? std::optional(meaning) : std::nullopt;
}

}  // namespace onchip::ptx
