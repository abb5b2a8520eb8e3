// SPDX-License-Identifier: Apache-2.0
// Warps and blocks that meet, copies, and everything that a kernel can do wrong.
#include "model/base/numeric.hpp"
#include "sim/ptx/numerics.hpp"
#include "tests/catch.hpp"
#include "tests/error_of.hpp"
#include "tests/sim/ptx/kernels.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace onchip {
namespace {

TEST_CASE("warps of a block meet at its barrier, blocks through memory, both as often as they are asked to", "[ptx]") {
  // Every thread writes to shared memory, then reads its neighbour's from the next warp.
  std::vector<std::uint32_t> memory(128);
  run(kernel("mov.u64 %rd2, smem;\ncvt.u32.u64 %r1, %rd2;\nshl.b32 %r2, %r0, 2;\nadd.s32 %r3, %r1, %r2;\n"
             "st.shared.u32 [%r3], %r0;\nbar.sync 0;\nadd.s32 %r4, %r2, 128;\nand.b32 %r4, %r4, 511;\nadd.s32 %r4, "
             "%r4, %r1;\n"
             "ld.shared.u32 %r5, [%r4];\nst.global.u32 [%rd1], %r5;"),
      memory, {.threads = 128, .shared = 512});
  for (std::uint32_t i = 0; i < 128; ++i) {
    CHECK(memory[i] == (i + 32) % 128);
  }
  // The same where half of the warps only announce what they wrote: the others wait for them, at a barrier of their
  // own.
  std::vector<std::uint32_t> half(128);
  run(kernel(
          "mov.u64 %rd2, smem;\ncvt.u32.u64 %r1, %rd2;\nshl.b32 %r2, %r0, 2;\nadd.s32 %r3, %r1, %r2;\n"
          "setp.ge.u32 %p1, %r0, 64;\n@%p1 bra READ;\nst.shared.u32 [%r3], %r0;\n"
          "barrier.cta.arrive.aligned 3, 128;\nbra END;\n"
          "READ:\nbarrier.cta.sync.aligned 3, 128;\nld.shared.u32 %r5, [%r3-256];\nst.global.u32 [%rd1], %r5;\nEND:"),
      half, {.threads = 128, .shared = 512});
  for (std::uint32_t i = 0; i < 64; ++i) {
    CHECK(half[64 + i] == i);
  }
  // Eight blocks count up, each when it is its turn: they must all run at once, interleaved.
  std::vector<std::uint32_t> counter(2);
  run(kernel("setp.ne.s32 %p1, %r0, 0;\n@%p1 bra END;\nmov.u32 %r1, %ctaid.x;\nxor.b32 %r1, %r1, 7;\n"
             "WAIT:\nld.acquire.gpu.global.u32 %r2, [%rd0];\nsetp.ne.s32 %p2, %r2, %r1;\n@%p2 bra WAIT;\n"
             "atom.global.add.u32 %r3, [%rd0], 1;\nred.relaxed.gpu.global.add.u32 [%rd0+4], %r3;\nEND:"),
      counter, {.blocks = 8, .threads = 64});
  CHECK(counter == std::vector<std::uint32_t>{8, 28});
}

TEST_CASE("a block waits for the bytes of its bulk copies", "[ptx]") {
  std::vector<std::uint32_t> memory(64);
  std::iota(memory.begin(), memory.begin() + 32, 100u);
  run(kernel("mov.u64 %rd2, smem;\ncvt.u32.u64 %r1, %rd2;\nsetp.ne.s32 %p1, %r0, 0;\n@%p1 bra READY;\n"
             "mbarrier.init.shared::cta.b64 [%r1], 1;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 128;\n"
             "fence.proxy.async;\nREADY:\nbar.sync 0;\nsetp.gt.s32 %p1, %r0, 1;\n@%p1 bra WAIT;\n"
             "mul.lo.s32 %r2, %r0, 64;\nadd.s32 %r3, %r1, %r2;\ncvt.u64.u32 %rd3, %r2;\nadd.s64 %rd3, %rd3, %rd0;\n"
             "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3+16], [%rd3], 64, [%r1];\n"
             "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0;\n@!%p2 bra WAIT;\n"
             "shl.b32 %r4, %r0, 2;\nadd.s32 %r5, %r4, %r1;\nld.shared.u32 %r6, [%r5+16];\ncvt.u64.u32 %rd3, %r4;\n"
             "add.s64 %rd3, %rd3, %rd0;\nst.global.u32 [%rd3+128], %r6;"),
      memory, {.shared = 144});
  CHECK(std::equal(memory.begin(), memory.begin() + 32, memory.begin() + 32));
}

TEST_CASE("blocks of a cluster store into each other's memory and wait for the bytes", "[ptx]") {
  std::vector<std::uint32_t> memory(4 * 32);
  const std::string body =
      "mov.u64 %rd2, smem;\ncvt.u32.u64 %r1, %rd2;\nmov.u32 %r2, %ctaid.x;\nsetp.ne.s32 %p1, %r0, 0;\n@%p1 bra READY;\n"
      "mbarrier.init.shared::cta.b64 [%r1], 1;\nfence.mbarrier_init.release.cluster;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 128;\n"
      "READY:\nbarrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
      "add.s32 %r3, %r2, 1;\nand.b32 %r3, %r3, 3;\nmapa.shared::cluster.u32 %r4, %r1, %r3;\nshl.b32 %r5, %r0, 2;\n"
      "add.s32 %r5, %r5, %r4;\nmad.lo.s32 %r6, %r2, 1000, %r0;\n"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r5+16], %r6, [%r4];\n"
      "WAIT:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r1], 0, 1000;\n@!%p2 bra WAIT;\n"
      "shl.b32 %r7, %r0, 2;\nadd.s32 %r7, %r7, %r1;\nld.shared.u32 %r8, [%r7+16];\nmad.lo.s32 %r9, %r2, 128, %r7;\n"
      "sub.s32 %r9, %r9, %r1;\ncvt.u64.u32 %rd3, %r9;\nadd.s64 %rd3, %rd3, %rd0;\nst.global.u32 [%rd3], %r8;\n"
      "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";
  std::string text = kernel(body);
  const std::string entry = ".param .u64 k_param_0)\n";
  text.insert(text.find(entry) + entry.size(), ".explicitcluster\n.reqnctapercluster 4, 1, 1\n");
  run(text, memory, {.blocks = 4, .shared = 144, .cooperative = false});
  for (std::uint32_t i = 0; i < 128; ++i) {
    CHECK(memory[i] == (i / 32 + 3) % 4 * 1000 + i % 32);
  }
  CHECK_THROWS_AS(run(text, memory, {.blocks = 6, .shared = 144}), InputError);
}

