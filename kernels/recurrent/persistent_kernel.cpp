// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrent/persistent_kernel.hpp"

#include "model/base/numeric.hpp"

#include <cstring>
#include <utility>

namespace onchip {

namespace {

Recurrence filled(std::shared_ptr<const RecurrenceProgram> program, const DeviceBuffer<std::byte>& workspace,
                  std::int64_t most_steps) {
  const Stream stream;
  Recurrence recurrence(std::move(program), workspace.data(), workspace.bytes(), most_steps, stream.get());
  stream.synchronize();
  return recurrence;
}

}  // namespace

PersistentKernel::PersistentKernel(const Layout& layout, const Biases& biases, std::int64_t most_steps, Work work)
    : PersistentKernel(
          std::make_shared<const RecurrenceProgram>(make_program(layout, biases, device_info().architecture, work)),
          most_steps) {}

PersistentKernel::PersistentKernel(std::shared_ptr<const RecurrenceProgram> program, std::int64_t most_steps)
    : workspace_(Recurrence::workspace_bytes(*program, most_steps)),
      recurrence_(filled(std::move(program), workspace_, most_steps)) {}

std::vector<std::uint32_t> PersistentKernel::record() const {
  return recurrence_.record(Stream().get());
}

void PersistentKernel::check_status() const {
  recurrence_.check_status(Stream().get());
}

std::vector<std::byte> to_elements(std::span<const float> values, Precision precision) {
  const int size = info(precision).bytes;
  std::vector<std::byte> elements(values.size() * size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t bits = to_bits(precision, values[i]);
    std::memcpy(&elements[i * size], &bits, size);
  }
  return elements;
}

std::vector<float> from_elements(std::span<const std::byte> elements, Precision precision) {
  const int size = info(precision).bytes;
  std::vector<float> values(elements.size() / size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &elements[i * size], size);
    values[i] = from_bits(precision, bits);
  }
  return values;
}

}  // namespace onchip
