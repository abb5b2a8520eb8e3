// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/compact_trace.hpp"

#include "model/banks/bank_rule.hpp"
#include "model/base/error.hpp"

#include <algorithm>
#include <bit>
#include <optional>

namespace onchip {
namespace {

constexpr int kHasMask = 16, kHasRegisters = 32, kHasClock = 64, kOperationBits = 15;  // those of version 1
constexpr std::string_view kMagicOfVersion1 = "onchip trace 1\n";
constexpr std::uint8_t kStride = 0, kDifferences = 1;
constexpr int kLoopBytes = 8;

std::uint64_t to_unsigned(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

// ---- writing --------------------------------------------------------------------------------------------------------

void put(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    out += static_cast<char>(value | 0x80);
  }
  out += static_cast<char>(value);
}
void put_signed(std::string& out, std::int64_t value) {
  put(out, static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63));
}

void put_addresses(std::string& out, std::span<const std::uint64_t> addresses, std::uint64_t& base) {
  const auto difference = [](std::uint64_t a, std::uint64_t b) { return static_cast<std::int64_t>(a - b); };
  const std::int64_t stride = addresses.size() > 1 ? difference(addresses[1], addresses[0]) : 0;
  bool regular = true;
  for (std::size_t i = 1; i < addresses.size(); ++i) {
    regular = regular && difference(addresses[i], addresses[i - 1]) == stride;
  }
  out += static_cast<char>(regular ? kStride : kDifferences);
  put_signed(out, difference(addresses[0], base));
  base = addresses[0];
  if (regular) {
    put_signed(out, stride);
    return;
  }
  for (std::size_t i = 1; i < addresses.size(); ++i) {
    put_signed(out, difference(addresses[i], addresses[i - 1]));
  }
}

void put_warp(std::string& out, const WarpTrace& warp) {
  put(out, warp.instructions.size());
  std::uint64_t base = 0, clock = 0;
  for (std::size_t i = 0; i < warp.instructions.size(); ++i) {
    const Instruction& instruction = warp.instructions[i];
    const bool has_registers =
        instruction.destination != kNoRegister ||
        std::ranges::any_of(instruction.sources, [](Register source) { return source != kNoRegister; });
    out += static_cast<char>(instruction.operation);
    out += static_cast<char>((instruction.mask != ~0u ? kHasMask : 0) | (has_registers ? kHasRegisters : 0) |
                             (warp.clocks.empty() ? 0 : kHasClock));
    if (instruction.mask != ~0u) {
      for (int byte = 0; byte < 4; ++byte) {
        out += static_cast<char>(instruction.mask >> 8 * byte);
      }
    }
    if (has_registers) {
      const auto put_register = [&](Register reg) { put(out, reg == kNoRegister ? 0u : reg + 1u); };
      put_register(instruction.destination);
      std::ranges::for_each(instruction.sources, put_register);
    }
    if (!warp.clocks.empty()) {
      put_signed(out, static_cast<std::int64_t>(warp.clocks[i] - clock));
      clock = warp.clocks[i];
    }
    if (has_addresses(instruction.operation)) {
      out += static_cast<char>(std::countr_zero(static_cast<unsigned>(instruction.width)));
      if (instruction.mask != 0) {
        put_addresses(out, warp.addresses_of(instruction), base);
      }
    }
  }
}

// ---- reading --------------------------------------------------------------------------------------------------------

class Reader {
 public:
  Reader(std::string_view bytes, std::string_view file_name, std::size_t at = 0)
      : bytes_(bytes), file_name_(file_name), at_(at), is_version_1_(bytes.starts_with(kMagicOfVersion1)) {}

  std::size_t at() const { return at_; }
  std::size_t left() const { return bytes_.size() - at_; }

  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(std::string(file_name_) + ": byte " + std::to_string(at_) + ": " + message);
  }

