// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement/interpreted_inference.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>

namespace onchip {
struct InterpretedInference::State {
  // Host memory in the place of an array.
  struct HostArray {
    static constexpr std::size_t kAlignment = 256;  // as cudaMalloc's
    std::vector<std::byte> memory;
    std::byte* begin = nullptr;
    explicit HostArray(std::size_t bytes) : memory(bytes + kAlignment) {
      begin = memory.data() + (kAlignment - reinterpret_cast<std::uintptr_t>(memory.data()) % kAlignment) % kAlignment;
    }
  };

  int images = 0;
  InferenceProgram program;
  std::vector<HostArray> arrays;
  std::vector<ProgramNode> nodes;
  std::map<std::string, ptx::Machine> machines;  // by the request's fingerprint
  std::vector<ptx::Machine*> machine_of;         // of each kernel

  explicit State(const InferenceProgram& of) : program(of) {
    std::vector<std::byte*> places;
    for (ProgramArray& array : program.arrays) {
      HostArray& made = arrays.emplace_back(array.bytes);
      if (!array.contents.empty()) {
        std::memcpy(made.begin, array.contents.data(), array.contents.size());
      }
      places.push_back(made.begin);
    }
    for (const ProgramKernel& kernel : program.kernels) {
      const std::string key = fingerprint(kernel.request);
      if (!machines.contains(key)) {
        ptx::Machine& machine =
            machines
                .try_emplace(key, ptx::parse(compile_ptx(kernel.request), std::string(kernel.request.name) + ".ptx"))
                .first->second;
        for (std::size_t a = 0; a < arrays.size(); ++a) {
          if (program.arrays[a].bytes == 0) {
            continue;
          }
          const std::span<std::byte> bytes(arrays[a].begin, program.arrays[a].bytes);
          program.arrays[a].contents.empty() ? machine.memory().add(bytes)
                                             : machine.memory().add(std::span<const std::byte>(bytes));
        }
      }
      machine_of.push_back(&machines.at(key));
    }
    nodes = program.nodes(places);
  }
};

InterpretedInference::InterpretedInference(const InferenceProgram& program)
    : state_(std::make_unique<State>(program)) {}
InterpretedInference::~InterpretedInference() = default;

void InterpretedInference::upload(const Bitmaps& images) {
  check_images(state_->program, images);
  const std::vector<std::uint32_t> bits = padded_bitmaps(images);
  const auto count = static_cast<std::uint32_t>(images.images);
  state_->images = images.images;
  std::ranges::copy(std::as_bytes(std::span(bits)), state_->arrays[state_->program.bitmaps].begin);
  std::memcpy(state_->arrays[state_->program.image_count].begin, &count, sizeof count);
}

std::span<const float> InterpretedInference::features() const {
  const int array = state_->program.features;
  return {reinterpret_cast<const float*>(state_->arrays[array].begin), state_->program.arrays[array].bytes / 4};
}

Inference InterpretedInference::infer(std::optional<BankGeometry> banks) {
  State& state = *state_;
  launches_.clear();
  for (const ProgramNode& node : state.nodes) {
    if (node.kernel < 0) {
      std::ranges::fill(node.zeros, std::byte{});
      std::ranges::copy(node.from, node.to);
      if (node.host) {
        node.host([](void* to, const void* from, std::size_t bytes) {
          std::copy_n(static_cast<const std::byte*>(from), bytes, static_cast<std::byte*>(to));
        });
      }
      continue;
    }
    const ptx::Launch launch{.blocks = node.blocks,
                             .threads = node.threads,
                             .dynamic_shared_bytes = node.shared_bytes,
                             .cooperative = node.cooperative,
                             .parameters = node.arguments,
                             .banks = banks};
    launches_.push_back(
        {node.label, state.machine_of[node.kernel]->launch(state.program.kernels[node.kernel].entry, launch)});
  }
  const std::byte* const results = state.arrays[state.program.results].begin;
  std::vector<std::uint32_t> words(state.program.arrays[state.program.results].bytes / 4);
  std::memcpy(words.data(), results, 4 * words.size());
  return read_results(state.program, words, state.images);
}

}  // namespace onchip
