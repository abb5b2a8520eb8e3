// SPDX-License-Identifier: Apache-2.0
// The persistent kernel of a plan (sparse_persistent.cu, dense_persistent.cu), in a workspace of its own: what
// measurements and tests use. recurrence.hpp is the same in the caller's memory.
#pragma once

#include "kernels/recurrent/recurrence.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace onchip {

class PersistentKernel {
 public:
  // Compiles (or takes from the cache) for the current device, loads, and uploads the weights. Throws CudaError if the
  // kernel spills registers or if one SM cannot hold a block, so that a launch could not be co-resident.
  // Sequences longer than `most_steps` run in several launches: workspace against launches.
  explicit PersistentKernel(const Layout& layout, const Biases& biases = {}, std::int64_t most_steps = 2048,
                            Work work = Work::whole);

  const LaunchShape& shape() const { return recurrence_.program().shape; }
  const ResourceReport& resources() const { return recurrence_.program().kernel.resources; }
  const std::string& fingerprint() const { return recurrence_.program().kernel.fingerprint; }
  const std::string& code_fingerprint() const { return recurrence_.program().kernel.code_fingerprint; }

  // As those of Recurrence.
  void enqueue(cudaStream_t stream, const Sequences& sequences) { recurrence_.enqueue(stream, sequences); }
  void enqueue_recurrence(cudaStream_t stream, std::int64_t steps) { recurrence_.enqueue_recurrence(stream, steps); }

  // After the stream is synchronised.
  std::vector<std::uint32_t> record() const;
  void check_status() const;

 private:
  PersistentKernel(std::shared_ptr<const RecurrenceProgram> program, std::int64_t most_steps);

  DeviceBuffer<std::byte> workspace_;
  Recurrence recurrence_;
};

// Floats as the kernel's elements (rounded to nearest even), and back.
std::vector<std::byte> to_elements(std::span<const float> values, Precision precision);
std::vector<float> from_elements(std::span<const std::byte> elements, Precision precision);

}  // namespace onchip
