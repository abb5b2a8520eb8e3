// SPDX-License-Identifier: Apache-2.0
// Traces as Accel-Sim's tracers write them: what hardware counts of their accesses, which of their blocks run together,
// and their files. Numbers called measured are an H100's.
#include "sim/machine/trace_run.hpp"
#include "sim/trace/accel_sim_trace.hpp"
#include "sim/trace/compact_trace.hpp"
#include "sim/trace/trace_file.hpp"

#include "tests/catch.hpp"
#include "tests/error_of.hpp"
#include "tests/folder.hpp"

#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>

using namespace onchip;

namespace {

constexpr std::uint64_t kSharedBase = 0x7f0000000000;

Chip h100(const char* change = nullptr) {
  ChipFile file = find_chip("h100_sxm");
  if (change) {
    set_chip_key(file, change);
  }
  return file.chip;
}

struct Shape {
  int threads = 32, registers = 32, smem_bytes = 16384;
};

std::string header(const Shape& shape = {}) {
  char text[400];
  std::snprintf(text, sizeof text,
                "-kernel name = k\n-block dim = (%d,1,1)\n-shmem = %d\n-nregs = %d\n-shmem base_addr = 0x%llx\n"
                "-accelsim tracer version = 5\n\n",
                shape.threads, shape.smem_bytes, shape.registers, static_cast<unsigned long long>(kSharedBase));
  return text;
}

// Every warp has the same lines.
std::string block(const std::string& lines, int warps = 1, const std::string& more = "") {
  std::string text = "#BEGIN_TB\n\nthread block = 0,0,0\n" + more + "\n";
  for (int w = 0; w < warps; ++w) {
    text += "warp = " + std::to_string(w) +
            "\ninsts = " + std::to_string(std::count(lines.begin(), lines.end(), '\n')) + "\n" + lines + "\n";
  }
  return text + "#END_TB\n\n";
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) {
    all += text;
  }
  return all;
}

// Lane l asks for the byte at(l).
std::string line(const std::string& opcode, const std::function<std::uint64_t(int)>& at, const char* counter = "0100") {
  std::string text = counter + (" ffffffff 0 " + opcode) + " 1 R2 4 0";
  char address[20];
  for (int lane = 0; lane < 32; ++lane) {
    std::snprintf(address, sizeof address, " 0x%llx", static_cast<unsigned long long>(at(lane)));
    text += address;
  }
  return text + " 0\n";
}
std::string shared(const std::string& opcode, const std::function<int(int)>& at, const char* counter = "0100") {
  return line(
      opcode, [&](int lane) { return kSharedBase + static_cast<std::uint64_t>(at(lane)); }, counter);
}

std::unique_ptr<TraceSource> parse(const std::string& text) {
  static std::string kept;  // the source reads it again
  kept = text;
  return parse_accel_sim_trace(kept, "k.traceg");
}

AccessCost only_access(const std::string& lines) {
  const auto costs = count_accesses(h100(), *parse(header() + block(lines)), 0).accesses;
  REQUIRE(costs.size() == 1);
  return costs[0];
}
int wavefronts(const std::string& opcode, const std::function<int(int)>& at) {
  return only_access(shared(opcode, at)).cost.wavefronts;
}

double cycles(const std::string& text, const Chip& chip = h100()) {
  return run_trace(chip, *parse(text), {}, 1).cycles();
}

std::string trace_error(const std::string& text) {
  return error_of([&] { parse(text); });
}

const std::string kFfma = "0010 ffffffff 1 R4 FFMA 3 R4 R5 R4 0\n";

}  // namespace

TEST_CASE("accesses that no microbenchmark has take the wavefronts that an H100 was counted to take", "[fast]") {
  CHECK(wavefronts("STSM.16.M88.2", [](int lane) { return 16 * lane; }) == 2);
  // A generic access is one of shared memory where its addresses lie there.
  CHECK(wavefronts("LD.E", [](int lane) { return 128 * lane; }) == 32);
  CHECK(wavefronts("ST.E.64", [](int lane) { return 8 * lane; }) == 2);
  CHECK(wavefronts("ATOM.E.ADD", [](int) { return 0; }) == 32);
  const auto elsewhere = line("LD.E", [](int lane) { return kSharedBase + (1 << 24) + 128ull * lane; });
  CHECK(count_accesses(h100(), *parse(header() + block(elsewhere)), 0).accesses.empty());
}

