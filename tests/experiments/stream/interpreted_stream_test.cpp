// SPDX-License-Identifier: Apache-2.0
// The kernel of streams, interpreted: the host's requests are in the mailbox before a launch, which takes what is there
// and ends.
#include "experiments/measurement/interpreted/interpreted_program.hpp"
#include "kernels/stream/drawn_stream.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace onchip {
namespace {

// All steps of all streams, `waiting` in a launch, which are numbered from `begin` on.
std::vector<std::vector<std::uint16_t>> interpreted_answers(const DrawnStream& drawn, const StreamPlan& plan,
                                                            int waiting, unsigned begin = 1) {
  const StreamSize& size = drawn.size;
  KernelProgram program;
  program.add_kernel(stream_request(size, plan, "sm_90"), "stream");
  const StreamBytes bytes = stream_bytes(size);
  const int device = program.add_array(bytes.device);
  const int host = program.add_array(bytes.host);
  program.nodes = [](ArrayPlaces) { return std::vector<ProgramNode>(); };
  InterpretedProgram interpreted(program);
  interpreted.limit(3000000);
  StreamArguments arguments = stream_arguments(size, interpreted.places()[device], interpreted.places()[host]);
  arguments.idle_ns = arguments.beat_ns = 1u << 30;
  const auto put = [&](const void* to, const std::vector<double>& values) {
    const std::vector<std::uint16_t> bits = drawn.bits(values);
    std::memcpy(const_cast<void*>(to), bits.data(), 2 * bits.size());
  };
  for (int layer = 0; layer < size.layers; ++layer) {
    const StreamLayer& to = arguments.layers[layer];
    const TrainingInput& from = drawn.layers[layer];
    put(to.w_ih, from.w_ih);
    put(to.w_hh, from.w_hh);
    put(to.b_ih, from.b_ih);
    put(to.b_hh, from.b_hh);
  }
  const auto place = [&](const unsigned* memory, int stream, int step, std::size_t words) {
    return std::span(const_cast<unsigned*>(memory) + (stream * size.slots + (step + begin) % size.slots) * words,
                     words);
  };
  StreamSize of_state = size;
  of_state.input = size.hidden;
  const unsigned before = (begin - 1) % (1u << kStepBits) << 16;  // what the step before has left
  std::fill_n(const_cast<unsigned*>(arguments.requests), size.streams * size.slots * request_words(size), before);
  std::fill_n(arguments.inputs, size.streams * size.slots * request_words(size), before);
  std::fill_n(arguments.states, size.streams * size.layers * size.slots * request_words(of_state), before);
  std::vector<std::vector<std::uint16_t>> all(size.streams);
  for (int first = 0; first < drawn.steps; first += waiting) {
    const int last = std::min(first + waiting, drawn.steps);
    std::memset(arguments.ends, 0xff, 4 * size.streams);
    std::memset(arguments.seen, 0, 8 * size.streams);
    *arguments.parks = 0;
    ++arguments.launch;
    for (int stream = 0; stream < size.streams; ++stream) {
      arguments.control[stream].closes = 1;
      arguments.first[stream] = first + begin;
      for (int step = first; step < last; ++step) {
        write_request(place(arguments.requests, stream, step, request_words(size)), size, drawn.input(step), kStep,
                      step + begin);
      }
    }
    const StreamShape shape = stream_shape(size, plan);
    ProgramNode node = launch_node("stream", 0, shape.blocks, shape.threads(), 0, arguments);
    node.cooperative = true;
    interpreted.run({&node, 1});
    for (int stream = 0; stream < size.streams; ++stream) {
      REQUIRE(arguments.control[stream].ended == arguments.launch);
      REQUIRE(arguments.control[stream].next == last + begin);
      for (int step = first; step < last; ++step) {
        std::vector<std::uint16_t> y(answer_words(size));
        REQUIRE(read_answer(place(arguments.answers, stream, step, answer_words(size)), y, step + begin));
        all[stream].insert(all[stream].end(), y.begin(), y.end());
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("an interpreted stream answers as the reference does, with the same bits over launches", "[fast]") {
  const auto check_stream = [](const StreamSize& size, const StreamPlan& plan) {
    INFO(info(size.cell).name << " layers " << size.layers << " hidden " << size.hidden << " input " << size.input
                              << " batch " << size.batch << " streams " << size.streams << " tiles " << plan.tiles
                              << " spans " << plan.spans);
    const DrawnStream drawn(size, 20, 5);
    const std::vector<std::vector<std::uint16_t>> together = interpreted_answers(drawn, plan, size.slots);
    for (const std::vector<std::uint16_t>& y : together) {
      CHECK(drawn.relative_error(y) < (size.precision == Precision::bf16 ? 2e-2 : 2e-3));
    }
    CHECK((interpreted_answers(drawn, plan, 3) == together));
    CHECK((interpreted_answers(drawn, plan, 5, 2 * (1 << kStepBits) - 7) == together));  // numbers come round
  };
  check_stream({.layers = 2, .input = 24, .hidden = 32}, {.tiles = 2, .spans = 1});
  check_stream({.cell = Cell::gru, .precision = Precision::bf16, .layers = 3, .input = 7, .hidden = 21, .batch = 3},
               {.tiles = 3, .spans = 2});
  check_stream({.layers = 1, .input = 50, .hidden = 18, .batch = 8, .streams = 2}, {.tiles = 1, .spans = 3});
}

}  // namespace onchip
