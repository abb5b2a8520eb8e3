// SPDX-License-Identifier: Apache-2.0
// What experiments/recipes/access_patterns.py counts and times; a program of its own, for nvcc.
//
//   access_patterns patterns FILE   one launch per line of the file (operation width mask 32-addresses) of one warp that
//                                   makes this access kAccesses times, and no other to shared memory: for ncu to count
//   access_patterns residency       CSV: how long 1 to 8 blocks per SM take, by threads, registers and shared memory
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

typedef unsigned int u32;

#define CHECK(call)                                                                \
  if (cudaError_t error = (call); error != cudaSuccess) {                          \
    std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));            \
    std::exit(1);                                                                  \
  }

constexpr int kAccesses = 1000, kArrayBytes = 32768;

enum Op { lds, sts, ldsm, atoms_add, ldgsts };

// The next address depends on what was loaded (`zero` is 0, which the compiler does not know): no load is dropped,
// moved out of the loop or made two at a time.
template <Op kOp, int kWidth>
__device__ __forceinline__ u32 access(u32 address, const char* global, u32 zero) {
  u32 a = 0, b = 0, c = 0, d = 0;
  if constexpr (kOp == lds && kWidth == 4) {
    asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(a) : "r"(address));
  } else if constexpr (kOp == lds && kWidth == 8) {
    asm volatile("ld.volatile.shared.v2.u32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(address));
  } else if constexpr (kOp == lds) {
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(address));
  } else if constexpr (kOp == sts && kWidth == 4) {
    asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(address), "r"(zero));
  } else if constexpr (kOp == sts && kWidth == 8) {
    asm volatile("st.volatile.shared.v2.u32 [%0], {%1, %1};" ::"r"(address), "r"(zero));
  } else if constexpr (kOp == sts) {
    asm volatile("st.volatile.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(address), "r"(zero));
  } else if constexpr (kOp == ldsm && kWidth == 1) {  // of LDSM: the number of matrices
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(a) : "r"(address) : "memory");
  } else if constexpr (kOp == ldsm && kWidth == 2) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(address) : "memory");
  } else if constexpr (kOp == ldsm) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(address)
                 : "memory");
  } else if constexpr (kOp == atoms_add) {
    asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(a) : "r"(address), "r"(zero + threadIdx.x) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;\ncp.async.wait_all;" ::"r"(address), "l"(global), "n"(kWidth)
                 : "memory");
  }
  return (a ^ b ^ c ^ d) & zero;
}

template <Op kOp, int kWidth>
__global__ void accesses(const u32* offsets, u32 mask, const char* global, u32 zero, u32* sink) {
  __shared__ __align__(1024) char array[kArrayBytes];
  constexpr int kCopied = kOp == ldgsts ? kWidth : 0;  // bytes of a lane, one after another
  const u32 lane = threadIdx.x;
  u32 address = static_cast<u32>(__cvta_generic_to_shared(array)) + offsets[lane];
  if (mask >> lane & 1) {
#pragma unroll 1
    for (int i = 0; i < kAccesses; ++i) {
      address ^= access<kOp, kWidth>(address, global + kCopied * lane, zero);
    }
  }
  if (address == ~0u) {  // never
    *sink = address;
  }
}

using Kernel = void (*)(const u32*, u32, const char*, u32, u32*);

int run_patterns(const char* path) {
  const std::map<std::string, Kernel> kernels{
      {"lds 4", accesses<lds, 4>},           {"lds 8", accesses<lds, 8>},
      {"lds 16", accesses<lds, 16>},         {"sts 4", accesses<sts, 4>},
      {"sts 8", accesses<sts, 8>},           {"sts 16", accesses<sts, 16>},
      {"ldsm_x1 16", accesses<ldsm, 1>},     {"ldsm_x2 16", accesses<ldsm, 2>},
      {"ldsm_x4 16", accesses<ldsm, 4>},     {"atoms_add 4", accesses<atoms_add, 4>},
      {"ldgsts 4", accesses<ldgsts, 4>}, {"ldgsts 8", accesses<ldgsts, 8>},
      {"ldgsts 16", accesses<ldgsts, 16>},
  };
  u32 *offsets, *sink;
  char* global;
  CHECK(cudaMalloc(&offsets, 32 * sizeof(u32)));
  CHECK(cudaMalloc(&sink, sizeof(u32)));
  CHECK(cudaMalloc(&global, 4096));
  CHECK(cudaMemset(global, 0, 4096));
  std::ifstream file(path);
  std::string op, width;
  u32 mask;
  while (file >> op >> width >> std::hex >> mask >> std::dec) {
    std::vector<u32> host(32);
    for (u32& offset : host) {
      file >> offset;
    }
    CHECK(cudaMemcpy(offsets, host.data(), 32 * sizeof(u32), cudaMemcpyHostToDevice));
    kernels.at(op + " " + width)<<<1, 32>>>(offsets, mask, global, 0, sink);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
  }
  return 0;
}

// ---- residency ------------------------------------------------------------------------------------------------------

