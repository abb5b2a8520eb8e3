// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/files/network_text.hpp"

#include "model/base/error.hpp"
#include "model/base/number.hpp"
#include "model/base/numeric.hpp"
#include "model/base/parallel.hpp"
#include "model/feed_forward/data/digits.hpp"
#include "model/feed_forward/data/radix_net.hpp"
#include "model/feed_forward/data/random_network.hpp"
#include "model/feed_forward/files/network_files.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

namespace onchip {
namespace {

enum Source : unsigned { kOfficial = 1, kRandom = 2, kFiles = 4, kAny = 7 };

// What the keys say.
struct Words {
  std::vector<int> neurons;
  std::optional<int> layers;
  Degrees degrees;
  int block_rows = 1;
  std::optional<Range> values, bias;
  double negative = 0;
  std::optional<float> clip;
  double moved = 0;
  bool logits = false, shuffle = false, transpose = false;
  std::string_view order;
  std::optional<Precision> precision;
  std::uint64_t seed = 1;
};

[[noreturn]] void refuse(std::string_view key, std::string_view value, const std::string& expected) {
  throw InputError("expected " + std::string(key) + "=" + expected + "; found " + in_quotes(value));
}

template <typename T>
T number(std::string_view key, std::string_view whole, std::string_view text, T least, T most,
         const std::string& expected) {
  if (const auto value = number_in<T>(text); value && *value >= least && *value <= most) {
    return *value;
  }
  refuse(key, whole, expected);
}

// "A..B", or one number for both.
template <typename T>
std::pair<T, T> range(std::string_view key, std::string_view whole, std::string_view text, T least, T most,
                      const std::string& expected) {
  const std::size_t dots = text.find("..");
  const T low = number(key, whole, text.substr(0, dots), least, most, expected);
  const T high =
      dots == std::string_view::npos ? low : number(key, whole, text.substr(dots + 2), least, most, expected);
  if (low > high) {
    refuse(key, whole, expected);
  }
  return {low, high};
}

Range real_range(std::string_view key, std::string_view value) {
  constexpr double kMost = 1e30;
  std::string_view text = value;
  if (text.starts_with("uniform:")) {
    text.remove_prefix(text.find(':') + 1);
  }
  const auto [low, high] = range(key, value, text, -kMost, kMost, "A or uniform:A..B");
  return {low, high};
}

bool yes_or_no(std::string_view key, std::string_view value) {
  if (value != "yes" && value != "no") {
    refuse(key, value, "yes or no");
  }
  return value == "yes";
}

constexpr std::string_view kDegreeForms = "32, uniform:0..64 or power-law:1..2000";

Degrees degrees(std::string_view key, std::string_view value) {
  Degrees degrees;
  std::string_view text = value;
  if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
    const auto law = std::ranges::find(kDegreeLaws, text.substr(0, colon));
    if (law == kDegreeLaws.end()) {
      throw InputError("unknown law of degrees " + in_quotes(text.substr(0, colon)) +
                       did_you_mean(text.substr(0, colon), kDegreeLaws) +
                       "; expected degree=" + std::string(kDegreeForms));
    }
    degrees.law = static_cast<DegreeLaw>(law - kDegreeLaws.begin());
    text.remove_prefix(colon + 1);
  }
  const int least = degrees.law == DegreeLaw::power_law ? 1 : 0;
  std::tie(degrees.low, degrees.high) = range(key, value, text, least, kMaxDimension, std::string(kDegreeForms));
  return degrees;
}

struct Key {
  std::string_view name;
  unsigned sources;
  void (*take)(Words&, std::string_view key, std::string_view value);
};
constexpr double kNoLimit = 1e300;
const std::array<Key, 15> kNetworkKeys{{
    {"neurons", kRandom | kFiles,
     [](Words& words, std::string_view key, std::string_view value) {
       words.neurons.clear();
       for (std::size_t begin = 0; begin <= value.size();) {
         const std::size_t end = std::min(value.find('-', begin), value.size());
         words.neurons.push_back(
             number(key, value, value.substr(begin, end - begin), 1, kMaxDimension, "1024 or 784-300-10"));
         begin = end + 1;
       }
     }},
    {"layers", kRandom,
     [](Words& words, std::string_view key, std::string_view value) {
       words.layers = number(key, value, value, 1, 1'000'000, "a number from 1 to 1000000");
     }},
    {"degree", kRandom,
     [](Words& words, std::string_view key, std::string_view value) { words.degrees = degrees(key, value); }},
    {"blocks", kRandom,
     [](Words& words, std::string_view key, std::string_view value) {
       words.block_rows = value == "none" ? 1 : number(key, value, value, 1, kMaxDimension, "16 or none");
     }},
    {"values", kAny,
     [](Words& words, std::string_view key, std::string_view value) { words.values = real_range(key, value); }},
    {"signs", kRandom,
     [](Words& words, std::string_view key, std::string_view value) {
       words.negative = value == "positive" ? 0
                        : value == "mixed"  ? 0.5
                                            : number(key, value, value, 0.0, 1.0, "positive, mixed or a share to 1");
     }},
    {"bias", kAny,
     [](Words& words, std::string_view key, std::string_view value) { words.bias = real_range(key, value); }},
    {"clip", kAny,
     [](Words& words, std::string_view key, std::string_view value) {
       words.clip =
           value == "none" ? kNoClip : static_cast<float>(number(key, value, value, 0.0, kNoLimit, "32 or none"));
     }},
    {"logits", kAny,
     [](Words& words, std::string_view key, std::string_view value) { words.logits = yes_or_no(key, value); }},
    {"moved", kAny,
     [](Words& words, std::string_view key, std::string_view value) {
       words.moved = number(key, value, value, 0.0, 1.0, "a share from 0 to 1");
     }},
    {"shuffle", kAny,
     [](Words& words, std::string_view key, std::string_view value) { words.shuffle = yes_or_no(key, value); }},
    {"transpose", kFiles,
     [](Words& words, std::string_view key, std::string_view value) { words.transpose = yes_or_no(key, value); }},
    {"order", kFiles, [](Words& words, std::string_view, std::string_view value) { words.order = value; }},
    {"precision", kAny,
     [](Words& words, std::string_view key, std::string_view value) {
       const auto precision = std::ranges::find(kPrecisions, value, &PrecisionInfo::name);
       if (precision == kPrecisions.end()) {
         refuse(key, value, "fp16, bf16, fp32 or fp8");
       }
       words.precision = static_cast<Precision>(precision - kPrecisions.begin());
     }},
    {"seed", kAny,
     [](Words& words, std::string_view key, std::string_view value) {
       words.seed = number<std::uint64_t>(key, value, value, 0, ~std::uint64_t{0}, "a whole number");
     }},
}};

Words read_keys(std::string_view text, Source source) {
  Words words;
  std::vector<std::string_view> names, seen;
  for (const Key& key : kNetworkKeys) {
    if (key.sources & source) {
      names.push_back(key.name);
    }
  }
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string_view name = word.substr(0, equals);
    const auto key = std::ranges::find(kNetworkKeys, name, &Key::name);
    if (key == kNetworkKeys.end()) {
      throw InputError("unknown key " + in_quotes(name) + " of a network" + did_you_mean(name, names));
    }
    if (!(key->sources & source)) {
      throw InputError("the key " + in_quotes(name) + " is not for this network; its keys: " + [&] {
        std::string list;
        for (const std::string_view valid : names) {
          list += (list.empty() ? "" : ", ") + std::string(valid);
        }
        return list;
      }());
    }
    if (equals == word.size()) {
      throw InputError("expected " + std::string(name) + "=VALUE; found " + in_quotes(word));
    }
    if (std::ranges::find(seen, name) != seen.end()) {
      throw InputError("the key " + in_quotes(name) + " is there twice");
    }
    seen.push_back(name);
    key->take(words, name, word.substr(equals + 1));
  }
  return words;
}

