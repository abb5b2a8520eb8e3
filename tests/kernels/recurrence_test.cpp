// SPDX-License-Identifier: Apache-2.0
// A recurrence in its caller's memory: what can be said of programs and workspaces without a GPU, and runs, graphs and
// steps on one (tag [gpu]).
#include "kernels/recurrent/recurrence.hpp"

#include "model/base/error.hpp"
#include "model/families/planner.hpp"
#include "tests/error_of.hpp"
#include "tests/kernels/runs.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace onchip {
namespace {

constexpr const char* kArchitecture = "sm_90";

TEST_CASE("a workspace grows with the steps until a launch has as many as it may", "[fast]") {
  const SparseCase c = sparse_case({.cell = Cell::lstm});
  const RecurrenceProgram program = make_program(c.layout(), {}, kArchitecture);
  CHECK(Recurrence::workspace_bytes(program, 1) < Recurrence::workspace_bytes(program, 100));
  const std::int64_t most_steps = std::int64_t{1} << 40;
  const std::vector<std::size_t> most = array_offsets(program.kernels_and_arrays(most_steps));
  CHECK(most.back() < most[RecurrenceArray::constants] + kMostLaunchBytes + (std::size_t{1} << 20));
  CHECK(most.back() > static_cast<std::size_t>(kMostLaunchBytes) / 2);
  CHECK(std::ranges::all_of(most, [](std::size_t offset) { return offset % kArrayAlignment == 0; }));
  CHECK(program.steps_per_launch(most_steps) < std::int64_t{1} << 30);
  CHECK(error_of([&] { Recurrence::workspace_bytes(program, 0); }) ==
        "the largest number of steps 0 is out of range: expected 1 or more");
  const RecurrenceProgram clocked = make_program(c.layout(), {}, kArchitecture, Work::clocked);
  CHECK(Recurrence::workspace_bytes(clocked, 3) >=
        Recurrence::workspace_bytes(program, 3) + 4 * 3 * kStepMarks.size() * c.plan.sms * c.plan.warps());
}

TEST_CASE("a bias of another size is refused", "[fast]") {
  const SparseCase c = sparse_case({.cell = Cell::gru});
  const std::vector<float> three(3);
  CHECK(error_of([&] {
          make_program(c.layout(), {three, {}}, kArchitecture);
        }) == "a bias has 3 elements; expected 381");
}

TEST_CASE("a recurrence refuses a workspace that is null, not aligned or too small before it touches a device",
          "[fast]") {
  const SparseCase c = sparse_case({});
  const auto program = std::make_shared<const RecurrenceProgram>(make_program(c.layout(), {}, kArchitecture));
  const std::size_t bytes = Recurrence::workspace_bytes(*program, 4);
  const auto error = [&](std::uintptr_t workspace, std::size_t size) {
    return error_of([&] { Recurrence(program, reinterpret_cast<void*>(workspace), size, 4, nullptr); });
  };
  CHECK(error(0, bytes) == "the workspace is null");
  CHECK(error(128, bytes) == "the workspace is not aligned to 256 bytes");
  CHECK(error(256, bytes - 1) ==
        "the workspace has " + std::to_string(bytes - 1) + " bytes; expected at least " + std::to_string(bytes));
}

// Lines of four words are half empty: with what lies between them the first network's state is larger than shared
// memory.
TEST_CASE("no kernel asks for more shared memory than a block may have", "[fast]") {
  const Chip chip = find_chip("h200").chip;
  const Recurrent network = GENERATE(Recurrent{Cell::lstm, Precision::fp32, 453, 64, 1, 0.2},
                                     Recurrent{Cell::relu, Precision::fp16, 2304, 4, 1, 0.1},
                                     Recurrent{Cell::gru, Precision::bf16, 512, 16, 1, 0.1});
  Constraints constraints;
  constraints.family = SparsePlan::kName;
  PlannedNetwork planned = choose_plan(chip, network, RowProfile::uniform(network), constraints);
  REQUIRE(planned.prediction.footprint.fits);
  std::get<SparsePlan>(planned.plan).line_words = GENERATE(4, 8);
  const SparseMatrix matrix = generate_mask(network.rows(), network.hidden, network.density, 1, network.precision);
  const RecurrenceProgram program =
      make_uncompiled_program(make_layout(network, planned.plan, matrix), {}, chip.architecture);
  const KernelProgram of_one_step = program.kernels_and_arrays(1);
  const std::vector<std::size_t> offsets = array_offsets(of_one_step);
  std::vector<std::byte> workspace(offsets.back()), output(16);
  std::vector<std::byte*> places;
  for (const std::size_t offset : offsets) {
    places.push_back(workspace.data() + offset);
  }
  Sequences sequences;
  sequences.steps = 1;
  sequences.initial = output.data();
  sequences.output = output.data();
  sequences.final_state = output.data();
  std::set<std::string> launched;
  std::size_t most_shared = 0;
  for (const ProgramNode& node : program.nodes(places, 1, sequences)) {
    if (node.kernel >= 0) {
      launched.insert(of_one_step.kernels[static_cast<std::size_t>(node.kernel)].entry);
      most_shared = std::max(most_shared, node.shared_bytes);
    }
  }
  CAPTURE(describe(network), to_string(planned.plan));
  CHECK(launched.contains(std::string(program.shape.kernel)));
  CHECK(launched.contains("from_state_order"));
  CHECK(static_cast<double>(most_shared) <= chip.smem_bytes_per_block);
}

// ---- on a GPU -------------------------------------------------------------------------------------------------------

// A recurrence in the middle of memory that it must not touch.
struct InCallersMemory {
  static constexpr std::size_t kGuard = 4096;