constexpr int kLoads = 500;  // dependent ones from L2, of every warp: no block is in another's way

// What is loaded before stays in registers meanwhile. The clocks of a block with its SM: [blocks, 3].
template <int kLive>
__global__ void chain(const char* zeros, long long* clocks, u32* sink) {
  extern __shared__ u32 unused[];
  const long long start = clock64();
  const char* of_warp = zeros + 128 * ((blockIdx.x * blockDim.x + threadIdx.x) / 32);
  u32 live[kLive], at = 0;
#pragma unroll
  for (int i = 0; i < kLive; ++i) {
    asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(live[i]) : "l"(of_warp + 4 * (i % 32)));
  }
#pragma unroll 1
  for (int n = 0; n < kLoads; ++n) {
    asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(at) : "l"(of_warp + at));
  }
#pragma unroll
  for (int i = 0; i < kLive; ++i) {
    at = at * 31 + live[i];
  }
  if (at != 0) {  // never
    *sink = at + unused[0];
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    u32 sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    clocks[3 * blockIdx.x] = sm;
    clocks[3 * blockIdx.x + 1] = start;
    clocks[3 * blockIdx.x + 2] = clock64();
  }
}

struct Case {
  int threads, live, smem_bytes;
};

int run_residency() {
  using Chain = void (*)(const char*, long long*, u32*);
  const std::map<int, Chain> chains{{8, chain<8>},   {20, chain<20>},   {40, chain<40>},   {80, chain<80>},
                                    {100, chain<100>}, {160, chain<160>}, {200, chain<200>}};
  constexpr int kKiB = 1024;
  const Case cases[] = {{32, 8, 0},          {32, 8, 16 * kKiB},  {32, 20, 60 * kKiB},  {32, 20, 100 * kKiB},
                        {64, 200, 0},        {96, 200, 30 * kKiB}, {128, 20, 48 * kKiB}, {128, 100, 0},
                        {128, 160, 0},       {160, 160, 0},       {192, 80, 40 * kKiB}, {224, 100, 20 * kKiB},
                        {256, 20, 0},        {256, 80, 0},        {256, 160, 10 * kKiB}, {288, 40, 0},
                        {384, 40, 70 * kKiB}, {512, 20, 0},        {512, 80, 0},         {1024, 20, 0},
                        {1024, 40, 0},       {416, 100, 0}};
  cudaDeviceProp device;
  CHECK(cudaGetDeviceProperties(&device, 0));
  constexpr size_t kZeros = size_t{128} * 32 * 8 * 256;  // a line for every warp of up to 256 SMs
  long long* clocks;
  char* zeros;
  u32* sink;
  CHECK(cudaMalloc(&clocks, 8 * 3 * device.multiProcessorCount * sizeof(long long)));
  CHECK(cudaMalloc(&zeros, kZeros));
  CHECK(cudaMemset(zeros, 0, kZeros));
  CHECK(cudaMalloc(&sink, sizeof(u32)));
  std::printf("threads,registers,smem_bytes,blocks,resident,cycles\n");
  for (const Case& c : cases) {
    const Chain kernel = chains.at(c.live);
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, kernel));
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, c.smem_bytes));
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
    int resident = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, c.threads, c.smem_bytes));
    for (int blocks = 1; blocks <= 8; ++blocks) {
      const int grid = blocks * device.multiProcessorCount;
      std::vector<long long> cycles;  // of the SM that takes longest
      for (int repeat = 0; repeat < 6; ++repeat) {  // the first warms up
        kernel<<<grid, c.threads, c.smem_bytes>>>(zeros, clocks, sink);
        CHECK(cudaGetLastError());
        std::vector<long long> host(3 * static_cast<size_t>(grid));
        CHECK(cudaMemcpy(host.data(), clocks, host.size() * sizeof(long long), cudaMemcpyDeviceToHost));
        std::map<long long, std::pair<long long, long long>> sms;  // by SM: first start, last end
        for (int b = 0; b < grid; ++b) {
          const auto [at, is_new] = sms.try_emplace(host[3 * b], host[3 * b + 1], host[3 * b + 2]);
          at->second.first = std::min(at->second.first, host[3 * b + 1]);
          at->second.second = std::max(at->second.second, host[3 * b + 2]);
        }
        long long longest = 0;
        for (const auto& [sm, span] : sms) {
          longest = std::max(longest, span.second - span.first);
        }
        if (repeat > 0) {
          cycles.push_back(longest);
        }
      }
      std::nth_element(cycles.begin(), cycles.begin() + 2, cycles.end());
      std::printf("%d,%d,%d,%d,%d,%lld\n", c.threads, attributes.numRegs, c.smem_bytes, blocks, resident, cycles[2]);
    }
  }
  return 0;
}

int main(int argument_count, char** arguments) {
  const std::string what = argument_count > 1 ? arguments[1] : "";
  if (what == "patterns" && argument_count == 3) {
    return run_patterns(arguments[2]);
  }
  if (what == "residency") {
    return run_residency();
  }
  std::fprintf(stderr, "usage: access_patterns patterns FILE | residency\n");
  return 2;
}
