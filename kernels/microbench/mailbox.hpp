// SPDX-License-Identifier: Apache-2.0
// What a request to a kernel takes that stays on the device and does nothing (mailbox.cu).
#pragma once

#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/device.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace onchip {

CompileRequest mailbox_request(const std::string& architecture);

class EmptyMailbox {
 public:
  // The kernel begins on the current device, and ends with this.
  EmptyMailbox();
  ~EmptyMailbox();
  EmptyMailbox(const EmptyMailbox&) = delete;
  EmptyMailbox& operator=(const EmptyMailbox&) = delete;

  // A word there and back. Throws CudaError where none comes back within a second.
  void ask();

 private:
  struct Words;
  Kernel kernel_;
  Stream stream_;
  std::unique_ptr<Words, cudaError_t (*)(void*)> words_{nullptr, cudaFreeHost};  // pinned
  std::uint32_t asked_ = 0;
};

// The us of each call of `call`, behind one that is not counted.
template <typename Call>
void time_calls(std::vector<float>& us, std::int64_t count, Call call) {
  call();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    us.push_back(std::chrono::duration<float, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
}

}  // namespace onchip
