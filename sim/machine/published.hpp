// SPDX-License-Identifier: Apache-2.0
// Words that SMs publish for each other and poll for, where all SMs do the same at the same time: what the warps of one
// of them have stored, the others have stored, too. A part of the words, which is read at once, is there when its last
// store has become visible; its loads find nothing before, and are repeated.
#pragma once

#include "sim/trace/trace.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace onchip {

struct Published {
  std::uint64_t begin = 0, part_bytes = 1;
  std::int64_t parts = 0;
  double visible_cycles = 0;  // from a store's issue to that of a load which finds it

  bool has(std::uint64_t address) const {
    return address >= begin && (address - begin) / part_bytes < std::uint64_t(parts);
  }
};

class PublishedWords {
 public:
  explicit PublishedWords(std::span<const Published> kinds) {
    for (const Published& kind : kinds) {
      kinds_.push_back({kind, std::vector<Part>(static_cast<std::size_t>(kind.parts), {.delay = kind.visible_cycles})});
    }
  }

  // A block that will run. All must be known before the first load.
  void expect(const BlockTrace& block) {
    for (const WarpTrace& warp : block.warps) {
      for (const Instruction& instruction : warp.instructions) {
        if (Part* const part = is_store(instruction) ? part_of(warp, instruction) : nullptr) {
          ++part->stores;
        }
      }
    }
  }
  // What an instruction that is issued now stores; or whether it loads something that is not there yet.
  bool finds_nothing(const WarpTrace& warp, const Instruction& instruction, double cycle) {
    Part* const part = kinds_.empty() ? nullptr : part_of(warp, instruction);
    if (part == nullptr) {
      return false;
    }
    if (is_store(instruction)) {
      --part->stores;
      part->visible = std::max(part->visible, cycle + part->delay);
      return false;
    }
    return part->stores > 0 || part->visible > cycle;
  }

 private:
  struct Part {
    std::int64_t stores = 0;  // still to come
    double delay = 0, visible = 0;
  };
  struct Kind {
    Published of;
    std::vector<Part> parts;
  };

  static bool is_store(const Instruction& instruction) {
    return instruction.operation == Operation::global_store || instruction.operation == Operation::shared_store;
  }
  Part* part_of(const WarpTrace& warp, const Instruction& instruction) {
    if (!has_addresses(instruction.operation) || instruction.mask == 0) {
      return nullptr;
    }
    const std::uint64_t address = warp.addresses_of(instruction).front();
    for (Kind& kind : kinds_) {
      if (kind.of.has(address)) {
        return &kind.parts[(address - kind.of.begin) / kind.of.part_bytes];
      }
    }
    return nullptr;
  }

  std::vector<Kind> kinds_;
};

}  // namespace onchip
