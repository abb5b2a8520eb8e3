// SPDX-License-Identifier: Apache-2.0
// The kernels' own PTX, executed by sim/ptx, against the reference: what they compute, without a GPU.
#include "experiments/measurement/interpreted/interpret.hpp"
#include "experiments/measurement/capture.hpp"
#include "sim/sparse/plan_trace.hpp"
#include "sim/trace/capture_difference.hpp"

#include "tests/kernels/given.hpp"
#include "tests/nightly.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onchip {
namespace {

Got interpret(InterpretedKernel& kernel, const Recurrent& network, const Given& g, bool gives_up = false) {
  const std::size_t state = static_cast<std::size_t>(network.batch) * network.hidden * info(network.precision).bytes;
  const bool has_cell = network.cell == Cell::lstm;
  std::vector<std::byte> input = to_elements(g.input, network.precision);
  std::vector<std::byte> initial = to_elements(g.initial, network.precision);
  std::vector<std::byte> initial_cell = to_elements(g.initial_cell, network.precision);
  const std::byte poison{static_cast<unsigned char>(gives_up ? 0 : 0xff)};  // not what is to be written: NaN
  Got got{std::vector<std::byte>(static_cast<std::size_t>(g.steps) * state, poison),
          std::vector<std::byte>(state, poison), std::vector<std::byte>(has_cell ? state : 0, poison)};
  const auto pointer = [&](std::vector<std::byte>& bytes) { return bytes.empty() ? nullptr : bytes.data(); };
  std::vector<std::vector<std::byte>*> all{&input,      &initial,         &initial_cell,
                                           &got.states, &got.final_state, &got.final_cell};
  std::erase_if(all, [](const std::vector<std::byte>* bytes) { return bytes->empty(); });
  for (std::vector<std::byte>* const bytes : all) {
    kernel.allow(*bytes);
  }
  Sequences sequences;
  sequences.steps = g.steps;
  sequences.input = pointer(input);
  sequences.initial = pointer(initial);
  sequences.initial_cell = pointer(initial_cell);
  sequences.output = got.states.data();
  sequences.final_state = got.final_state.data();
  sequences.final_cell = pointer(got.final_cell);
  sequences.lengths = g.lengths;
  sequences.backward = g.backward;
  if (gives_up) {
    CHECK_THROWS_AS(kernel.run(sequences), CudaError);
  } else {
    kernel.run(sequences);
  }
  for (std::vector<std::byte>* const bytes : all) {
    kernel.forget(*bytes);
  }
  return got;
}

template <typename P>
Got interpret(const PlannedCase<P>& c, const Given& g, std::int64_t most_steps = 8) {
  InterpretedKernel kernel(c.layout(), g.biases(), most_steps);
  return interpret(kernel, c.network, g);
}

template <typename P>
void check_interpreted(const PlannedCase<P>& c, const Given& g, std::int64_t most_steps = 8) {
  CAPTURE(c.text(), g.steps, g.backward);
  check_right(interpret(c, g, most_steps), expected(c, g), c.network.precision);
}

// Samples of different lengths.
Given uneven(const Recurrent& network) {
  Given g = given(network, 9);
  for (int sample = 0; sample < network.batch; ++sample) {
    g.lengths.push_back(sample * 4 % 9 + 1);
  }
  return g;
}

TEST_CASE("interpreted kernels of a batch that is padded to more samples give what the reference gives") {
  for (const Cell cell : {Cell::relu, Cell::lstm, Cell::gru}) {
    DenseCase dense = dense_case({.cell = cell, .hidden = 61, .batch = 3, .sms = 2, .threads = 64});
    dense.plan.padded_samples = 4;
    dense.plan.batch_groups = 2;
    check_interpreted(dense, uneven(dense.network));
    check_interpreted(dense, given(dense.network, 5), /*most_steps=*/2);
  }
}

TEST_CASE("interpreted kernels of units that are padded to more give what the reference gives") {
  for (const Cell cell : {Cell::relu, Cell::lstm, Cell::gru}) {
    for (const ExchangeProtocol exchange : {ExchangeProtocol::lamport, ExchangeProtocol::cluster}) {
      for (const int units : {64, 128, 250}) {  // up to SMs without any
        DenseCase dense = dense_case({.cell = cell, .hidden = 61, .batch = 3, .sms = 4, .threads = 64});
        dense.plan.padded_units = units;
        dense.plan.exchange = exchange;
        check_interpreted(dense, uneven(dense.network));
      }
    }
  }
}

TEST_CASE("interpreted sparse kernels of every cell and precision give what the reference gives") {
  const Cell cell = GENERATE(Cell::relu, Cell::tanh, Cell::lstm, Cell::gru);
  const Precision precision = GENERATE(Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp8);
  for (const int batch : {1, 3, 8}) {
    // Every batch with every cell and with every precision, not with both.
    if (batch != 3 && (static_cast<int>(cell) + static_cast<int>(precision) + batch) % 2 != 0) {
      continue;
    }
    const SparseCase c = sparse_case({.cell = cell,
                                      .precision = precision,
                                      .hidden = batch == 1 ? 127 : 61,
                                      .batch = batch,
                                      .sms = batch == 8 ? 2 : 3,
                                      .lanes = batch == 3 ? 32 : 8,
                                      .units_per_group = batch == 8 ? 1 : 2});
    check_interpreted(c, given(c.network, 5), 3);
  }
}

TEST_CASE("interpreted overflow gives what the reference gives, wherever it is") {
  const Cell cell = GENERATE(Cell::relu, Cell::tanh, Cell::lstm, Cell::gru);
  const Precision precision = GENERATE(Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp8);
  for (const Tiers tiers : kOverflowTiers) {
    // Each tier with every cell and with every precision, not with both; one that streams with all.
    if (tiers != Tiers::mixed &&
        (static_cast<int>(cell) + static_cast<int>(precision) + static_cast<int>(tiers)) % 2 != 0) {
      continue;
    }
    const SparseCase c = overflow_case(cell, precision, tiers, /*is_small=*/true);
    REQUIRE(c.plan.has_overflow());
    REQUIRE((c.geometry().planes > 1) == (tiers == Tiers::mixed));
    REQUIRE((c.plan.streamed_chunks() > 0) == (tiers != Tiers::shared));
    check_interpreted(c, given(c.network, 3));
  }
}

TEST_CASE("interpreted kernels of other storages give what the reference gives") {
  for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp8}) {
    for (const Cell cell : {Cell::tanh, Cell::gru}) {
      const SparseCase dense = stored_as(
          Storage::dense, sparse_case({.cell = cell, .precision = precision, .hidden = 31, .density = 0.9}), 3, 8, 2);
      check_interpreted(with_tiers(dense, cell == Cell::tanh ? Tiers::registers : Tiers::mixed, 2),
                        given(dense.network, 3));
      if (precision != Precision::fp32) {
        // Few non-zeros are further apart than one slot reaches; of many a lane takes its own back and forth.
        for (const auto& [density, tiers] : {std::pair(0.02, Tiers::registers), std::pair(0.4, Tiers::mixed)}) {
          const SparseCase delta = stored_as(
              Storage::packed_delta,
              sparse_case({.cell = cell, .precision = precision, .hidden = 131, .batch = 1, .density = density}), 5, 16,
              2);
          check_interpreted(with_tiers(delta, tiers, 2), given(delta.network, 3));
        }
      }
    }
  }
}

