// SPDX-License-Identifier: Apache-2.0
// libFuzzer target for the interpreter of PTX: what can be read is executed for a while. Only InputError, with a
// message of one line, and Fault may come out.
//   tests/fuzz/run build-asan ptx
#include "sim/ptx/machine.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ptx = onchip::ptx;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  run_reader([&] {
    ptx::Module module = ptx::parse({reinterpret_cast<const char*>(data), size}, "fuzz.ptx");
    std::vector<std::string> names;
    for (const auto& [name, kernel] : module.kernels) {
      names.push_back(name);
    }
    ptx::Machine machine(std::move(module));
    std::array<std::uint64_t, 32> memory{};
    machine.memory().add(std::as_writable_bytes(std::span<std::uint64_t>(memory)));
    for (const std::string& name : names) {
      std::vector<std::uint64_t> parameters((machine.parameter_bytes(name) + 7) / 8,
                                            reinterpret_cast<std::uintptr_t>(memory.data()));
      try {
        machine.launch(name, {.threads = 64,
                              .dynamic_shared_bytes = 1024,
                              .parameters = std::as_bytes(std::span(parameters)).first(machine.parameter_bytes(name)),
                              .most_instructions = 2000});
      } catch (const ptx::Fault&) {
      } catch (const onchip::InputError&) {
      }
    }
  });
  return 0;
}
