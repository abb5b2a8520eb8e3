// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement/interpreted/interpret.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <utility>

namespace onchip {
namespace {

std::string persistent_ptx(const Layout& layout, Work work) {
  return compile_ptx(compile_request(network_of(layout), plan_of(layout), kInterpretedArchitecture, work));
}

std::byte* aligned(std::byte* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return memory + (kWorkspaceAlignment - address % kWorkspaceAlignment) % kWorkspaceAlignment;
}

// Memory that nobody may touch, between the arrays of the workspace: whoever reads or writes beyond one is found.
constexpr std::size_t kGap = 64 * kWorkspaceAlignment;

constexpr std::array kConstantMemory{
    &ConstantPlaces::weights,    &ConstantPlaces::streamed,       &ConstantPlaces::overflow,
    &ConstantPlaces::gates,      &ConstantPlaces::order,          &ConstantPlaces::row_places,
    &ConstantPlaces::input_bias, &ConstantPlaces::recurrent_bias, &ConstantPlaces::scales};
constexpr std::array kScratch{&ScratchPlaces::input,       &ScratchPlaces::states,  &ScratchPlaces::carry,
                              &ScratchPlaces::final_carry, &ScratchPlaces::lengths, &ScratchPlaces::barrier,
                              &ScratchPlaces::status,      &ScratchPlaces::record};

struct MovedArray {
  std::size_t from, to, bytes;  // where it was, where it is
};

// Arrays one after another, up to `end`, apart; `behind` is the end of what comes before.
template <typename Places, std::size_t kCount>
std::vector<MovedArray> set_apart(Places& places, const std::array<std::size_t Places::*, kCount>& all, std::size_t end,
                                  std::size_t& behind) {
  std::vector<MovedArray> moved;
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::size_t from = places.*all[i], next = i + 1 < kCount ? places.*all[i + 1] : end;
    moved.push_back({from, behind + kGap, next - from});
    behind += kGap + moved.back().bytes;
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    places.*all[i] = moved[i].to;
  }
  return moved;
}

}  // namespace

struct InterpretedKernel::HostDevice {
  InterpretedKernel& kernel;

  void fill(void* to, int byte, std::size_t bytes) const { std::memset(to, byte, bytes); }
  void upload(void* to, const void* host, std::size_t bytes) const { std::memcpy(to, host, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) const { std::memcpy(to, from, bytes); }
  template <typename A>
  void launch(Entry entry, int blocks, int threads, std::size_t shared_bytes, bool cooperative,
              const A& arguments) const {
    const bool is_recurrence = entry == Entry::recurrence;
    ptx::Machine& machine = is_recurrence ? kernel.kernel_ : kernel.translations_;
    const std::string_view entry_name =
        is_recurrence ? kernel.program_.shape.kernel : kEntryNames[static_cast<std::size_t>(entry)];
    // The lengths' argument has as many as the kernel was compiled for.
    std::span<const std::byte> parameters = std::as_bytes(std::span(&arguments, 1));
    parameters = parameters.first(std::min(parameters.size(), machine.parameter_bytes(entry_name)));
    const ptx::Counts counts = machine.launch(entry_name, {.blocks = blocks,
                                                           .threads = threads,
                                                           .dynamic_shared_bytes = shared_bytes,
                                                           .cooperative = cooperative,
                                                           .parameters = parameters,
                                                           .most_instructions = kernel.most_instructions_});
    kernel.counts_.warp_instructions += counts.warp_instructions;
    kernel.counts_.lane_instructions += counts.lane_instructions;
  }
};

InterpretedKernel::InterpretedKernel(const Layout& layout, const Biases& biases, std::int64_t most_steps, Work work)
    : InterpretedKernel(layout, biases, most_steps, work, persistent_ptx(layout, work)) {}

InterpretedKernel::InterpretedKernel(const Layout& layout, const Biases& biases, std::int64_t most_steps, Work work,
                                     const std::string& ptx)
    : program_(make_uncompiled_program(layout, biases, work)),
      scratch_(scratch_places(program_, most_steps)),
      kernel_(ptx::parse(ptx, std::string(program_.shape.kernel) + ".ptx")),
      translations_(
          ptx::parse(compile_ptx(compile_order_request(network_of(layout), plan_of(layout), kInterpretedArchitecture)),
                     "state_order.ptx")) {
  std::size_t end = 0;
  const std::vector<MovedArray> constants = set_apart(program_.places, kConstantMemory, program_.constants.size(), end);
  std::vector<std::byte> apart(end);
  for (const MovedArray& array : constants) {
    std::copy_n(program_.constants.begin() + static_cast<std::ptrdiff_t>(array.from), array.bytes,
                apart.begin() + static_cast<std::ptrdiff_t>(array.to));
  }
  program_.constants = std::move(apart);
  const std::vector<MovedArray> scratch = set_apart(scratch_, kScratch, scratch_.bytes, end);
  scratch_.bytes = end;

  memory_.resize(scratch_.bytes + kWorkspaceAlignment);
  workspace_ = aligned(memory_.data());
  for (const MovedArray& array : constants) {
    for (ptx::Machine* machine : {&kernel_, &translations_}) {
      machine->memory().add(std::span<const std::byte>(workspace_ + array.to, array.bytes));
    }
  }
  for (const MovedArray& array : scratch) {
    allow({workspace_ + array.to, array.bytes});
  }
  HostDevice device{*this};
  RecurrenceRun<HostDevice>(device, program_, scratch_, workspace_).fill_workspace();
}

InterpretedKernel::~InterpretedKernel() = default;

void InterpretedKernel::allow(std::span<std::byte> bytes) {
  kernel_.memory().add(bytes);
  translations_.memory().add(bytes);
}

void InterpretedKernel::forget(std::span<std::byte> bytes) {
  kernel_.memory().remove(bytes.data());
  translations_.memory().remove(bytes.data());
}

void InterpretedKernel::run(const Sequences& sequences) {
  HostDevice device{*this};
  RecurrenceRun<HostDevice>(device, program_, scratch_, workspace_).enqueue(sequences);
  if (*at<std::uint32_t>(scratch_.status) != 0) {
    throw CudaError("a block gave up waiting for the state of another; the results are not valid");
  }
}

std::vector<std::uint32_t> InterpretedKernel::record() const {
  const auto* const words = at<std::uint32_t>(scratch_.record);
  return {words, words + record_words(program_, scratch_.steps_per_launch)};
}

}  // namespace onchip
