// SPDX-License-Identifier: Apache-2.0
// The kernels of staged plans, as sim/ptx executes their PTX, against the reference: the same features, bit by bit.
#include "kernels/feed_forward/staged_run.hpp"
#include "model/feed_forward/data/digits.hpp"
#include "model/feed_forward/network_text.hpp"
#include "model/feed_forward/reference.hpp"
#include "sim/ptx/machine.hpp"
#include "tests/catch.hpp"

#include <cstring>
#include <deque>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <string_view>

namespace onchip {
namespace {

class InterpretedDevice {
 public:
  explicit InterpretedDevice(const StagedPlan& plan)
      : machine_(ptx::parse(compile_ptx(staged_request(plan, "sm_90")), "feed_forward_staged.ptx")) {}

  void* allocate(std::size_t bytes) {
    std::vector<std::byte>& memory = memory_.emplace_back(bytes + 256, std::byte{0xff});
    const auto place = reinterpret_cast<std::uintptr_t>(memory.data());
    std::byte* const aligned = memory.data() + (256 - place % 256) % 256;
    if (bytes > 0) {
      machine_.memory().add(std::span(aligned, bytes));
    }
    return aligned;
  }
  void pin(std::vector<std::byte>&) {}
  void fill(void* to, int byte, std::size_t bytes) { std::memset(to, byte, bytes); }
  void upload(void* to, const void* from, std::size_t bytes) { copy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) { copy(to, from, bytes); }
  void copy_layer(std::size_t, void* to, const void* from, std::size_t bytes, bool) { copy(to, from, bytes); }
  void await_layer(std::size_t) {}
  void release_layer(std::size_t) {}
  int most_blocks(const char*) { return 3; }

  template <typename A>
  void launch(const char* kernel, int blocks, int threads, std::size_t shared_bytes, const A& arguments) {
    machine_.launch(kernel, {.blocks = blocks,
                             .threads = threads,
                             .dynamic_shared_bytes = shared_bytes,
                             .parameters = std::as_bytes(std::span(&arguments, 1)),
                             .most_instructions = 1u << 28});
  }

 private:
  static void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) {
      std::memcpy(to, from, bytes);
    }
  }
  ptx::Machine machine_;
  std::deque<std::vector<std::byte>> memory_;
};

Bitmaps random_images(int count, int neurons) {
  Bitmaps images{count, neurons, {}};
  images.words.resize(static_cast<std::size_t>(count) * images.words_per_image());
  std::mt19937_64 random(7);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t share = random() % 100;
    for (int n = 0; n < neurons; ++n) {
      images.words[static_cast<std::size_t>(i) * images.words_per_image() + n / 32] |=
          std::uint32_t{random() % 100 < share} << (n % 32);
    }
  }
  return images;
}

// Each layer's features, and the categories.
void check_staged(const FeedForward& network, const Bitmaps& images, const StagedPlan& plan) {
  INFO(network.name << ", " << images.images << " images, " << text(plan));
  const StagedLayout layout = stage_network(network, plan);
  InterpretedDevice device(plan);
  StagedRun<InterpretedDevice> run(device, layout, images);
  const ReferenceResult reference = infer_reference(network, images);
  for (int repeat = 0; repeat < 2; ++repeat) {
    run.enqueue();
    CHECK(run.categories() == reference.categories);
  }
  const std::vector<std::uint32_t> entering = run.entering();
  for (std::size_t l = 1; l < entering.size(); ++l) {
    const bool drops = plan.compaction != Compaction::none && static_cast<int>(l) > layout.first_drop;
    CHECK(entering[l] == (drops ? reference.alive[l] : images.images));
  }
}

}  // namespace

TEST_CASE("staged plans have the categories of the reference in each of their ways", "[fast]") {
  const FeedForward network = read_network(
      "random:neurons=70,layers=4,degree=uniform:0..9,values=uniform:-0.3..0.5,"
      "bias=uniform:-0.3..-0.1,clip=1");
  const Bitmaps images = random_images(31, 70);
  for (const char* ways : {"", "l1", "unblocked", "l1 unblocked", "compact_on_host", "keep_dead", "copied",
                           "copied_ahead compact_on_host", "images=5 staged_bytes=180", "block_outputs=64"}) {
    check_staged(network, images, parse_staged_plan("staged block_outputs=32 staged_bytes=480 " + std::string(ways)));
  }
}

TEST_CASE("staged plans run networks that nobody chose", "[fast]") {
  for (const char* text : {
           "random:neurons=1-50-3-64,degree=uniform:0..3,bias=-0.01",
           "random:neurons=45,layers=3,degree=0,bias=-0.5",
           "random:neurons=45,layers=3,degree=2,bias=uniform:-1..1,values=uniform:-1..1,clip=none",
           "random:neurons=300-40-200,degree=power-law:1..200,values=uniform:-0.2..0.3,bias=-0.1,clip=4",
       }) {
    const FeedForward network = read_network(text);
    for (const int count : {0, 1, 14}) {
      for (const char* plan : {"staged block_outputs=64 staged_bytes=2400", "staged l1 compact_on_host"}) {
        check_staged(network, random_images(count, network.neurons.front()), parse_staged_plan(plan));
      }
    }
  }
}

TEST_CASE("the challenge's first layers by a staged plan, weights as fp16", "[slow]") {
  const FeedForward network = read_network("spdnn:1024x4");
  check_staged(network, synthetic_digits(1024, 0, 40), parse_staged_plan("staged fp16"));
}

TEST_CASE("features of a staged plan are those of the reference, bit by bit, NaN and infinity among them", "[fast]") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  // Rows of three lengths, so that two are padded, beside a feature that is NaN and one that is infinite.
  const auto layer = [](std::vector<float> bias) {
    return SparseLayer{{3, 3, {0, 3, 4, 4}, {0, 1, 2, 1}, {0.5F, -0.25F, 1, -1}}, std::move(bias)};
  };
  const FeedForward network =
      stored_network("", {layer({kNan, kInfinity, -1}), layer({-0.1F}), layer({0.1F})}, kNoClip);
  const Bitmaps images{2, 3, {5, 0}};
  for (const char* ways : {"staged staged_bytes=96", "staged l1"}) {
    check_staged(network, images, parse_staged_plan(ways));
  }
}

}  // namespace onchip
