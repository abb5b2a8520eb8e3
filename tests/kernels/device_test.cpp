// SPDX-License-Identifier: Apache-2.0
// What needs no GPU, then (tag [gpu]) what does.
#include "kernels/device.hpp"

#include "kernels/compiler.hpp"
#include "kernels/sparse_persistent.hpp"
#include "model/error.hpp"
#include "model/numeric.hpp"
#include "model/reference.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/plans.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace onchip {
namespace {

constexpr std::string_view kCopySource = R"(
extern "C" __global__ void copy(const int* in, int* out, int count) {
  extern __shared__ int staged[];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  staged[threadIdx.x] = i < count ? in[i] : 0;
  __syncthreads();
  if (i < count) out[i] = staged[threadIdx.x];
}
)";

bool has_device() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

template <typename Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const CudaError& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("a failed call is told with its expression, place and CUDA's own words") {
  const auto fail = [] { ONCHIP_CUDA_CHECK(cudaErrorInvalidValue); };
  const std::string error = error_of(fail);
  CHECK(error.starts_with("device_test.cpp:"));
  CHECK(error.ends_with(": cudaErrorInvalidValue: invalid argument (cudaErrorInvalidValue)"));
  CHECK(error_of([] { ONCHIP_CUDA_CHECK(cudaSuccess); }) == "no error");
}

TEST_CASE("a machine without a GPU says so") {
  if (!has_device()) {
    CHECK(error_of([] { device_info(); }).starts_with("no CUDA device: "));
  }
}

TEST_CASE("median and quantiles are interpolated") {
  std::vector<double> samples(101);
  std::iota(samples.rbegin(), samples.rend(), 0.0);
  const Timing timing = summarize(samples);
  CHECK(timing.samples == 101);
  CHECK(timing.median == 50.0);
  CHECK_THAT(timing.low, Catch::Matchers::WithinAbs(2.5, 1e-12));
  CHECK_THAT(timing.high, Catch::Matchers::WithinAbs(97.5, 1e-12));

  CHECK(summarize({3.0, 1.0}).median == 2.0);
  CHECK(summarize({7.0}).low == 7.0);
  CHECK(summarize({7.0}).high == 7.0);
  CHECK(summarize({}).samples == 0);
}

TEST_CASE("the device says what it is", "[gpu]") {
  const DeviceInfo info = device_info();
  CHECK_FALSE(info.name.empty());
  CHECK(info.architecture.starts_with("sm_"));
  CHECK(info.driver.find("CUDA ") != std::string::npos);
  CHECK(info.sm_count > 0);
  CHECK(info.clock_hz > 1e8);
}

TEST_CASE("a compiled kernel launches, also cooperatively and with much shared memory", "[gpu]") {
  const CompiledKernel compiled = compile({"copy", kCopySource, device_info().architecture, {}});
  const Kernel kernel(compiled.cubin, "copy");
  CHECK(kernel.attributes().numRegs == compiled.resources.registers);
  CHECK(kernel.blocks_per_sm(256, 0) > 1);
  CHECK(kernel.blocks_per_sm(256, 90 << 10) >= 1);

  std::vector<int> in(1000);
  std::iota(in.begin(), in.end(), 7);
  const Stream stream;
  const DeviceBuffer<int> source{std::span<const int>(in)};
  for (const bool cooperative : {false, true}) {
    for (const std::size_t smem_bytes : {1u << 10, 90u << 10}) {
      DeviceBuffer<int> target(in.size());
      const std::vector<int> poison(in.size(), -1);
      target.upload(poison);
      ONCHIP_CUDA_CHECK(cudaDeviceSynchronize());
      const int* from = source.data();
      int* to = target.data();
      int count = static_cast<int>(in.size());
      void* arguments[] = {&from, &to, &count};
      kernel.launch(stream.get(), 4, 256, smem_bytes, cooperative, arguments);
      stream.synchronize();
      CHECK(target.download() == in);
    }
  }
}

