// SPDX-License-Identifier: Apache-2.0
#include "experiments/feed_forward/questions.hpp"

#include "experiments/command/progress.hpp"
#include "model/base/units.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

namespace onchip {
namespace {

struct Beside {
  std::string_view name, argument, help;
};
constexpr std::array kBeside{
    Beside{"images", "IMAGES",
           "With --network: digits:60000,seed=2 (synthetic, default digits:60000; simulate: one tile on each SM), or a "
           "file."},
    Beside{"sample", "N",
           "Compute at most so many of the images on the CPU to know which stay alive (default: what takes a second)."},
    Beside{"alive", "SHARE",
           "Compute none: this share of the images, 3% or all, is alive from the second layer on; --images may be "
           "their number."},
    Beside{"gpus", "N", "Share the images among so many GPUs (default 1)."},
    Beside{"split", "SPLIT",
           "With --gpus: dealt (default: each GPU gets as many images of each number of features), or contiguous."},
    Beside{"image-order", "ORDER",
           "Of the images: given (default), or survivors-first, which a contiguous split fares worst with."}};

ImagesAsked read_images_asked(const Options& options) {
  ImagesAsked asked;
  if (options.given("images")) {
    asked.images = options.text("images");
  }
  if (options.given("alive")) {
    options.refuse({"sample"}, "contradicts --alive, for which no image is computed");
    asked.alive = options.text("alive") == "all" ? 1 : options.share("alive");
  }
  asked.sample = options.count("sample", std::numeric_limits<int>::max(), 0);
  return asked;
}

}  // namespace

OptionGroup feed_forward_options(std::initializer_list<std::string_view> beside) {
  std::vector<OptionRow> options{{"network", "NETWORK",
                                  "Take a sparse feed-forward network: spdnn:1024x120 (the Sparse DNN Graph "
                                  "Challenge's), random:neurons=1024,layers=8,degree=32,blocks=16, or a file."}};
  for (const auto& [name, argument, help] : kBeside) {
    if (std::ranges::find(beside, name) != beside.end()) {
      options.push_back({std::string(name), std::string(argument), std::string(help)});
    }
  }
  return option_group("Feed-forward network (instead of a recurrent one)", options);
}

std::string network_text(const Options& options) {
  return options.text("network") + (options.flag("transpose") ? ",transpose=yes" : "");
}

void refuse_beside(const Options& options, const std::string& with, const std::vector<OptionGroup>& groups,
                   std::initializer_list<const char*> names) {
  std::vector<std::string> refused = names_of(groups);
  if (with.starts_with("network")) {
    std::erase(refused, "transpose");  // of any file
  }
  refused.insert(refused.begin(), names.begin(), names.end());
  options.refuse(refused, "contradicts --" + with);
}

bool asks_feed_forward(const Options& options, const std::vector<OptionGroup>& others) {
  if (options.given("network")) {
    refuse_beside(options, "network, which is a feed-forward network", others);
    return true;
  }
  for (const auto& [name, argument, help] : kBeside) {
    options.refuse({std::string(name)}, "needs --network");
  }
  return false;
}

FeedForwardQuestion read_feed_forward(const Options& options) {
  FeedForwardQuestion question;
  if (const std::string plan = options.text("plan"); plan != "auto" && plan != kAllPlans) {
    question.constraints = read_inference_constraints(plan);
  }
  const FeedForward network = read_network(network_text(options));
  const ImagesAsked images = read_images_asked(options);
  Progress progress;
  progress.show("reading images");
  question.activity = std::make_shared<const Activity>(activity_of(
      network, images, [&](double done) { progress.show("which images stay alive: " + fixed(100 * done, 0) + " %"); }));
  progress.show("finding the structure of " + network.name);
  question.network = std::make_shared<const ExaminedNetwork>(examine(network));
  question.gpus = options.count("gpus", kMostGpus, 1);
  return question;
}

}  // namespace onchip
