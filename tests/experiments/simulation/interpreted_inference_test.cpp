// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement/interpreted/interpreted_program.hpp"

#include "kernels/feed_forward/network/batched_inference.hpp"
#include "kernels/feed_forward/programs.hpp"
#include "model/base/error.hpp"
#include "model/feed_forward/data/digits.hpp"
#include "model/feed_forward/dense_layer/dense_layer.hpp"
#include "model/feed_forward/files/network_text.hpp"
#include "model/feed_forward/plan/off_chip_price.hpp"
#include "model/feed_forward/plan/search.hpp"
#include "model/feed_forward/reference.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/feed_forward/feed_forward_cases.hpp"
#include "tests/model/feed_forward/plans.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

namespace onchip {
namespace {

constexpr int kSms = 3;  // so that a block of threads has several tiles

const std::vector<std::string> kAnyNetworks{
    "random:neurons=100-300-64-128,degree=16,bias=-0.1",
    "random:neurons=100,layers=9,degree=power-law:1..90,values=uniform:-1..1,clip=none",
    "random:neurons=33-1-17-200,degree=uniform:0..20,values=uniform:-1..1,bias=uniform:-0.5..0.5,clip=2",
    "random:neurons=90,layers=3,degree=0,bias=0.5",
    "random:neurons=64,layers=12,degree=8,values=uniform:0.1..0.2,precision=bf16,bias=-0.2",
    "random:neurons=70-90-40-10,degree=uniform:0..30,values=uniform:-1..1,bias=uniform:-0.5..0.5,clip=1,logits=yes",
    "random:neurons=80,layers=4,degree=6,values=uniform:-1..1,bias=0,logits=yes",
    "spdnn:64x8"};

// Equal bits, but for those of NaN.
bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y) || (std::isnan(x) && std::isnan(y));
  });
}

std::vector<int> all_of(int count) {
  std::vector<int> images(static_cast<std::size_t>(count));
  std::iota(images.begin(), images.end(), 0);
  return images;
}

}  // namespace

TEST_CASE("interpreted kernels of blocks have the categories of the reference", "[fast]") {
  std::vector<std::string> networks{"random:neurons=100-300-64-128,degree=16,blocks=16,bias=-0.1",
                                    "random:neurons=128,layers=14,degree=24,blocks=16,values=0.125,bias=-0.5,clip=4",
                                    "random:neurons=16,layers=5,degree=3,blocks=16,bias=-0.05",
                                    "random:neurons=128,layers=6,degree=24,blocks=16,values=uniform:0.05..0.2,"
                                    "precision=fp16,bias=-0.3,clip=4",
                                    "spdnn:64x7,moved=0.1,shuffle=yes"};
  for (int seed = 1; seed <= 3; ++seed) {
    networks.push_back(random_blocks_network(seed, 300, 6));
  }
  std::uint64_t seed = 1;
  for (const std::string& text : networks) {
    INFO(text);
    const FeedForward network = read_network(text);
    const NetworkStructure structure = find_structure(network);
    const BlocksGeometry geometry = blocks_geometry(network, structure, 4, 0, {});
    const BlocksLayout layout = pack_blocks(network, structure, geometry);
    const BlocksPlan plan = dropping_plan(find_chip("h100_sxm").chip, geometry);
    InferenceExecutor inference = inference_on<InterpretedProgram>(blocks_program(layout, plan, 150, kSms, "sm_90"));
    check_counts(inference, network, {0, 1, 150}, seed);
    CHECK_THROWS_AS(inference.upload(random_images(151, network.neurons.front(), 1)), InputError);
  }
}