TEST_CASE("launches that cannot be are refused with CUDA's words", "[gpu]") {
  const CompiledKernel compiled = compile({"copy", kCopySource, device_info().architecture, {}});
  const Kernel kernel(compiled.cubin, "copy");
  const Stream stream;
  const int* from = nullptr;
  int* to = nullptr;
  int count = 0;
  void* arguments[] = {&from, &to, &count};
  CHECK(error_of([&] { kernel.launch(stream.get(), 1, 4096, 0, false, arguments); }).find("(cudaError") !=
        std::string::npos);
  CHECK(error_of([&] { kernel.launch(stream.get(), 1, 32, 1 << 20, false, arguments); }).find("(cudaError") !=
        std::string::npos);
  CHECK(error_of([&] {
          kernel.launch(stream.get(), 1 << 20, 32, 0, true, arguments);
        }).find("(cudaErrorCooperativeLaunchTooLarge)") != std::string::npos);
  // A refused launch leaves the kernel usable.
  kernel.launch(stream.get(), 1, 32, 128, true, arguments);
  stream.synchronize();
}

TEST_CASE("a kernel that is not there, or not for this device, fails when it is loaded", "[gpu]") {
  const std::string here = device_info().architecture;
  const CompiledKernel compiled = compile({"copy", kCopySource, here, {}});
  CHECK(error_of([&] { Kernel(compiled.cubin, "absent"); }).find("cudaLibraryGetKernel") != std::string::npos);
  const CompiledKernel other = compile({"copy", kCopySource, here == "sm_120" ? "sm_90" : "sm_120", {}});
  CHECK(error_of([&] { Kernel(other.cubin, "copy"); }).find("(cudaError") != std::string::npos);
}

TEST_CASE("events time what lies between them", "[gpu]") {
  const Stream stream;
  DeviceBuffer<char> buffer(64u << 20);
  const auto fill = [&](cudaStream_t on) { ONCHIP_CUDA_CHECK(cudaMemsetAsync(buffer.data(), 1, buffer.bytes(), on)); };
  const std::vector<double> ms = time_ms(stream, 1, 5, fill);
  REQUIRE(ms.size() == 5);
  for (const double sample : ms) {
    CHECK(sample > 0.001);
    CHECK(sample < 1000);
  }
}

// ---- the sparse persistent kernel against the reference
// --------------------------------------------------------------

// What a run is given, rounded as the kernel sees it; sample by sample, as the caller of a kernel has it.
struct Given {
  std::vector<float> input;                       // [steps, batch, gates, hidden]
  std::vector<float> initial, initial_cell;       // [batch, hidden]
  std::vector<float> input_bias, recurrent_bias;  // [gates * hidden]
  std::vector<int> lengths;                       // [batch]; empty: all
  int steps = 0;
  bool backward = false;

  Biases biases() const { return {input_bias, recurrent_bias}; }
};

std::vector<float> random_values(std::size_t count, Precision precision, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = round_to(precision, static_cast<float>(random()) * 0x1p-31f - 1.0f);
  }
  return values;
}

Given given(const Network& network, int steps) {
  const std::size_t state = static_cast<std::size_t>(network.batch) * network.hidden;
  const Precision type = network.precision;
  Given g;
  g.steps = steps;
  g.input = random_values(steps * state * info(network.cell).gates, type, 1);
  g.initial = random_values(state, type, 2);
  if (network.cell == Cell::lstm) {
    g.initial_cell = random_values(state, type, 3);
  }
  g.input_bias = random_values(network.rows(), Precision::fp32, 4);
  g.recurrent_bias = random_values(network.rows(), Precision::fp32, 5);
  return g;
}

struct Expected {
  std::vector<double> states;                   // [steps, batch, hidden]
  std::vector<double> final_state, final_cell;  // [batch, hidden]
};

