// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/reference.hpp"

#include "model/base/error.hpp"
#include "model/feed_forward/reference_tile.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace onchip {
namespace {

constexpr int kNone = -1;  // no image

// Room for the features of a batch before and after a layer; the next batch uses it again.
struct Room {
  std::vector<float> now, next;  // [tiles, neurons, kTileImages]
};

// Images on their way through the network.
class Batch {
 public:
  Batch(const FeedForward& network, const Inputs& inputs, std::span<const int> images, int threads, Room& room)
      : clip_(network.clip), neurons_(network.neurons.front()), threads_(threads), now_(room.now), next_(room.next) {
    const std::size_t width = static_cast<std::size_t>(*std::ranges::max_element(network.neurons));
    const std::size_t tiles = (images.size() + kTileImages - 1) / kTileImages;
    now_.resize(std::max(now_.size(), tiles * width * kTileImages));
    next_.resize(now_.size());
    for (const int image : images) {
      bool alive = false;
      for_each_feature(inputs, image, [&](int, float value) { alive |= value != 0; });
      (alive ? image_ : asleep_).push_back(image);
    }
    image_.resize((image_.size() + kTileImages - 1) / kTileImages * kTileImages, kNone);
    parallel_for(tiles_now(), threads_, [&](int t) {
      std::fill_n(tile(now_, t), tile_size(), 0.0F);
      for (int i = 0; i < kTileImages; ++i) {
        if (const int image = image_[t * kTileImages + i]; image != kNone) {
          for_each_feature(inputs, image,
                           [&](int neuron, float value) { tile(now_, t)[neuron * kTileImages + i] = value; });
        }
      }
    });
  }

  std::int64_t alive() const { return std::ssize(image_) - std::ranges::count(image_, kNone); }
  const std::vector<int>& images() const { return image_; }  // by place; kNone where there is none
  float feature(int place, int neuron) const {
    const std::size_t tile = static_cast<std::size_t>(place) / kTileImages;
    return now_[(tile * neurons_ + neuron) * kTileImages + place % kTileImages];
  }

  void go_through(SparseLayer layer) {
    if (wakes_zeros(layer)) {
      wake();
    }
    const int outputs = layer.weights.rows;
    if (are_at_clip_ && outputs == neurons_ && keeps_at_clip(layer, clip_)) {
      return;
    }
    are_at_clip_ = !layer.is_linear;
    const ReferenceLayerRuns runs = prepare(std::move(layer));
    std::vector<TileImages> images(tiles_now());
    parallel_for(tiles_now(), threads_, [&](int t) {
      float* const results = next_.data() + static_cast<std::size_t>(t) * outputs * kTileImages;
      images[t] = compute_tile(runs, clip_, tile(now_, t), results);
    });
    now_.swap(next_);
    neurons_ = outputs;
    for (int place = 0; place < std::ssize(image_); ++place) {
      if (image_[place] == kNone) {
        continue;
      }
      const auto [alive, below_clip] = images[place / kTileImages];
      if (!(alive >> place % kTileImages & 1)) {
        asleep_.push_back(std::exchange(image_[place], kNone));
      } else if (below_clip >> place % kTileImages & 1) {
        are_at_clip_ = false;
      }
    }
    close_up();
  }

  // Whether images have all features there, at least; images that are dropped have none.
  bool are_at_least(float least) const {
    if (!asleep_.empty() && least > 0) {
      return false;
    }
    for (int place = 0; place < std::ssize(image_); ++place) {
      for (int neuron = 0; image_[place] != kNone && neuron < neurons_; ++neuron) {
        if (!(feature(place, neuron) >= least)) {
          return false;
        }
      }
    }
    return true;
  }

 private:
  int tiles_now() const { return static_cast<int>(image_.size()) / kTileImages; }
  std::size_t tile_size() const { return static_cast<std::size_t>(neurons_) * kTileImages; }
  float* tile(std::vector<float>& features, int t) const { return features.data() + t * tile_size(); }

