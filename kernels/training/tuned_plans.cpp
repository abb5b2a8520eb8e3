// SPDX-License-Identifier: Apache-2.0
#include "kernels/training/tuned_plans.hpp"

#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/cubin_cache.hpp"
#include "kernels/runtime/sources.hpp"
#include "model/base/error.hpp"

#include <filesystem>
#include <string>
#include <utility>

namespace onchip {
namespace {

// Key and file; both empty where there is no cache.
std::pair<std::string, std::filesystem::path> key_of(const DeviceInfo& device, const TrainingSize& size,
                                                     Precision precision, Stash stash) {
  const std::filesystem::path directory = cache_directory();
  if (directory.empty()) {
    return {};
  }
  static const std::string kernels = hash_text(kTrainingRecurrenceSource) + '\n' + compiler_version();
  std::string key = "tuned training\n" + device.name + '\n' + device.driver + '\n' + kernels + '\n' +
                    std::string(info(size.cell).name) + ' ' + std::string(info(precision).name) + ' ' +
                    std::string(kStashNames[static_cast<std::size_t>(stash)]);
  for (const int number : {size.input, size.hidden, kernel_batch(size.batch), size.directions}) {
    key += ' ' + std::to_string(number);
  }
  const std::filesystem::path path = directory / (hash_text(key) + ".plan");
  return {std::move(key), path};
}

}  // namespace

std::optional<TrainingPlan> tuned_plan(const DeviceInfo& device, const TrainingSize& size, Precision precision,
                                       Stash stash) {
  const auto [key, path] = key_of(device, size, precision, stash);
  const std::optional<std::string> text = path.empty() ? std::nullopt : load_cached(path, key);
  if (!text || size.length_bytes > 0) {
    return std::nullopt;
  }
  try {
    TrainingPlan plan = parse_training_plan(*text);
    check(training_of(size, precision), plan);
    return plan;
  } catch (const InputError&) {  // by other software
    return std::nullopt;
  }
}

void remember_plan(const DeviceInfo& device, const TrainingSize& size, Precision precision, Stash stash,
                   const TrainingPlan& plan) {
  if (const auto [key, path] = key_of(device, size, precision, stash); !path.empty()) {
    store_cached(path, key, to_string(plan));
  }
}

}  // namespace onchip