Expected expected(const PlannedCase& c, const Given& g) {
  const Network& network = c.network;
  const int batch = network.batch, hidden = network.hidden, rows = network.rows();
  const bool is_gru = network.cell == Cell::gru;
  const auto length = [&](int sample) { return g.lengths.empty() ? g.steps : g.lengths[sample]; };
  // Step t of the recurrence, in the sequence.
  const auto in_sequence = [&](int t, int sample) {
    return g.backward && t < length(sample) ? length(sample) - 1 - t : t;
  };
  // All biases are part of the input, but that of the GRU's n gate, which the reset gate multiplies.
  const auto added = [&](int row) {
    const float in = g.input_bias.empty() ? 0.0f : g.input_bias[row];
    const float recurrent = g.recurrent_bias.empty() || (is_gru && row >= 2 * hidden) ? 0.0f : g.recurrent_bias[row];
    return in + recurrent;
  };
  std::vector<float> input(static_cast<std::size_t>(g.steps) * rows * batch, 0.0f);
  for (int t = 0; t < g.steps; ++t) {
    for (int sample = 0; sample < batch; ++sample) {
      const std::size_t from = (static_cast<std::size_t>(in_sequence(t, sample)) * batch + sample) * rows;
      for (int row = 0; row < rows; ++row) {
        const float x = g.input.empty() ? 0.0f : g.input[from + row];
        input[(static_cast<std::size_t>(t) * rows + row) * batch + sample] =
            round_to(network.precision, x + added(row));
      }
    }
  }
  const auto units_first = [&](const std::vector<float>& samples_first) {
    std::vector<float> values(static_cast<std::size_t>(hidden) * batch, 0.0f);
    for (std::size_t i = 0; i < samples_first.size(); ++i) {
      values[i % hidden * batch + i / hidden] = samples_first[i];
    }
    return values;
  };
  const std::vector<float> initial = units_first(g.initial);
  const std::vector<float> initial_cell = g.initial_cell.empty() ? std::vector<float>() : units_first(g.initial_cell);
  std::vector<float> recurrent_bias(is_gru ? rows : 0, 0.0f);
  if (is_gru && !g.recurrent_bias.empty()) {
    std::copy(g.recurrent_bias.begin() + 2 * hidden, g.recurrent_bias.end(), recurrent_bias.begin() + 2 * hidden);
  }
  const ReferenceStates reference = reference_states(c.matrix, network.cell, network.precision,
                                                     {.batch = batch,
                                                      .steps = g.steps,
                                                      .initial = initial,
                                                      .initial_cell = initial_cell,
                                                      .input = input,
                                                      .recurrent_bias = recurrent_bias,
                                                      .lengths = g.lengths,
                                                      .round_state = true});
  const auto samples_first = [&](const std::vector<double>& values) {
    std::vector<double> result(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      result[i % batch * hidden + i / batch] = values[i];
    }
    return result;
  };
  Expected e{std::vector<double>(reference.states.size()), samples_first(reference.final_state),
             samples_first(reference.final_cell)};
  for (int t = 0; t < g.steps; ++t) {
    for (int sample = 0; sample < batch; ++sample) {
      for (int unit = 0; unit < hidden; ++unit) {
        e.states[(static_cast<std::size_t>(in_sequence(t, sample)) * batch + sample) * hidden + unit] =
            reference.states[(static_cast<std::size_t>(t) * hidden + unit) * batch + sample];
      }
    }
  }
  return e;
}

// Device memory whose every element is a NaN until it is written.
DeviceBuffer<std::byte> poisoned(std::size_t bytes) {
  return DeviceBuffer<std::byte>(std::span<const std::byte>(std::vector<std::byte>(bytes, std::byte{0xff})));
}

struct Got {
  std::vector<std::byte> states, final_state, final_cell;
  friend bool operator==(const Got&, const Got&) = default;
};

