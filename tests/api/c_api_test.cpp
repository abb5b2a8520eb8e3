// SPDX-License-Identifier: Apache-2.0
// The C API: what it answers and refuses without a GPU, and what it runs on one (tag [gpu]).
#include "tests/api/c_caller.h"
#include "tests/kernels/runs.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace onchip {
namespace {

struct Destroy {
  void operator()(onchip_chip* chip) const { onchip_chip_destroy(chip); }
  void operator()(onchip_matrix* matrix) const { onchip_matrix_destroy(matrix); }
  void operator()(onchip_program* program) const { onchip_program_destroy(program); }
  void operator()(onchip_recurrence* recurrence) const { onchip_recurrence_destroy(recurrence); }
};
template <typename T>
using Owned = std::unique_ptr<T, Destroy>;

// The handle that create(&handle, &error) makes; the test fails if it makes none.
template <typename T>
Owned<T> made(auto&& create) {
  T* handle = nullptr;
  onchip_error error;
  const onchip_status status = create(&handle, &error);
  INFO(error.message);
  REQUIRE(status == ONCHIP_OK);
  REQUIRE(handle != nullptr);
  return Owned<T>(handle);
}

// "status: message" of call(&error).
std::string answer(auto&& call) {
  onchip_error error;
  const onchip_status status = call(&error);
  return std::to_string(status) + ": " + error.message;
}

Owned<onchip_chip> chip(const char* name = "h200") {
  return made<onchip_chip>([&](onchip_chip** to, onchip_error* e) { return onchip_chip_create(name, to, e); });
}

Owned<onchip_matrix> matrix_of(const SparseMatrix& m) {
  return made<onchip_matrix>([&](onchip_matrix** to, onchip_error* e) {
    return onchip_matrix_create_csr(m.rows, m.columns, m.row_begin.data(), m.column.data(), m.value.data(), to, e);
  });
}

onchip_network network_of(const Recurrent& network) {
  return {sizeof(onchip_network),
          static_cast<int>(network.cell),
          static_cast<int>(network.precision),
          network.hidden,
          network.batch,
          network.density,
          ONCHIP_TIER_STREAMED};
}

Recurrent small(Cell cell, Precision precision = Precision::fp16) {
  return {cell, precision, 127, 3, 16, 0.25};
}

SparseMatrix weights_of(const Recurrent& network) {
  return generate_mask(network.rows(), network.hidden, network.density, 5, network.precision);
}

TEST_CASE("a C caller learns what fits, and what binds what does not", "[fast]") {
  CHECK(onchip_api_version() == ONCHIP_API_VERSION);
  onchip_fit fit{};
  fit.struct_bytes = sizeof fit;
  onchip_error error;
  REQUIRE(fits_in_c("h200", 1024, 0.1, &fit, &error) == ONCHIP_OK);
  CHECK(std::string(error.message).empty());
  CHECK(fit.fits == 1);
  CHECK(std::string(fit.why).starts_with("fits: "));
  CHECK(is_on_chip(parse_plan(fit.plan)));
  CHECK(fit.floor_us > 0);
  CHECK((fit.floor_us <= fit.step_us && fit.low_us <= fit.step_us && fit.step_us <= fit.high_us));
  CHECK(fit.streamed_share == 0);
  CHECK(std::string(fit.resources[ONCHIP_SHARED_MEMORY].name) == "shared_memory");
  CHECK(std::string(fit.resources[ONCHIP_SHARED_MEMORY].unit) == "bytes per SM");

  REQUIRE(fits_in_c("h200", 20000, 0.5, &fit, &error) == ONCHIP_OK);
  CHECK(fit.fits == 0);
  CHECK(std::string(fit.why).starts_with("does not fit: needs "));
  const onchip_resource& binding = fit.resources[fit.binding];
  CHECK(binding.used > binding.available);
  CHECK(fit.step_us == 0);

  CHECK(fits_in_c("h2000", 1024, 0.1, &fit, &error) == ONCHIP_INVALID);
  CHECK(std::string(error.message).find("'h2000'") != std::string::npos);
  CHECK(fits_in_c("h200", 0, 0.1, &fit, &error) == ONCHIP_INVALID);
  CHECK(fits_in_c("h200", 1024, -1, &fit, nullptr) == ONCHIP_INVALID);
}

TEST_CASE("weights beyond the SMs are streamed only if the caller allows it, and the answer says how many", "[fast]") {
  const auto h200 = chip();
  onchip_network network{sizeof network, ONCHIP_LSTM, ONCHIP_FP16, 6656, 4, 0.1, ONCHIP_TIER_STREAMED};
  onchip_fit fit{};
  fit.struct_bytes = sizeof fit;
  REQUIRE(onchip_fit_network(h200.get(), &network, nullptr, &fit, nullptr) == ONCHIP_OK);
  CHECK(fit.fits == 1);
  CHECK((fit.streamed_share > 0.1 && fit.streamed_share < 0.5));
  CHECK(std::string(fit.why).find("are read from L2 in every step") != std::string::npos);
  network.tier = ONCHIP_TIER_SHARED_MEMORY;
  REQUIRE(onchip_fit_network(h200.get(), &network, nullptr, &fit, nullptr) == ONCHIP_OK);
  CHECK(fit.fits == 0);
  CHECK(fit.streamed_share == 0);
}

TEST_CASE("the largest network that fits fits, and the next does not", "[fast]") {
  const auto h200 = chip();
  onchip_network network{sizeof network, ONCHIP_RELU, ONCHIP_FP16, 0, 4, 0.3, ONCHIP_TIER_SHARED_MEMORY};
  std::int32_t hidden = 0;
  REQUIRE(onchip_largest_hidden(h200.get(), &network, 256, &hidden, nullptr) == ONCHIP_OK);
  CHECK(hidden > 0);
  for (const int more : {0, 256}) {
    network.hidden = hidden + more;
    onchip_fit fit{};
    fit.struct_bytes = sizeof fit;
    REQUIRE(onchip_fit_network(h200.get(), &network, nullptr, &fit, nullptr) == ONCHIP_OK);
    CHECK(fit.fits == (more == 0));
  }
}

TEST_CASE("a chip's numbers can be changed, one chip's only", "[fast]") {
  const auto changed = chip(), other = chip();
  REQUIRE(onchip_chip_set(changed.get(), "sm.count=20", nullptr) == ONCHIP_OK);
  const onchip_network network{sizeof network, ONCHIP_RELU, ONCHIP_FP16, 2304, 4, 0.3, ONCHIP_TIER_STREAMED};
  onchip_fit fit{};
  fit.struct_bytes = sizeof fit;
  REQUIRE(onchip_fit_network(changed.get(), &network, nullptr, &fit, nullptr) == ONCHIP_OK);
  CHECK(fit.resources[ONCHIP_SMS].available == 20);
  REQUIRE(onchip_fit_network(other.get(), &network, nullptr, &fit, nullptr) == ONCHIP_OK);
  CHECK(fit.resources[ONCHIP_SMS].available == 132);
  CHECK(answer([&](onchip_error* e) {
          return onchip_chip_set(changed.get(), "sm.cuont=3", e);
        }).find("did you mean 'sm.count'?") != std::string::npos);
}

TEST_CASE("a matrix is the same from an array and from compressed rows, without the zeros of either", "[fast]") {
  const float dense[] = {0, 1, 0, 2, 0, -3};
  const std::int64_t row_begin[] = {0, 1, 4};
  const std::int32_t column[] = {1, 0, 1, 2};
  const float value[] = {1, 2, 0, -3};
  const auto one = made<onchip_matrix>(
      [&](onchip_matrix** to, onchip_error* e) { return onchip_matrix_create_dense(2, 3, dense, to, e); });
  const auto other = made<onchip_matrix>([&](onchip_matrix** to, onchip_error* e) {
    return onchip_matrix_create_csr(2, 3, row_begin, column, value, to, e);
  });
  for (const auto* matrix : {&one, &other}) {
    std::int32_t rows = 0, columns = 0;
    std::int64_t nnz = 0;
    CHECK(onchip_matrix_size(matrix->get(), &rows, &columns, &nnz, nullptr) == ONCHIP_OK);
    CHECK((rows == 2 && columns == 3 && nnz == 3));
    CHECK(onchip_matrix_size(matrix->get(), nullptr, nullptr, nullptr, nullptr) == ONCHIP_OK);
  }
}

TEST_CASE("a matrix that is 2:4 is planned for the sparse tensor cores, another one is not", "[fast]") {
  const auto h200 = chip();
  constexpr int kHidden = 512;
  const onchip_network network{sizeof network, ONCHIP_RELU, ONCHIP_FP16, kHidden, 4, 0.5, ONCHIP_TIER_SHARED_MEMORY};
  for (const MaskKind kind : {MaskKind::two_four, MaskKind::uniform}) {
    const std::vector<float> weights = to_dense(generate_mask(kHidden, kHidden, 0.5, 1, Precision::fp16, kind));
    const auto matrix = made<onchip_matrix>([&](onchip_matrix** to, onchip_error* e) {
      return onchip_matrix_create_dense(kHidden, kHidden, weights.data(), to, e);
    });
    onchip_fit fit{};
    fit.struct_bytes = sizeof fit;
    REQUIRE(onchip_fit_network(h200.get(), &network, matrix.get(), &fit, nullptr) == ONCHIP_OK);
    CHECK(fit.fits == 1);
    const Plan plan = parse_plan(fit.plan);
    const auto* const dense = std::get_if<DensePlan>(&plan);
    CHECK((dense != nullptr && dense->storage == Storage::structured_2_4) == (kind == MaskKind::two_four));
  }
}

TEST_CASE("hostile matrices are refused in words", "[fast]") {
  onchip_matrix* matrix = nullptr;
  const std::int64_t from_one[] = {1, 1}, backwards[] = {0, -1}, long_row[] = {0, 4}, three[] = {0, 3};
  const std::int32_t twice[] = {0, 1, 1}, beyond[] = {0, 1, 3}, negative[] = {-1, 1, 2}, fine[] = {0, 1, 2};
  const float values[] = {1, 2, 3}, nan[] = {1, std::numeric_limits<float>::quiet_NaN(), 1};
  const auto csr = [&](const std::int64_t* row_begin, const std::int32_t* column, const float* value) {
    return answer(
        [&](onchip_error* e) { return onchip_matrix_create_csr(1, 3, row_begin, column, value, &matrix, e); });
  };
  CHECK(csr(from_one, fine, values) == "1: 'row_begin[0]' is 1; expected 0 to 0");
  CHECK(csr(backwards, fine, values) == "1: row 0 has elements 0 to -1; expected at most 3, ascending");
  CHECK(csr(long_row, fine, values) == "1: row 0 has elements 0 to 4; expected at most 3, ascending");
  CHECK(csr(three, twice, values) == "1: row 0 has column 1 after 1; expected ascending columns below 3");
  CHECK(csr(three, beyond, values) == "1: row 0 has column 3 after 1; expected ascending columns below 3");
  CHECK(csr(three, negative, values) == "1: row 0 has column -1 after -1; expected ascending columns below 3");
  CHECK(csr(three, fine, nan) == "1: a weight is not finite");
  CHECK(csr(three, nullptr, values) == "1: 'column' is null");
  CHECK(csr(nullptr, fine, values) == "1: 'row_begin' is null");
  CHECK(answer([&](onchip_error* e) { return onchip_matrix_create_dense(1, 3, nan, &matrix, e); }) ==
        "1: a weight is not finite");
  CHECK(answer([&](onchip_error* e) {
          return onchip_matrix_create_dense(0, 3, values, &matrix, e);
        }).starts_with("1: 'rows' is 0; expected 1 to "));
  CHECK(answer([&](onchip_error* e) {
          return onchip_matrix_create_from_file("none.safetensors", nullptr, &matrix, e);
        }).starts_with("1: none.safetensors: cannot read the file"));
  CHECK(matrix == nullptr);
}

TEST_CASE("null handles and numbers without a meaning are refused, and null is destroyed", "[fast]") {
  const auto h200 = chip();
  onchip_fit fit{};
  fit.struct_bytes = sizeof fit;
  onchip_network network{sizeof network, ONCHIP_LSTM, ONCHIP_FP16, 128, 4, 0.1, ONCHIP_TIER_STREAMED};
  const auto asked = [&](const onchip_chip* of, const onchip_network* n) {
    return answer([&](onchip_error* e) { return onchip_fit_network(of, n, nullptr, &fit, e); });
  };
  CHECK(asked(nullptr, &network) == "1: 'chip' is null");
  CHECK(asked(h200.get(), nullptr) == "1: 'network' is null");
  network.struct_bytes = 0;
  CHECK(asked(h200.get(), &network) ==
        "1: 'network' has a struct_bytes of 0; expected " + std::to_string(sizeof network) + ", its size");
  network.struct_bytes = sizeof network;
  network.cell = 4;
  CHECK(asked(h200.get(), &network) == "1: 'cell' is 4; expected 0 to 3");
  network.cell = ONCHIP_GRU;
  network.precision = -1;
  CHECK(asked(h200.get(), &network) == "1: 'precision' is -1; expected 0 to 3");
  network.precision = ONCHIP_BF16;
  network.tier = 3;
  CHECK(asked(h200.get(), &network) == "1: 'tier' is 3; expected 0 to 2");
  network.tier = 0;
  network.batch = 65;
  CHECK(asked(h200.get(), &network).starts_with("1: "));
  CHECK(answer([&](onchip_error* e) { return onchip_recurrence_enqueue(nullptr, nullptr, nullptr, e); }) ==
        "1: 'recurrence' is null");
  CHECK(answer([&](onchip_error* e) { return onchip_chip_create("h200", nullptr, e); }) == "1: 'chip' is null");
  onchip_chip_destroy(nullptr);
  onchip_matrix_destroy(nullptr);
  onchip_program_destroy(nullptr);
  onchip_recurrence_destroy(nullptr);
}

TEST_CASE("a message longer than its place is cut and ended", "[fast]") {
  const std::string name(5000, 'x');
  onchip_chip* none = nullptr;
  onchip_error error;
  CHECK(onchip_chip_create(("./" + name + ".toml").c_str(), &none, &error) == ONCHIP_INVALID);
  CHECK(std::string(error.message).size() == sizeof error.message - 1);
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
  onchip_fit fit{};
  fit.struct_bytes = sizeof fit;
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
    onchip_sequences sequences{};
    sequences.struct_bytes = sizeof sequences;
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