TEST_CASE("interpreted kernels whose passes are pipelined give what the reference gives, over any number of launches") {
  int number = 0;
  for (const SparseCase& c : every_pipeline()) {
    if (!is_chosen(number++, 2)) {
      continue;
    }
    CAPTURE(c.text());
    REQUIRE(c.geometry().can_pipeline());
    check_interpreted(c, given(c.network, 1));
    check_interpreted(c, uneven(c.network), 4);
  }
}

TEST_CASE("interpreted kernels whose long rows are split give what the reference gives, over any number of launches") {
  int number = 0;
  for (const SparseCase& c : every_split()) {
    if (!is_chosen(number++, 2)) {
      continue;
    }
    CAPTURE(c.text());
    REQUIRE(c.plan.row_splits > 0);
    check_interpreted(c, given(c.network, 5), 3);
  }
}

TEST_CASE("interpreted dense kernels give what the reference gives, of every storage") {
  const Cell cell = GENERATE(Cell::relu, Cell::tanh, Cell::lstm, Cell::gru);
  const Precision precision = GENERATE(Precision::fp16, Precision::bf16);
  for (const Storage storage : {Storage::dense, kStructured, kBitmap}) {
    for (const int batch : {1, 3, 8, storage == Storage::dense ? 9 : 20}) {
      static int number = 0;
      if (is_chosen(number++, 3)) {  // of four batches: every one comes up with every cell and storage
        const DenseCase c = awkward_dense_case(cell, precision, storage, batch, /*is_small=*/true);
        check_interpreted(c, given(c.network, 5), 3);
      }
    }
  }
}

TEST_CASE("interpreted kernels of drawn plans that pipeline sub-batches give what the reference gives") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    if (!is_chosen(static_cast<int>(seed), 2)) {
      continue;
    }
    const PipelinedCase c = pipelined_case(seed, 70, 90);
    CHECK(unpack(c.layout()) == c.matrix);
    Given g = given(c.network, 4);
    g.backward = seed % 3 == 0;
    check_interpreted(c, g, seed % 2 == 0 ? 8 : 3);
  }
}