  std::uint8_t byte(const char* what) {
    if (left() == 0) {
      fail("the file ends: expected " + std::string(what));
    }
    return static_cast<std::uint8_t>(bytes_[at_++]);
  }

  std::uint64_t number(const char* what) {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::uint8_t next = byte(what);
      value |= static_cast<std::uint64_t>(next & 0x7f) << shift;
      if (next < 0x80) {
        return value;
      }
    }
    fail(std::string(what) + " has more than 64 bits");
  }
  std::uint64_t number(const char* what, std::uint64_t most) {
    const std::uint64_t value = number(what);
    if (value > most) {
      fail("found " + std::to_string(value) + " as " + what + ": expected at most " + std::to_string(most));
    }
    return value;
  }
  std::uint64_t signed_number(const char* what) {
    const std::uint64_t value = number(what);
    return value >> 1 ^ (~(value & 1) + 1);
  }

  StepShape step(std::int64_t blocks) {
    StepShape step;
    for (const StepField& field : kStepFields) {
      const std::string what(field.name);
      const auto value = static_cast<std::int64_t>(number(what.c_str(), to_unsigned(field.most)));
      if (value < field.least) {
        fail("found " + std::to_string(value) + " as " + what + ": expected at least " + std::to_string(field.least));
      }
      step.*field.value = value;
    }
    const bool is_whole = step.threads % kWarpLanes == 0 && step.fetching_threads % kWarpLanes == 0 &&
                          step.state_words % step.passes == 0 && std::has_single_bit(to_unsigned(step.line_words));
    const bool publishes = step.is_pipelined == 0 ? step.passes == 1 && step.fetching_threads == step.threads
                                                  : step.body_words() % step.plane_words == 0 &&
                                                        blocks * step.outbox_plane_words <= step.plane_words;
    const bool polls =
        step.polled_words == 0 ||
        (step.group_sms > 0 && (blocks + step.group_sms - 1) / step.group_sms * step.group_words <= step.body_words());
    if (blocks == 0) {
      fail("found a step of no blocks: expected at least 1");
    }
    if (!is_whole || !publishes || !polls) {
      fail("the step's numbers before it do not go together");
    }
    return step;
  }

  double loop_instructions() {
    std::uint64_t bits = 0;
    for (int i = 0; i < kLoopBytes; ++i) {
      bits |= std::uint64_t{byte("instructions of the loop")} << 8 * i;
    }
    const auto loop = std::bit_cast<double>(bits);
    if (!(loop >= 0 && loop < 1e9)) {
      fail("expected from 0 to 1e9 instructions of the loop");
    }
    return loop;
  }

  // Throws away what it reads unless there is a place for it.
  void block(BlockTrace* to, std::uint64_t least_warps = 0, std::uint64_t most_warps = kMostWarps) {
    const std::uint64_t warps = number("a number of warps", most_warps);
    if (warps < least_warps) {
      fail("found " + std::to_string(warps) + " warps: expected " + std::to_string(least_warps));
    }
    for (std::uint64_t w = 0; w < warps; ++w) {
      WarpTrace unwanted;
      warp(to ? to->warps.emplace_back() : unwanted, to != nullptr);
    }
  }

 private:
  void warp(WarpTrace& to, bool keep) {
    const std::uint64_t count = number("a number of instructions", left());  // each is a byte or more
    std::uint64_t base = 0, clock = 0;
    bool has_clocks = false;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint8_t first = byte("an instruction");
      const int operation = is_version_1_ ? first & kOperationBits : first;
      const int flags = is_version_1_ ? first & ~kOperationBits : byte("the flags of an instruction");
      Instruction instruction;
      if (operation >= static_cast<int>(kOperationNames.size()) || flags & ~(kHasMask | kHasRegisters | kHasClock)) {
        fail("found " + std::to_string(operation) + " with flags " + std::to_string(flags) +
             ": expected an operation from 0 to " + std::to_string(kOperationNames.size() - 1) + " with its flags");
      }
      instruction.operation = static_cast<Operation>(operation);
      if (flags & kHasMask) {
        instruction.mask = 0;
        for (int shift = 0; shift < 32; shift += 8) {
          instruction.mask |= static_cast<std::uint32_t>(byte("a mask")) << shift;
        }
      }
      if (flags & kHasRegisters) {
        instruction.destination = read_register();
        std::ranges::generate(instruction.sources, [&] { return read_register(); });
      }
      if (i > 0 && has_clocks != ((flags & kHasClock) != 0)) {
        fail("some instructions of the warp have a clock and some have none");
      }
      has_clocks = flags & kHasClock;
      if (has_clocks) {
        clock += signed_number("a clock");
        if (keep) {
          to.clocks.push_back(clock);
        }
      }
      std::array<std::uint64_t, kWarpLanes> addresses;
      const std::size_t active =
          has_addresses(instruction.operation) ? read_addresses(instruction, addresses, base) : 0;
      if (keep) {
        to.add(instruction, {addresses.data(), active});
      }
    }
  }

  Register read_register() {
    const std::uint64_t above = is_version_1_ ? byte("a register") + 1u : number("a register", kRegisters);
    return above == 0 ? kNoRegister : static_cast<Register>(above - 1);
  }

  std::size_t read_addresses(Instruction& instruction, std::array<std::uint64_t, kWarpLanes>& addresses,
                             std::uint64_t& base) {
    const std::uint8_t logarithm = byte("a width");
    if (logarithm > 4) {
      fail("found 2^" + std::to_string(logarithm) + " bytes as a width: expected 2^0 to 2^4");
    }
    instruction.width = static_cast<std::uint8_t>(1 << logarithm);
    const auto active = static_cast<std::size_t>(std::popcount(instruction.mask));
    if (active == 0) {
      return 0;
    }
    const std::uint8_t form = byte("a form of addresses");
    if (form > kDifferences) {
      fail("found " + std::to_string(form) + " as a form of addresses: expected 0 or 1");
    }
    addresses[0] = base += signed_number("an address");
    const std::uint64_t stride = form == kStride ? signed_number("a stride") : 0;
    for (std::size_t i = 1; i < active; ++i) {
      addresses[i] = addresses[i - 1] + (form == kStride ? stride : signed_number("an address"));
    }
    for (std::size_t i = 0; i < active; ++i) {
      check_address(instruction, addresses[i]);
    }
    return active;
  }

  void check_address(const Instruction& instruction, std::uint64_t address) const {
    if (address % instruction.width != 0) {
      fail("found address " + std::to_string(address) + " of " + std::to_string(instruction.width) +
           " bytes: expected a multiple of them");
    }
    if (is_shared_access(instruction.operation) && address >= kMostSharedBytes) {
      fail("found address " + std::to_string(address) + " in shared memory: expected less than " +
           std::to_string(kMostSharedBytes));
    }
  }

  std::string_view bytes_, file_name_;
  std::size_t at_;
  bool is_version_1_;
};

