// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies and stores, and the transaction barriers that count them.
#include "sim/ptx/lanes.hpp"
#include "sim/ptx/memory_instructions.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace onchip::ptx {
namespace {

// ---- asynchronous copies --------------------------------------------------------------------------------------------

// The copies of a lane's groups before `end` land.
void land(Warp& warp, int lane, u32 end) {
  const auto lands = [&](const Copy& copy) { return copy.lane == lane && static_cast<s32>(copy.group - end) < 0; };
  for (const Copy& copy : warp.copies) {
    if (lands(copy)) {
      std::memcpy(&warp.block.shared[copy.to], copy.from, copy.bytes);
      std::memset(&warp.block.written[copy.to], kWritten, copy.bytes);
    }
  }
  std::erase_if(warp.copies, lands);
}

// At[3], if there: bytes to read, zeros behind.
void cp_async(Warp& warp, const Instruction& i, u32 lanes) {
  static constexpr std::byte kZeros[16]{};
  const u32 bytes = *warp.lanes<u32>(i.at[2]);
  for_lanes(lanes, [&](int lane) {
    if (bytes != 4 && bytes != 8 && bytes != 16) {
      throw LaneFault{lane, "copies have 4, 8 or 16 bytes, not " + std::to_string(bytes)};
    }
    const u64 to = address_of(warp, i, 0, 0, lane), from = address_of(warp, i, 1, 1, lane);
    check_aligned(lane, to, bytes);
    check_aligned(lane, from, bytes);
    const SharedPlace place = shared_place(warp, lane, to, bytes);
    if (place.block != &warp.block) {
      throw LaneFault{lane, "an asynchronous copy goes to another block's shared memory"};
    }
    // Of so many bytes the rest is zero.
    const u32 read = i.operands > 3 ? std::min(bytes, warp.lanes<u32>(i.at[3])[lane]) : bytes;
    std::memset(&warp.block.written[place.at], kBeingCopied, bytes);
    const u32 group = warp.copy_group[lane];
    if (read > 0) {
      warp.copies.push_back({lane, group, place.at, read, in_global(warp, lane, from, read, false)});
    }
    if (read < bytes) {
      warp.copies.push_back({lane, group, place.at + read, bytes - read, kZeros});
    }
  });
}

void cp_async_commit(Warp& warp, const Instruction&, u32 lanes) {
  for_lanes(lanes, [&](int lane) { ++warp.copy_group[lane]; });
}

// At[0]: groups that may be left.
void cp_async_wait(Warp& warp, const Instruction& i, u32 lanes) {
  if (warp.copies.empty()) {
    return;
  }
  const u32 left = *warp.lanes<u32>(i.at[0]);
  for_lanes(lanes, [&](int lane) { land(warp, lane, warp.copy_group[lane] - left); });
}

void cp_async_wait_all(Warp& warp, const Instruction&, u32 lanes) {
  for_lanes(lanes, [&](int lane) { land(warp, lane, ++warp.copy_group[lane]); });
}

// ---- transaction barriers -------------------------------------------------------------------------------------------
// An mbarrier object is opaque 8 bytes of shared memory; here: arrivals per phase, arrivals and bytes outstanding, the
// parity of the phase, and a mark that it was initialised.

struct Barrier {
  u32 expected = 0, pending = 0;
  s32 bytes = 0;
  u32 phase = 0;
};

constexpr int kCountBits = 19, kByteBits = 22;
constexpr u64 kMark = u64{3} << 62;

SharedPlace barrier_place(Warp& warp, int lane, u64 address) {
  check_aligned(lane, address, 8);
  return shared_place(warp, lane, address, 8);
}

Barrier read_barrier(const SharedPlace& place, int lane) {
  u64 word;
  std::memcpy(&word, &place.block->shared[place.at], 8);
  if (place.block->written[place.at] != kWritten || (word & kMark) != kMark) {
    throw LaneFault{lane, "there is no initialised mbarrier at " + hex(place.at)};
  }
  constexpr u64 kCount = (u64{1} << kCountBits) - 1;
  Barrier barrier;
  barrier.expected = static_cast<u32>(word & kCount);
  barrier.pending = static_cast<u32>(word >> kCountBits & kCount);
  barrier.bytes = static_cast<s32>(word >> 2 * kCountBits & ((u64{1} << kByteBits) - 1)) - (1 << (kByteBits - 1));
  barrier.phase = static_cast<u32>(word >> (2 * kCountBits + kByteBits) & 1);
  return barrier;
}

// Begins the next phase if this one has ended.
void write_barrier(const SharedPlace& place, int lane, Barrier barrier) {
  if (std::abs(barrier.bytes) >= 1 << 20) {
    throw LaneFault{lane, "an mbarrier expects more than 2^20 - 1 bytes"};
  }
  if (barrier.pending == 0 && barrier.bytes == 0) {
    barrier.pending = barrier.expected;
    barrier.phase ^= 1;
  }
  const u64 word = kMark | u64{barrier.expected} | u64{barrier.pending} << kCountBits |
                   static_cast<u64>(barrier.bytes + (1 << (kByteBits - 1))) << 2 * kCountBits |
                   u64{barrier.phase} << (2 * kCountBits + kByteBits);
  std::memcpy(&place.block->shared[place.at], &word, 8);
  std::memset(&place.block->written[place.at], kWritten, 8);
}

void mbarrier_init(Warp& warp, const Instruction& i, u32 lanes) {
  for_lanes(lanes, [&](int lane) {
    const u32 count = warp.lanes<u32>(i.at[1])[lane];
    if (count == 0 || count >= 1u << kCountBits) {
      throw LaneFault{lane, "an mbarrier cannot expect " + std::to_string(count) + " arrivals"};
    }
    write_barrier(barrier_place(warp, lane, address_of(warp, i, 0, 0, lane)), lane, {count, count, 0, 0});
  });
}

// _, [barrier]; bytes, if there
void mbarrier_arrive(Warp& warp, const Instruction& i, u32 lanes) {
  for_lanes(lanes, [&](int lane) {
    const SharedPlace place = barrier_place(warp, lane, address_of(warp, i, 1, 0, lane));
    Barrier barrier = read_barrier(place, lane);
    if (barrier.pending == 0) {
      throw LaneFault{lane, "more threads arrive at an mbarrier than it expects"};
    }
    barrier.bytes += i.operands > 2 ? static_cast<s32>(warp.lanes<u32>(i.at[2])[lane]) : 0;
    --barrier.pending;
    write_barrier(place, lane, barrier);
  });
}

// p, [barrier], parity
void mbarrier_wait_parity(Warp& warp, const Instruction& i, u32 lanes) {
  u32 ended = 0;
  for_lanes(lanes, [&](int lane) {
    const Barrier barrier = read_barrier(barrier_place(warp, lane, address_of(warp, i, 1, 0, lane)), lane);
    ended |= u32{barrier.phase != (warp.lanes<u32>(i.at[2])[lane] & 1)} << lane;
  });
  write_predicate(warp, i.at[0], ended, lanes);
}

// Puts bytes where they belong, and counts them at the mbarrier of the instruction's last operand, which is `which` of
// its addresses.
void deliver(Warp& warp, const Instruction& i, int which, int lane, const SharedPlace& to, const void* from, u32 bytes,
             const char* what) {
  const SharedPlace counts = barrier_place(warp, lane, address_of(warp, i, i.operands - 1, which, lane));
  if (to.block != counts.block) {
    throw LaneFault{lane, std::string(what) + " and its mbarrier are in different blocks"};
  }
  std::memcpy(&to.block->shared[to.at], from, bytes);
  std::memset(&to.block->written[to.at], kWritten, bytes);
  Barrier barrier = read_barrier(counts, lane);
  barrier.bytes -= static_cast<s32>(bytes);
  write_barrier(counts, lane, barrier);
}

void st_async(Warp& warp, const Instruction& i, u32 lanes) {
  for_lanes(lanes, [&](int lane) {
    const u64 address = address_of(warp, i, 0, 0, lane);
    check_aligned(lane, address, 4);
    deliver(warp, i, 1, lane, shared_place(warp, lane, address, 4), &warp.lanes<u32>(i.at[1])[lane], 4,
            "an asynchronous store");
  });
}

// [shared], [global], bytes, [barrier]
void cp_async_bulk(Warp& warp, const Instruction& i, u32 lanes) {
  for_lanes(lanes, [&](int lane) {
    const u32 bytes = warp.lanes<u32>(i.at[2])[lane];
    if (bytes == 0 || bytes % 16 != 0) {
      throw LaneFault{lane, "bulk copies have a multiple of 16 bytes, not " + std::to_string(bytes)};
    }
    const u64 address = address_of(warp, i, 0, 0, lane), from = address_of(warp, i, 1, 1, lane);
    check_aligned(lane, address, 16);
    check_aligned(lane, from, 16);
    const SharedPlace to = shared_place(warp, lane, address, bytes);
    deliver(warp, i, 2, lane, to, in_global(warp, lane, from, bytes, false), bytes, "a bulk copy");
  });
}

void mapa(Warp& warp, const Instruction& i, u32 lanes) {
  for_lanes(lanes, [&](int lane) {
    const u32 address = warp.lanes<u32>(i.at[1])[lane], rank = warp.lanes<u32>(i.at[2])[lane];
    if (rank >= warp.block.cluster.blocks.size()) {
      throw LaneFault{lane, "there is no block " + std::to_string(rank) + " in the cluster"};
    }
    warp.lanes<u32>(i.at[0])[lane] = (address & 0xffffff) | (rank + 1) << 24;
  });
}

}  // namespace