TEST_CASE("weights in fewer bytes leave every feature as fp16 has it, bit by bit", "[fast]") {
  const std::string same = "random:neurons=100-128-64-128,degree=24,blocks=16,bias=-0.1,clip=4,seed=3",
                    coded = same + ",values=uniform:0.02..0.3,precision=fp8";
  for (const auto& [text, bytes, is_whole] :
       {std::tuple{same + ",values=0.09375", 0, false}, std::tuple{coded, 1, false},
        std::tuple{coded + ",moved=0.05", 1, false}, std::tuple{coded, 1, true}}) {
    INFO(text << (is_whole ? ", whole layers" : ""));
    const FeedForward network = read_network(text);
    const NetworkStructure structure = is_whole ? whole_layers(network) : find_structure(network);
    const Bitmaps images = random_images(60, network.neurons.front(), 11);
    const BlocksGeometry geometry = blocks_geometry(network, structure, 4, 0, {});
    REQUIRE(geometry.weight_bytes == bytes);
    BlocksGeometry in_fp16 = geometry;
    in_fp16.weight_bytes = 2;
    in_fp16.weight_factor = 1;
    BlocksPlan plan{4, {{1, {3, 2, false}}, {2, {2, 2, true}}, {3, {1, 2, false}}}, {2, 1, false}, {2, 2, true}};
    std::vector<std::vector<std::byte>> features;  // of both forms: what one phase leaves for the next
    for (const BlocksGeometry& of : {geometry, in_fp16}) {
      const BlocksLayout layout = pack_blocks(network, structure, of);
      const InferenceProgram program = blocks_program(layout, plan, images.images, kSms, "sm_90");
      const auto interpreted = std::make_shared<InterpretedProgram>(program);
      interpreted->limit(3'000'000);
      InferenceExecutor inference(program, interpreted);
      inference.upload(images);
      CHECK(inference.infer().categories == infer_reference(network, images).categories);
      const std::size_t bytes_of_all = 4 * static_cast<std::size_t>(of.feature_words({1, 2, false})) * images.images;
      for (std::size_t array = 0; array < program.arrays.size(); ++array) {
        if (program.arrays[array].bytes == bytes_of_all && program.arrays[array].contents.empty()) {
          interpreted->read(static_cast<int>(array), features.emplace_back(bytes_of_all));
        }
      }
    }
    REQUIRE(features.size() == 4);
    CHECK(std::ranges::any_of(features[0], [](std::byte byte) { return byte != std::byte{}; }));
    CHECK(features[0] == features[2]);
    CHECK(features[1] == features[3]);
  }
}

TEST_CASE("interpreted kernels of whole layers have the categories of the reference", "[fast]") {
  std::uint64_t seed = 400;
  for (const char* text : {"random:neurons=300,layers=4,degree=75,values=0.03125,bias=-0.3",
                           "random:neurons=100-260-64-150,degree=uniform:5..60,values=0.0625,bias=-0.2,clip=4",
                           "random:neurons=40,layers=5,degree=10,bias=-0.1"}) {
    INFO(text);
    const FeedForward network = read_network(text);
    const NetworkStructure structure = whole_layers(network);
    const BlocksGeometry geometry = blocks_geometry(network, structure, 4, 0, {});
    const BlocksLayout layout = pack_blocks(network, structure, geometry);
    const auto plan = std::get<DenseLayerPlan>(parse_feed_forward_plan(
        "dense_layer warps=4 phases=2:8x1," + std::to_string(network.layers()) + ":5x1! lower=3x1 wide=2x2!"));
    InferenceExecutor inference = inference_on<InterpretedProgram>(blocks_program(layout, plan, 70, kSms, "sm_90"));
    check_counts(inference, network, {1, 70}, seed);
  }
}