TEST_CASE("copies land when they are waited for, and are nobody's before", "[ptx]") {
  const std::string begin =
      "mov.u64 %rd2, smem;\ncvt.u32.u64 %r1, %rd2;\nshl.b32 %r2, %r0, 2;\nadd.s32 %r1, %r1, %r2;\nmov.u32 %r5, 1;\n"
      "st.global.u32 [%rd1], %r0;\ncp.async.ca.shared.global [%r1], [%rd1], 4;\ncp.async.commit_group;\n"
      "cp.async.ca.shared.global [%r1+128], [%rd1], 4;\ncp.async.commit_group;\n";
  const auto got = [&](const std::string& rest) {
    std::vector<std::uint32_t> memory(32);
    run(kernel(begin + rest + "\nst.global.u32 [%rd1], %r3;"), memory, {.shared = 256});
    return memory;
  };
  std::vector<std::uint32_t> numbers(32);
  std::iota(numbers.begin(), numbers.end(), 0u);
  const std::vector<std::uint32_t> unknown(32, 0xffffffffu);
  CHECK(got("cp.async.wait_group 1;\nld.shared.u32 %r3, [%r1];") == numbers);
  CHECK(got("cp.async.wait_group 0;\nld.shared.u32 %r3, [%r1+128];") == numbers);
  CHECK(got("cp.async.wait_group 1;\nld.shared.u32 %r3, [%r1+128];") == unknown);
  CHECK(got("ld.shared.u32 %r3, [%r1];") == unknown);
  // Half of the lanes read nothing: zeros, whatever the address.
  std::vector<std::uint32_t> halves = numbers;
  std::fill(halves.begin() + 16, halves.end(), 0u);
  CHECK(got("setp.lt.u32 %p1, %r0, 16;\nselp.b32 %r4, 4, 0, %p1;\nselp.b64 %rd3, %rd1, 0, %p1;\n"
            "cp.async.ca.shared.global [%r1+128], [%rd3], 4, %r4;\ncp.async.wait_all;\n"
            "ld.shared.u32 %r3, [%r1+128];") == halves);
}