TEST_CASE("storing fragments without their empty words changes no bit of an interpreted result") {
  for (const DenseShape& shape : kEveryDenseKind) {
    if (shape.storage != Storage::bitmap) {
      continue;
    }
    DenseCase c = dense_case(shape);
    CAPTURE(c.text());
    const Given g = given(c.network, 5);
    const Got usual = interpret(c, g, 5);
    check_right(usual, expected(c, g), c.network.precision);
    for (const int tiles : {0, 1, 9, c.geometry().warp_tiles}) {
      keep_in_shared(c, std::min(tiles, c.geometry().warp_tiles));
      CHECK(interpret(c, g, 5) == usual);
    }
    c.plan.bank_words += 3;  // room to spare
    CHECK(interpret(c, g, 5) == usual);
    c.plan.storage = Storage::dense;
    c.plan.bank_words = 0;
    CHECK(interpret(c, g, 5) == usual);
  }
}

TEST_CASE("interpreted batch groups and clusters give what the reference gives") {
  for (const DenseShape& shape : kEveryBatchGroup) {
    const DenseCase c = dense_case(shape);
    check_interpreted(c, given(c.network, 4), 3);
  }
}

TEST_CASE("interpreted samples of different lengths end each for itself, forward and backward") {
  for_every_kind([](const auto& c) {
    CAPTURE(c.text());
    Given g = uneven(c.network);
    InterpretedKernel kernel(c.layout(), g.biases(), /*most_steps=*/4);
    for (const bool backward : {false, true}) {
      g.backward = backward;
      check_right(interpret(kernel, c.network, g), expected(c, g), c.network.precision);
    }
  });
}

TEST_CASE("the exchange, its waits and the place of the state in L2 change no bit of an interpreted result") {
  const auto check = [](auto c) {
    CAPTURE(c.text());
    const Given g = given(c.network, 140);  // more than segments are emptied ahead
    const Got usual = interpret(c, g, 200);
    check_right(usual, expected(c, g), c.network.precision);
    for (const int line_words : {1, 2}) {
      c.plan.line_words = line_words;
      CHECK(interpret(c, g, 200) == usual);
    }
    c.plan.poll_delay = 200;
    CHECK(interpret(c, g, 200) == usual);
    for (const auto exchange : {ExchangeProtocol::atomic_barrier, ExchangeProtocol::cooperative_barrier}) {
      c.plan.exchange = exchange;
      CHECK(interpret(c, g, 40) == usual);
    }
  };
  check(sparse_case(kEveryKind[0]));
  check(sparse_case(kEveryKind[3]));
  check(dense_case(kEveryDenseKind[2]));
  check(dense_case(kEveryDenseKind[7]));
}

TEST_CASE("interpreted networks of one unit, and of fewer units than SMs, are right, too") {
  for_every_tiny_network(Cell::gru, [](const auto& c) { check_interpreted(c, given(c.network, 4)); });
}

TEST_CASE("NaN and infinity travel through interpreted kernels as in the reference") {
  int number = 0;
  for_every_poison([&](const auto& c, const Given& g) {
    if (is_chosen(number++, 3)) {
      check_interpreted(c, g);
    }
  });
}

TEST_CASE("interpreted kernels touch shared memory where the simulator says that they do") {
  int number = 0;
  const auto check = [&](const SparseCase& c) {
    if (!is_chosen(number++, 2)) {
      return;
    }
    CAPTURE(c.text());
    const PlanTrace generated(replayable(c.layout()), PlanTrace::kAllRegisters, Traced::whole, Issued::as_written);
    const std::vector<BlockTrace> captured = capture_interpreted_step(c.layout());
    std::size_t accesses = 0;
    for (int block = 0; block < generated.blocks(); ++block) {
      const BlockTrace& found = captured[static_cast<std::size_t>(block)];
      CHECK(first_difference(generated.block(block), found).value_or("") == "");
      for (const WarpTrace& warp : found.warps) {
        accesses += warp.instructions.size();
      }
    }
    CHECK(accesses > 100);
  };
  for (Shape shape : kEveryKind) {
    shape.hidden = 61, shape.sms = 2;
    check(sparse_case(shape));
    check(with_tiers(sparse_case(shape), shape.batch == 3 ? Tiers::mixed : Tiers::shared));
  }
  for (const SparseCase& c : every_split()) {
    if (c.plan.producer_warps == 0) {  // kernels with them are not captured
      check(c);
    }
  }
  check(stored_as(Storage::packed_delta, sparse_case({.hidden = 131, .density = 0.4}), 3, 8, 2));
  const SparseCase dense = stored_as(Storage::dense, sparse_case({.hidden = 61, .density = 0.9}), 3, 8, 2);
  for (const Tiers tiers : kAllTiers) {
    SparseCase c = with_tiers(dense, tiers);
    c.plan.order = RowOrder::natural;
    check(c);
  }
}