class CompactTrace : public TraceSource {
 public:
  CompactTrace(std::string_view bytes, std::string_view file_name) : bytes_(bytes), file_name_(file_name) {
    Reader reader(bytes_, file_name_);
    if (!is_compact_trace(bytes_)) {
      reader.fail("expected a trace, which begins with 'onchip trace 2'");
    }
    reader = Reader(bytes_, file_name_, kCompactTraceMagic.size());
    const std::uint64_t blocks =
        reader.number("a number of blocks", std::min<std::uint64_t>(kMostBlocks, bytes.size()));
    if (bytes_.starts_with(kCompactTraceMagic)) {
      constexpr std::uint64_t kMostThreads = kMostWarps * kWarpLanes;
      const auto threads = static_cast<int>(reader.number("a number of threads", kMostThreads));
      const auto registers = static_cast<int>(reader.number("registers per thread", kRegisters));
      const auto bytes_shared = static_cast<long>(reader.number("bytes of shared memory", kMostSharedBytes));
      if (threads > 0) {
        resources_ = {threads, registers, bytes_shared};
      }
      if (reader.number("whether it is a step", 1) != 0) {
        step_ = reader.step(static_cast<std::int64_t>(blocks));
      }
    }
    const std::uint64_t body_warps =
        !step_ ? 0 : to_unsigned(step_->threads + (step_->is_pipelined ? step_->fetching_threads : 0)) / kWarpLanes;
    for (std::uint64_t b = 0; b < blocks * to_unsigned(parts()); ++b) {
      begins_.push_back(reader.at());
      if (step_) {
        reader.loop_instructions();
      }
      if (b % to_unsigned(parts()) == 0) {
        reader.block(nullptr);
      } else {
        reader.block(nullptr, body_warps, body_warps);
      }
    }
    if (reader.left() > 0) {
      reader.fail("found " + std::to_string(reader.left()) + " bytes behind the last block: expected the end");
    }
  }

