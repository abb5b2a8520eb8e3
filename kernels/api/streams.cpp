// SPDX-License-Identifier: Apache-2.0
// The C API's streams.
#include "kernels/api/cuda_errors.hpp"
#include "kernels/runtime/device_chip.hpp"
#include "kernels/stream/live_stream.hpp"
#include "model/base/units.hpp"
#include "model/plan/plan_text.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

using namespace onchip;

struct onchip_stream {
  LiveStream live;
  StreamPrice price;

  std::span<const std::uint16_t> input(const void* memory) const {
    require(memory, "input");
    return {static_cast<const std::uint16_t*>(memory), static_cast<std::size_t>(live.size().batch) * live.size().input};
  }
  std::span<std::uint16_t> output(void* memory) const {
    require(memory, "output");
    return {static_cast<std::uint16_t*>(memory), answer_words(live.size())};
  }
};

static StreamSize size_of(const onchip_stack* stack) {
  require_struct(stack, "stack");
  require_range("cell", stack->cell, ONCHIP_RELU, ONCHIP_GRU);
  require_range("precision", stack->precision, ONCHIP_FP16, ONCHIP_FP8);
  StreamSize size{.cell = static_cast<Cell>(stack->cell),
                  .precision = static_cast<Precision>(stack->precision),
                  .layers = stack->layers,
                  .input = stack->input,
                  .hidden = stack->hidden,
                  .batch = stack->batch,
                  .streams = stack->streams,
                  .slots = ONCHIP_STREAM_REQUESTS};
  check(size);
  return size;
}

static std::vector<StreamWeights> weights_of(const onchip_stack_weights* weights, int layers) {
  require(weights, "weights");
  std::vector<StreamWeights> all;
  for (const onchip_stack_weights& of : std::span(weights, static_cast<std::size_t>(layers))) {
    require(of.w_ih, "w_ih");
    require(of.w_hh, "w_hh");
    all.push_back({of.w_ih, of.w_hh, of.b_ih, of.b_hh});
  }
  return all;
}

// Calls `action` with the handle, whose stream `index` is there.
template <typename Action>
static onchip_status with_stream(onchip_stream* stream, std::int32_t index, onchip_error* error, Action action) {
  return guarded_cuda(error, [&] {
    require(stream, "stream");
    require_range("index", index, 0, stream->live.size().streams - 1);
    action(*stream);
  });
}

onchip_status onchip_stream_create(const onchip_stack* stack, const onchip_stack_weights* weights,
                                   onchip_stream** stream, onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(stream, "stream");
    *stream = nullptr;
    const StreamSize size = size_of(stack);
    require_range("idle_us", stack->idle_us, 0, 4'000'000);
    require_range("answer_us", stack->answer_us, 0, 2'000'000'000);
    StreamTimes times;
    times.idle = stack->idle_us > 0 ? std::chrono::microseconds(stack->idle_us) : times.idle;
    times.answer = stack->answer_us > 0 ? std::chrono::microseconds(stack->answer_us) : times.answer;
    const Chip& chip = device_chip();
    const Found<StreamPlan> plan = choose_stream(chip, size);
    if (!plan) {
      throw DoesNotFit(plan.why());
    }
    *stream = new onchip_stream{LiveStream(size, *plan, weights_of(weights, size.layers), times),
                                stream_price(chip, size, *plan)};
  });
}

onchip_status onchip_stream_step(onchip_stream* stream, std::int32_t index, const void* input, void* output,
                                 onchip_error* error) {
  return with_stream(stream, index, error, [&](onchip_stream& of) {
    const std::span<std::uint16_t> answer = of.output(output);
    of.live.send(index, of.input(input));
    of.live.receive(index, answer);
  });
}

onchip_status onchip_stream_send(onchip_stream* stream, std::int32_t index, const void* input, onchip_error* error) {
  return with_stream(stream, index, error, [&](onchip_stream& of) { of.live.send(index, of.input(input)); });
}

onchip_status onchip_stream_receive(onchip_stream* stream, std::int32_t index, void* output, onchip_error* error) {
  return with_stream(stream, index, error, [&](onchip_stream& of) { of.live.receive(index, of.output(output)); });
}

onchip_status onchip_stream_reset(onchip_stream* stream, std::int32_t index, const void* h, const void* c,
                                  onchip_error* error) {
  return with_stream(stream, index, error, [&](onchip_stream& of) { of.live.reset(index, h, c); });
}

onchip_status onchip_stream_set_weights(onchip_stream* stream, const onchip_stack_weights* weights,
                                        onchip_error* error) {
  return with_stream(stream, 0, error,
                     [&](onchip_stream& of) { of.live.set_weights(weights_of(weights, of.live.size().layers)); });
}

onchip_status onchip_stream_plan(const onchip_stream* stream, char** plan, onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(stream, "stream");
    require(plan, "plan");
    const StreamShape& shape = stream->live.shape();
    *plan = copy_of(plan_text(stream->live.plan()) + ", " + std::to_string(shape.blocks) + " SMs, predicted " +
                    significant(stream->price.us, 3) + " us a request");
  });
}

void onchip_stream_destroy(onchip_stream* stream) {
  delete stream;
}
