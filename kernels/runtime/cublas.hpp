// SPDX-License-Identifier: Apache-2.0
// Dense products by cuBLAS, with sums in fp32 (TF32 for fp32 data only where it is asked for) and cuBLAS's own choice
// of kernel:
//   C = scale op(A) op(B) + keep C   column-major, A or its transpose: [rows, depth]; B or its transpose: [depth,
//                                    columns]; C: [rows, columns]
//
// cuBLAS is loaded at run time: $ONCHIP_CUBLAS (the library's path), else the dynamic linker's search.
#pragma once

#include "kernels/runtime/device.hpp"
#include "model/workload/recurrent.hpp"

#include <cstddef>
#include <memory>
#include <string>

namespace onchip {

// Pointers to device memory, elements of type state_type(precision); `leading` elements from one column to the next.
struct DenseProduct {
  int rows = 0, columns = 0, depth = 0;
  Precision precision = Precision::fp16;
  bool transposed = false;    // A is stored as [depth, rows], which is row-major [rows, depth]
  bool transposed_b = false;  // B as [columns, depth]
  const void* a = nullptr;
  int leading_a = 0;
  const void* b = nullptr;
  int leading_b = 0;
  void* c = nullptr;
  int leading_c = 0;
  float scale = 1, keep = 0;
  bool sums_in_fp32 = false;  // C is fp32, whatever A and B are
  bool tf32 = false;          // of fp32 data
};

// Throws LibraryRefusal, a CudaError, if cuBLAS is not there, and with its words if it does not do what it should.
class Cublas {
 public:
  // What cuBLAS takes by itself on the largest chips; a graph needs it to be ours.
  static constexpr std::size_t kWorkspaceBytes = 32u << 20;

  static void require();  // throws as the constructor does, but needs no device

  // Short sums: where cuBLAS splits a sum over blocks, it may add the parts in the type of C.
  explicit Cublas(bool allows_short_sums = true, std::size_t workspace_bytes = kWorkspaceBytes);
  ~Cublas();
  Cublas(Cublas&&) noexcept;
  Cublas& operator=(Cublas&&) = delete;

  // What multiply() enqueues goes to this stream, with the object's own workspace.
  void use(cudaStream_t stream) const;
  void use(cudaStream_t stream, void* workspace) const;  // or with that of the caller, of kWorkspaceBytes
  void multiply(const DenseProduct& product) const;

  std::string version() const;  // "13.1.0"

 private:
  struct Handle;
  DeviceBuffer<std::byte> workspace_;
  std::unique_ptr<Handle> handle_;  // goes first: it may wait for work that uses the workspace
};

}  // namespace onchip
