// SPDX-License-Identifier: Apache-2.0
// Loops over words are part of what a request takes: compiled with -O3, they have several at a time.
#include "kernels/stream/mailbox.hpp"

#include <algorithm>
#include <atomic>
#include <bit>

namespace onchip {
namespace {

constexpr std::size_t kItem = 4;  // words

std::uint32_t tag_of(StreamCommand command, std::uint32_t step) {
  return (command << kStepBits | (step & ((1u << kStepBits) - 1))) << 16;
}

}  // namespace

std::size_t request_words(const StreamSize& size) {
  return kItem * ((size.input + kItem - 1) / kItem) * std::bit_ceil(static_cast<unsigned>(size.batch));
}

std::size_t answer_words(const StreamSize& size) {
  return static_cast<std::size_t>(size.batch) * size.hidden;
}

void write_request(std::span<std::uint32_t> slot, const StreamSize& size, std::span<const std::uint16_t> input,
                   StreamCommand command, std::uint32_t step) {
  const std::uint32_t tag = tag_of(command, step);
  const auto columns = static_cast<std::size_t>(size.input), items = (columns + kItem - 1) / kItem;
  const std::size_t samples = slot.size() / kItem / items;
  // Each word is written once: the kernel takes what has the step's number.
  for (std::size_t sample = 0; sample < samples; ++sample) {
    const bool is_there = sample * columns < input.size();
    const std::uint16_t* const from = input.data() + (is_there ? sample * columns : 0);
    std::uint32_t* const to = slot.data() + sample * kItem;
    const std::size_t whole = is_there ? columns / kItem * kItem : 0;
    if (samples == 1) {
      for (std::size_t column = 0; column < whole; ++column) {
        to[column] = tag | from[column];
      }
    } else {
      for (std::size_t column = 0; column < whole; column += kItem) {
        for (std::size_t i = 0; i < kItem; ++i) {
          to[column * samples + i] = tag | from[column + i];
        }
      }
    }
    for (std::size_t column = whole; column < items * kItem; ++column) {
      const std::uint32_t element = is_there && column < columns ? from[column] : 0;
      to[column / kItem * samples * kItem + column % kItem] = tag | element;
    }
  }
  std::atomic_signal_fence(std::memory_order_release);  // writes memory now
}

bool read_answer(std::span<const std::uint32_t> slot, std::span<std::uint16_t> output, std::uint32_t step) {
  const std::uint32_t tag = tag_of(kStep, step);
  const std::uint32_t* const from = slot.data();
  std::uint16_t* const to = output.data();
  std::atomic_signal_fence(std::memory_order_seq_cst);  // reads memory now
  if (((from[0] ^ tag) & kStepMask) != 0) {
    return false;
  }
  std::uint32_t others = 0;  // no branch between lines that are not in the cache
  for (std::size_t i = 0; i < slot.size(); ++i) {
    others |= from[i] ^ tag;
    to[i] = static_cast<std::uint16_t>(from[i]);
  }
  return (others & kStepMask) == 0;
}

}  // namespace onchip
