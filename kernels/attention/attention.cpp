// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attention.hpp"

#include "kernels/runtime/device_program.hpp"
#include "kernels/runtime/sources.hpp"
#include "model/base/error.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

namespace onchip {
namespace {

enum AttentionKernel { kForward, kBackward, kAddPartials };
constexpr std::array kEntries{"forward", "backward", "add_partials"};
constexpr std::int64_t kEnoughBlocks = 512;  // of backward: about four for each SM of an H200

std::int64_t parts_of(std::int64_t count, std::int64_t size) {
  return (count + size - 1) / size;
}

std::int64_t tiles_of(const AttentionArguments& a) {
  return parts_of(a.query_count, std::int64_t{kQueriesOfWarp} * a.query_groups);
}

std::int64_t slices_of(const AttentionArguments& a) {
  return parts_of(a.hidden, kAttentionColumns);
}

AttentionArguments shared_out(AttentionArguments a, Precision precision) {
  a.query_groups = 1;
  while (a.query_groups < kAttentionWarps && a.query_groups * kQueriesOfWarp < a.query_count) {
    a.query_groups *= 2;
  }
  a.splits = static_cast<int>(std::clamp(kEnoughBlocks / (a.batch * slices_of(a)), std::int64_t{1}, tiles_of(a)));
  const auto is_whole = [](std::uintptr_t bytes) { return bytes % 16 == 0; };
  a.has_whole_words = is_whole(static_cast<std::uintptr_t>(a.hidden) * (precision == Precision::fp32 ? 4 : 2)) &&
                      is_whole(reinterpret_cast<std::uintptr_t>(a.queries)) &&
                      is_whole(reinterpret_cast<std::uintptr_t>(a.keys));
  return a;
}

}  // namespace

std::vector<ProgramKernel> attention_kernels(Precision precision, const std::string& architecture) {
  if (precision == Precision::fp8) {
    throw InputError("MLP attention has kernels for 'fp16', 'bf16' and 'fp32', not for 'fp8'");
  }
  CompileRequest request{"mlp_attention", kMlpAttentionSource, architecture, {}};
  define(request.defines, "precision", static_cast<int>(precision));
  std::vector<ProgramKernel> kernels;
  for (const char* const entry : kEntries) {
    kernels.push_back({request, entry});
  }
  return kernels;
}

std::vector<ProgramNode> attention_nodes(AttentionArguments a, Precision precision, AttentionPass pass,
                                         std::int64_t least_blocks) {
  a = shared_out(a, precision);
  constexpr int kThreads = 32 * kAttentionWarps;
  const auto node = [&](int kernel, std::int64_t blocks, int threads) {
    if (blocks > std::numeric_limits<int>::max()) {
      throw InputError("MLP attention of these sizes takes " + std::to_string(blocks) +
                       " blocks, more than a launch has");
    }
    return launch_node(kEntries[static_cast<std::size_t>(kernel)], kernel, static_cast<int>(blocks), threads, 0, a);
  };
  if (pass == AttentionPass::forward) {
    const auto blocks = [&] { return a.batch * tiles_of(a) * parts_of(a.key_count, kAttentionKeys); };
    while (a.query_groups > 1 && blocks() < least_blocks) {
      a.query_groups /= 2;
    }
    return {node(kForward, blocks(), kThreads)};
  }
  std::vector<ProgramNode> nodes{node(kBackward, a.splits * a.batch * slices_of(a), kThreads)};
  const bool adds_keys = a.splits > 1 && a.key_gradients != nullptr;
  if (adds_keys || a.v_gradient != nullptr) {
    const std::int64_t elements = adds_keys ? std::int64_t{a.batch} * a.key_count * a.hidden : 0;
    nodes.push_back(node(kAddPartials, slices_of(a) + parts_of(elements, kPartialsThreads), kPartialsThreads));
  }
  return nodes;
}

std::size_t attention_workspace_bytes(const AttentionArguments& sizes) {
  const AttentionArguments a = shared_out(sizes, Precision::fp32);
  const std::int64_t rows = 1 + (tiles_of(a) > 1 ? a.key_count : 0);
  return sizeof(float) * static_cast<std::size_t>(a.splits * std::int64_t{a.batch} * rows * a.hidden);
}

void enqueue_attention(const AttentionArguments& a, Precision precision, AttentionPass pass, cudaStream_t stream) {
  // Never destroyed: graphs may still run, and CUDA may be gone before.
  static auto* const mutex = new std::mutex;
  static auto* const all = new std::map<std::pair<int, Precision>, std::vector<Kernel>>;  // by device and type
  const std::vector<ProgramNode> nodes = attention_nodes(a, precision, pass);
  const std::vector<Kernel>* kernels = nullptr;
  {
    const std::lock_guard lock(*mutex);
    std::vector<Kernel>& loaded = (*all)[{current_device(), precision}];
    if (loaded.empty()) {
      const RelaxedCapture relaxed;
      const std::vector<ProgramKernel> made = attention_kernels(precision, device_info().architecture);
      const auto cubin = std::make_shared<const LoadedCubin>(compile(made.front().request).cubin);
      std::vector<Kernel> of_cubin;
      for (const ProgramKernel& kernel : made) {
        of_cubin.emplace_back(cubin, kernel.entry);
      }
      loaded = std::move(of_cubin);
    }
    kernels = &loaded;
  }
  for (const ProgramNode& node : nodes) {
    onchip::enqueue(node, *kernels, nullptr, stream);
  }
}

}  // namespace onchip
