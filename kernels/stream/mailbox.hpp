// SPDX-License-Identifier: Apache-2.0
// The words of a stream's mailboxes, as the host writes and reads them.
#pragma once

#include "kernels/stream/device/arguments.hpp"
#include "model/stream/stream.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace onchip {

// Words of a slot of a mailbox: of an input, in items of four, and of an answer. They are what stream.cu says.
std::size_t request_words(const StreamSize& size);
std::size_t answer_words(const StreamSize& size);
void write_request(std::span<std::uint32_t> slot, const StreamSize& size, std::span<const std::uint16_t> input,
                   StreamCommand command, std::uint32_t step);
// Whether the slot's answer is that of the step, with all values in `output` if so.
bool read_answer(std::span<const std::uint32_t> slot, std::span<std::uint16_t> output, std::uint32_t step);

}  // namespace onchip
