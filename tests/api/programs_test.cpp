// SPDX-License-Identifier: Apache-2.0
// The half of the C API that compiles, without a GPU, and runs on one (tag [gpu]).
#include "tests/api/calls.hpp"
#include "tests/kernels/runs.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace onchip {
namespace {

TEST_CASE("null programs and recurrences are refused, and destroyed", "[fast]") {
  CHECK(answer([&](onchip_error* e) { return onchip_recurrence_enqueue(nullptr, nullptr, nullptr, e); }) ==
        "1: 'recurrence' is null");
  onchip_program_destroy(nullptr);
  onchip_recurrence_destroy(nullptr);
}

TEST_CASE("MLP attention says its bytes, and refuses what it cannot do, without a GPU", "[fast]") {
  auto attention = sized<onchip_attention>();
  attention.precision = ONCHIP_BF16;
  attention.batch = 64, attention.queries = 50, attention.keys = 100, attention.hidden = 512;
  std::size_t bytes = 0;
  REQUIRE(onchip_attention_workspace_bytes(&attention, &bytes, nullptr) == ONCHIP_OK);
  CHECK(bytes == 4 * 64 * 512);
  const auto forward = [&](onchip_error* e) { return onchip_attention_forward(&attention, nullptr, e); };
  const auto backward = [&](onchip_error* e) { return onchip_attention_backward(&attention, nullptr, e); };
  CHECK(answer(forward) == "1: 'q' is null");
  attention.q = attention.k = attention.v = &bytes;
  CHECK(answer(forward) == "1: 'scores' is null");
  CHECK(answer(backward) == "1: 'dscores' is null");
  attention.dscores = &bytes;
  CHECK(answer(backward) == "1: 'workspace' is null");
  attention.precision = ONCHIP_FP8;
  CHECK(answer(forward) == "1: 'precision' is 3; expected 0 to 2");
  attention.precision = ONCHIP_FP16, attention.keys = 0;
  CHECK(answer(forward) == "1: 'keys' is 0; expected 1 to 1073741824");
  attention.scores = &bytes;
  attention.keys = attention.queries = attention.batch = 1 << 30;
  CHECK(answer(forward) == "1: an array of these sizes has more than 2^48 elements");
  attention.workspace = &bytes;
  attention.keys = attention.queries = 1, attention.batch = 1 << 30, attention.hidden = 200;
  CHECK(answer(backward) == "1: MLP attention of these sizes takes 7516192768 blocks, more than a launch has");
  attention.struct_bytes = 4;
  CHECK_THAT(answer(forward), Catch::Matchers::Contains("'attention' has a struct_bytes of 4"));
}

TEST_CASE("a program is made and asked without a GPU, and needs nothing that it was made from", "[fast]") {
  const Recurrent network = small(Cell::lstm);
  const SparseMatrix weights = weights_of(network);
  const onchip_network asked = network_of(network);
  Owned<onchip_program> program;
  {
    const auto h200 = chip();
    const auto matrix = matrix_of(weights);
    program = made<onchip_program>([&](onchip_program** to, onchip_error* e) {
      return onchip_program_create(h200.get(), &asked, matrix.get(), nullptr, nullptr, "sm_90", to, e);
    });
  }
  auto fit = sized<onchip_fit>();
  std::int32_t registers = 0;
  std::size_t few = 0, many = 0;
  REQUIRE(onchip_program_fit(program.get(), &fit, nullptr) == ONCHIP_OK);
  CHECK(fit.fits == 1);
  REQUIRE(onchip_program_registers(program.get(), &registers, nullptr) == ONCHIP_OK);
  CHECK((registers > 10 && registers <= 255));
  REQUIRE(onchip_program_workspace_bytes(program.get(), 1, &few, nullptr) == ONCHIP_OK);
  REQUIRE(onchip_program_workspace_bytes(program.get(), 1000, &many, nullptr) == ONCHIP_OK);
  CHECK(many > few);
  CHECK(few % ONCHIP_WORKSPACE_ALIGNMENT == 0);
  CHECK(answer([&](onchip_error* e) { return onchip_program_workspace_bytes(program.get(), 0, &few, e); }) ==
        "1: the largest number of steps 0 is out of range: expected 1 or more");
  onchip_recurrence* recurrence = nullptr;
  CHECK(answer([&](onchip_error* e) {
          return onchip_recurrence_create(program.get(), nullptr, many, 1000, nullptr, &recurrence, e);
        }) == "1: the workspace is null");
  CHECK(recurrence == nullptr);
}

TEST_CASE("what no program can be made of is refused in words", "[fast]") {
  const Recurrent network = small(Cell::gru);
  SparseMatrix weights = weights_of(network);
  const auto h200 = chip();
  const auto error_of = [&](onchip_network asked, const SparseMatrix& m, const char* architecture = "sm_90") {
    onchip_program* none = nullptr;
    const auto matrix = matrix_of(m);
    const std::string text = answer([&](onchip_error* e) {
      return onchip_program_create(h200.get(), &asked, matrix.get(), nullptr, nullptr, architecture, &none, e);
    });
    CHECK(none == nullptr);
    return text;
  };
  onchip_network asked = network_of(network);
  asked.hidden = 128;
  CHECK(error_of(asked, weights) == "1: the matrix is 381 x 127; a gru network of 128 units has 384 x 128");
  asked.hidden = 127;
  CHECK(error_of(asked, weights, "sm_12345").starts_with("1: "));
  CHECK(error_of(asked, {381, 127, std::vector<std::int64_t>(382, 0), {}, {}}) == "1: the matrix has no non-zero");
  weights.value[7] = 1e6F;
  CHECK(error_of(asked, weights) == "1: a weight is too large for fp16");
  Recurrent large = small(Cell::relu);
  large.hidden = 16000;
  large.density = 0.2;
  onchip_network too_large = network_of(large);
  too_large.tier = ONCHIP_TIER_REGISTERS;
  CHECK(
      error_of(too_large, weights_of(large)).starts_with("2: relu H=16000 B=3 20 % fp16 on H200 does not fit: needs "));
}

TEST_CASE("a program for the current device says in a plain sentence that there is none", "[fast]") {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0) {
    return;
  }
  const Recurrent network = small(Cell::relu);
  const onchip_network asked = network_of(network);
  const auto h200 = chip();
  const auto matrix = matrix_of(weights_of(network));
  onchip_program* none = nullptr;
  CHECK(answer([&](onchip_error* e) {
          return onchip_program_create(h200.get(), &asked, matrix.get(), nullptr, nullptr, nullptr, &none, e);
        }).starts_with("3: no CUDA device: "));
}