FeedForward official(std::string_view size) {
  const std::size_t x = size.find('x');
  const auto neurons = number_in<int>(size.substr(0, x));
  const auto layers = x == std::string_view::npos ? std::nullopt : number_in<int>(size.substr(x + 1));
  if (!neurons || !layers) {
    throw InputError("expected spdnn:NEURONSxLAYERS, like spdnn:1024x120; found " + in_quotes(size));
  }
  constexpr int kMostLayers = 1'000'000;
  if (*layers > kMostLayers) {
    throw InputError("a network has at most " + std::to_string(kMostLayers) + " layers; found " +
                     std::to_string(*layers));
  }
  return radix_net(*neurons, *layers);
}

FeedForward from_random(const Words& words) {
  RandomNetwork drawn{words.neurons,
                      words.degrees,
                      words.block_rows,
                      words.values.value_or(Range{0.0625, 0.0625}),
                      words.negative,
                      words.bias.value_or(Range{-0.3, -0.3}),
                      words.clip.value_or(kChallengeClip),
                      words.seed};
  if (words.neurons.size() < 2) {
    drawn.neurons.assign(static_cast<std::size_t>(words.layers.value_or(1)) + 1,
                         words.neurons.empty() ? 1024 : words.neurons.front());
  } else if (words.layers && *words.layers + 1 != std::ssize(words.neurons)) {
    throw InputError("neurons=" + std::to_string(words.neurons.front()) + "-... names " +
                     std::to_string(words.neurons.size() - 1) + " layers, but layers=" + std::to_string(*words.layers));
  }
  return random_network(drawn);
}

constexpr std::string_view kDigits = "digits:";

struct Digits {
  int count = 0;
  std::uint64_t seed = 1;
};

