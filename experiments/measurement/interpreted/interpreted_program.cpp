// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement/interpreted/interpreted_program.hpp"

#include "model/base/numeric.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>

namespace onchip {
namespace {

// What cuBLAS does, with sums in fp32, in ascending order.
void multiply(const DenseProduct& p) {
  const auto at = [&](const void* matrix, std::int64_t index) {
    return from_bits(p.precision, static_cast<const std::uint16_t*>(matrix)[index]);
  };
  for (std::int64_t column = 0; column < p.columns; ++column) {
    for (std::int64_t row = 0; row < p.rows; ++row) {
      float sum = 0;
      for (std::int64_t k = 0; k < p.depth; ++k) {
        sum += at(p.a, p.transposed ? row * p.leading_a + k : k * p.leading_a + row) *
               at(p.b, p.transposed_b ? k * p.leading_b + column : column * p.leading_b + k);
      }
      std::uint16_t& to = static_cast<std::uint16_t*>(p.c)[column * p.leading_c + row];
      const float kept = p.keep == 0 ? 0 : p.keep * from_bits(p.precision, to);
      to = static_cast<std::uint16_t>(to_bits(p.precision, p.scale * sum + kept));
    }
  }
}

}  // namespace

struct InterpretedProgram::State {
  // Host memory in the place of an array.
  struct HostArray {
    static constexpr std::size_t kAlignment = 256;  // as cudaMalloc's
    std::vector<std::byte> memory;
    std::byte* begin = nullptr;
    bool writable = true;
    explicit HostArray(std::size_t bytes) : memory(bytes + kAlignment) {
      begin = memory.data() + (kAlignment - reinterpret_cast<std::uintptr_t>(memory.data()) % kAlignment) % kAlignment;
    }
  };

  std::vector<HostArray> arrays;
  std::vector<ProgramNode> nodes;
  std::map<std::string, ptx::Machine> machines;  // by the request's fingerprint
  std::vector<ptx::Machine*> machine_of;         // of each kernel
  std::vector<std::byte*> places;                // of each array

  State(KernelProgram& program, const std::map<std::string, std::string>& texts) {
    for (ProgramArray& array : program.arrays) {
      HostArray& made = arrays.emplace_back(array.bytes);
      if (!array.contents.empty()) {
        std::memcpy(made.begin, array.contents.data(), array.contents.size());
        array.contents = {};
        made.writable = false;
      }
      places.push_back(made.begin);
    }
    for (const ProgramKernel& kernel : program.kernels) {
      const std::string key = fingerprint(kernel.request);
      if (!machines.contains(key)) {
        const std::string name(kernel.request.name);
        const auto text = texts.find(name);
        ptx::Machine& machine =
            machines
                .try_emplace(
                    key, ptx::parse(text != texts.end() ? text->second : compile_ptx(kernel.request), name + ".ptx"))
                .first->second;
        for (std::size_t a = 0; a < arrays.size(); ++a) {
          if (program.arrays[a].bytes == 0) {
            continue;
          }
          const std::span<std::byte> bytes(arrays[a].begin, program.arrays[a].bytes);
          arrays[a].writable ? machine.memory().add(bytes) : machine.memory().add(std::span<const std::byte>(bytes));
        }
      }
      machine_of.push_back(&machines.at(key));
    }
    if (program.nodes) {
      nodes = program.nodes(places);
    }
  }
};

InterpretedProgram::InterpretedProgram(const KernelProgram& program, const std::map<std::string, std::string>& texts)
    : ProgramExecutor(program), state_(std::make_unique<State>(program_, texts)) {}
InterpretedProgram::~InterpretedProgram() = default;

void InterpretedProgram::write(int array, std::span<const std::byte> bytes) {
  std::ranges::copy(bytes, state_->arrays[array].begin);
}

void InterpretedProgram::read(int array, std::span<std::byte> bytes) const {
  std::ranges::copy(std::span(state_->arrays[array].begin, bytes.size()), bytes.begin());
}

void InterpretedProgram::allow(std::span<std::byte> bytes) {
  for (auto& [key, machine] : state_->machines) {
    machine.memory().add(bytes);
  }
}

void InterpretedProgram::forget(std::span<std::byte> bytes) {
  for (auto& [key, machine] : state_->machines) {
    machine.memory().remove(bytes.data());
  }
}

ArrayPlaces InterpretedProgram::places() const {
  return state_->places;
}

std::span<const std::uint32_t> InterpretedProgram::run() {
  return run(state_->nodes);
}

std::span<const std::uint32_t> InterpretedProgram::run(std::span<const ProgramNode> nodes) {
  State& state = *state_;
  launches_.clear();
  for (const ProgramNode& node : nodes) {
    if (node.product) {
      multiply(*node.product);
      continue;
    }
    if (node.kernel < 0) {
      std::ranges::fill(node.filled, static_cast<std::byte>(node.byte));
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
                             .most_instructions = most_instructions_,
                             .banks = banks_};
    launches_.push_back(
        {node.label, state.machine_of[node.kernel]->launch(program_.kernels[node.kernel].entry, launch)});
  }
  // Arrays begin at multiples of 256 bytes.
  return {reinterpret_cast<const std::uint32_t*>(state.arrays[program_.results].begin),
          program_.arrays[program_.results].bytes / 4};
}

}  // namespace onchip