TEST_CASE("lower bounds end where all features are at the clip, rows without a neuron or not", "[fast]") {
  for (const int neurons : {128, 100}) {  // of four warps with two blocks each
    INFO(neurons << " neurons");
    const FeedForward network = read_network("random:neurons=" + std::to_string(neurons) +
                                             ",layers=60,degree=16,blocks=16,values=0.5,bias=-0.1,clip=4");
    const NetworkStructure structure = find_structure(network);
    const auto instructions = [&](const InferenceProgram& program) {
      const auto interpreted = std::make_shared<InterpretedProgram>(program);
      InferenceExecutor inference(program, interpreted);
      check_categories(inference, network, random_images(20, neurons, 1));
      std::uint64_t lower = 0, all = 0;
      for (const InterpretedProgram::Launch& launch : interpreted->launches()) {
        lower += launch.label == "lower bounds" ? launch.counts.warp_instructions : 0;
        const bool is_phase = launch.label.starts_with("to layer") && !says(launch.label, ":");
        all += is_phase ? launch.counts.warp_instructions : 0;
      }
      CHECK(lower > 0);
      CHECK(4 * lower < all);
    };
    const BlocksGeometry geometry = blocks_geometry(network, structure, 4, 0, {});
    const BlocksLayout layout = pack_blocks(network, structure, geometry);
    REQUIRE(layout.keeps_clipped);
    const Chip chip = find_chip("h100_sxm").chip;
    instructions(blocks_program(layout, dropping_plan(chip, geometry), 20, kSms, "sm_90"));
    StreamedPlan plan = choose_streamed_plan(chip, network, structure);
    plan.warps = plan.sms = 2;
    const BlocksLayout streamed = pack_blocks(network, structure, streamed_geometry(network, structure, plan.chain));
    instructions(streamed_program(streamed, plan, 20, kSms + 1, "sm_90"));
  }
}

TEST_CASE("images on a tie come out as fp32 has them, from rows of any length", "[slow]") {
  // Some image's largest sum is the bias with the other sign: no bound decides.
  for (const auto& [text, images] :
       {std::pair{"random:neurons=64,layers=2,degree=16,blocks=16,values=0.5,bias=-4", 90},
        std::pair{"random:neurons=2560,layers=1,degree=40,blocks=16,values=0.125,bias=-3.5", 6},
        std::pair{"random:neurons=64-16640,degree=8,blocks=16,values=0.5,bias=-4", 20}}) {  // through device memory
    INFO(text);
    const FeedForward network = read_network(text);
    const NetworkStructure structure = find_structure(network);
    const Chip chip = find_chip("h100_sxm").chip;
    const bool is_wide = network.neurons.back() > 16384;
    StreamedPlan streamed = choose_streamed_plan(chip, network, structure);
    streamed.sms = kSms;
    const BlocksGeometry geometry =
        is_wide ? streamed_geometry(network, structure, streamed.chain) : blocks_geometry(network, structure, 4, 0, {});
    const BlocksLayout layout = pack_blocks(network, structure, geometry);
    InferenceExecutor inference = inference_on<InterpretedProgram>(
        is_wide ? streamed_program(layout, streamed, images, kSms, "sm_90")
                : blocks_program(layout, dropping_plan(chip, geometry), images, kSms, "sm_90"));
    const Bitmaps drawn = random_images(images, network.neurons.front(), 5);
    inference.upload(drawn);
    const Inference result = inference.infer();
    CHECK(result.undecided_wide > 0);
    CHECK(result.categories == infer_reference(network, drawn).categories);
  }
}

TEST_CASE("interpreted streamed kernels have the categories of the reference", "[fast]") {
  std::vector<std::string> networks{"random:neurons=100-300-64-128,degree=16,blocks=16,bias=-0.1",
                                    "random:neurons=128,layers=14,degree=24,blocks=16,values=0.125,bias=-0.5,clip=4",
                                    "spdnn:256x12"};
  for (int seed = 4; seed <= 6; ++seed) {
    networks.push_back(random_blocks_network(seed, 200, 6) + ",values=0.0625");
  }
  std::uint64_t seed = 200;
  int drawn = 0;
  for (const std::string& text : networks) {
    const FeedForward network = read_network(text);
    const NetworkStructure structure = find_structure(network);
    StreamedPlan plan = choose_streamed_plan(find_chip("h100_sxm").chip, network, structure);
    ++drawn;
    plan.groups = drawn % 3 == 0 ? 8 : drawn % 3 == 1 ? 4 : 2;
    plan.chain = 1 + drawn % 2;
    plan.warps = 2;
    plan.sms = 1 + drawn % 3;
    plan.at_once = 1 + drawn / 2 % 2;
    INFO(text << ": " << to_string(plan));
    const BlocksLayout layout = pack_blocks(network, structure, streamed_geometry(network, structure, plan.chain));
    InferenceExecutor inference =
        inference_on<InterpretedProgram>(streamed_program(layout, plan, 150, kSms + drawn % 2, "sm_90"));
    check_counts(inference, network, {0, 1, 150}, seed);
  }
}