  // Images of zeros at the end of the others. There is room: each image had a place at first, and tiles are full but
  // for some of dead ones, which are closed up first.
  void wake() {
    are_at_clip_ = are_at_clip_ && asleep_.empty();
    close_up(0);
    std::erase(image_, kNone);
    const std::size_t first = image_.size();
    image_.insert(image_.end(), asleep_.begin(), asleep_.end());
    asleep_.clear();
    const std::size_t last_tile = (first + kTileImages - 1) / kTileImages;
    for (std::size_t place = first; place < last_tile * kTileImages; ++place) {
      float* const features = tile(now_, static_cast<int>(last_tile) - 1) + place % kTileImages;
      for (int neuron = 0; neuron < neurons_; ++neuron) {
        features[static_cast<std::ptrdiff_t>(neuron) * kTileImages] = 0;
      }
    }
    image_.resize((image_.size() + kTileImages - 1) / kTileImages * kTileImages, kNone);
    std::fill(now_.begin() + static_cast<std::ptrdiff_t>(last_tile * tile_size()),
              now_.begin() + static_cast<std::ptrdiff_t>(tiles_now() * tile_size()), 0.0F);
  }

  // Moves images together where that frees more than a share of the tiles.
  void close_up(double share = 0.1) {
    const std::int64_t tiles = (alive() + kTileImages - 1) / kTileImages;
    if (static_cast<double>(tiles) > (1 - share) * tiles_now()) {
      return;
    }
    std::vector<int> from;
    for (int place = 0; place < std::ssize(image_); ++place) {
      if (image_[place] != kNone) {
        from.push_back(place);
      }
    }
    parallel_for(static_cast<int>(tiles), threads_, [&](int t) {
      const auto count = std::min<std::ptrdiff_t>(kTileImages, std::ssize(from) - t * kTileImages);
      std::vector<const float*> source(kTileImages, nullptr);
      for (std::ptrdiff_t i = 0; i < count; ++i) {
        const int place = from[t * kTileImages + i];
        source[i] = tile(now_, place / kTileImages) + place % kTileImages;
      }
      float* to = tile(next_, t);
      for (int neuron = 0; neuron < neurons_; ++neuron, to += kTileImages) {
        for (int i = 0; i < kTileImages; ++i) {
          to[i] = i < count ? source[i][static_cast<std::ptrdiff_t>(neuron) * kTileImages] : 0;
        }
      }
    });
    now_.swap(next_);
    std::erase(image_, kNone);
    image_.resize(static_cast<std::size_t>(tiles) * kTileImages, kNone);
  }

  float clip_;
  int neurons_;
  int threads_;
  bool are_at_clip_ = false;  // all features of the images on their way
  std::vector<float>&now_, &next_;
  std::vector<int> image_, asleep_;  // of each place; those of zeros
};

int images_at_once(const FeedForward& network, std::size_t most_bytes) {
  const auto width = static_cast<std::size_t>(*std::ranges::max_element(network.neurons));
  const std::size_t tiles = most_bytes / (2 * sizeof(float) * width * kTileImages);
  return static_cast<int>(std::clamp<std::size_t>(tiles, 1, 1 << 20)) * kTileImages;
}

// Calls done(batch) at the end, after_layer(l, batch) before.
template <typename AfterLayer, typename Done>
void run(const FeedForward& network, const Inputs& inputs, std::span<const int> images, const ReferenceOptions& options,
         AfterLayer&& after_layer, Done&& done) {
  check(inputs, network.inputs(0));
  const auto at_once = static_cast<std::size_t>(images_at_once(network, options.most_bytes));
  Room room;
  for (std::size_t first = 0; first < images.size(); first += at_once) {
    const std::span<const int> some = images.subspan(first, std::min(at_once, images.size() - first));
    Batch batch(network, inputs, some, options.threads, room);
    after_layer(0, batch);
    for (int l = 0; l < network.layers(); ++l) {
      batch.go_through(network.layer(l));
      after_layer(l + 1, batch);
      if (options.progress) {
        const double of_batch = static_cast<double>(l + 1) / network.layers();
        options.progress((static_cast<double>(first) + of_batch * static_cast<double>(some.size())) /
                         static_cast<double>(images.size()));
      }
    }
    done(batch);
  }
}

}  // namespace

