// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/accel_sim_trace.hpp"
#include "sim/trace/compact_trace.hpp"

#include "tests/catch.hpp"
#include "tests/error_of.hpp"

#include <bit>
#include <random>
#include <string>

using namespace onchip;

namespace {

struct Random {
  std::mt19937 engine;
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(engine()) % bound; }
};

std::vector<std::uint64_t> random_addresses(Random& random, std::uint32_t mask, int width, bool shared) {
  std::vector<std::uint64_t> addresses;
  const std::uint64_t base = shared ? random.below(1000) : (std::uint64_t{random.below(1u << 20)} << 20);
  const bool regular = random.below(2);
  const std::uint64_t stride = random.below(5);
  for (int i = 0; i < std::popcount(mask); ++i) {
    addresses.push_back((base + (regular ? i * stride : random.below(4096))) * static_cast<std::uint64_t>(width));
  }
  return addresses;
}

WarpTrace random_warp(Random& random, bool clocks) {
  WarpTrace warp;
  std::uint64_t clock = 0;
  for (std::uint32_t i = random.below(60); i > 0; --i) {
    Instruction instruction;
    instruction.operation = static_cast<Operation>(random.below(static_cast<std::uint32_t>(kOperationNames.size())));
    instruction.mask = random.below(3) ? ~0u : static_cast<std::uint32_t>(random.engine());
    if (random.below(2)) {
      instruction.destination = static_cast<Register>(random.below(kRegisters));
      instruction.sources[random.below(4)] = static_cast<Register>(random.below(kRegisters));
    }
    std::vector<std::uint64_t> addresses;
    if (has_addresses(instruction.operation)) {
      instruction.width = static_cast<std::uint8_t>(1 << random.below(5));
      addresses =
          random_addresses(random, instruction.mask, instruction.width, is_shared_access(instruction.operation));
    }
    warp.add(instruction, addresses);
    if (clocks) {
      warp.clocks.push_back(clock += random.below(1000));
    }
  }
  return warp;
}

std::string file_of(const std::vector<BlockTrace>& blocks) {
  std::string file = compact_trace_header(static_cast<int>(blocks.size()), BlockResources{96, 40, 1000});
  for (const BlockTrace& block : blocks) {
    file += encode_block(block);
  }
  return file;
}

std::string compact_error(std::string_view bytes) {
  return error_of([&] { parse_compact_trace(bytes, "t.trace"); });
}

std::string accel_error_of(const std::string& text) {
  return error_of([&] { parse_accel_sim_trace(text, "k.traceg"); });
}

std::string kernel(const std::string& instructions, int count) {
  return "-kernel name = k\n-shmem base_addr = 0x00007f0000000000\n-accelsim tracer version = 5\n\n"
         "#traces format = ...\n\n#BEGIN_TB\n\nthread block = 0,0,0\n\nwarp = 0\ninsts = " +
         std::to_string(count) + "\n" + instructions + "\n#END_TB\n";
}

}  // namespace

TEST_CASE("compact traces read back as they were written", "[fast]") {
  Random random{std::mt19937(11)};
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<BlockTrace> blocks(random.below(4));
    for (BlockTrace& block : blocks) {
      for (std::uint32_t w = random.below(5); w > 0; --w) {
        block.warps.push_back(random_warp(random, trial % 2));
      }
    }
    const std::string file = file_of(blocks);
    const auto source = parse_compact_trace(file, "t.trace");
    REQUIRE(source->blocks() == static_cast<int>(blocks.size()));
    REQUIRE(source->resources()->threads == 96);
    REQUIRE(source->resources()->registers_per_thread == 40);
    REQUIRE(source->resources()->smem_bytes == 1000);
    for (std::size_t b = blocks.size(); b-- > 0;) {  // in any order
      REQUIRE(source->block(static_cast<int>(b)) == blocks[b]);
    }
  }
}

TEST_CASE("compact traces of version 1 are read", "[fast]") {
  // One block of one warp: an addition of R1 and R2 to R3, and a 4-byte load by lanes 0 and 1.
  const std::string file("onchip trace 1\n\1\1\2\x23\3\1\2\xff\xff\x17\3\0\0\0\2\0\x20\x08", 33);
  const auto source = parse_compact_trace(file, "t.trace");
  REQUIRE(!source->resources());
  const WarpTrace warp = source->block(0).warps.at(0);
  REQUIRE(warp.instructions.at(0).destination == 3);
  REQUIRE(warp.instructions.at(0).sources == std::array<Register, 4>{1, 2, kNoRegister, kNoRegister});
  REQUIRE(warp.instructions.at(1).operation == Operation::shared_load);
  REQUIRE(warp.addresses == std::vector<std::uint64_t>{16, 20});
}