TEST_CASE("a streamed kernel that gives up waiting has no results", "[fast]") {
  const FeedForward network = read_network("spdnn:256x4");
  const NetworkStructure structure = find_structure(network);
  StreamedPlan plan = choose_streamed_plan(find_chip("h100_sxm").chip, network, structure);
  plan.warps = 2;
  plan.sms = kSms;
  const BlocksLayout layout = pack_blocks(network, structure, streamed_geometry(network, structure, plan.chain));
  InferenceProgram program = streamed_program(layout, plan, 40, kSms, "sm_90");
  constexpr std::string_view kBound = "kPolls = 1 << 20";
  std::string source;
  for (ProgramKernel& kernel : program.kernels) {
    if (const std::size_t place = kernel.request.source.find(kBound); place != std::string_view::npos) {
      if (source.empty()) {
        source = std::string(kernel.request.source).replace(place, kBound.size(), "kPolls = 1");
      }
      kernel.request.source = source;  // the same of all
    }
  }
  InferenceExecutor inference = inference_on<InterpretedProgram>(program);
  inference.upload(random_images(40, 256, 3));
  CHECK_THROWS_WITH(inference.infer(), Catch::Matchers::Contains("gave up waiting"));
}

TEST_CASE("interpreted unstructured kernels have the categories of the reference, of any network", "[fast]") {
  std::uint64_t seed = 100;
  for (const std::string& text : kAnyNetworks) {
    const FeedForward network = read_network(text);
    for (const ReadOrder order : {ReadOrder::ascending, ReadOrder::bank_aware}) {
      for (const int images_each : {0, 1, 2, 8}) {  // of a tile; 0: as chosen
        UnstructuredPlan plan = dropping_plan(find_chip("h100_sxm").chip, network, order);
        for (UnstructuredPhase& phase : plan.phases) {
          phase.tile = images_each == 0 ? phase.tile : UnstructuredTile{images_each, images_each < 8};
        }
        plan.warps = images_each == 0 ? 4 : 2;
        INFO(text << ": " << to_string(plan));
        const UnstructuredLayout layout = pack_unstructured(network, plan);
        InferenceExecutor inference =
            inference_on<InterpretedProgram>(unstructured_program(layout, 100, kSms, "sm_90"));
        check_counts(inference, network, {0, 1, 100}, seed);
      }
    }
  }
}

TEST_CASE("images of any values enter interpreted kernels as lists, and bitmaps with them", "[fast]") {
  std::uint64_t seed = 200;
  for (const std::string& text : kAnyNetworks) {
    INFO(text);
    const FeedForward network = read_network(text);
    const UnstructuredPlan plan = dropping_plan(find_chip("h100_sxm").chip, network);
    const UnstructuredLayout layout = pack_unstructured(network, plan);
    InferenceExecutor lists =
        inference_on<InterpretedProgram>(unstructured_program(layout, 70, kSms, "sm_90", {.takes_lists = true}));
    InferenceExecutor bitmaps = inference_on<InterpretedProgram>(unstructured_program(layout, 70, kSms, "sm_90"));
    const int neurons = network.neurons.front();
    for (const int count : {0, 1, 70}) {
      check_categories(lists, network, random_lists(count, neurons, ++seed));
      const Bitmaps ones = random_images(count, neurons, seed);
      check_categories(lists, network, ones);
      check_categories(bitmaps, network, to_lists(ones));
    }
    CHECK_THROWS_WITH(bitmaps.upload(IndexLists{neurons, {0, 1}, {0}, {0.5F}}),
                      "image 0 has the value 0.500000 at neuron 0; a bitmap holds 0 and 1");
    CHECK_THROWS_AS(bitmaps.upload(random_images(71, neurons, 1)), InputError);
    CHECK_THROWS_AS(lists.upload(random_lists(1, neurons + 1, 1)), InputError);
    CHECK_THROWS_AS(lists.upload(IndexLists{neurons, {0, 1}, {neurons}, {1}}), InputError);
  }
}