Got run(SparsePersistent& kernel, const Network& network, const Given& g) {
  const auto upload = [&](const std::vector<float>& values) {
    return DeviceBuffer<std::byte>(to_elements(values, network.precision));
  };
  const auto input = upload(g.input), initial = upload(g.initial), initial_cell = upload(g.initial_cell);
  const std::size_t state = static_cast<std::size_t>(network.batch) * network.hidden * info(network.precision).bytes;
  const bool has_cell = network.cell == Cell::lstm;
  const auto output = poisoned(g.steps * state), final_state = poisoned(state), final_cell = poisoned(state);
  ONCHIP_CUDA_CHECK(cudaDeviceSynchronize());
  const auto pointer = [](const std::vector<float>& host, const DeviceBuffer<std::byte>& device) {
    return host.empty() ? nullptr : device.data();
  };
  Sequences sequences;
  sequences.steps = g.steps;
  sequences.input = pointer(g.input, input);
  sequences.initial = pointer(g.initial, initial);
  sequences.initial_cell = pointer(g.initial_cell, initial_cell);
  sequences.output = output.data();
  sequences.final_state = final_state.data();
  sequences.final_cell = has_cell ? final_cell.data() : nullptr;
  sequences.lengths = g.lengths;
  sequences.backward = g.backward;
  const Stream stream;
  kernel.enqueue(stream.get(), sequences);
  stream.synchronize();
  kernel.check_status();
  return {output.download(), final_state.download(), has_cell ? final_cell.download() : std::vector<std::byte>()};
}

Got run(const PlannedCase& c, const Given& g, std::int64_t most_steps = 2048) {
  SparsePersistent kernel(c.layout(), g.biases(), most_steps);
  return run(kernel, c.network, g);
}

// Roundings of the state and of sums, several in sequence at most.
double tolerance(Precision precision) {
  return std::max(4 * info(precision).unit_roundoff, 2e-6);
}

void check_right(const Got& got, const Expected& e, Precision precision) {
  CHECK(relative_error(e.states, from_elements(got.states, precision)) < tolerance(precision));
  CHECK(relative_error(e.final_state, from_elements(got.final_state, precision)) < tolerance(precision));
  CHECK(relative_error(e.final_cell, from_elements(got.final_cell, precision)) < tolerance(precision));
}

void check_right(const PlannedCase& c, const Given& g, std::int64_t most_steps = 2048) {
  CAPTURE(c.text(), g.steps, g.backward);
  check_right(run(c, g, most_steps), expected(c, g), c.network.precision);
}

const std::vector<Shape> kEveryKind{
    {.cell = Cell::relu, .precision = Precision::fp16, .batch = 5},
    {.cell = Cell::tanh, .precision = Precision::bf16, .batch = 3},
    {.cell = Cell::lstm, .precision = Precision::fp16, .batch = 3},
    {.cell = Cell::lstm, .precision = Precision::fp32, .batch = 1},
    {.cell = Cell::gru, .precision = Precision::fp8, .batch = 5},
    {.cell = Cell::gru, .precision = Precision::fp32, .batch = 3},
};

TEST_CASE("every cell and precision gives what the reference gives, on awkward sizes", "[gpu]") {
  const Cell cell = GENERATE(Cell::relu, Cell::tanh, Cell::lstm, Cell::gru);
  const Precision precision = GENERATE(Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp8);
  for (const int batch : {1, 3, 5, 17}) {
    const PlannedCase c = planned_case({.cell = cell,
                                        .precision = precision,
                                        .hidden = batch == 1 ? 257 : 127,
                                        .batch = batch,
                                        .sms = batch == 5 ? 2 : 7,
                                        .lanes = batch == 3 ? 32 : 8,
                                        .units_per_group = batch == 17 ? 1 : 2});
    SparsePersistent kernel(c.layout());
    for (const int steps : {1, 6}) {
      Given g = given(c.network, steps);
      g.input_bias.clear();
      g.recurrent_bias.clear();
      CAPTURE(c.text(), steps);
      check_right(run(kernel, c.network, g), expected(c, g), precision);
    }
  }
}

TEST_CASE("one unit, and fewer units than SMs, are networks too", "[gpu]") {
  const Cell cell = GENERATE(Cell::tanh, Cell::lstm, Cell::gru);
  for (const int hidden : {1, 3}) {
    const PlannedCase c = planned_case({.cell = cell, .hidden = hidden, .sms = 5, .units_per_group = 1, .density = 1});
    check_right(c, given(c.network, 4));
  }
}

TEST_CASE("all SMs of the device work together", "[gpu]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm);
  const PlannedCase c = planned_case({.cell = cell,
                                      .hidden = 1021,
                                      .batch = 4,
                                      .sms = device_info().sm_count,
                                      .lanes = 32,
                                      .units_per_group = 1,
                                      .density = 0.1});
  check_right(c, given(c.network, 300));  // more steps than segments are emptied ahead
}

