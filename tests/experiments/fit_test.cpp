// SPDX-License-Identifier: Apache-2.0
// onchip fit.
#include "tests/experiments/command.hpp"

#include <string>

using namespace onchip;

TEST_CASE("what does not fit is an answer with numbers, and exit status 1", "[fast]") {
  const Json json = run_json("fit --hidden 20000 --density 50%", 1);
  require_prediction(json);
  CHECK(json["fits"] == false);
  CHECK(says(run("fit --hidden 20000 --density 50% --format csv").out, ",false,"));
  const std::string remedy = json.at("to_fit").at(0).at("option");
  CHECK(remedy.starts_with("--hidden "));
  CHECK(run_json("fit --density 50% " + remedy).at("fits") == true);
  CHECK(run_json("predict --density 50% " + remedy).at("runs") == true);
  require_prediction(run_json("predict --hidden 20000 --density 50%", 1));
}

TEST_CASE("where nothing fits the fastest library is named with its time", "[fast][long]") {
  for (const char* verb : {"predict", "fit"}) {
    const std::string question = verb + std::string(" --cell lstm --hidden 12000 --density 50%");
    const Json json = run_json(question, 1);
    CHECK(json.at("fits") == false);
    CHECK(json.at("instead").at("plan").at("family") == "cublas_graph");
    CHECK(json.at("instead").at("step_us") > 100);
    CHECK(says(run(question).out, "cublas_graph: "));
  }
  // What does not stay on the SMs may still be streamed from L2.
  const Json streamed = run_json("fit --cell lstm --hidden 6400 --density 10%", 1).at("instead");
  CHECK(streamed.at("plan").at("family") == "sparse_persistent");
  CHECK(!run_json("predict --hidden 2304").contains("instead"));
  const Json library = run_json("predict --hidden 2304 --family cudnn");
  CHECK(library.at("plan") == Json{{"family", "cudnn"}, {"text", "cudnn"}});
  CHECK(library.at("step_us") > 2);
  CHECK(run_json("predict --hidden 2304 --plan cudnn") == library);
  CHECK(run_json("predict --hidden 2304 --plan auto") == run_json("predict --hidden 2304"));
  for (const char* question : {"fit --family cudnn", "what-if --hidden 512 --family cublas_graph",
                               "simulate --hidden 512 --plan cusparse_graph"}) {
    require_refusal(question, "keeps nothing on the chip");
  }
}

#ifdef ONCHIP_HAS_CUDA
// Of a chip with an eighth more registers than the compiler knows of.
TEST_CASE("what the compiler spills does not fit, if it has the last word", "[fast]") {
  const std::string question =
      "fit --set sm.count=8 --set registers.per_sm=73728 --set registers.per_block=73728 --batch 1 --density 10% "
      "--granule 64 --family sparse_persistent --storage packed_pair --tier registers --rows-per-group 4 "
      "--lanes-per-row 8 --tile-rows 4";
  const Json said = run_json(question), compiled = run_json(question + " --compile");
  const int largest = compiled["network"]["hidden"], next = compiled["next"]["network"]["hidden"];
  CHECK(largest < said["network"]["hidden"]);
  CHECK(next == largest + 64);
  CHECK(compiled["compiled"]["architecture"] == "sm_90");
  CHECK_FALSE(said.contains("compiled"));
  const Json registers = compiled["next"]["resources"][0];
  CHECK(registers["used"] > registers["available"]);
  CHECK(compiled["next"]["binding"] == "registers");

  const std::string size = " --hidden " + std::to_string(next);
  CHECK(run_json(question + size)["fits"] == true);
  CHECK(run_json(question + size + " --compile", 1)["fits"] == false);
  require_refusal("fit --compile --chip p100", "no compiler target");
}

TEST_CASE("where the compiler spills the model's choice, another plan is taken, and both are said", "[fast]") {
  const std::string question =
      "fit --set sm.count=8 --set registers.per_sm=73728 --set registers.per_block=73728 --batch 1 --density 10% "
      "--hidden 2048 --family sparse_persistent --storage packed_pair --tier registers --rows-per-group 4";
  const Json said = run_json(question), compiled = run_json(question + " --compile");
  CHECK_FALSE(said.contains("refused_plan"));
  CHECK(said.at("registers_in_doubt") == true);
  CHECK(says(run(question).out, "registers are in doubt, 140 of 144 per thread: the compiler decides"));
  CHECK(compiled.at("fits") == true);
  CHECK(compiled.at("refused_plan") == said.at("plan").at("text"));
  CHECK(compiled.at("plan") != said.at("plan"));
  CHECK(says(run(question + " --compile").out, "the compiler spills it"));
}

TEST_CASE("fit and predict have the same plan where they may use the same tiers, and say which", "[fast]") {
  for (const char* network :
       {"--hidden 2304", "--cell lstm --hidden 5632 --density 10%", "--hidden 12000 --density 5%"}) {
    CAPTURE(network);
    const std::string asked = network;
    const Json fit = run_json("fit " + asked), predicted = run_json("predict " + asked);
    CHECK(fit.at("tier") != "streamed");
    CHECK(run_json("predict --tier shared_memory " + asked).at("plan") == fit.at("plan"));
    CHECK(run_json("fit --tier streamed " + asked).at("plan") == predicted.at("plan"));
  }
}

#else
TEST_CASE("without CUDA no compiler has the last word", "[fast]") {
  require_refusal("fit --hidden 512 --compile", "built without CUDA");
}

#endif