TEST_CASE("accesses are counted: wavefronts of shared memory, sectors of global memory", "[ptx]") {
  const std::string text = kernel(
      "mov.u64 %rd2, smem;\ncvt.u32.u64 %r1, %rd2;\nshl.b32 %r2, %r0, 5;\nadd.s32 %r2, %r1, %r2;\n"
      "shl.b32 %r3, %r0, 2;\nadd.s32 %r3, %r1, %r3;\nst.shared.v4.u32 [%r2], {%r0, %r0, %r0, %r0};\n"
      "st.shared.v4.u32 [%r2+16], {%r0, %r0, %r0, %r0};\nld.shared.u32 %r4, [%r3];\n"
      "setp.lt.u32 %p1, %r0, 8;\n@%p1 ld.shared.u32 %r4, [%r2];\natom.shared.or.b32 %r4, [%r1], 1;\n"
      "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r5, %r6}, [%r2];\n"
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r2], {%r5, %r6, %r5, %r6};\nld.global.u32 %r7, [%rd1];\n");
  std::vector<std::uint32_t> memory(64);
  const auto counts = [&](std::optional<BankGeometry> banks) {
    return run(text, memory, {.shared = 1024, .banks = banks});
  };
  const ptx::Counts counted = counts(BankGeometry{});
  const auto is = [&](ptx::Access access, unsigned instructions, unsigned wavefronts, unsigned ideal) {
    const ptx::AccessCounts& of = counted.of(access);
    return of.instructions == instructions && of.wavefronts == wavefronts && of.ideal == ideal;
  };
  CHECK(is(ptx::Access::load, 2, 3, 2));          // eight lanes at every eighth word: two in a bank
  CHECK(is(ptx::Access::store, 2, 16, 8));        // rows of 16 bytes, 32 apart
  CHECK(is(ptx::Access::atomic, 1, 32, 1));       // all lanes at one word
  CHECK(is(ptx::Access::matrix_load, 1, 4, 2));   // of 16 rows
  CHECK(is(ptx::Access::matrix_store, 1, 8, 4));  // of 32
  CHECK(counted.global_bytes >= 128);             // 128 bytes, which need not begin a sector
  CHECK(counted.global_bytes <= 160);
  CHECK(counts(std::nullopt).of(ptx::Access::load).instructions == 0);
}

TEST_CASE("functions are expanded where they are called, variables have their values", "[ptx]") {
  const std::string before =
      ".global .align 4 .u32 base = 1000;\n.global .align 8 .u64 unset;\n.global .align 4 .b8 table[8] = {7, 0, 0, 0, "
      "9};\n"
      ".func (.param .b32 out) twice(.param .b32 in, .param .b32 flag)\n{\n.reg .b32 %r<4>;\n.reg .b16 %h<2>;\n.reg "
      ".pred %p<2>;\n"
      "ld.param.u32 %r1, [in];\nld.param.s8 %h1, [flag];\ncvt.s32.s16 %r2, %h1;\nsetp.lt.s32 %p1, %r2, 0;\n"
      "@%p1 bra NEGATIVE;\nshl.b32 %r1, %r1, 1;\nst.param.b32 [out], %r1;\nret;\nNEGATIVE:\nst.param.b32 [out], "
      "%r2;\nret;\n}\n";
  const std::string call =
      "{\n.param .b32 a;\nst.param.b32 [a+0], %r1;\n.param .b32 b;\nst.param.b32 [b+0], %r2;\n.param .b32 c;\n"
      "call.uni (c), twice, (a, b);\nld.param.b32 %r1, [c];\n}\n";
  std::vector<std::uint32_t> memory(32);
  run(kernel(
          "ld.global.u32 %r1, [base];\nld.global.u32 %r3, [table+4];\nadd.s32 %r1, %r1, %r3;\nadd.s32 %r1, %r1, %r0;\n"
          "setp.lt.u32 %p1, %r0, 16;\nselp.b32 %r2, 1, 254, %p1;\n" +
              call + call + "st.global.u32 [%rd1], %r1;",
          4, before),
      memory);
  for (std::uint32_t i = 0; i < 32; ++i) {
    CHECK(memory[i] == (i < 16 ? 4 * (1009 + i) : 0xfffffffeu));
  }
}