// NOLINTBEGIN: one instruction in a line
// clang-format off
std::vector<InstructionRow> async_rows() {
  return {
      {"cp.async.ca.shared.global cp.async.cg.shared.global", accessing(as("[[#", cp_async), Access::copy)},
      {"cp.async.ca.shared.global cp.async.cg.shared.global", accessing(as("[[#w", cp_async), Access::copy)},
      {"cp.async.commit_group", as("", cp_async_commit)},
      {"cp.async.wait_group", as("#", cp_async_wait)},
      {"cp.async.wait_all", as("", cp_async_wait_all)},
      {"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 st.async.shared::cluster.mbarrier::complete_tx::bytes.b32", as("[w[", st_async)},
      {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", as("[[w[", cp_async_bulk)},
      {"mapa.shared::cluster.u32", as("Www", mapa)},
      {"mbarrier.init.shared::cta.b64 mbarrier.init.shared.b64", as("[w", mbarrier_init)},
      {"mbarrier.arrive.shared::cta.b64 mbarrier.arrive.shared.b64", as("_[", mbarrier_arrive)},
      {"mbarrier.arrive.expect_tx.shared::cta.b64 mbarrier.arrive.expect_tx.shared.b64", as("_[w", mbarrier_arrive)},
      {"mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 mbarrier.try_wait.parity.shared::cta.b64 mbarrier.test_wait.parity.shared::cta.b64", as("P[w", mbarrier_wait_parity, Flow::plain, /*polls=*/true)},
      {"mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 mbarrier.try_wait.parity.shared::cta.b64", as("P[ww", mbarrier_wait_parity, Flow::plain, /*polls=*/true)},
  };
}
// clang-format on
// NOLINTEND

}  // namespace onchip::ptx
