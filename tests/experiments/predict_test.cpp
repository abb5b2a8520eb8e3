// SPDX-License-Identifier: Apache-2.0
// onchip predict, and what the planner is asked for.
#include "tests/experiments/command.hpp"

#include <algorithm>
#include <cmath>
#include <string>

using namespace onchip;

TEST_CASE("predict answers for one network", "[fast]") {
  const Json json = run_json("predict --hidden 2304 --density 30% --batch 4");
  require_prediction(json);
  CHECK(json["fits"] == true);
  CHECK(json["network"]["hidden"] == 2304);
  CHECK(json["network"]["density"] == 0.3);
  // The plan that was printed gives the same answer when it is handed back.
  const std::string plan = json["plan"]["text"];
  CHECK(run_json("predict --hidden 2304 --density 0.3 --plan '" + plan + "'") == json);
}

TEST_CASE("predict answers for the family that is asked for, else for the faster one", "[fast]") {
  const std::string network = "predict --cell lstm --hidden 1536 --batch 8 --density 100%";
  const Json dense = run_json(network + " --family dense_persistent");
  require_prediction(dense);
  CHECK(dense["plan"]["family"] == "dense_persistent");
  CHECK(dense["plan"]["storage"] == "dense");
  const std::string plan = dense["plan"]["text"];
  CHECK(run_json(network + " --plan '" + plan + "'") == dense);
  CHECK(run_json(network) == dense);
  CHECK(run_json(network + " --family auto") == dense);
  const Json sparse = run_json(network + " --family sparse_persistent");
  CHECK(sparse["plan"]["family"] == "sparse_persistent");
  CHECK(sparse["step_us"] > dense["step_us"]);
}

TEST_CASE("predict compares the families, best first, and says why the others lost", "[fast]") {
  const std::string network = "predict --cell lstm --hidden 1536 --batch 8 --density 100%";
  const Json plans = run_json(network + " --plan all").at("plans");
  REQUIRE(plans.size() == 6);
  CHECK(plans[0].at("plan") == run_json(network).at("plan"));
  CHECK(plans[0].at("why") == "the fastest that fits");
  CHECK(plans[0].at("step_us") < plans[1].at("step_us"));
  CHECK(says(plans[1].at("why").get<std::string>(), " us slower, most of it "));
  const Json single = run_json("predict --hidden 512 --precision fp32 --plan all").at("plans");
  REQUIRE(single.size() == 6);
  CHECK(single[4].at("family") == "dense_persistent");
  CHECK(says(single[4].at("why").get<std::string>(), "fp16 or bf16"));
  const Json large = run_json("predict --hidden 60000 --density 50% --plan all", 1);
  CHECK(large.at("fits") == false);
  CHECK(large.at("plans")[0].at("plan").at("family") == "cublas_graph");
  CHECK(large.at("plans")[4].at("fits") == false);
  require_refusal("predict --hidden 512 --family dense_persistent --plan all", "contradicts");
#ifdef ONCHIP_HAS_CUDA
  require_refusal("measure --hidden 512 --plan all --compile-only", "'all'");
  require_refusal("measure --hidden 512 --plan all --floor", "'all'");
  require_refusal("measure --hidden 512 --family dense_persistent --plan all", "contradicts");
  require_refusal("measure --hidden 512 --family cudnn --clocks", "not a library's");
  require_refusal("measure --hidden 512 --plan all", "CUDA", "CUDA_VISIBLE_DEVICES=");
  require_refusal("measure --hidden 512 --plan cublas_graph", "CUDA", "CUDA_VISIBLE_DEVICES=");
#endif
}

TEST_CASE("predict says of uneven rows where their overflow is", "[fast]") {
  const std::string arguments =
      "predict --family sparse_persistent --hidden 2304 --density 10% --mask power-law "
      "--producer-warps 0 --row-splits 0";
  const Json overflow = run_json(arguments).at("plan");
  CHECK(overflow.at("overflow_chunks") > 0);
  CHECK(overflow.at("longest_overflow") > 0);
  CHECK(overflow.at("chunks_in_flight") > 0);
  CHECK(overflow.at("shared_chunks") > 0);
  CHECK(overflow.at("ring_chunks") == 0);  // shared memory has room for it
  const Json none = run_json(arguments + " --tier registers").at("plan");
  for (const char* key : {"overflow_chunks", "longest_overflow", "shared_chunks", "ring_chunks"}) {
    CHECK(none.at(key) == 0);
  }
}

