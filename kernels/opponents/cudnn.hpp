// SPDX-License-Identifier: Apache-2.0
// cuDNN's recurrent networks as an opponent: dense, one layer, inference, linear input (its GEMM is part of the time),
// random weights, initial state zero, all sequences of full length.
//
// The settings are those that cuDNN is fastest with and does not refuse: two biases (the persistent algorithms refuse
// any other number), fp32 sums, tensor cores for fp16 and bf16, plain fp32 arithmetic (no TF32) for fp32.
// Networks with fp8 weights run in fp16.
//
// cuDNN is loaded at run time: $ONCHIP_CUDNN (the library's path), else the dynamic linker's search.
#pragma once

#include "kernels/device.hpp"
#include "model/network.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

enum class CudnnAlgorithm : std::uint8_t { standard, persist_static, persist_dynamic, persist_static_small_h };
inline constexpr std::array<std::string_view, 4> kCudnnAlgorithmNames{"STANDARD", "PERSIST_STATIC", "PERSIST_DYNAMIC",
                                                                      "PERSIST_STATIC_SMALL_H"};

// What an opponent raises when it cannot run a configuration, or is not there: a result, not a failure.
class OpponentRefusal : public CudaError {
 public:
  using CudaError::CudaError;
};

class CudnnRnn {
 public:
  // Prepares the network with another batch (padding may be faster), runs it once and checks that every output was
  // written, is finite, and not constant. Throws OpponentRefusal.
  CudnnRnn(const Network& network, CudnnAlgorithm algorithm, int batch);
  ~CudnnRnn();
  CudnnRnn(CudnnRnn&&) noexcept;

  // Enqueues all time steps. One stream at a time per object.
  void enqueue(cudaStream_t stream);

  // "data HALF, sums FLOAT, TENSOR_OP_MATH, double bias, cuDNN 9.19.0"
  std::string settings() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What is worth trying: every algorithm with the network's batch and with the batch padded to a multiple of 8, which
// takes other kernels.
struct CudnnCandidate {
  CudnnAlgorithm algorithm = CudnnAlgorithm::standard;
  int batch = 0;
};
std::vector<CudnnCandidate> cudnn_candidates(const Network& network);

struct OpponentResult {
  std::string name;  // "cudnn PERSIST_STATIC B=8"
  bool ran = false;
  std::string refusal;  // why not
  std::string settings;
  Timing step_us;
};

std::string name(const CudnnCandidate& candidate);

// Times all candidates, interleaved: after 4 warm-ups each, every round runs each of them once.
std::vector<OpponentResult> time_cudnn(const Network& network, const Stream& stream, int rounds);

}  // namespace onchip