TEST_CASE("the matrices of a load become as many registers", "[fast]") {
  for (const auto& [opcode, matrices] : {std::pair{"LDSM.16.M88", 1}, {"LDSM.16.M88.2", 2}, {"LDSM.16.M88.4", 4}}) {
    const auto source = parse(header() + block(shared(opcode, [](int lane) { return 16 * lane; })));
    REQUIRE(words_of_a_lane(source->block(0).warps[0].instructions[0]) == matrices);
  }
}

TEST_CASE("the two lines of a copy to shared memory are one access", "[fast]") {
  const auto to = shared("LDGSTS.E.128", [](int lane) { return 512 * lane; });
  const auto from = line("LDGSTS.E.128", [](int lane) { return 0x7fffa0000000ull + 16ull * lane; });
  const AccessCost copy = only_access(to + from);
  CHECK(copy.operation == Operation::async_copy);
  CHECK(copy.width == 16);
  CHECK(copy.cost.wavefronts == 32);
  const auto source = parse(header() + block(to + from + to + from));
  REQUIRE(source->block(0).warps[0].instructions.size() == 2);
  const std::vector<BlockBanks> banks = count_banks(h100(), *source, 1);
  CHECK(banks[0].copy_instructions == 2);
  CHECK(banks[0].load_instructions + banks[0].store_instructions == 0);
  // Of an older tracer, which tells the global address alone.
  const auto alone = parse(header() + block(from + from));
  CHECK(alone->block(0).warps[0].instructions.size() == 2);
  CHECK(alone->block(0).warps[0].instructions[1].operation == Operation::global_load);
}

TEST_CASE("loads of no lane make no round trip", "[fast]") {
  const auto of_mask = [](const std::string& mask) {
    std::string lines;
    for (int i = 0; i < 8; ++i) {
      const std::string to = "R" + std::to_string(28 + 2 * i);
      lines +=
          "0100 " + mask + " 1 " + to + " LD.E.64 1 R24 8 1 0x0 0\n0108 ffffffff 1 " + to + " IADD3 1 " + to + " 0\n";
    }
    return cycles(header() + block(lines));
  };
  CHECK(std::abs(of_mask("00000000") - 8 * 29) < 5);  // measured: 29 cycles each
  CHECK(of_mask("00000001") > 8 * 280);
}

TEST_CASE("blocks that fit together run together, and others one after another", "[fast]") {
  const std::string chain = repeated(kFfma, 50);
  const Chip one_sm = h100("sm.count=1");
  const double alone = cycles(header() + block(chain), one_sm);
  CHECK(cycles(header({64}) + block(chain, 2), one_sm) == alone);
  CHECK(cycles(header() + repeated(block(chain), 2), one_sm) == alone);
  CHECK(cycles(header() + repeated(block(chain), 264)) == alone);  // on 132 SMs: measured 1.00 of 132 blocks
  // By shared memory: one block, two, and three in two turns.
  CHECK(cycles(header({32, 32, 120 * 1024}) + repeated(block(chain), 2), one_sm) > 1.9 * alone);
  CHECK(cycles(header({32, 32, 110 * 1024}) + repeated(block(chain), 2), one_sm) == alone);
  const double three = cycles(header({32, 32, 110 * 1024}) + repeated(block(chain), 3), one_sm);
  CHECK((three > 1.9 * alone && three < 2.1 * alone));
  // By registers: 8 warps of 255 registers fit, 4 warps a block.
  CHECK(cycles(header({128, 255, 0}) + repeated(block(chain, 4), 2), one_sm) < alone + 5);
  CHECK(cycles(header({128, 255, 0}) + repeated(block(chain, 4), 3), one_sm) > 1.9 * alone);
  // Nothing known of the block: one at a time.
  const std::string unknown = "-kernel name = k\n" + repeated(block(chain), 2);
  CHECK(cycles(unknown, one_sm) > 1.9 * alone);
  CHECK_THROWS_WITH(cycles(header({1024, 128, 0}) + block(chain)),
                    Catch::Matchers::Contains("no block fits on an SM of H100"));
}