TEST_CASE("what a kernel does wrong is one fault with line, block and thread", "[ptx]") {
  const std::string smem = "mov.u64 %rd2, smem;\ncvt.u32.u64 %r1, %rd2;\n";
  CHECK(unsaid(fault_of(kernel("st.global.u32 [%rd1], %r0;"), {.threads = 96}),
               {"test.ptx:16: block 0, thread 64: st.global.u32: address 0x", "no range"}) == "");
  CHECK(unsaid(fault_of(kernel("mov.u64 %rd2, 0;\nld.global.u32 %r1, [%rd2];")), {"address 0x0 lies in no range"}) ==
        "");
  CHECK(unsaid(fault_of(kernel("ld.global.v2.u32 {%r1, %r2}, [%rd1];")), {"thread 1", "not aligned to 8"}) == "");
  CHECK(unsaid(fault_of(kernel(smem + "ld.shared.u32 %r2, [%r1+16];"), {.shared = 32}),
               {"at 0x10 is read, but was never written"}) == "");
  CHECK(unsaid(fault_of(kernel(smem + "st.shared.u32 [%r1+32], %r0;"), {.shared = 32}),
               {"4 bytes at 32 are outside of the 32 bytes"}) == "");
  CHECK(unsaid(fault_of(kernel(smem + "sub.s32 %r1, %r1, 4;\nst.shared.u32 [%r1], %r0;"), {.shared = 32}),
               {"4 bytes at -4 are outside"}) == "");
  CHECK(unsaid(fault_of(kernel(smem + "cp.async.cg.shared.global [%r1], [%rd0+248], 16;"), {.shared = 32}),
               {"not aligned to 16"}) == "");
  CHECK(unsaid(fault_of(kernel(smem + "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 4;"), {.shared = 32}),
               {"no initialised mbarrier"}) == "");
  const auto bulk = [&](const std::string& bytes) {
    return fault_of(kernel(smem + "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd0], " +
                           bytes + ", [%r1+32];"),
                    {.shared = 48});
  };
  CHECK(unsaid(bulk("8"), {"a multiple of 16 bytes, not 8"}) == "");
  CHECK(unsaid(bulk("64"), {"64 bytes at 0 are outside of the 48 bytes"}) == "");
  CHECK(unsaid(bulk("16"), {"no initialised mbarrier"}) == "");
  CHECK(unsaid(fault_of(kernel("trap;"), {.blocks = 2}), {"block 0, thread 0: trap: the kernel stops with a trap"}) ==
        "");
  // Half of a warp, or of a block, at a barrier that the others never come to.
  const std::string apart = "setp.lt.u32 %p1, %r0, 16;\n@%p1 bra LOW;\nbar.sync 0;\nbra END;\nLOW:\nbar.sync 1;\nEND:";
  CHECK(unsaid(fault_of(kernel(apart)), {"wait for one another in different places", "(bar.sync)"}) == "");
  const std::string ends = "setp.lt.u32 %p1, %r0, 16;\n@%p1 bra END;\nbar.warp.sync -1;\nEND:";
  CHECK(unsaid(fault_of(kernel(ends)), {"which have ended"}) == "");
  const std::string half = "setp.lt.u32 %p1, %r0, 32;\n@%p1 bra END;\nbar.sync 1;\nEND:\nbar.sync 0;";
  CHECK(unsaid(fault_of(kernel(half), {.threads = 64}), {"all threads wait", "all lanes at line"}) == "");
  CHECK(unsaid(fault_of(kernel("bar.sync 1, 96;"), {.threads = 64}), {"a barrier of 96 threads"}) == "");
  CHECK(unsaid(fault_of(kernel("bar.sync 1, 64;"), {.threads = 32}), {"a barrier of 64 threads"}) == "");
  const std::string unlike =
      "setp.lt.u32 %p1, %r0, 32;\n@%p1 bra LOW;\nbar.sync 1, 64;\nbra END;\nLOW:\nbar.sync 1;\nEND:";
  CHECK(unsaid(fault_of(kernel(unlike), {.threads = 64}), {"another number of threads"}) == "");
  CHECK(unsaid(fault_of(kernel("shfl.sync.idx.b32 %r1, %r0, 2, 31, 65535;")), {"not in the mask"}) == "");
  CHECK(unsaid(fault_of(kernel(
                   "setp.lt.u32 %p1, %r0, 16;\n@!%p1 bra END;\nshfl.sync.idx.b32 %r1, %r0, 20, 31, 65535;\nEND:")),
               {"reads from lane 20, which takes no part"}) == "");
  // Nobody ever changes what these threads look at.
  CHECK(unsaid(fault_of(kernel("WAIT:\nld.volatile.global.u32 %r1, [%rd0];\nsetp.eq.s32 %p1, %r1, 0;\n@%p1 bra WAIT;"),
                        {.most = 5000}),
               {"more than 5000 instructions", "all lanes at line"}) == "");
  // Weights are read only.
  const std::vector<std::uint32_t> constant(64);
  Machine machine(ptx::parse(kernel("st.global.u32 [%rd1], %r0;"), "test.ptx"));
  machine.memory().add(std::as_bytes(std::span(constant)));
  const std::uint32_t* const pointer = constant.data();
  CHECK_THROWS_AS(machine.launch("k", {.parameters = std::as_bytes(std::span(&pointer, 1))}), Fault);
  CHECK_THROWS_AS(machine.launch("other", {.parameters = std::as_bytes(std::span(&pointer, 1))}), InputError);
  CHECK_THROWS_AS(machine.launch("k", {.threads = 2000, .parameters = std::as_bytes(std::span(&pointer, 1))}),
                  InputError);
  CHECK_THROWS_AS(machine.launch("k", {}), InputError);
}

