// SPDX-License-Identifier: Apache-2.0
// What planning the challenge's networks for an H200 takes the host, as a table, in processor seconds of all cores:
// blocks found, plan chosen, layout packed; the same again from what the first time left in the cache. Layers are made
// anew whenever they are asked for: what that takes is a column of its own, not in the other processor seconds. `wall`
// is what a clock on the wall says of all of it. Kernels are compiled before. No GPU.
//   build/bench_feed_forward_planning > experiments/data/planning.csv
#include "kernels/api/inference_plan.hpp"
#include "kernels/feed_forward/network/planned_network.hpp"
#include "model/base/clocks.hpp"
#include "model/feed_forward/files/network_text.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

using namespace onchip;

void forget_plans(const std::filesystem::path& cache) {
  std::vector<std::filesystem::path> plans;
  for (const auto& entry : std::filesystem::directory_iterator(cache)) {
    if (entry.path().extension() == ".plan") {
      plans.push_back(entry.path());
    }
  }
  for (const auto& plan : plans) {
    std::filesystem::remove(plan);
  }
}

void measure(const std::string& text, const std::filesystem::path& cache) {
  InferenceTarget target{.chip = find_chip("h200").chip, .architecture = "sm_90", .available_bytes = {}, .load = {}};
  target.sms = static_cast<int>(target.chip.sm_count.value);
  std::atomic<double> making = 0;
  FeedForward network = read_network(text);
  network.layer = [&making, layer = network.layer](int l) {
    const double begin = thread_seconds();
    SparseLayer made = layer(l);
    making += thread_seconds() - begin;
    return made;
  };
  const int neurons = network.neurons.front();
  const Activity activity = find_activity(network, sample_images("digits:60000", neurons, default_sample(network)));
  std::string family;
  struct Seconds {
    double planning, making_layers, wall;
  };
  const auto plan = [&] {
    const double begin = processor_seconds(), wall = wall_seconds();
    making = 0;
    family = plan_inference(network, target, plan_images(activity)).family();
    return Seconds{processor_seconds() - begin - making, making, wall_seconds() - wall};
  };
  plan();
  forget_plans(cache);
  const Seconds first = plan(), again = plan();
  std::printf("%s,%s,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f\n", text.c_str(), family.c_str(), first.planning,
              first.making_layers, first.wall, again.planning, again.making_layers, again.wall);
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  const std::filesystem::path cache = std::filesystem::temp_directory_path() / "onchip_bench_feed_forward_planning";
  setenv("ONCHIP_CACHE", cache.c_str(), 1);
  std::printf("network,family,planning_s,making_layers_s,wall_s,cached_s,making_layers_again_s,cached_wall_s\n");
  std::vector<std::string> networks(arguments + 1, arguments + count);
  if (networks.empty()) {
    networks = {"spdnn:1024x120", "spdnn:4096x120", "spdnn:16384x120", "spdnn:65536x120"};
  }
  for (const std::string& network : networks) {
    std::filesystem::remove_all(cache);
    std::filesystem::create_directories(cache);
    measure(network, cache);
  }
  std::filesystem::remove_all(cache);
}