TEST_CASE("2:4 masks are generated, known by their weights, and searched for the largest", "[fast][long]") {
  const Json asked = run_json("predict --hidden 512 --density 50% --mask 2:4");
  CHECK(asked["network"]["mask"] == "2:4");
  CHECK(asked["plan"]["text"].get<std::string>().starts_with("dense_persistent structured_2_4 "));
  const Json uniform = run_json("predict --hidden 512 --density 50%");
  CHECK(!says(uniform["plan"]["text"].get<std::string>(), "structured_2_4"));
  CHECK(asked["step_us"] <= uniform["step_us"]);
  const Json largest = run_json("fit --density 50% --mask 2:4 --family dense_persistent");
  CHECK(largest["plan"]["text"].get<std::string>().starts_with("dense_persistent structured_2_4 "));
  CHECK(largest["network"]["hidden"] > run_json("fit --density 50% --family dense_persistent")["network"]["hidden"]);

  const Folder folder;
  const auto predicted = [&](const std::string& last) {
    const std::string file =
        "%%MatrixMarket matrix coordinate real general\n8 8 5\n1 1 1\n1 4 1\n1 5 1\n8 6 1\n" + last;
    return "predict --storage structured_2_4 --weights " + folder.write("weights.mtx", file);
  };
  CHECK(run_json(predicted("1 6 1\n"))["network"]["mask"] == "file");
  require_refusal(predicted("1 3 1\n"), "row 0 has 3 non-zeros in columns 0 to 3");
}

TEST_CASE("dense networks without their empty words are asked for, planned, written down and read back", "[fast]") {
  const Json asked = run_json("predict --hidden 512 --storage bitmap");
  CHECK(asked["plan"]["text"].get<std::string>().starts_with("dense_persistent bitmap "));
  const std::string network = "predict --cell lstm --hidden 2560 --batch 16 --density 20%";
  const Json large = run_json(network);
  const auto text = large["plan"]["text"].get<std::string>();
  CHECK(text.starts_with("dense_persistent bitmap "));
  CHECK(large["plan"]["bank_words"] > 0);
  CHECK(says(text, " bank_words=" + std::to_string(large["plan"]["bank_words"].get<int>())));
  CHECK(run_json(network + " --plan '" + text + "'")["step_us"] == large["step_us"]);
  const std::string fit = "fit --density 10% --family dense_persistent";
  const Json largest = run_json(fit);
  CHECK(largest["plan"]["text"].get<std::string>().starts_with("dense_persistent bitmap "));
  CHECK(largest["network"]["hidden"] > run_json(fit + " --storage dense")["network"]["hidden"]);
}

TEST_CASE("predict answers for a whole network in every form, and as before without its options", "[fast]") {
  const std::string network = "predict --cell lstm --hidden 512 --batch 4 --density 20% --steps 200";
  Json whole = run_json(network + " --layers 2 --bidirectional --input 128");
  const Json sequence = whole.at("sequence");
  CHECK(sequence.at("parts").size() == 12);
  double us = 0;
  for (const Json& part : sequence.at("parts")) {
    us += part.at("us").get<double>();
  }
  CHECK(std::abs(us / sequence.at("us").get<double>() - 1) < 1e-4);
  const Run text = run(network + " --layers 2 --bidirectional --input 128");
  CHECK(text.out.starts_with("2 layers, both directions, input of 128, 200 steps\n\nsequence  "));
  CHECK(says(text.out, "backward   input product"));
  CHECK(text.out.ends_with(run(network).out));
  const Run csv = run(network + " --layers 2 --bidirectional --input 128 --format csv");
  CHECK(std::count(csv.out.begin(), csv.out.end(), '\n') == 1 + 12 + 1);
  whole.erase("sequence");
  CHECK(whole == run_json(network));
  CHECK(run_json("predict --hidden 60000 --density 1 --layers 2", 1).at("sequence").at("us").is_null());
  require_refusal(network + " --layers 0", "--layers: found '0'");
  require_refusal(network + " --layers 2 --plan all", "--plan all");
  require_refusal(network + " --layers 2 --family cudnn", "not cudnn");
  require_refusal("fit --cell lstm --layers 2 --density 10%", "a stack that is on the chip at once is dense");
#ifdef ONCHIP_HAS_CUDA
  require_refusal("measure --hidden 512 --layers 2 --floor", "leave --floor out");
  require_refusal("measure --hidden 512 --input 64 --plan all", "leave --plan out");
  require_refusal("measure --hidden 512 --layers 2", "CUDA", "CUDA_VISIBLE_DEVICES=");
#endif
}

