// SPDX-License-Identifier: Apache-2.0
// A kernel that stays on the current device and does a step of a stack for each request (stream.cu), and the host's
// side of its mailboxes.
#pragma once

#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/stream/mailbox.hpp"
#include "model/stream/stream.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace onchip {

CompileRequest stream_request(const StreamSize& size, const StreamPlan& plan, const std::string& architecture);

// Memory of the device and of the host, which zeros begin, and where a kernel finds what is in it.
struct StreamBytes {
  std::size_t device = 0, host = 0;
};
StreamBytes stream_bytes(const StreamSize& size);
StreamArguments stream_arguments(const StreamSize& size, std::byte* device, std::byte* host);

struct StreamTimes {
  std::chrono::microseconds idle{10'000};       // without a request of any stream, until the kernel parks
  std::chrono::microseconds beat{50'000};       // without a sign of the host, until the kernel ends
  std::chrono::microseconds answer{1'000'000};  // that the host waits for an answer
};

// Weights of a layer in device memory, as PyTorch has them; null biases are zeros.
using StreamWeights = StreamLayer;

// Of one thread at a time.
class LiveStream {
 public:
  // Compiles, allocates, and copies the weights; states are zero. Throws InputError for other than size.layers weights,
  // DoesNotFit where the device has not enough SMs, CudaError.
  LiveStream(const StreamSize& size, const StreamPlan& plan, std::span<const StreamWeights> weights,
             const StreamTimes& times = {});
  // Ends the kernel at once; requests without an answer have none.
  ~LiveStream();
  LiveStream(const LiveStream&) = delete;
  LiveStream& operator=(const LiveStream&) = delete;

  // Asks for a step of a stream. `input` [batch, input], in the precision. Waits for nothing. Throws InputError where
  // size.slots requests of the stream wait for their answers to be received.
  void send(int stream, std::span<const std::uint16_t> input);
  // Of the oldest request without one: h of the last layer, [batch, hidden]. Waits, StreamTimes::answer at most; starts
  // a kernel that is parked. Throws InputError where there is no request, CudaError where no answer comes.
  void receive(int stream, std::span<std::uint16_t> output);

  // Behind the requests that were sent, whose answers must have been received: the state becomes zero, or what is
  // given, [layers, batch, hidden] in device memory, in the precision; null: zeros. `cells`: of an LSTM.
  void reset(int stream, const void* states = nullptr, const void* cells = nullptr);
  // Likewise of all streams: steps from now on have these weights. The kernel goes on.
  void set_weights(std::span<const StreamWeights> weights);

  const StreamSize& size() const { return size_; }
  const StreamPlan& plan() const { return plan_; }
  const StreamShape& shape() const { return shape_; }
  int launches() const { return static_cast<int>(launch_); }  // so far

 private:
  struct Mailbox {
    std::span<std::uint32_t> requests, answers;  // [slots]
    StreamControl* control = nullptr;
    std::uint32_t next = 1, received = 1;  // steps: to be sent, to be received
  };
  void command(int stream, StreamCommand command);  // and waits until it is done
  void write(int stream, std::span<const std::uint16_t> input, StreamCommand command);
  void copy_weights(std::span<const StreamWeights> weights);
  void launch();
  bool is_parked() const;

  StreamSize size_;
  StreamPlan plan_;
  StreamShape shape_;
  StreamTimes times_;
  Stream cuda_stream_;  // of the kernel
  Stream copies_;       // of what is copied beside it
  Kernel kernel_;
  DeviceBuffer<std::byte> memory_;
  std::unique_ptr<std::byte, cudaError_t (*)(void*)> host_{nullptr, cudaFreeHost};
  std::vector<Mailbox> mailboxes_;
  StreamArguments arguments_{};
  std::uint32_t launch_ = 0;
  std::mutex beat_mutex_;
  std::condition_variable beat_ends_;
  bool ends_ = false;
  std::thread beat_;
};

}  // namespace onchip