TEST_CASE("interpreted kernels keep the features of any layer, bit by bit those of the reference", "[fast]") {
  std::uint64_t seed = 300;
  for (const std::string& text : kAnyNetworks) {
    const FeedForward network = read_network(text);
    const IndexLists images = random_lists(70, network.neurons.front(), ++seed);
    for (int layers = 1; layers <= network.layers(); ++layers) {
      INFO(text << " after " << layers << " layers");
      const FeedForward first = first_layers(network, layers);
      const UnstructuredPlan plan = dropping_plan(find_chip("h100_sxm").chip, first);
      const UnstructuredLayout layout = pack_unstructured(first, plan);
      InferenceExecutor inference = inference_on<InterpretedProgram>(
          unstructured_program(layout, 80, kSms, "sm_90", {.takes_lists = true, .keeps_features = true}));
      inference.upload(images);
      const Inference counts = inference.infer();
      const std::vector<float> features = inference.features();
      CHECK(same(features, reference_features(network, images, all_of(70), layers)));
      CHECK(counts.kept == std::ssize(infer_reference(first, images).categories));
    }
  }
}

TEST_CASE("features lie beyond 2^32 elements where there are so many", "[fast]") {
  // The list behind the first phase already has 2^22 positions of 1024 features each, whose memory is not there.
  constexpr std::size_t kNeurons = 1024, kBefore = std::size_t{1} << 22, kImages = 40, kRoom = std::size_t{1} << 25;
  const FeedForward network = read_network("random:neurons=1024,layers=6,degree=8,values=uniform:-1..1");
  const UnstructuredPlan plan = dropping_plan(find_chip("h100_sxm").chip, network);
  const UnstructuredLayout layout = pack_unstructured(network, plan);
  const InferenceProgram program = unstructured_program(layout, kBefore + kImages, kSms, "sm_90");
  ptx::Machine machine(ptx::parse(compile_ptx(program.kernels.front().request), "unstructured.ptx"));
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::byte*> places;
  std::vector<std::size_t> features;  // arrays
  for (const ProgramArray& array : program.arrays) {
    std::vector<std::byte>& made = memory.emplace_back(std::min(array.bytes, kRoom));
    std::ranges::copy(array.contents, made.begin());
    machine.memory().add(std::span(made));
    places.push_back(made.data());
    if (array.bytes == sizeof(float) * kNeurons * (kBefore + kImages)) {
      const auto begin = reinterpret_cast<std::uintptr_t>(made.data()) - sizeof(float) * kNeurons * kBefore;
      places.back() = reinterpret_cast<std::byte*>(begin);
      features.push_back(memory.size() - 1);
    }
  }
  REQUIRE(features.size() == std::min<std::size_t>(plan.phases.size() - 1, 2));
  const Bitmaps images = random_images(kImages, kNeurons, 1);
  std::ranges::copy(std::as_bytes(std::span(images.words)), places[program.bitmaps]);
  *array_at<std::uint32_t>(places, program.image_count) = kImages;
  std::uint32_t& kept = array_at<std::uint32_t>(places, program.results)[(kBefore + kImages + 31) / 32 + 1];
  kept = kBefore;
  const ProgramNode node = program.nodes(places)[1];
  machine.launch(program.kernels.front().entry, {.blocks = node.blocks,
                                                 .threads = node.threads,
                                                 .dynamic_shared_bytes = node.shared_bytes,
                                                 .parameters = node.arguments});
  REQUIRE((kept > kBefore && kept <= kBefore + kImages));
  const auto* ids = array_at<std::uint32_t>(places, static_cast<int>(features.front()) + 1) + kBefore;
  const std::vector<int> alive(ids, ids + (kept - kBefore));
  std::vector<float> found(alive.size() * kNeurons);
  std::memcpy(found.data(), memory[features.front()].data(), sizeof(float) * found.size());
  CHECK(same(found, reference_features(network, images, alive, plan.phases.front().end_layer)));
}

}  // namespace onchip
