// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/network/plan_cache.hpp"

#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/cubin_cache.hpp"
#include "model/base/parallel.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <optional>
#include <span>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace onchip {
namespace {

constexpr std::string_view kMagic = "onchip plan 1\n";

// Of pieces of bytes, eight at once.
struct Hash {
  std::uint64_t value = 0xcbf29ce484222325u;

  void add(std::span<const std::byte> bytes) {
    const auto mix = [&](std::uint64_t word) {
      value = (value ^ word) * 0x9e3779b97f4a7c15u;
      value ^= value >> 32;
    };
    mix(bytes.size());
    for (; bytes.size() >= sizeof(std::uint64_t); bytes = bytes.subspan(sizeof(std::uint64_t))) {
      std::uint64_t word;
      std::memcpy(&word, bytes.data(), sizeof(word));
      mix(word);
    }
    std::uint64_t rest = 0;
    std::memcpy(&rest, bytes.data(), bytes.size());
    mix(rest);
  }
  template <typename T>
  void add(const std::vector<T>& values) {
    add(std::as_bytes(std::span(values)));
  }
};

template <typename T>
constexpr bool kIsVector = false;
template <typename T>
constexpr bool kIsVector<std::vector<T>> = true;
template <>
constexpr bool kIsVector<std::string> = true;

// Numbers and vectors, one after another, to put(bytes).
template <typename Put>
struct Output {
  Put put;

  template <typename... Values>
  void operator()(const Values&... values) {
    (add(values), ...);
  }
  template <typename T>
  void add(const T& value) {
    if constexpr (kIsVector<T>) {
      add(std::uint64_t{value.size()});
      put(std::as_bytes(std::span(value)));
    } else {
      static_assert(std::is_trivially_copyable_v<T>);
      put(std::as_bytes(std::span(&value, 1)));
    }
  }
};

template <typename Put>
Output(Put) -> Output<Put>;  // which clang 14 does not deduce

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : file_(path, std::ios::binary | std::ios::ate) {
    left_ = file_ ? static_cast<std::uint64_t>(file_.tellg()) : 0;
    file_.seekg(0);
  }
  template <typename... Values>
  void operator()(Values&... values) {
    (take(values), ...);
  }
  bool is_good() const { return is_good_ && file_.good(); }
  bool end() {
    const std::uint64_t sum = hash_.value;
    std::uint64_t written = 0;
    take(written);
    return is_good() && left_ == 0 && written == sum;
  }

 private:
  template <typename T>
  void take(T& value) {
    if constexpr (kIsVector<T>) {
      std::uint64_t size = 0;
      take(size);
      if (!is_good() || size > left_ / sizeof(value[0])) {
        is_good_ = false;
        return;
      }
      value.resize(size);
      read(std::as_writable_bytes(std::span(value)));
    } else {
      read(std::as_writable_bytes(std::span(&value, 1)));
    }
  }
  void read(std::span<std::byte> bytes) {
    is_good_ = is_good_ && bytes.size() <= left_;
    if (is_good_) {
      file_.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      left_ -= bytes.size();
      hash_.add(bytes);
    }
  }
  std::ifstream file_;
  std::uint64_t left_ = 0;
  bool is_good_ = true;
  Hash hash_;
};

// What is written, and read: all of it.
template <typename Archive, typename Blocks>
void for_each_field(Archive& archive, Blocks& blocks) {
  auto& [found, layout] = blocks;
  auto& [geometry, clip, scale, records, remainder, remainder_begin, input_neurons, input_places, exact, slack,
         underflow, monotone, keeps_clipped] = layout;
  auto& [weight, slice_begin, layer_slice, bias, rows] = exact;
  archive(found, geometry, clip, scale, records, remainder, remainder_begin, input_neurons, input_places, weight,
          slice_begin, layer_slice, bias, rows, slack, underflow, monotone, keeps_clipped);
}

std::optional<PackedBlocks> load(const std::filesystem::path& path, const std::string& key) {
  if (!is_cached(path)) {
    return std::nullopt;
  }
  Reader reader(path);
  std::string magic, of_file;
  reader(magic, of_file);
  if (!reader.is_good() || magic != kMagic || of_file != key) {
    return std::nullopt;
  }
  PackedBlocks blocks{};
  for_each_field(reader, blocks);
  return reader.end() ? std::optional(std::move(blocks)) : std::nullopt;
}

