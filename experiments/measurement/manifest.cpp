// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement/manifest.hpp"

#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/json.hpp"
#include "model/base/table.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "experiments/command/options.hpp"
#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/runtime/device_chip.hpp"
#endif

#include <ctime>
#include <iostream>
#include <type_traits>

namespace onchip {

std::filesystem::path manifest_path(const std::filesystem::path& data) {
  std::filesystem::path path = data;
  return path.replace_extension(".manifest.json");
}

#ifdef ONCHIP_HAS_CUDA
Manifest current_manifest() {
  const DeviceInfo device = device_info();
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char date[16];
  std::strftime(date, sizeof date, "%Y-%m-%d", &utc);
  return {device.name,
          device.architecture,
          device.driver,
          device.runtime,
          compiler_version(),
          device.sm_count,
          rounded(device.clock_hz / 1e6),
          date};
}

ChipFile read_measured_chip(const Options& options) {
  DeviceInfo device;
  try {
    device = device_info();
  } catch (const CudaError&) {  // what measures says so, after what else is wrong with the question
    return read_chip(options);
  }
  if (!options.given("chip")) {
    return with_changes(device_chip_file(), options);
  }
  ChipFile chip = read_chip(options);
  if (chip_of_gpu({&chip.chip, 1}, device.name, device.sm_count) == nullptr) {
    std::cerr << "onchip: plans and predictions are of the " << chip.chip.name << ", as --chip says; this GPU is a "
              << device.name << '\n';
  }
  return chip;
}
#endif

namespace {

// Of the file, in its order.
template <typename Of, typename Use>
void for_each_field(Of& manifest, const Use& use) {
  use("gpu", manifest.gpu);
  use("architecture", manifest.architecture);
  use("driver", manifest.driver);
  use("runtime", manifest.runtime);
  use("compiler", manifest.compiler);
  use("sm_count", manifest.sm_count);
  use("clock_mhz", manifest.clock_mhz);
  use("date", manifest.date);
}

}  // namespace

std::string to_json_text(const Manifest& manifest) {
  Json json;
  for_each_field(manifest, [&](const char* key, const auto& value) { json[key] = value; });
  return json.dump(2) + '\n';
}

Manifest read_manifest(const std::filesystem::path& file) {
  const Json json = parse_json(InputFile(file).bytes(), file.string());
  if (!json.is_object()) {
    throw InputError(file.string() + ": not a JSON object");
  }
  Manifest manifest;
  for_each_field(manifest, [&]<typename T>(const char* key, T& value) {
    constexpr bool kIsText = std::is_same_v<T, std::string>;
    const auto place = json.find(key);
    if (place == json.end() || !(kIsText ? place->is_string() : place->is_number())) {
      throw InputError(file.string() + ": expected a " + (kIsText ? "text" : "number") + " '" + key + "'");
    }
    value = place->template get<T>();
  });
  return manifest;
}

}  // namespace onchip