TEST_CASE("every truncation of a compact trace is one error with its place", "[fast]") {
  Random random{std::mt19937(5)};
  BlockTrace block;
  block.warps = {random_warp(random, true), random_warp(random, false)};
  const std::string file = file_of({block, block});
  REQUIRE(compact_error(file) == "no error");
  for (std::size_t size = 0; size < file.size(); ++size) {
    const std::string error = compact_error(std::string_view(file).substr(0, size));
    CAPTURE(size, error);
    REQUIRE(error.starts_with("t.trace: byte "));
    REQUIRE(!says(error, "\n"));
  }
  REQUIRE(compact_error(file + "x") ==
          "t.trace: byte " + std::to_string(file.size()) + ": found 1 bytes behind the last block: expected the end");
}

TEST_CASE("a step whose numbers do not go together, or whose file ends, is refused", "[fast]") {
  StepShape good;
  good.threads = good.fetching_threads = 32;
  good.state_words = 8;
  const auto file = [](const StepShape& step, int warps) {
    const std::string block = std::string(8, '\0') + encode_block(BlockTrace{std::vector<WarpTrace>(warps), 0});
    return compact_trace_header(1, BlockResources{32, 40, 1000}, &step) + block + block;
  };
  REQUIRE(compact_error(file(good, 1)) == "no error");
  const std::string whole = file(good, 1);
  REQUIRE(*parse_compact_trace(whole, "t.trace")->step() == good);
  REQUIRE(parse_compact_trace(whole, "t.trace")->resources()->smem_bytes == 1000);
  REQUIRE(says(compact_error(file(good, 2)), "warps"));
  for (const StepField& field : kStepFields) {
    StepShape bad = good;
    bad.*field.value = field.most + 1;
    REQUIRE(says(compact_error(file(bad, 1)), field.name));
  }
  const auto refused = [&](auto&& change) {
    StepShape bad = good;
    change(bad);
    return says(compact_error(file(bad, 1)), "do not go together");
  };
  REQUIRE(refused([](StepShape& s) { s.threads = 33; }));
  REQUIRE(refused([](StepShape& s) { s.line_words = 3; }));
  REQUIRE(refused([](StepShape& s) { s.passes = 2; }));
  REQUIRE(refused([](StepShape& s) { s.is_pipelined = 1, s.plane_words = 8, s.outbox_plane_words = 9; }));
  // As many warps poll as end, from a state that is one pass's.
  REQUIRE(refused([](StepShape& s) { s.fetching_threads = 64; }));
  REQUIRE(refused([](StepShape& s) {
    s.is_pipelined = 1, s.passes = 2, s.plane_words = s.outbox_plane_words = 4;
    s.polled_words = s.warp_words = 4, s.group_sms = 1, s.group_words = 8;
  }));
  REQUIRE(says(compact_error(compact_trace_header(0, BlockResources{32, 40, 1000}, &good)), "a step of no blocks"));
  REQUIRE(refused([](StepShape& s) { s.polled_words = 4; }));
  REQUIRE(refused([](StepShape& s) { s.polled_words = 4, s.group_sms = 1, s.group_words = 9; }));
  for (std::size_t bytes = 0; bytes < file(good, 1).size(); ++bytes) {
    REQUIRE(compact_error(file(good, 1).substr(0, bytes)).starts_with("t.trace: "));
  }
}

TEST_CASE("hostile compact traces are refused without reserving what they claim", "[fast]") {
  const std::string huge = "\xff\xff\xff\xff\xff\xff\xff\xff\x7f";
  REQUIRE(says((compact_error(std::string(kCompactTraceMagic) + huge)), "number of blocks"));
  REQUIRE(says((compact_error(compact_trace_header(1) + huge)), "number of warps"));
  REQUIRE(says((compact_error(compact_trace_header(1) + '\1' + huge)), "number of instructions"));
  REQUIRE(says((compact_error(compact_trace_header(1) + "\1\1\x11\x01")), "operation"));
  REQUIRE(says((compact_error(compact_trace_header(1) + std::string("\1\1\x07\x00\x05", 5))), "width"));
  // 4 bytes at an address that is not a multiple of 4; at one that no shared memory has.
  REQUIRE(says((compact_error(compact_trace_header(1) + std::string("\1\1\x07\x00\x02\x00\x02\x08", 8))), "multiple"));
  REQUIRE(says(
      (compact_error(compact_trace_header(1) + std::string("\1\1\x07\x00\x02\x00\x80\x80\x80\x80\x80\x08\x08", 13))),
      "shared memory"));
  Random random{std::mt19937(17)};
  BlockTrace block;
  block.warps = {random_warp(random, true)};
  const std::string file = file_of({block});
  for (int trial = 0; trial < 3000; ++trial) {
    std::string changed = file;
    changed[random.below(static_cast<std::uint32_t>(file.size()))] = static_cast<char>(random.engine());
    const std::string error = compact_error(changed);
    REQUIRE((error == "no error" || error.starts_with("t.trace: byte ")));
  }
}

