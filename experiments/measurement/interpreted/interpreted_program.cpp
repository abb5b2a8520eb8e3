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
      const std::int64_t place = column * p.leading_c + row;
      if (p.sums_in_fp32) {
        float& to = static_cast<float*>(p.c)[place];
        to = p.scale * sum + (p.keep == 0 ? 0 : p.keep * to);
        continue;
      }
      std::uint16_t& to = static_cast<std::uint16_t*>(p.c)[place];
      const float kept = p.keep == 0 ? 0 : p.keep * from_bits(p.precision, to);
      to = static_cast<std::uint16_t>(to_bits(p.precision, p.scale * sum + kept));
    }
  }
}

}  // namespace

InterpretedProgram::InterpretedProgram(const KernelProgram& program, const std::map<std::string, std::string>& texts)
    : ProgramExecutor(program) {
  for (ProgramArray& array : program_.arrays) {
    HostArray& made = arrays_.emplace_back(array.bytes);
    if (!array.contents.empty()) {
      std::memcpy(made.begin, array.contents.data(), array.contents.size());
      array.contents = {};
      made.writable = false;
    }
    places_.push_back(made.begin);
  }
  for (const ProgramKernel& kernel : program_.kernels) {
    const std::string key = fingerprint(kernel.request);
    if (!machines_.contains(key)) {
      const std::string name(kernel.request.name);
      const auto text = texts.find(name);
      ptx::Machine& machine =
          machines_
              .try_emplace(key,
                           ptx::parse(text != texts.end() ? text->second : compile_ptx(kernel.request), name + ".ptx"))
              .first->second;
      for (std::size_t a = 0; a < arrays_.size(); ++a) {
        if (program_.arrays[a].bytes == 0) {
          continue;
        }
        const std::span<std::byte> bytes(arrays_[a].begin, program_.arrays[a].bytes);
        arrays_[a].writable ? machine.memory().add(bytes) : machine.memory().add(std::span<const std::byte>(bytes));
      }
    }
    machine_of_.push_back(&machines_.at(key));
  }
  if (program_.nodes) {
    nodes_ = program_.nodes(places_);
  }
}

void InterpretedProgram::write(int array, std::span<const std::byte> bytes) {
  std::ranges::copy(bytes, arrays_[array].begin);
}

void InterpretedProgram::read(int array, std::span<std::byte> bytes) const {
  std::ranges::copy(std::span(arrays_[array].begin, bytes.size()), bytes.begin());
}

void InterpretedProgram::allow(std::span<std::byte> bytes) {
  for (auto& [key, machine] : machines_) {
    machine.memory().add(bytes);
  }
}

void InterpretedProgram::forget(std::span<std::byte> bytes) {
  for (auto& [key, machine] : machines_) {
    machine.memory().remove(bytes.data());
  }
}

std::span<const std::uint32_t> InterpretedProgram::run(std::span<const ProgramNode> nodes) {
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
    launches_.push_back({node.label, machine_of_[node.kernel]->launch(program_.kernels[node.kernel].entry, launch)});
  }
  // Arrays begin at multiples of 256 bytes.
  return {reinterpret_cast<const std::uint32_t*>(arrays_[program_.results].begin),
          program_.arrays[program_.results].bytes / 4};
}

}  // namespace onchip
