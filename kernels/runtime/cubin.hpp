// SPDX-License-Identifier: Apache-2.0
// What a cubin says of its kernels: it is an ELF file, with the machine code of each in a section of its own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace onchip {

// Bytes of a kernel's machine code, with what the compiler fills its end up with. Throws CudaError for what is no
// 64-bit ELF file, is torn, or has no such kernel.
std::int64_t code_bytes(std::span<const char> cubin, std::string_view kernel);

// What of a cubin a launch runs: the bytes and relocations of its code, constants and initialised variables, the sizes
// of its shared and global memory. Without names, symbol numbers, the order of the sections, what is there for
// debuggers, and the `constexpr` numbers of the source, so that two sources whose words differ, but not their machine
// code, have the same. Throws as above.
std::string significant_code(std::span<const char> cubin);

}  // namespace onchip