void store(const std::filesystem::path& path, const std::string& key, const PackedBlocks& blocks) {
  std::uintmax_t bytes = 0;
  Output count{[&](std::span<const std::byte> some) { bytes += some.size(); }};
  for_each_field(count, blocks);
  if (bytes > kMostCachedBytes / 2) {
    return;
  }
  store_cached(path, bytes, [&](OutputFile& file) {
    Hash hash;
    Output write{[&](std::span<const std::byte> some) {
      hash.add(some);
      file.write({reinterpret_cast<const char*>(some.data()), some.size()});
    }};
    write(std::string(kMagic), key);
    for_each_field(write, blocks);
    write(std::uint64_t{hash.value});
  });
}

// Of the program or library that this is in: another build may pack otherwise.
std::string this_build() {
  Dl_info library{};
  std::error_code ignored;
  if (dladdr(reinterpret_cast<const void*>(&this_build), &library) == 0 || library.dli_fname == nullptr) {
    return {};
  }
  const std::filesystem::path file = library.dli_fname;
  const auto written = std::filesystem::last_write_time(file, ignored).time_since_epoch().count();
  return std::to_string(std::filesystem::file_size(file, ignored)) + " " + std::to_string(written);
}

std::string numbers_of(const Chip& chip) {
  std::string text = chip.architecture;
  const auto add = [&](const auto& number) { text.append(reinterpret_cast<const char*>(&number), sizeof(number)); };
  for (const ChipKey& key : chip_keys()) {
    add(chip.*key.member);
  }
  add(chip.cost);
  return hash_text(text);
}

}  // namespace

std::string numbers_of(const Activity& activity) {
  Hash hash;
  hash.add(activity.alive);
  return std::to_string(activity.images) + (activity.are_binary ? " " : " gray ") + std::to_string(activity.settled) +
         " " + std::to_string(hash.value);
}

PlanCache::PlanCache(const FeedForward& network) : directory_(cache_directory()) {
  if (directory_.empty()) {
    return;
  }
  std::vector<std::uint64_t> layers(static_cast<std::size_t>(network.layers()));
  parallel_for(network.layers(), all_cores(), [&](int l) {
    const SparseLayer layer = network.layer(l);
    Hash hash;
    hash.add(layer.weights.row_begin);
    hash.add(layer.weights.column);
    hash.add(layer.weights.value);
    hash.add(layer.bias);
    hash.add(std::as_bytes(std::span(&layer.is_linear, 1)));
    layers[l] = hash.value;
  });
  Hash all;
  all.add(layers);
  all.add(network.neurons);
  all.add(std::as_bytes(std::span(&network.clip, 1)));
  network_ = this_build() + "\n" + std::to_string(network.layers()) + " layers " + std::to_string(all.value) + "\n";
}

template <typename Value, typename Load, typename Store>
Value PlanCache::kept(const std::string& what, const std::function<Value()>& make, const Load& load,
                      const Store& store) {
  if (directory_.empty()) {
    found_ = false;
    return make();
  }
  const std::string key = network_ + what;
  const std::filesystem::path path = directory_ / (hash_text(key) + ".plan");
  if (std::optional<Value> value = load(path, key)) {
    touch(path);
    return std::move(*value);
  }
  found_ = false;
  Value value = make();
  store(path, key, value);
  return value;
}

Found<std::string> PlanCache::plan(const std::string& what, const Chip& chip, const std::string& images,
                                   const std::function<Found<std::string>()>& make) {
  // A plan's text, or behind a mark why there is none.
  constexpr char kNone = '!';
  const std::function<std::string()> text = [&] {
    const Found<std::string> made = make();
    return made ? *made : kNone + made.why();
  };
  const std::string plan =
      kept<std::string>("plan of " + what + "\n" + numbers_of(chip) + "\n" + images, text, load_cached,
                        [](const auto& path, const auto& key, const auto& value) { store_cached(path, key, value); });
  return plan.starts_with(kNone) ? Found<std::string>::nothing(plan.substr(1)) : Found<std::string>(plan);
}

PackedBlocks PlanCache::blocks(const std::string& how, const std::function<PackedBlocks()>& make) {
  return kept<PackedBlocks>("layout of " + how, make, load, store);
}

}  // namespace onchip
