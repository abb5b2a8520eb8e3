// SPDX-License-Identifier: Apache-2.0
// Work whose size only the device knows: in a graph that is being captured, one of several ways of other sizes, chosen
// when the graph runs.
#pragma once

#include "kernels/runtime/device.hpp"

#include <functional>
#include <string>

namespace onchip {

class GraphSwitch {
 public:
  // Whether CUDA's graphs have it: from 13.0 on, and with a driver of 12.8 or later.
  static bool is_known();

  // Compiles and loads for the current device; not while a stream is captured.
  explicit GraphSwitch(const std::string& architecture);

  // `stream` is being captured. Way (*rows - 1) / unit, counted from 0, where `rows` lies in device memory and has from
  // 1 to ways * unit when the graph runs. `enqueue_way` enqueues each: kernels, copies and memsets. One call at a time.
  void enqueue(cudaStream_t stream, const int* rows, int unit, int ways,
               const std::function<void(int way, cudaStream_t)>& enqueue_way) const;

 private:
  Kernel choose_;
  Stream of_ways_;
};

}  // namespace onchip
