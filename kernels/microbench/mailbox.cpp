// SPDX-License-Identifier: Apache-2.0
#include "kernels/microbench/mailbox.hpp"

#include "kernels/runtime/loaded_cubin.hpp"
#include "kernels/runtime/sources.hpp"

#include <atomic>

namespace onchip {

struct EmptyMailbox::Words {  // of the host's memory, each in a line of its own
  alignas(64) std::uint32_t request = 0;
  alignas(64) std::uint32_t answer = 0;
  alignas(64) std::uint32_t ends = 0;
};

CompileRequest mailbox_request(const std::string& architecture) {
  return {"microbench_mailbox", kMailboxSource, architecture, {}};
}

EmptyMailbox::EmptyMailbox() : kernel_(loaded_cubin(mailbox_request(device_info().architecture)), "mailbox") {
  void* memory = nullptr;
  ONCHIP_CUDA_CHECK(cudaHostAlloc(&memory, sizeof(Words), cudaHostAllocMapped));
  words_.reset(new (memory) Words);
  struct {
    const std::uint32_t* request;
    std::uint32_t* answer;
    const std::uint32_t* ends;
  } arguments{&words_->request, &words_->answer, &words_->ends};
  void* all[] = {&arguments};
  kernel_.launch(stream_.get(), 1, 32, 0, false, all);
}

EmptyMailbox::~EmptyMailbox() {
  std::atomic_ref(words_->ends).store(1);
  cudaStreamSynchronize(stream_.get());
}

void EmptyMailbox::ask() {
  std::atomic_ref(words_->request).store(++asked_);
  std::chrono::steady_clock::time_point begin;
  for (int polls = 0; std::atomic_ref(words_->answer).load() != asked_; ++polls) {
    if (polls % 1024 != 1023) {
      continue;
    }
    const auto now = std::chrono::steady_clock::now();
    begin = polls == 1023 ? now : begin;
    if (now - begin > std::chrono::seconds(1)) {
      throw CudaError("the mailbox alone has not answered within 1 s");
    }
  }
}

}  // namespace onchip