TEST_CASE("input and recurrent biases are added where they belong", "[gpu]") {
  for (const Shape& shape : kEveryKind) {
    const PlannedCase c = planned_case(shape);
    for (const int which : {0, 1, 2}) {
      Given g = given(c.network, 4);
      (which == 0 ? g.input_bias : which == 1 ? g.recurrent_bias : g.initial_cell).clear();
      check_right(c, g);
    }
  }
}

TEST_CASE("without an input, an initial state or a cell, they are zeros", "[gpu]") {
  for (const Shape& shape : kEveryKind) {
    const PlannedCase c = planned_case(shape);
    Given g = given(c.network, 4);
    g.initial_cell.clear();
    std::fill(g.initial.begin(), g.initial.end(), 0.0f);
    const Expected zeros = expected(c, g);
    g.initial.clear();
    CAPTURE(c.text());
    check_right(run(c, g), zeros, c.network.precision);
    g.input.clear();
    check_right(run(c, g), expected(c, g), c.network.precision);
  }
}

TEST_CASE("samples of different lengths end each for itself, forward and backward, in one launch and in several",
          "[gpu]") {
  const bool backward = GENERATE(false, true);
  for (const Shape& shape : kEveryKind) {
    const PlannedCase c = planned_case(shape);
    Given g = given(c.network, 9);
    g.backward = backward;
    check_right(c, g);  // all as long
    for (int sample = 0; sample < c.network.batch; ++sample) {
      g.lengths.push_back(std::array{5, 9, 1, 8, 4}[sample]);
    }
    check_right(c, g);
    check_right(c, g, 4);
  }
}

TEST_CASE("several launches give the same bits as one, and every run the same as the first", "[gpu]") {
  for (const Shape& shape : kEveryKind) {
    const PlannedCase c = planned_case(shape);
    Given g = given(c.network, 11);
    CAPTURE(c.text());
    SparsePersistent kernel(c.layout(), g.biases());
    const Got first = run(kernel, c.network, g);
    Given other = given(c.network, 3);  // what another run leaves in the workspace must not matter
    other.backward = true;
    run(kernel, c.network, other);
    for (int again = 0; again < 5; ++again) {
      CHECK(run(kernel, c.network, g) == first);
    }
    for (const int most_steps : {1, 4, 11}) {
      CHECK(run(c, g, most_steps) == first);
    }
  }
}

TEST_CASE("the exchange does not change a bit", "[gpu]") {
  for (const Shape& shape : kEveryKind) {
    PlannedCase c = planned_case(shape);
    const Given g = given(c.network, 150);  // more than segments are emptied ahead
    CAPTURE(c.text());
    const Got lamport = run(c, g);
    check_right(run(c, given(c.network, 7)), expected(c, given(c.network, 7)), c.network.precision);
    for (const auto exchange : {ExchangeProtocol::atomic_barrier, ExchangeProtocol::cooperative_barrier}) {
      c.plan.exchange = exchange;
      CHECK(run(c, g) == lamport);
      CHECK(run(c, g, 40) == lamport);
    }
  }
}

TEST_CASE("where the weights are does not change a bit", "[gpu]") {
  int tried = 0;
  for (const Shape& shape : kEveryKind) {
    PlannedCase c = planned_case(shape);
    if (total_quads(c.network, c.plan) == 0) {
      continue;  // too few weights for another tier
    }
    ++tried;
    const Given g = given(c.network, 7);
    const Got in_registers = run(c, g);
    check_right(in_registers, expected(c, g), c.network.precision);
    for (const Tiers tiers : {Tiers::shared, Tiers::streamed, Tiers::mixed}) {
      set_tiers(c, tiers);
      CAPTURE(c.text());
      REQUIRE(c.plan.shared_quads + c.plan.streamed_quads > 0);
      CHECK(run(c, g) == in_registers);
      if (c.plan.streamed_quads > 0) {
        c.plan.ring_quads = 2;
        CHECK(run(c, g) == in_registers);
        c.plan.ring_quads = planes(c.network, c.plan) * c.plan.streamed_quads + 1;  // a whole step
        CHECK(run(c, g) == in_registers);
      }
    }
  }
  CHECK(tried >= 3);
}