// ---- on a GPU -------------------------------------------------------------------------------------------------------

// A recurrence made and run by the C API alone, in memory of the test.
struct Running {
  Running(const Recurrent& network, const SparseMatrix& weights, const Given& g, std::int64_t most_steps) {
    const auto on = chip();
    const int sms = device_info().sm_count;
    REQUIRE(onchip_chip_set(on.get(), ("sm.count=" + std::to_string(std::min(sms, 132))).c_str(), nullptr) ==
            ONCHIP_OK);
    const auto matrix = matrix_of(weights);
    const onchip_network asked = network_of(network);
    const auto program = made<onchip_program>([&](onchip_program** to, onchip_error* e) {
      return onchip_program_create(on.get(), &asked, matrix.get(), g.input_bias.data(), g.recurrent_bias.data(),
                                   nullptr, to, e);
    });
    std::size_t bytes = 0;
    REQUIRE(onchip_program_workspace_bytes(program.get(), most_steps, &bytes, nullptr) == ONCHIP_OK);
    workspace = poisoned(bytes);
    ONCHIP_CUDA_CHECK(cudaDeviceSynchronize());
    recurrence = made<onchip_recurrence>([&](onchip_recurrence** to, onchip_error* e) {
      return onchip_recurrence_create(program.get(), workspace.data(), bytes, most_steps, stream.get(), to, e);
    });
  }

  Stream stream;
  DeviceBuffer<std::byte> workspace{0};
  Owned<onchip_recurrence> recurrence;
};

TEST_CASE("the C API computes what the reference does, in one call and step by step", "[gpu]") {
  const Cell cell = GENERATE(Cell::relu, Cell::tanh, Cell::lstm, Cell::gru);
  for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp8}) {
    const SparseCase c{small(cell, precision), weights_of(small(cell, precision)), {}};
    const Given g = given(c.network, 9);
    CAPTURE(describe(c.network));
    Running on(c.network, c.matrix, g, 9);
    const Expected e = expected(c, g);
    const std::size_t state = static_cast<std::size_t>(c.network.batch) * c.network.hidden * info(precision).bytes;
    const DeviceBuffer<std::byte> input(to_elements(g.input, precision));
    const bool has_cell = cell == Cell::lstm;
    DeviceBuffer<std::byte> kept(to_elements(g.initial, precision)), kept_cell(to_elements(g.initial_cell, precision));
    const auto output = poisoned(9 * state), final_state = poisoned(state), final_cell = poisoned(state);
    ONCHIP_CUDA_CHECK(cudaDeviceSynchronize());
    auto sequences = sized<onchip_sequences>();
    sequences.steps = 9;
    sequences.input = input.data();
    sequences.initial = kept.data();
    sequences.initial_cell = has_cell ? kept_cell.data() : nullptr;
    sequences.output = output.data();
    sequences.final_state = final_state.data();
    sequences.final_cell = has_cell ? final_cell.data() : nullptr;
    REQUIRE(answer([&](onchip_error* error) {
              return onchip_recurrence_enqueue(on.recurrence.get(), on.stream.get(), &sequences, error);
            }) == "0: ");
    REQUIRE(onchip_recurrence_check(on.recurrence.get(), on.stream.get(), nullptr) == ONCHIP_OK);
    check_right(
        {output.download(), final_state.download(), has_cell ? final_cell.download() : std::vector<std::byte>()}, e,
        precision);

    for (int step = 0; step < 9; ++step) {
      REQUIRE(answer([&](onchip_error* error) {
                return onchip_recurrence_step(on.recurrence.get(), on.stream.get(),
                                              input.data() + step * (input.size() / 9), kept.data(),
                                              has_cell ? kept_cell.data() : nullptr, error);
              }) == "0: ");
    }
    REQUIRE(onchip_recurrence_check(on.recurrence.get(), on.stream.get(), nullptr) == ONCHIP_OK);
    CHECK(relative_error(e.final_state, from_elements(kept.download(), precision)) < 2 * tolerance(precision));

    sequences.final_cell = sequences.final_state;
    sequences.steps = 0;
    CHECK(onchip_recurrence_enqueue(on.recurrence.get(), on.stream.get(), &sequences, nullptr) == ONCHIP_INVALID);
    sequences.steps = 9;
    if (!has_cell) {
      CHECK(answer([&](onchip_error* error) {
              return onchip_recurrence_enqueue(on.recurrence.get(), on.stream.get(), &sequences, error);
            }) == "1: the cell '" + std::string(info(cell).name) + "' has no cell state");
    }
    sequences.input_stride = 1;
    CHECK(onchip_recurrence_enqueue(on.recurrence.get(), on.stream.get(), &sequences, nullptr) == ONCHIP_INVALID);
  }
}

}  // namespace
}  // namespace onchip