std::int64_t ReferenceResult::image_layers() const {
  return std::accumulate(alive.begin(), alive.end() - 1, std::int64_t{0});
}

ReferenceResult infer_reference(const FeedForward& network, const Inputs& inputs, const ReferenceOptions& options) {
  ReferenceResult result{{}, std::vector<std::int64_t>(network.neurons.size())};
  std::vector<int> images(static_cast<std::size_t>(image_count(inputs)));
  std::iota(images.begin(), images.end(), 0);
  run(
      network, inputs, images, options, [&](int l, const Batch& batch) { result.alive[l] += batch.alive(); },
      [&](const Batch& batch) {
        std::ranges::remove_copy(batch.images(), std::back_inserter(result.categories), kNone);
      });
  std::ranges::sort(result.categories);
  return result;
}

std::vector<float> reference_features(const FeedForward& network, const Inputs& inputs, std::span<const int> images,
                                      int layers, const ReferenceOptions& options) {
  const FeedForward first = first_layers(network, layers);
  for (const int image : images) {
    if (image < 0 || image >= image_count(inputs)) {
      throw InputError("there are images 0 to " + std::to_string(image_count(inputs) - 1) + "; found a request for " +
                       std::to_string(image));
    }
  }
  std::vector<int> distinct(images.begin(), images.end());
  std::ranges::sort(distinct);
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  const auto neurons = static_cast<std::size_t>(network.neurons[layers]);
  std::vector<float> features(images.size() * neurons);
  run(
      first, inputs, distinct, options, [](int, const Batch&) {},
      [&](const Batch& batch) {
        std::vector<int> place_of(static_cast<std::size_t>(image_count(inputs)), kNone);
        for (int place = 0; place < std::ssize(batch.images()); ++place) {
          if (batch.images()[place] != kNone) {
            place_of[batch.images()[place]] = place;
          }
        }
        for (std::size_t i = 0; i < images.size(); ++i) {
          if (const int place = place_of[images[i]]; place != kNone) {
            for (std::size_t neuron = 0; neuron < neurons; ++neuron) {
              features[i * neurons + neuron] = batch.feature(place, static_cast<int>(neuron));
            }
          }
        }
      });
  return features;
}

std::vector<char> layers_at_least(const FeedForward& network, const Inputs& inputs, std::span<const int> images,
                                  float least, int layers) {
  std::vector<char> are(static_cast<std::size_t>(layers) + 1, 1);
  run(
      first_layers(network, layers), inputs, images, {},
      [&](int l, const Batch& batch) { are[l] = are[l] != 0 && batch.are_at_least(least); }, [](const Batch&) {});
  return are;
}

std::vector<double> layer_in_double(const SparseLayer& layer, float clip, std::span<const float> features) {
  const SparseMatrix& weights = layer.weights;
  const std::size_t inputs = static_cast<std::size_t>(weights.columns),
                    outputs = static_cast<std::size_t>(weights.rows);
  if (features.size() % inputs != 0) {
    throw InputError("the features do not match the layer's " + std::to_string(inputs) + " inputs");
  }
  std::vector<double> results(features.size() / inputs * outputs);
  for (std::size_t image = 0; image < features.size() / inputs; ++image) {
    const std::span<const float> x = features.subspan(image * inputs, inputs);
    for (int row = 0; row < weights.rows; ++row) {
      double sum = 0;
      for (std::int64_t i = weights.row_begin[row]; i < weights.row_begin[row + 1]; ++i) {
        sum += static_cast<double>(weights.value[i]) * static_cast<double>(x[weights.column[i]]);
      }
      results[image * outputs + row] =
          activate<double>(sum + static_cast<double>(layer.bias_of(row)), layer.least(), layer.most(clip));
    }
  }
  return results;
}

}  // namespace onchip
