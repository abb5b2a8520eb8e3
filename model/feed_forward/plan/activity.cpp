// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/activity.hpp"

#include "model/base/error.hpp"
#include "model/feed_forward/reference.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace onchip {
namespace {

// By doubling, then by halves: images at the clip stay there in the networks for which it matters.
int settled_layers(const FeedForward& network, const Inputs& inputs, std::span<const int> survivors) {
  constexpr std::size_t kLooked = 64;  // of the survivors
  const int layers = network.layers();
  if (survivors.empty()) {
    return 0;
  }
  if (!std::isfinite(network.clip)) {
    return layers;
  }
  std::vector<int> some;
  for (std::size_t i = 0; i < std::min(kLooked, survivors.size()); ++i) {
    some.push_back(survivors[i * survivors.size() / std::min(kLooked, survivors.size())]);
  }
  std::vector<char> are_settled{0};  // after so many layers
  int below = 0, settled = 1;
  const auto look = [&] {
    are_settled = layers_at_least(network, inputs, some, network.clip * (1 - 0x1p-10F), settled);
    return are_settled[settled] != 0;
  };
  for (; !look(); settled = std::min(2 * settled, layers)) {
    if (settled == layers) {
      return layers;
    }
    below = settled;
  }
  while (settled - below > 1) {
    const int middle = (below + settled) / 2;
    (are_settled[middle] != 0 ? settled : below) = middle;
  }
  return settled;
}

}  // namespace

double Activity::image_layers() const {
  return std::accumulate(alive.begin(), alive.end() - 1, 0.0);
}

int default_sample(const FeedForward& network) {
  return std::max(1000, (1 << 25) / network.neurons.front());
}

Activity find_activity(const FeedForward& network, const ImageSample& images,
                       const std::function<void(double)>& progress) {
  const int sampled = image_count(images.inputs);
  if (sampled == 0) {
    throw InputError("there are no images");
  }
  ReferenceOptions options;
  options.progress = progress;
  const ReferenceResult result = infer_reference(network, images.inputs, options);
  Activity activity{
      images.of, {}, settled_layers(network, images.inputs, result.categories), sampled, images.is_binary};
  for (const std::int64_t alive : result.alive) {
    activity.alive.push_back(static_cast<double>(alive) * images.of / sampled);
  }
  activity.alive.front() = images.of;  // none is dropped before the first layer
  return activity;
}

Activity at_end_of_interval(Activity activity, double direction) {
  constexpr double kDeviations = 1.96;
  if (activity.sampled > 0 && activity.sampled < activity.images) {
    for (double& alive : activity.alive) {
      const double share = alive / activity.images;
      const double off = kDeviations * std::sqrt(share * (1 - share) / activity.sampled);
      alive = std::clamp(share + direction * off, 0.0, 1.0) * activity.images;
    }
  }
  return activity;
}

Activity largest_share(Activity activity, int gpus) {
  const int images = (activity.images + gpus - 1) / gpus;
  for (double& alive : activity.alive) {
    const double part = alive / gpus;
    alive = std::min<double>(images, part + std::sqrt(2 * std::log(gpus) * part));
  }
  activity.images = images;
  return activity;
}

Activity given_activity(const FeedForward& network, int images, double share) {
  if (!(share >= 0 && share <= 1)) {
    throw InputError("the share of the images that is alive is from 0 to 1");
  }
  if (images < 1) {
    throw InputError("there are no images");
  }
  Activity activity{images, std::vector<double>(network.neurons.size(), share * images), network.layers(), 0};
  activity.alive.front() = images;
  return activity;
}

std::vector<int> drop_points(const Activity& activity) {
  constexpr std::size_t kMostPoints = 32;
  const auto dead = [&](int l) { return activity.alive[l - 1] - activity.alive[l]; };
  std::vector<int> points;
  for (int l = 1; l + 1 < static_cast<int>(activity.alive.size()); ++l) {
    if (dead(l) > 0) {
      points.push_back(l);
    }
  }
  if (points.size() > kMostPoints) {
    std::ranges::stable_sort(points, std::greater<>(), dead);
    points.resize(kMostPoints);
    std::ranges::sort(points);
  }
  return points;
}

}  // namespace onchip