// The PTX of a small kernel with the first of some texts, after another one, replaced.
std::string changed(std::string ptx, std::string_view after, std::string_view from, std::string_view to) {
  const std::size_t place = ptx.find(from, after.empty() ? 0 : ptx.find(after));
  REQUIRE(place != std::string::npos);
  return ptx.replace(place, from.size(), to);
}

struct Change {
  std::string_view after, from, to;
};

// Whether the kernel is still right with each of the changes.
template <typename P>
void check_changes(const PlannedCase<P>& c, std::initializer_list<Change> changes) {
  const Given g = given(c.network, 4);
  const std::string ptx = compile_ptx(compile_request(c.network, c.plan, kInterpretedArchitecture));
  for (const Change& change : changes) {
    CAPTURE(c.text(), std::string(change.after), std::string(change.from), std::string(change.to));
    InterpretedKernel kernel(c.layout(), g.biases(), 4, Work::whole,
                             changed(ptx, change.after, change.from, change.to));
    kernel.limit(2'000'000);
    bool is_right = false;
    try {
      const Got got = interpret(kernel, c.network, g);
      is_right = relative_error(expected(c, g).states, from_elements(got.states, c.network.precision)) <
                 tolerance(c.network.precision);
    } catch (const ptx::Fault&) {
    } catch (const CudaError&) {  // gave up waiting
    }
    CHECK(is_right == (change.to == "fma.rn.f16x2 "));
  }
}

TEST_CASE("a kernel with one instruction wrong is not right when it is interpreted") {
  check_changes(sparse_case({.cell = Cell::lstm}), {{"", "fma.rn.f16x2", "fma.rn.f16x2 "},  // none: right
                                                    {"", "fma.rn.f16x2 ", "mul.rn.f16x2 %r0, %r0, %r0; //"},
                                                    {"", "shfl.sync.bfly.b32", "shfl.sync.down.b32"},
                                                    {"", "ex2.approx.ftz.f32", "rcp.approx.ftz.f32"},
                                                    {"", "cp.async.wait_group 1;", ""},
                                                    {"fence.acq_rel", "bar.sync", "//"},
                                                    {"", "st.relaxed.gpu.global.b128 [", "// ["}});
  check_changes(dense_case({.cell = Cell::relu, .in_shared = 0.5}),
                {{"", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "// "},
                 {"mma.sync", "add.f32", "sub.f32"},
                 {"mma.sync", "bar.sync", "//"},
                 {"", "cp.async.cg.shared.global", "//"}});
  check_changes(dense_case({.cell = Cell::relu, .storage = Storage::structured_2_4}),
                {{"", "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", "// "}});
  check_changes(dense_case({.cell = Cell::relu, .density = 0.3, .storage = Storage::bitmap}),
                {{"", "@p ld.shared.u32", "@!p ld.shared.u32"}, {"", "shl.b32 bit, bit, 7;", "shl.b32 bit, bit, 6;"}});
}

TEST_CASE("a kernel that gives up waiting leaves nothing but NaN, whatever its exchange") {
  const auto check_given_up = [](const auto& c) {
    CAPTURE(c.text());
    CompileRequest request = compile_request(c.network, c.plan, kInterpretedArchitecture);
    const std::string source = changed(std::string(request.source), "", "kPolls = 1 << 20", "kPolls = 1");
    request.source = source;
    const Given g = given(c.network, 5);
    InterpretedKernel kernel(c.layout(), g.biases(), 8, Work::whole, compile_ptx(request));
    const Got got = interpret(kernel, c.network, g, true);
    for (const std::vector<std::byte>* const bytes : {&got.states, &got.final_state, &got.final_cell}) {
      CHECK(std::ranges::all_of(from_elements(*bytes, c.network.precision),
                                [](float value) { return std::isnan(value); }));
    }
  };
  for (const Cell cell : {Cell::relu, Cell::lstm, Cell::gru}) {
    check_given_up(sparse_case({.cell = cell, .batch = 3}));
    check_given_up(dense_case({.cell = cell, .batch = 3}));
  }
  SparseCase c = sparse_case({.cell = Cell::tanh, .precision = Precision::fp32, .batch = 3});
  c.plan.exchange = ExchangeProtocol::atomic_barrier;
  check_given_up(c);
  for (const SparseCase& pipelined : every_pipeline()) {
    if (pipelined.plan.exchange == ExchangeProtocol::bulk_copy && pipelined.network.batch < 8) {
      check_given_up(pipelined);
    }
  }
}

}  // namespace
}  // namespace onchip