  int blocks() const override { return static_cast<int>(static_cast<std::int64_t>(begins_.size()) / parts()); }
  std::optional<BlockResources> resources() const override { return resources_; }
  BlockTrace block(int index) const override { return part(index, 0); }
  const StepShape* step() const override { return step_ ? &*step_ : nullptr; }
  BlockTrace body(int index, int pass = 0) const override { return part(index, step_ ? 1 + pass : 0); }

 private:
  std::int64_t parts() const { return step_ ? 1 + step_->passes : 1; }  // of a block
  BlockTrace part(int index, int number) const {
    BlockTrace block;
    Reader reader(bytes_, file_name_, begins_[to_unsigned(index * parts() + number)]);
    block.loop_instructions = step_ ? reader.loop_instructions() : 0;
    reader.block(&block);
    return block;
  }

  std::string_view bytes_;
  std::string file_name_;
  std::optional<BlockResources> resources_;
  std::optional<StepShape> step_;
  std::vector<std::size_t> begins_;  // of each block, and of its bodies behind it
};

}  // namespace

bool is_compact_trace(std::string_view bytes) {
  return bytes.starts_with(kCompactTraceMagic) || bytes.starts_with(kMagicOfVersion1);
}

std::string compact_trace_header(int blocks, const std::optional<BlockResources>& resources, const StepShape* step) {
  std::string out(kCompactTraceMagic);
  put(out, to_unsigned(blocks));
  const BlockResources of_block = resources.value_or(BlockResources{});
  put(out, to_unsigned(of_block.threads));
  put(out, to_unsigned(of_block.registers_per_thread));
  put(out, to_unsigned(of_block.smem_bytes));
  put(out, step ? 1 : 0);
  for (std::size_t i = 0; step && i < kStepFields.size(); ++i) {
    put(out, to_unsigned(step->*kStepFields[i].value));
  }
  return out;
}

std::string encode_block(const BlockTrace& block) {
  std::string out;
  put(out, block.warps.size());
  for (const WarpTrace& warp : block.warps) {
    put_warp(out, warp);
  }
  return out;
}

std::string encode_block(const TraceSource& source, int index) {
  if (!source.step()) {
    return encode_block(source.block(index));
  }
  std::string out;
  for (int part = 0; part <= source.step()->passes; ++part) {
    const BlockTrace block = part == 0 ? source.block(index) : source.body(index, part - 1);
    const auto loop = std::bit_cast<std::uint64_t>(block.loop_instructions);
    for (int i = 0; i < kLoopBytes; ++i) {
      out += static_cast<char>(loop >> 8 * i);
    }
    out += encode_block(block);
  }
  return out;
}

std::unique_ptr<TraceSource> parse_compact_trace(std::string_view bytes, std::string_view file_name) {
  return std::make_unique<CompactTrace>(bytes, file_name);
}

}  // namespace onchip
