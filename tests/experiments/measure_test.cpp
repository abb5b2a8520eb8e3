// SPDX-License-Identifier: Apache-2.0
// onchip measure, as far as it goes without a GPU.
#include "tests/experiments/command.hpp"
#ifdef ONCHIP_HAS_CUDA
#include "experiments/measurement/measurement.hpp"
#endif

#include <memory>
#include <random>
#include <string>

using namespace onchip;

TEST_CASE("measuring without a GPU is one clear line", "[fast]") {
  // An empty list of visible devices hides the GPU of a machine that has one.
  require_refusal("measure --hidden 512", "CUDA", "CUDA_VISIBLE_DEVICES=");
  require_refusal("calibrate", "CUDA", "CUDA_VISIBLE_DEVICES=");
}

#ifdef ONCHIP_HAS_CUDA
TEST_CASE("a plan of a feed-forward network that cannot be is refused before anything is read", "[fast]") {
  require_refusal("measure --network spdnn:1024x120 --plan 'staged images=0'", "images to be a whole number from 1");
  require_refusal("measure --network spdnn:1024x120 --plan stagd", "did you mean 'staged'?");
  require_refusal("measure --network spdnn:1024x120 --baselines --batch 2", "--batch contradicts --network");
  require_refusal("measure --network spdnn:1024x120 --baselines --gpus 2", "--gpus contradicts --baselines");
  require_refusal("measure --network spdnn:1024x120 --gpus 2 --split halves", "expected dealt or contiguous");
  require_refusal("measure --network spdnn:1024x120 --image-order survivors", "expected given or survivors-first");
}

TEST_CASE("a plan compiles without a GPU", "[fast]") {
  const Json json = run_json("measure --hidden 1024 --density 10% --compile-only --arch sm_90");
  CHECK(json.at("spill_bytes") == 0);
  CHECK(json.at("registers") > 16);
  CHECK(json.at("weights_per_thread") > 0);
  CHECK(json.at("predicted_registers").is_number());
  require_refusal("measure --hidden 512 --compile-only --arch sm_900", "did you mean");
  const Run without = run("measure --hidden 512 --compile-only --arch sm_90", "ONCHIP_NVRTC=/nowhere/libnvrtc.so");
  CHECK(without.status == 2);
  CHECK(says(without.err, "/nowhere/libnvrtc.so, named by ONCHIP_NVRTC, not found"));
  CHECK(run("predict --hidden 512", "ONCHIP_NVRTC=/nowhere/libnvrtc.so").status == 0);
  require_refusal("measure --hidden 60000 --density 1 --tier registers --compile-only", "weights per thread");
  require_refusal("measure --hidden 512 --arch sm_90", "--compile-only");
}

TEST_CASE("a feed-forward network's kernels compile without a GPU, by a plan of any family", "[fast]") {
  const std::string of =
      "measure --chip h100_sxm --images digits:1000 --compile-only --network random:neurons=96,layers=3,degree=4";
  const std::string plan = "unstructured ascending warps=16 phases=2:16,3:8!";
  const Json json = run_json(of + " --plan '" + plan + "'");
  CHECK(json.at("plan") == plan);
  CHECK(json.at("kernels").size() == 2);
  CHECK(json.at("kernels")[0].at("registers") > 16);
  require_refusal(of + " --plan 'unstructured ascending warps=16 phases=3:16+112'", "second places, not 112");
  require_refusal(of + " --plan 'staged images=4'", "--compile-only contradicts --plan staged");
}

TEST_CASE("a plan is checked without a GPU by executing its PTX", "[fast]") {
  const std::string small =
      "measure --hidden 127 --density 20% --batch 3 --cell gru --family sparse_persistent --interpret";
  const Json json = run_json(small);
  CHECK(json.at("correct") == true);
  CHECK(json.at("relative_error").get<double>() > 0);
  CHECK(json.at("relative_error") <= json.at("tolerance"));
  CHECK(json.at("thread_instructions").get<double>() > 1e5);
  const Run again = run(small);
  CHECK(again.status == 0);
  CHECK(says(again.out, "correct    yes: relative error"));
  CHECK(again.out == run(small).out);  // the same in every run
  const Folder folder;
  const Run captured = run(small + " --capture " + (folder / "step.trace").string());
  CHECK(captured.status == 0);
  CHECK(says(captured.out, "as they are generated"));
  for (const char* option : {"--baselines", "--floor", "--clocks", "--compile-only", "--repeats 3"}) {
    require_refusal(small + ' ' + option, "contradicts --interpret");
  }
  require_refusal("measure --hidden 512 --plan all --interpret", "'all'");
  require_refusal("measure --hidden 512 --family cudnn --interpret", "not a library's");
  require_refusal("measure --interpret --configurations nowhere.csv", "one configuration");
}

TEST_CASE("a feed-forward network is checked without a GPU by executing its PTX", "[fast]") {
  const Folder folder;
  const std::string gray = folder.write("gray.tsv", "1\t3\t0.5\n2\t7\t1\n2\t60\t0.25\n5\t1\t1\n");
  for (const std::string& of : {std::string("spdnn:64x3"), std::string("random:neurons=70-40-10,degree=7,logits=yes"),
                                std::string("spdnn:64x3 --plan 'staged block_outputs=32'"),
                                "random:neurons=64,layers=3,degree=5,bias=0 --images " + gray}) {
    const Json json = run_json("measure --chip h100_sxm --interpret --network " + of);
    CHECK(json.at("verdict") == "right");
    CHECK(json.at("thread_instructions").get<double>() > 1e3);
  }
  require_refusal("measure --network spdnn:64x3 --interpret --no-check", "contradicts --no-check");
  require_refusal("measure --network spdnn:64x3 --interpret --gpus 2", "contradicts --interpret");
  require_refusal("measure --hidden 64 --no-check", "needs --network");
}

TEST_CASE("a right kernel is right, and a wrong one wrong, with weights that amplify every rounding", "[fast]") {
  const Recurrent network{.cell = GENERATE(Cell::relu, Cell::lstm), .hidden = 127, .batch = 2};
  SparseMatrix weights = generate_mask(network.rows(), network.hidden, 0.2, 3, network.precision);
  std::mt19937 random(5);
  for (float& value : weights.value) {
    value = std::normal_distribution<float>()(random);
  }
  const ChipFile chip = find_chip("h200");
  for (const char* family : {"sparse_persistent", "dense_persistent"}) {
    Configuration configuration;
    configuration.network = network;
    configuration.constraints.family = family;
    const RecurrentPlan plan = plan_network(chip.chip, configuration, row_profile(configuration, weights)).plan;
    MeasureOptions options;
    Prepared prepared = prepare(network, plan, std::make_shared<SparseMatrix>(weights), options);
    CHECK(interpret(prepared, options).correctness.correct);
    SparseMatrix other = weights;  // a weight that the kernel has not
    other.value[100] += 1;
    prepared.matrix = std::make_shared<SparseMatrix>(other);
    CHECK_FALSE(interpret(prepared, options).correctness.correct);
  }
}

#endif
