// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/staged_program.hpp"

#include "kernels/recurrent/family_kernel.hpp"
#include "kernels/runtime/sources.hpp"
#include "model/base/numeric.hpp"

#include <cstring>
#include <span>

namespace onchip {

CompileRequest staged_request(const StagedPlan& plan, const std::string& architecture) {
  CompileRequest request{"feed_forward_staged", kFeedForwardStagedSource, architecture, {}};
  define_fields(request.defines, plan);
  define(request.defines, "chunk_inputs", plan.chunk_inputs());
  define(request.defines, "staged", plan.staging == Staging::shared);
  define(request.defines, "blocked", plan.blocking == ImageBlocking::registers);
  define(request.defines, "half", plan.weights == StagedWeights::fp16);
  return request;
}

StagedRecord pack(const StagedLayer& layer, const StagedPlan& plan) {
  constexpr std::size_t kAlignment = 256;
  StagedRecord record;
  std::size_t next = 0;
  const auto add = [&]<typename T>(const std::vector<T>& array) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(array));
    record.places[next++] = record.bytes.size();
    record.bytes.insert(record.bytes.end(), bytes.begin(), bytes.end());
    record.bytes.resize((record.bytes.size() + kAlignment - 1) / kAlignment * kAlignment);
  };
  add(layer.block_chunk);
  add(layer.chunk_map);
  add(layer.slice_begin);
  add(layer.map);
  add(layer.index);
  if (plan.weights == StagedWeights::fp16) {
    std::vector<std::uint16_t> halves;
    for (const float value : layer.value) {
      halves.push_back(static_cast<std::uint16_t>(to_bits(Precision::fp16, value)));
    }
    add(halves);
  } else {
    add(layer.value);
  }
  add(layer.bias);
  add(layer.row_length);
  return record;
}

StagedArguments arguments_of(const StagedLayer& layer, const std::array<std::size_t, 8>& places, const std::byte* base,
                             float clip) {
  const auto words = [&](std::size_t which) { return reinterpret_cast<const std::uint32_t*>(base + places[which]); };
  const auto halves = [&](std::size_t which) { return reinterpret_cast<const std::uint16_t*>(base + places[which]); };
  StagedArguments arguments{};
  arguments.block_chunk = words(0);
  arguments.chunk_map = words(1);
  arguments.slice_begin = words(2);
  arguments.map = halves(3);
  arguments.index = halves(4);
  arguments.value = base + places[5];
  arguments.bias = reinterpret_cast<const float*>(base + places[6]);
  arguments.row_length = words(7);
  arguments.inputs = static_cast<std::uint32_t>(layer.inputs);
  arguments.outputs = static_cast<std::uint32_t>(layer.outputs);
  arguments.blocks = static_cast<std::uint32_t>(layer.blocks());
  arguments.words = (arguments.inputs + 31) / 32;
  arguments.clip = clip;
  return arguments;
}

}  // namespace onchip