TEST_CASE("a block takes the place of one that ends, not of all", "[fast]") {
  const Chip one_sm = h100("sm.count=1");
  const auto chains = [&](std::initializer_list<int> lengths) {
    std::string text = header({32, 32, 110 * 1024});  // two fit
    for (const int length : lengths) {
      text += block(repeated(kFfma, length));
    }
    return cycles(text, one_sm);
  };
  CHECK(std::abs(chains({300, 100, 200}) - chains({300})) < 10);
  CHECK(std::abs(chains({100, 300, 100, 100}) - chains({300})) < 10);
  const auto source = parse(header() + repeated(block(repeated(kFfma, 9), 3), 5));
  const SmRun run = run_trace(one_sm, *source, {}, 1).sms.at(0);
  CHECK(run.warp_end.size() == 15);
  CHECK(run.issued[static_cast<int>(Operation::fp32)] == 15 * 9);
}

TEST_CASE("a recorded trace takes as long as the trace that it was recorded from", "[fast]") {
  const auto source = parse(header({64, 32, 70 * 1024}) + repeated(block(repeated(kFfma, 40), 2), 500));
  std::string record = compact_trace_header(source->blocks(), source->resources());
  for (int b = 0; b < source->blocks(); ++b) {
    record += encode_block(source->block(b));
  }
  CHECK(run_trace(h100(), *parse_compact_trace(record, "r"), {}, 1).cycles() ==
        run_trace(h100(), *source, {}, 1).cycles());
}

TEST_CASE("lines and registers of tracers for compute capability 9 are read", "[fast]") {
  const std::string lines =
      "0100 ffffffff 1 R260 UMOV 1 R261 0\n"
      "0110 ffffffff 1 R24 HGMMA.64x128x16.F32.BF16 3 R24 R260 R264 1 0\n";
  const auto source = parse(header() + block(lines, 1, "cluster id = 0,0,0\ncluster cta = 0,0,0\ncluster rank = 0\n"));
  const std::vector<Instruction> read = source->block(0).warps.at(0).instructions;
  REQUIRE(read.size() == 2);
  CHECK(read[0].destination == 260);
  CHECK(read[1].operation == Operation::tensor);
  CHECK(read[1].sources == std::array<Register, 4>{24, 260, 264, kNoRegister});
  // The second waits for the register of the first.
  const double both = cycles(header() + block(lines));
  CHECK(both > cycles(header() + block("0100 ffffffff 1 R270 UMOV 1 R261 0\n" + lines.substr(lines.find("0110")))));
}

TEST_CASE("a trace before it is sorted by warps is named, with the next step", "[fast]") {
  CHECK(trace_error(header() + "0 0 0 0 0100 ffffffff 1 R4 LDS 1 R2 4 1 0x7f0000000000 4 0\n") ==
        "k.traceg:8:1: a trace as the tracer writes it, warps mixed: have Accel-Sim's post-traces-processing sort it, "
        "which writes a .traceg file");
  CHECK(says(trace_error("-block dim = (32,1\n"), "expected '-block dim = (x,y,z)'"));
  CHECK(says(trace_error("-block dim = (32,1000000000000051622,1)\n"), "of at most 2048 threads"));
  CHECK(says(trace_error("-block dim = (4096,1,1)\n"), "of at most 2048 threads"));
}

TEST_CASE("a list of kernels is its kernels, compressed ones among them", "[fast]") {
  const Folder folder;
  folder.write("kernel-1.traceg", header() + block(kFfma));
  folder.write("kernel-2.traceg.xz", header() + block(kFfma));
  folder.write("kernelslist.g", "MemcpyHtoD,0x00007f2f1d000000,4096\nkernel-1.traceg\nkernel-2.traceg\n");
  using Paths = std::vector<std::filesystem::path>;
  CHECK(kernels_of(folder / "kernelslist.g") == Paths{folder / "kernel-1.traceg", folder / "kernel-2.traceg.xz"});
  CHECK(kernels_of(folder / "kernel-1.traceg") == Paths{folder / "kernel-1.traceg"});
  CHECK(read_trace(folder / "kernel-1.traceg")->blocks() == 1);
  folder.write("kernelslist.g", "kernel-3.traceg\n");
  CHECK_THROWS_WITH(kernels_of(folder / "kernelslist.g"),
                    Catch::Matchers::Contains("names 'kernel-3.traceg', which is not beside it"));
  folder.write("kernelslist.g", "kernel-" + std::string(300, '3') + "\n");  // no file has so long a name
  CHECK_THROWS_AS(kernels_of(folder / "kernelslist.g"), InputError);
  folder.write("kernelslist.g", "MemcpyHtoD,0x00007f2f1d000000,4096\n");
  CHECK_THROWS_WITH(kernels_of(folder / "kernelslist.g"), Catch::Matchers::Contains("names none"));
}