TEST_CASE("Accel-Sim's three forms of addresses mean the same", "[fast]") {
  const std::vector<std::string> forms{"4 0 0x100 0x104 0x108 0x10c", "4 1 0x100 4", "4 2 0x100 4 4 4"};
  for (const std::string& form : forms) {
    const std::string text = kernel("0010 0000000f 1 R4 LDS 1 R2 " + form + "\n", 1);
    const auto source = parse_accel_sim_trace(text, "k.traceg");
    REQUIRE(source->blocks() == 1);
    const BlockTrace block = source->block(0);
    const Instruction& load = block.warps.at(0).instructions.at(0);
    REQUIRE(load.operation == Operation::shared_load);
    REQUIRE(load.width == 4);
    REQUIRE(load.destination == 4);
    REQUIRE(load.sources[0] == 2);
    REQUIRE(load.mask == 0xfu);
    const auto addresses = block.warps[0].addresses_of(load);
    REQUIRE(std::vector(addresses.begin(), addresses.end()) == std::vector<std::uint64_t>{0x100, 0x104, 0x108, 0x10c});
  }
}

TEST_CASE("an Accel-Sim kernel of several blocks and warps is read instruction by instruction", "[fast]") {
  std::string text = kernel(
      "0000 ffffffff 1 R1 IMAD.MOV.U32 2 R255 R255 0 \n"
      "0010 00000000 0 SHFL.IDX 4 R255 R255 R255 R255 0 \n"
      "0020 00000003 1 R8 LDG.E.128.CONSTANT.SYS 1 R44 16 2 0x7efe7b60c300 16 \n"
      "0030 ffffffff 0 STS.U16 2 R3 R4 2 1 0x00007f0000000040 2 7\n"
      "0040 ffffffff 0 BAR.SYNC 0 0\n\nwarp = 1\ninsts = 1\n0000 ffffffff 1 R0 HADD2.F32 1 R1 0\n",
      5);
  text += "#BEGIN_TB\r\nthread block = 1,0,0\r\nwarp = 0\r\ninsts = 1\r\n0000 ffffffff 0 EXIT 0 0\r\n#END_TB\r\n";
  const auto source = parse_accel_sim_trace(text, "k.traceg");
  REQUIRE(source->blocks() == 2);
  const BlockTrace block = source->block(0);
  REQUIRE(block.warps.size() == 2);
  std::vector<Operation> operations;
  for (const Instruction& instruction : block.warps[0].instructions) {
    operations.push_back(instruction.operation);
  }
  REQUIRE(operations == std::vector{Operation::fp32, Operation::shuffle, Operation::global_load,
                                    Operation::shared_store, Operation::barrier});
  REQUIRE(block.warps[0].instructions[2].width == 16);
  REQUIRE(block.warps[0].instructions[3].width == 2);
  REQUIRE(block.warps[0].addresses_of(block.warps[0].instructions[3]).front() == 0x40);  // from the block's first byte
  REQUIRE(block.warps[1].instructions[0].operation == Operation::conversion);
  REQUIRE(source->block(1).warps[0].instructions[0].operation == Operation::other);
}

TEST_CASE("broken Accel-Sim traces are refused with line and column", "[fast]") {
  REQUIRE(accel_error_of("") == "k.traceg: expected a trace with a header and at least one '#BEGIN_TB'");
  REQUIRE(accel_error_of("hello\n") == "k.traceg:1:1: found 'hello': expected '-name = value' or '#BEGIN_TB'");
  REQUIRE(accel_error_of(kernel("0000 zz 0 EXIT 0 0\n", 1)) ==
          "k.traceg:13:6: found 'zz': expected a mask of lanes in hexadecimal");
  REQUIRE(accel_error_of(kernel("0000 ffffffff 1 Q7 MOV 0 0\n", 1)) ==
          "k.traceg:13:17: found 'Q7': expected a register from R0 to R511");
  REQUIRE(accel_error_of(kernel("0000 f 1 R0 LDS 1 R2 4 0 0x0 0x4\n", 1)) ==
          "k.traceg:13:33: found '': expected an address in hexadecimal");
  REQUIRE(accel_error_of(kernel("0000 f 0 EXIT 0 0\n", 2)) ==
          "k.traceg:15:1: the block ends, but 1 instructions of its last warp are missing");
  REQUIRE(says((accel_error_of(kernel("0000 f 0 EXIT 0 0\n0000 f 0 EXIT 0 0\n", 1))), "expected 'warp = N'"));
  const std::string whole = kernel("0000 ffffffff 1 R1 LDS.64 1 R2 8 1 0x0 8\n", 1);
  for (std::size_t size = 0; size + 2 < whole.size(); ++size) {
    REQUIRE(accel_error_of(whole.substr(0, size)).starts_with("k.traceg:"));
  }
}
