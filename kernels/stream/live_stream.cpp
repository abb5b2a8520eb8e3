// SPDX-License-Identifier: Apache-2.0
#include "kernels/stream/live_stream.hpp"

#include "kernels/runtime/loaded_cubin.hpp"
#include "kernels/runtime/sources.hpp"
#include "model/base/error.hpp"
#include "model/plan/plan_text.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <numeric>
#include <utility>

namespace onchip {
namespace {

static_assert(std::size(StreamArguments{}.layers) == kMostStreamLayers &&
              std::size(StreamArguments{}.first) == kMostStreams);

using Clock = std::chrono::steady_clock;

int gates_of(const StreamSize& size) {
  return info(size.cell).gates;
}

std::size_t state_words(const StreamSize& size) {
  StreamSize of_state = size;
  of_state.input = size.hidden;
  return request_words(of_state);
}

// Elements of w_ih, w_hh, b_ih and b_hh of a layer.
std::array<std::size_t, 4> weight_elements(const StreamSize& size, int layer) {
  const auto rows = static_cast<std::size_t>(gates_of(size)) * size.hidden;
  return {rows * (layer == 0 ? size.input : size.hidden), rows * size.hidden, rows, rows};
}

// Host memory that another processor writes.
std::uint32_t load(const unsigned& word) {
  return std::atomic_ref(const_cast<unsigned&>(word)).load(std::memory_order_acquire);
}
void store(unsigned& word, std::uint32_t value) {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

}  // namespace

CompileRequest stream_request(const StreamSize& size, const StreamPlan& plan, const std::string& architecture) {
  const StreamShape shape = stream_shape(size, plan);
  CompileRequest request{"stream", kStreamSource, architecture, {}};
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, std::int64_t>>{{"precision", static_cast<int>(size.precision)},
                                                                   {"cell", static_cast<int>(size.cell)},
                                                                   {"input", size.input},
                                                                   {"hidden", size.hidden},
                                                                   {"batch", size.batch},
                                                                   {"layers", size.layers},
                                                                   {"slots", size.slots},
                                                                   {"tiles", plan.tiles},
                                                                   {"spans", plan.spans},
                                                                   {"poll_delay", plan.poll_delay},
                                                                   {"input_warps", shape.input_warps},
                                                                   {"state_warps", shape.state_warps}}) {
    define(request.defines, name, value);
  }
  return request;
}

namespace {

// Lays arrays one behind another.
struct Arrays {
  std::uintptr_t at = 0;
  std::size_t bytes = 0;
  template <typename T>
  T* take(std::size_t count) {
    return reinterpret_cast<T*>(at + std::exchange(bytes, bytes + (count * sizeof(T) + 255) / 256 * 256));
  }
};

StreamBytes lay_out(const StreamSize& size, std::byte* device_at, std::byte* host_at, StreamArguments& a) {
  const auto streams = static_cast<std::size_t>(size.streams), slots = streams * size.slots;
  const std::size_t of_layers = streams * size.layers;
  Arrays device{reinterpret_cast<std::uintptr_t>(device_at)}, host{reinterpret_cast<std::uintptr_t>(host_at)};
  a.inputs = device.take<unsigned>(slots * request_words(size));
  a.states = device.take<unsigned>(of_layers * size.slots * state_words(size));
  a.carries = device.take<float>(of_layers * answer_words(size));
  a.initial = device.take<std::uint16_t>(of_layers * answer_words(size));
  a.initial_cell = device.take<std::uint16_t>(of_layers * answer_words(size));
  a.ends = device.take<unsigned>(streams);
  a.parks = device.take<unsigned>(1);
  a.seen = device.take<unsigned long long>(streams);
  for (int layer = 0; layer < size.layers; ++layer) {
    const auto take = [&](std::size_t count) { return device.take<std::uint16_t>(count); };
    const auto [w_ih, w_hh, b_ih, b_hh] = weight_elements(size, layer);
    a.layers[layer] = {.w_ih = take(w_ih), .w_hh = take(w_hh), .b_ih = take(b_ih), .b_hh = take(b_hh)};
  }
  a.control = host.take<StreamControl>(streams);
  a.requests = host.take<unsigned>(slots * request_words(size));
  a.answers = host.take<unsigned>(slots * answer_words(size));
  std::ranges::fill(a.first, 1u);
  return {device.bytes, host.bytes};
}

}  // namespace

StreamBytes stream_bytes(const StreamSize& size) {
  StreamArguments arguments{};
  return lay_out(size, nullptr, nullptr, arguments);
}

StreamArguments stream_arguments(const StreamSize& size, std::byte* device, std::byte* host) {
  StreamArguments arguments{};
  lay_out(size, device, host, arguments);
  return arguments;
}

LiveStream::LiveStream(const StreamSize& size, const StreamPlan& plan, std::span<const StreamWeights> weights,
                       const StreamTimes& times)
    : size_(size),
      plan_(plan),
      shape_((check(size), stream_shape(size, plan))),
      times_(times),
      kernel_(loaded_cubin(stream_request(size, plan, device_info().architecture)), "stream"),
      memory_(stream_bytes(size).device) {
  if (const int at_once = device_info().sm_count * kernel_.blocks_per_sm(shape_.threads(), 0);
      at_once < shape_.blocks) {
    throw DoesNotFit("the device holds " + std::to_string(at_once) + " of " + std::to_string(shape_.blocks) +
                     " blocks at once with the plan '" + plan_text(plan) + "'");
  }
  const std::size_t host_bytes = stream_bytes(size).host;
  void* host = nullptr;
  ONCHIP_CUDA_CHECK(cudaHostAlloc(&host, host_bytes, cudaHostAllocMapped));
  host_.reset(static_cast<std::byte*>(host));
  std::memset(host, 0, host_bytes);
  ONCHIP_CUDA_CHECK(cudaMemsetAsync(memory_.data(), 0, memory_.bytes(), copies_.get()));
  arguments_ = stream_arguments(size, memory_.data(), host_.get());
  arguments_.idle_ns = static_cast<unsigned>(1000 * times.idle.count());
  arguments_.beat_ns = static_cast<unsigned>(1000 * times.beat.count());
  copy_weights(weights);
  const std::size_t requests = size.slots * request_words(size), answers = size.slots * answer_words(size);
  for (int i = 0; i < size.streams; ++i) {
    mailboxes_.push_back({.requests = {const_cast<unsigned*>(arguments_.requests) + i * requests, requests},
                          .answers = {arguments_.answers + i * answers, answers},
                          .control = arguments_.control + i});
    mailboxes_.back().control->next = 1;
  }
  launch();
  beat_ = std::thread([this] {
    std::unique_lock lock(beat_mutex_);
    for (std::uint32_t beat = 1; !ends_; ++beat) {
      for (const Mailbox& mailbox : mailboxes_) {
        store(mailbox.control->beat, beat);
      }
      beat_ends_.wait_for(lock, times_.beat / 5, [&] { return ends_; });
    }
  });
}

LiveStream::~LiveStream() {
  {
    const std::lock_guard lock(beat_mutex_);
    ends_ = true;
  }
  beat_ends_.notify_all();
  beat_.join();
  for (const Mailbox& mailbox : mailboxes_) {
    store(mailbox.control->closes, 1);
  }
  cudaStreamSynchronize(cuda_stream_.get());
}

bool LiveStream::is_parked() const {
  return std::ranges::all_of(mailboxes_,
                             [&](const Mailbox& mailbox) { return load(mailbox.control->ended) == launch_; });
}

void LiveStream::launch() {
  for (std::size_t i = 0; i < mailboxes_.size(); ++i) {
    arguments_.first[i] = load(mailboxes_[i].control->next);
  }
  arguments_.launch = ++launch_;
  // Behind the kernel before.
  ONCHIP_CUDA_CHECK(cudaMemsetAsync(arguments_.ends, 0xff, 4 * mailboxes_.size(), cuda_stream_.get()));
  ONCHIP_CUDA_CHECK(cudaMemsetAsync(arguments_.parks, 0, 4, cuda_stream_.get()));
  ONCHIP_CUDA_CHECK(cudaMemsetAsync(arguments_.seen, 0, 8 * mailboxes_.size(), cuda_stream_.get()));
  void* all[] = {&arguments_};
  kernel_.launch(cuda_stream_.get(), shape_.blocks, shape_.threads(), 0, true, all);
}

void LiveStream::copy_weights(std::span<const StreamWeights> weights) {
  if (weights.size() != static_cast<std::size_t>(size_.layers)) {
    throw InputError("there are weights of " + std::to_string(weights.size()) + " layers; expected " +
                     std::to_string(size_.layers));
  }
  for (int layer = 0; layer < size_.layers; ++layer) {
    const StreamWeights& to = arguments_.layers[layer];
    const StreamWeights& from = weights[static_cast<std::size_t>(layer)];
    const std::array<std::size_t, 4> elements = weight_elements(size_, layer);
    std::size_t array = 0;
    for (const auto of : {&StreamWeights::w_ih, &StreamWeights::w_hh, &StreamWeights::b_ih, &StreamWeights::b_hh}) {
      const std::size_t bytes = 2 * elements[array++];
      void* const place = const_cast<void*>(to.*of);
      if (from.*of != nullptr) {
        ONCHIP_CUDA_CHECK(cudaMemcpyAsync(place, from.*of, bytes, cudaMemcpyDefault, copies_.get()));
      } else {
        ONCHIP_CUDA_CHECK(cudaMemsetAsync(place, 0, bytes, copies_.get()));
      }
    }
  }
  copies_.synchronize();
}

void LiveStream::write(int stream, std::span<const std::uint16_t> input, StreamCommand command) {
  Mailbox& mailbox = mailboxes_.at(static_cast<std::size_t>(stream));
  const std::size_t words = request_words(size_);
  write_request(mailbox.requests.subspan(mailbox.next % size_.slots * words, words), size_, input, command,
                mailbox.next);
  ++mailbox.next;
  if (is_parked()) {
    launch();
  }
}

void LiveStream::send(int stream, std::span<const std::uint16_t> input) {
  const Mailbox& mailbox = mailboxes_.at(static_cast<std::size_t>(stream));
  if (mailbox.next - mailbox.received >= static_cast<std::uint32_t>(size_.slots)) {
    throw InputError("the answers of " + std::to_string(size_.slots) +
                     " requests of the stream have not been received: its mailbox has no room for another");
  }
  write(stream, input, kStep);
}

void LiveStream::receive(int stream, std::span<std::uint16_t> output) {
  Mailbox& mailbox = mailboxes_.at(static_cast<std::size_t>(stream));
  if (mailbox.received == mailbox.next) {
    throw InputError("the stream has no request whose answer has not been received");
  }
  const std::size_t words = answer_words(size_);
  const auto slot =
      std::span<const std::uint32_t>(mailbox.answers).subspan(mailbox.received % size_.slots * words, words);
  constexpr int kPolls = 256;
  std::optional<Clock::time_point> until;
  for (int polls = 1; !read_answer(slot, output, mailbox.received); ++polls) {
    if (polls % kPolls != 0) {
      continue;
    }
    const Clock::time_point now = Clock::now();
    until = until.value_or(now + times_.answer);
    if (now > *until) {
      throw CudaError("the stream has not answered within " + std::to_string(times_.answer.count() / 1000) +
                      " ms: does anything else hold the device's SMs?");
    }
    if (is_parked() && load(mailbox.control->next) <= mailbox.received) {
      launch();
    }
  }
  ++mailbox.received;
}

void LiveStream::command(int stream, StreamCommand command) {
  const Mailbox& mailbox = mailboxes_.at(static_cast<std::size_t>(stream));
  if (mailbox.received != mailbox.next) {
    throw InputError("answers of the stream have not been received: they come first");
  }
  std::vector<std::uint16_t> none(answer_words(size_));
  write(stream, {}, command);
  receive(stream, none);
}

void LiveStream::reset(int stream, const void* states, const void* cells) {
  const std::size_t bytes = 2 * size_.layers * answer_words(size_);
  const auto place = [&](const void* of) { return static_cast<std::byte*>(const_cast<void*>(of)) + stream * bytes; };
  mailboxes_.at(static_cast<std::size_t>(stream));
  // A GRU carries h.
  const std::array<std::pair<const void*, const void*>, 2> given{
      {{arguments_.initial, states}, {arguments_.initial_cell, size_.cell == Cell::gru ? states : cells}}};
  for (const auto& [to, from] : given) {
    if (from != nullptr) {
      ONCHIP_CUDA_CHECK(cudaMemcpyAsync(place(to), from, bytes, cudaMemcpyDefault, copies_.get()));
    } else {
      ONCHIP_CUDA_CHECK(cudaMemsetAsync(place(to), 0, bytes, copies_.get()));
    }
  }
  copies_.synchronize();
  command(stream, kReset);
}

void LiveStream::set_weights(std::span<const StreamWeights> weights) {
  for (const Mailbox& mailbox : mailboxes_) {
    if (mailbox.received != mailbox.next) {
      throw InputError("answers of a stream have not been received: they come first");
    }
  }
  copy_weights(weights);
  for (int stream = 0; stream < size_.streams; ++stream) {
    command(stream, kReload);
    command(stream, kKeep);  // its answer says that all blocks have the weights
  }
}

}  // namespace onchip