TEST_CASE("a text that is not PTX is one error with its place", "[ptx]") {
  const auto error_of = [](const std::string& text) { return onchip::error_of([&] { ptx::parse(text, "test.ptx"); }); };
  CHECK(unsaid(error_of(kernel("frobnicate.u32 %r1, %r2;")), {"test.ptx:16:1: unknown instruction 'frobnicate.u32'"}) ==
        "");
  CHECK(unsaid(error_of(kernel("add.s32 %r1, %r2;")), {"operands of this form do not fit 'add.s32'"}) == "");
  CHECK(unsaid(error_of(kernel("add.s32 %r1, %rd2, 1;")), {"do not fit"}) == "");
  CHECK(unsaid(error_of(kernel("add.s32 5, %r2, 1;")), {"do not fit"}) == "");
  CHECK(unsaid(error_of(kernel("add.s32 %r1, %r99, 1;")), {"unknown register '%r99'"}) == "");
  CHECK(unsaid(error_of(kernel("bra NOWHERE;")), {"there is no label"}) == "");
  CHECK(unsaid(error_of(kernel("A:\nA:")), {"two labels"}) == "");
  CHECK(unsaid(error_of(kernel("mov.u32 %r1, 99999999999999999999;")), {"expected a number"}) == "");
  CHECK(unsaid(error_of(kernel("call.uni nothing, ();")), {"there is no function"}) == "");
  CHECK(unsaid(error_of(kernel("", 4, ".func f()\n{\ncall.uni f;\n}\n")), {"no error"}) == "");  // is never called
  CHECK(unsaid(error_of(kernel("call.uni f;", 4, ".func f()\n{\ncall.uni f;\nret;\n}\n")), {"too deep"}) == "");
  CHECK(unsaid(error_of(kernel(".reg .b32 %x<2000000>;")), {"too many registers"}) == "");
  CHECK(unsaid(error_of("\x7f\x01"), {"unexpected '\\x7f'"}) == "");
  // Every beginning of a text, and every text with a character changed: an error or none, and nothing worse.
  const std::string whole =
      kernel("mov.u64 %rd2, smem;\nld.global.v2.u32 {%r1, %r2}, [%rd1+8];\n@%p1 bra L;\nL:\n{ .reg .pred p; }", 4,
             ".global .align 4 .b8 t[8] = {7, 0, -1};\n");
  for (std::size_t length = 0; length < whole.size() - 4; ++length) {
    CHECK(error_of(whole.substr(0, length)) != "");
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const char c : {'{', '}', ';', '9', '%', '\n', '['}) {
      std::string changed = whole;
      changed[i] = c;
      error_of(changed);
    }
  }
}

}  // namespace
}  // namespace onchip