  InCallersMemory(const SparseCase& c, const Biases& biases, std::int64_t most_steps)
      : program(
            std::make_shared<const RecurrenceProgram>(make_program(c.layout(), biases, device_info().architecture))),
        bytes(Recurrence::workspace_bytes(*program, most_steps)),
        memory(poisoned(bytes + 2 * kGuard)),
        recurrence((ONCHIP_CUDA_CHECK(cudaDeviceSynchronize()), program), memory.data() + kGuard, bytes, most_steps,
                   stream.get()) {}

  bool guards_untouched() const {
    const std::vector<std::byte> now = memory.download();
    const auto untouched = [](std::byte byte) { return byte == std::byte{0xff}; };
    return std::all_of(now.begin(), now.begin() + kGuard, untouched) &&
           std::all_of(now.end() - kGuard, now.end(), untouched);
  }

  Stream stream;
  std::shared_ptr<const RecurrenceProgram> program;
  std::size_t bytes;
  DeviceBuffer<std::byte> memory;
  Recurrence recurrence;
};

TEST_CASE("a recurrence in its caller's memory gives the same bits, and writes nowhere else", "[gpu]") {
  for (const Shape& shape : kEveryKind) {
    const SparseCase c = sparse_case(shape);
    const Given g = given(c.network, 9);
    CAPTURE(c.text());
    for (const int most_steps : {4, 9}) {
      InCallersMemory in(c, g.biases(), most_steps);
      const OnDevice data(c.network, g);
      in.recurrence.enqueue(in.stream.get(), data.sequences);
      in.recurrence.check_status(in.stream.get());
      CHECK(data.results() == run(c, g));
      CHECK(in.guards_untouched());
    }
  }
}

TEST_CASE("a captured recurrence replays with its own lengths, whatever ran in between", "[gpu]") {
  for (const Shape& shape : kEveryKind) {
    const SparseCase c = sparse_case(shape);
    Given g = given(c.network, 9);
    const Got all = run(c, g);
    g.lengths.assign(c.network.batch, 9);
    g.lengths.back() = 5;
    const Got shorter = run(c, g);
    CAPTURE(c.text());
    for (const int most_steps : {4, 9}) {
      InCallersMemory in(c, g.biases(), most_steps);
      const OnDevice data(c.network, g);
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t executable = nullptr;
      {
        const std::vector<int> lengths = g.lengths;  // gone before the graph runs
        Sequences sequences = data.sequences;
        sequences.lengths = lengths;
        ONCHIP_CUDA_CHECK(cudaStreamBeginCapture(in.stream.get(), cudaStreamCaptureModeGlobal));
        in.recurrence.enqueue(in.stream.get(), sequences);
        ONCHIP_CUDA_CHECK(cudaStreamEndCapture(in.stream.get(), &graph));
      }
      ONCHIP_CUDA_CHECK(cudaGraphInstantiate(&executable, graph, 0));
      for (int repeat = 0; repeat < 3; ++repeat) {
        Sequences others = data.sequences;
        others.lengths = {};
        in.recurrence.enqueue(in.stream.get(), others);
        in.stream.synchronize();
        CHECK(data.results() == all);
        ONCHIP_CUDA_CHECK(cudaGraphLaunch(executable, in.stream.get()));
        in.recurrence.check_status(in.stream.get());
        CHECK(data.results() == shorter);
      }
      cudaGraphExecDestroy(executable);
      cudaGraphDestroy(graph);
      CHECK(in.guards_untouched());
    }
  }
}

TEST_CASE("one step at a time, the state kept in the caller's memory, gives what the whole sequence gives", "[gpu]") {
  for (const Shape& shape : kEveryKind) {
    const SparseCase c = sparse_case(shape);
    const Given g = given(c.network, 9);
    CAPTURE(c.text());
    InCallersMemory in(c, g.biases(), 1);
    const OnDevice data(c.network, g);
    const std::size_t input_bytes_of_step = data.input.size() / g.steps;
    for (int step = 0; step < g.steps; ++step) {
      Sequences one;
      one.steps = 1;
      one.input = data.input.data() + step * input_bytes_of_step;
      one.initial = one.final_state = data.initial.data();
      one.initial_cell = one.final_cell = data.has_cell ? data.initial_cell.data() : nullptr;
      one.output = data.output.data() + step * data.state_bytes;
      in.recurrence.enqueue(in.stream.get(), one);
    }
    in.recurrence.check_status(in.stream.get());
    const Got whole = run(c, g);
    const std::vector<std::byte> output = data.output.download();
    const bool carries = info(c.network.cell).gates > 1;  // in fp32, but for from one call to the next
    if (!carries || c.network.precision == Precision::fp32) {
      CHECK(output == whole.states);
      CHECK(data.initial.download() == whole.final_state);
    } else {
      const std::vector<float> wanted = from_elements(whole.states, c.network.precision);
      CHECK(relative_error(std::vector<double>(wanted.begin(), wanted.end()),
                           from_elements(output, c.network.precision)) < 2 * tolerance(c.network.precision));
    }
  }
}

TEST_CASE("two recurrences of one program keep apart", "[gpu]") {
  const SparseCase c = sparse_case({.cell = Cell::lstm});
  const Given g = given(c.network, 9);
  const Got wanted = run(c, g);
  InCallersMemory first(c, g.biases(), 9);
  const DeviceBuffer<std::byte> memory(first.bytes);
  const Recurrence second(first.program, memory.data(), memory.size(), 9, first.stream.get());
  first.stream.synchronize();
  const OnDevice one(c.network, g), other(c.network, g);
  const Stream stream;
  first.recurrence.enqueue(first.stream.get(), one.sequences);
  second.enqueue(stream.get(), other.sequences);
  first.recurrence.check_status(first.stream.get());
  second.check_status(stream.get());
  CHECK(one.results() == wanted);
  CHECK(other.results() == wanted);
}

TEST_CASE("what gives up waiting on a GPU leaves NaN until somebody asks, also in a graph", "[gpu]") {
  const auto check_given_up = [](const auto& c) {
    CAPTURE(c.text());
    const Given g = given(c.network, 9);
    RecurrenceProgram program = make_uncompiled_program(c.layout(), g.biases(), device_info().architecture);
    constexpr std::string_view kBound = "kPolls = 1 << 20";
    std::string source(program.kernel_request.source);
    source.replace(source.find(kBound), kBound.size(), "kPolls = 0");  // whatever comes in time
    program.kernel_request.source = source;
    program.kernel = compile(program.kernel_request);
    program.order = compile(program.order_request);
    const auto made = std::make_shared<const RecurrenceProgram>(std::move(program));
    const DeviceBuffer<std::byte> memory(Recurrence::workspace_bytes(*made, 9));
    const Stream stream;
    const Recurrence recurrence(made, memory.data(), memory.size(), 9, stream.get());
    const OnDevice data(c.network, g);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    ONCHIP_CUDA_CHECK(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal));
    recurrence.enqueue(stream.get(), data.sequences);
    ONCHIP_CUDA_CHECK(cudaStreamEndCapture(stream.get(), &graph));
    ONCHIP_CUDA_CHECK(cudaGraphInstantiate(&executable, graph, 0));
    for (const bool is_replayed : {false, true}) {
      for (const DeviceBuffer<std::byte>* const out : {&data.output, &data.final_state, &data.final_cell}) {
        ONCHIP_CUDA_CHECK(cudaMemsetAsync(out->data(), 0, out->size(), stream.get()));
      }
      if (is_replayed) {
        ONCHIP_CUDA_CHECK(cudaGraphLaunch(executable, stream.get()));
      } else {
        recurrence.enqueue(stream.get(), data.sequences);
      }
      CHECK_THROWS_AS(recurrence.check_status(stream.get()), CudaError);
      CHECK_NOTHROW(recurrence.check_status(stream.get()));
      const Got got = data.results();
      for (const std::vector<std::byte>* const bytes : {&got.states, &got.final_state, &got.final_cell}) {
        CHECK(std::ranges::all_of(from_elements(*bytes, c.network.precision),
                                  [](float value) { return std::isnan(value); }));
      }
    }
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
  };
  for_every_kind(check_given_up);
  for (const SparseCase& c : every_pipeline()) {
    check_given_up(c);
  }
}

}  // namespace
}  // namespace onchip