TEST_CASE("slots that are skipped hold nothing, in every tier", "[gpu]") {
  for (Shape shape : kEveryKind) {
    shape.hidden = 211;
    shape.sms = 7;
    shape.lanes = 8;
    shape.density = 0.08;
    shape.mask = MaskKind::power_law;
    shape.skip = true;
    PlannedCase c = planned_case(shape);
    REQUIRE(c.plan.skips());
    const Given g = given(c.network, 5);
    for (const Tiers tiers : kAllTiers) {
      set_tiers(c, tiers);
      check_right(c, g);
    }
  }
}

TEST_CASE("natural order, narrow loads, tiles of several rows and passes of several planes give the same", "[gpu]") {
  for (Shape shape : kEveryKind) {
    shape.batch = 17;
    PlannedCase c = planned_case(shape);
    const Given g = given(c.network, 5);
    c.plan.order = RowOrder::natural;
    check_right(c, g);
    c.plan.order = RowOrder::bank_aware;
    for (int load_bytes = info(shape.precision).bytes; load_bytes < kWidestLoad; load_bytes *= 2) {
      c.plan.load_bytes = load_bytes;
      check_right(c, g);
    }
    c.plan.load_bytes = kWidestLoad;
    c.plan.pass_planes = 2;
    c.plan.loads_in_flight = 5;
    c.plan.promote_every = 1;
    if (info(shape.cell).gates == 1) {
      c.plan.tile_rows = 4;  // of two rows
    }
    check_right(c, g);
  }
}

TEST_CASE("dense weights give the same", "[gpu]") {
  for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp8}) {
    for (const Cell cell : {Cell::tanh, Cell::gru}) {
      PlannedCase c = planned_case({.cell = cell, .precision = precision, .hidden = 61, .density = 0.9});
      const int promote_every = c.plan.promote_every;
      c.plan = shape_plan(c.network, RowProfile::from_matrix(c.matrix), Storage::dense, 3, 8, 2 * info(cell).gates);
      c.plan.promote_every = promote_every;
      check_right(c, given(c.network, 5));
    }
  }
}

TEST_CASE("NaN and infinity travel as in the reference, stay in their sample, and hang nothing", "[gpu]") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  for (const Shape& shape : kEveryKind) {
    const PlannedCase c = planned_case(shape);
    const std::size_t hidden = c.network.hidden, rows = c.network.rows();
    for (const float poison : {kNan, -kNan, kInfinity, -kInfinity}) {
      Given g = given(c.network, 5);
      g.input[(1 * c.network.batch + 0) * rows + 7] = poison;  // step 1, sample 0
      CAPTURE(c.text(), poison);
      const Got got = run(c, g);
      const std::vector<float> states = from_elements(got.states, c.network.precision);
      const Expected e = expected(c, g);
      if (std::isnan(poison)) {
        CHECK(std::isnan(states[c.network.batch * hidden + 7]));
      }
      check_right(got, e, c.network.precision);
      Given at_start = given(c.network, 3);
      at_start.initial[7] = poison;
      check_right(run(c, at_start), expected(c, at_start), c.network.precision);
    }
  }
}

TEST_CASE("lengths that cannot be are refused", "[gpu]") {
  const PlannedCase c = planned_case({.batch = 3});
  Given g = given(c.network, 4);
  SparsePersistent kernel(c.layout(), g.biases());
  for (const std::vector<int>& lengths : {std::vector<int>{1, 2}, {1, 2, 3, 4}, {0, 1, 1}, {1, 5, 1}, {-1, 1, 1}}) {
    g.lengths = lengths;
    CHECK_THROWS_AS(run(kernel, c.network, g), InputError);
  }
  g.lengths = {4, 1, 2};
  check_right(run(kernel, c.network, g), expected(c, g), c.network.precision);
  g.input_bias.pop_back();
  CHECK_THROWS_AS(SparsePersistent(c.layout(), g.biases()), InputError);
}

}  // namespace
}  // namespace onchip
