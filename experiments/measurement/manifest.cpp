// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement/manifest.hpp"

#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/table.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/device.hpp"
#endif

#include <nlohmann/json.hpp>

#include <ctime>
#include <iostream>

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
#endif

void warn_of_other_chip(const Chip& chip, const Manifest& manifest) {
  if (!chip.architecture.empty() && chip.architecture != manifest.architecture) {
    std::cerr << "onchip: the plan is made for the " << chip.name << " (" << chip.architecture
              << "), but this GPU is a " << manifest.gpu << " (" << manifest.architecture << "); see --chip\n";
  }
}

std::string to_json_text(const Manifest& manifest) {
  const nlohmann::ordered_json json{{"gpu", manifest.gpu},
                                    {"architecture", manifest.architecture},
                                    {"driver", manifest.driver},
                                    {"runtime", manifest.runtime},
                                    {"compiler", manifest.compiler},
                                    {"sm_count", manifest.sm_count},
                                    {"clock_mhz", manifest.clock_mhz},
                                    {"date", manifest.date}};
  return json.dump(2) + '\n';
}

Manifest read_manifest(const std::filesystem::path& file) {
  const MappedFile mapped(file);
  const auto json = nlohmann::json::parse(mapped.bytes(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    throw InputError(file.string() + ": not a JSON object");
  }
  const auto text = [&](const char* key) {
    const auto place = json.find(key);
    if (place == json.end() || !place->is_string()) {
      throw InputError(file.string() + ": expected a text '" + key + "'");
    }
    return place->get<std::string>();
  };
  const auto number = [&](const char* key) {
    const auto place = json.find(key);
    if (place == json.end() || !place->is_number()) {
      throw InputError(file.string() + ": expected a number '" + key + "'");
    }
    return place->get<double>();
  };
  return {text("gpu"),         text("architecture"), text("driver"),
          text("runtime"),     text("compiler"),     static_cast<int>(number("sm_count")),
          number("clock_mhz"), text("date")};
}

}  // namespace onchip