TEST_CASE("fit, what-if and simulate answer for a stack whose layers are on the SMs at once", "[fast]") {
  const std::string stack = " --cell lstm --layers 3 --batch 4 --chip h100_sxm";
  const Json fit = run_json("fit --granule 16" + stack);
  CHECK(fit["network"]["hidden"] == 768);
  CHECK(fit["limits"][0]["largest"] == 768);
  CHECK(says(fit["limits"][0]["next"].get<std::string>(),
             "784: an LSTM of 784 units takes 147 SMs for 3 layers at once"));
  CHECK(fit["limits"][3]["what"] == "layers");
  const Run next = run("fit --hidden 784" + stack);
  CHECK(next.status == 1);
  CHECK(says(next.out, "Any one of these makes it fit:\n  - --set 'sm.count=147'"));
  CHECK(run("fit --hidden 784 --set sm.count=147" + stack).status == 0);
  CHECK(run("fit --hidden 784 --set sm.count=146" + stack).status == 1);
  const Run changed = run("what-if --hidden 784 --set sm.count=147 --no-ranking" + stack);
  CHECK(changed.status == 1);
  CHECK(says(changed.out, "does not fit"));
  CHECK(says(changed.out, "otherwise, us"));
  CHECK(says(run("what-if --hidden 784 --vary sm.count" + stack).out, "sm.count      132    147"));
  require_refusal("what-if --hidden 512 --layers 2 --family dense_persistent --set sm.count=200",
                  "a stack that is on the chip");
  require_refusal("fit --cell lstm --layers 2 --plan 'dense_training none stepwise=1'", "--plan is of one network");

  // What is replayed is what is predicted.
  const Json simulated = run_json("simulate --hidden 512 --steps 256" + stack);
  const Json predicted = run_json("predict --hidden 512 --steps 256" + stack)["sequence"]["stack"];
  CHECK(simulated["plan_text"] == predicted["plan_text"]);
  CHECK(simulated["sequence"]["predicted_us"] == predicted["us"]);
  CHECK(simulated["recurrences"].size() == 3);
  CHECK(simulated["sequence"]["simulated_us"].get<double>() == Approx(predicted["us"].get<double>()).epsilon(0.2));
  const std::string plan = fit["plan"]["text"];
  const Json given = run_json("simulate --hidden 768" + stack + " --plan '" + plan + "'");
  CHECK(given["plan_text"] == plan);
  for (const char* count : {"shared_wavefronts", "state_bytes", "published_bytes", "l2_bytes"}) {
    CHECK(given["recurrences"][0][count] > 0);
  }
  CHECK(says(run("simulate --hidden 512 --steps 256" + stack).out, "the slowest: "));
  require_refusal("simulate --hidden 512 --cell lstm --batch 1 --layers 1 --steps 1", "launches each step");
  require_refusal("simulate --hidden 512 --cell relu --layers 2", "not for 'relu'");
  require_refusal("simulate --hidden 512 --cell lstm --layers 2 --timeline t.json", "--timeline");
}

TEST_CASE("predict prices requests to a stack that stays on the chip, part by part", "[fast]") {
  const Json three = run_json("predict --stream --layers 3 --hidden 256 --cell lstm");
  double sum = 0;
  for (const char* part : {"mailbox_us", "reads_us", "broadcast_us", "exchange_us", "products_us", "cells_us"}) {
    sum += three[part].get<double>();
  }
  CHECK(three["predicted_us"].get<double>() == Approx(sum).epsilon(1e-4));
  CHECK(three["batch"] == 1);
  const std::string plan = three["plan"];
  CHECK(run_json("predict --stream --layers 3 --hidden 256 --cell lstm --plan '" + plan + "'") == three);
  CHECK(run_json("predict --stream --layers 4 --hidden 256 --cell lstm")["predicted_us"] > three["predicted_us"]);
  CHECK(three["sms"] < 132);
  require_refusal("predict --stream --layers 4 --hidden 2048 --cell lstm", "SMs");
  require_refusal("predict --stream --layers 2 --hidden 128 --cell relu", "an LSTM or a GRU");
  require_refusal("predict --stream --layers 2 --hidden 128 --cell lstm --batch 9", "batch");
  require_refusal("predict --stream --layers 2 --hidden 128 --cell lstm --mode train", "--mode");
  require_refusal("predict --stream --layers 2 --hidden 128 --cell lstm --plan 'stream tiles=9'", "tiles");
}