Digits parse_digits(std::string_view text) {
  constexpr std::string_view kSeed = ",seed=";
  const std::string_view words = text.substr(kDigits.size());
  const std::size_t comma = std::min(words.find(','), words.size());
  const std::string_view seed = words.substr(comma);
  const auto count = number_in<int>(words.substr(0, comma));
  if (!count || *count < 0 || *count > kMostImages || !(seed.empty() || seed.starts_with(kSeed))) {
    throw InputError("expected digits:60000 or digits:60000,seed=1; found " + in_quotes(text));
  }
  return {*count, seed.empty() ? 1
                               : number<std::uint64_t>("seed", seed.substr(1), seed.substr(kSeed.size()), 0,
                                                       ~std::uint64_t{0}, "a whole number")};
}

int sampled_image(int i, int sample, int of) {
  return static_cast<int>(std::int64_t{i} * of / sample);
}

}  // namespace

FeedForward read_network(std::string_view text) {
  constexpr std::string_view kOfficialName = "spdnn:", kRandomName = "random:";
  // The longest that is a file, even with a comma.
  std::size_t end = text.size();
  std::error_code ignored;
  while (end != std::string_view::npos && !std::filesystem::exists(std::string(text.substr(0, end)), ignored)) {
    end = end == 0 ? std::string_view::npos : text.rfind(',', end - 1);
  }
  const Source source = end != std::string_view::npos     ? kFiles
                        : text.starts_with(kOfficialName) ? kOfficial
                        : text.starts_with(kRandomName)   ? kRandom
                                                          : kFiles;
  if (end == std::string_view::npos) {
    end = source == kRandom ? kRandomName.size() : std::min(text.find(','), text.size());
  }
  const std::string_view name = text.substr(0, end);
  const Words words = read_keys(text.substr(source == kRandom ? end : std::min(end + 1, text.size())), source);
  FeedForward network;
  if (source == kRandom) {
    network = from_random(words);
  } else if (source == kOfficial) {
    network = official(name.substr(kOfficialName.size()));
  } else {
    network =
        open_network(std::filesystem::path(name),
                     {words.neurons.empty() ? 0 : words.neurons.front(), {}, words.clip, words.transpose, words.order});
  }
  network.clip = words.clip.value_or(network.clip);
  Perturbation change{words.shuffle, {}, {}, words.moved, words.seed};
  if (source != kRandom) {
    change.values = words.values;
    change.bias = words.bias;
  }
  if (change.shuffle || change.values || change.bias || change.moved > 0) {
    network = perturbed(std::move(network), change);
  }
  if (words.precision) {
    network = rounded_to(*words.precision, std::move(network));
  }
  if (words.logits) {
    network.layer = [make = std::move(network.layer), last = network.layers() - 1](int l) {
      SparseLayer layer = make(l);
      layer.is_linear = l == last;
      return layer;
    };
  }
  network.name = text;
  return network;
}

FeedForward rounded_to(Precision precision, FeedForward network) {
  network.layer = [make = std::move(network.layer), precision](int l) {
    SparseLayer layer = make(l);
    check_representable(layer, precision, "layer " + std::to_string(l + 1));
    float largest = 0;
    for (const float value : layer.weights.value) {
      largest = std::max(largest, std::fabs(value));
    }
    const float scale = e4m3_scale(largest);
    for (float& value : layer.weights.value) {
      value = precision == Precision::fp8 ? scale * from_e4m3(to_e4m3(value / scale)) : round_to(precision, value);
    }
    return layer;
  };
  return network;
}

ImageSample sample_images(std::string_view text, int neurons, int most) {
  if (!text.starts_with(kDigits)) {
    const Inputs all = open_images(std::filesystem::path(text), neurons);
    const int count = image_count(all);
    if (count <= most) {
      return {all, count, is_binary(all)};
    }
    IndexLists some{neuron_count(all), {0}, {}, {}};
    for (int i = 0; i < most; ++i) {
      for_each_feature(all, sampled_image(i, most, count), [&](int neuron, float value) {
        some.neuron.push_back(neuron);
        some.value.push_back(value);
      });
      some.begin.push_back(some.nnz());
    }
    return {some, count, is_binary(all)};
  }
  const Digits digits = parse_digits(text);
  constexpr std::int64_t kMostBytes = std::int64_t{4} << 30;
  if (std::int64_t{std::min(digits.count, most)} * neurons / 8 > kMostBytes) {
    throw InputError(std::string(text) + ": images take a bit for each of " + std::to_string(neurons) +
                     " neurons; expected at most 4 GiB");
  }
  if (digits.count <= most) {
    return {synthetic_digits(neurons, 0, digits.count, digits.seed), digits.count};
  }
  Bitmaps some{most, neurons, {}};
  const auto words = static_cast<std::size_t>(some.words_per_image());
  some.words.resize(words * static_cast<std::size_t>(most));
  parallel_for(most, all_cores(), [&](int i) {
    const Bitmaps one = synthetic_digits(neurons, sampled_image(i, most, digits.count), 1, digits.seed);
    std::ranges::copy(one.words, some.words.begin() + static_cast<std::ptrdiff_t>(words * static_cast<std::size_t>(i)));
  });
  return {some, digits.count};
}

Inputs read_images(std::string_view text, int neurons) {
  return sample_images(text, neurons, std::numeric_limits<int>::max()).inputs;
}

}  // namespace onchip
