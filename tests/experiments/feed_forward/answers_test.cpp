// SPDX-License-Identifier: Apache-2.0
// fit, predict and what-if with --network.
#include "model/base/table.hpp"
#include "tests/experiments/command.hpp"

#include <algorithm>
#include <string>

using namespace onchip;
using Catch::Matchers::WithinRel;

namespace {

const std::string kShort = " --network spdnn:1024x12 --images digits:2000 --chip h100_sxm ";

double sum(const Json& terms) {
  double total = 0;
  for (const auto& [name, ms] : terms.items()) {
    total += ms.get<double>();
  }
  return total;
}

}  // namespace

TEST_CASE("predict answers for a feed-forward network in all forms", "[fast]") {
  const Json json = run_json("predict" + kShort);
  CHECK(json.at("fits") == true);
  CHECK(json.at("images").at("count") == 2000);
  CHECK(json.at("structure").at("in_blocks") == 1);
  CHECK(json.at("structure").at("fill") == 1);
  CHECK(json.at("structure").at("read_conflicts") == 0);
  const double ms = json.at("ms");
  CHECK_THAT(sum(json.at("terms_ms")), WithinRel(ms, 1e-4));
  CHECK(json.at("floor_ms") < json.at("interval_ms").at(0));
  CHECK(json.at("interval_ms").at(0) < ms);
  CHECK(json.at("interval_ms").at(1) > ms);
  CHECK_THAT(json.at("tera_edges_per_s").get<double>(), WithinRel(12.0 * 32 * 1024 * 2000 / ms * 1e-9, 1e-3));
  const Table csv = parse_csv(run("predict" + kShort + "--format csv").out, "csv");
  REQUIRE(csv.rows.size() == 1);
  CHECK(std::ranges::find(csv.columns, "ms") != csv.columns.end());
  const std::string text = run("predict" + kShort).out;
  for (const char* part :
       {"TeraEdges/s", "multiply-adds/s executed", "bank conflicts left: 0 of", "layers in a launch"}) {
    INFO(part);
    CHECK(says(text, part));
  }
}

TEST_CASE("predict says what is read of weights, and takes another form by the plan, but none that does not hold",
          "[fast]") {
  const std::string network = "predict --chip h100_sxm --images 2000 --alive 10% --network spdnn:1024x12",
                    plan = " --plan 'blocks warps=16 weight_bytes=";
  const std::string rest = " phases=12:2x1 lower=2x1 wide=2x2'";
  const auto values = [&](const std::string& text) { return run_json(network + text).at("structure").at("values"); };
  CHECK(values("") == "fp16 values");
  CHECK(values(plan + "1" + rest) == "coded values");
  CHECK(values(plan + "0" + rest) == "one value");
  CHECK(values(",values=uniform:0.05..0.075,precision=fp8" + plan + "1" + rest) == "coded values");
  CHECK(run_json(network + plan + "2" + rest).at("ms") > run_json(network + plan + "0" + rest).at("ms"));
  CHECK(says(run(network + ",values=uniform:0.05..0.075,precision=fp16" + plan + "0" + rest).err,
             "weight_bytes=0: the weights are not one number, in full blocks"));
}

TEST_CASE("an inference lies between its floor and its interval's end, whatever the clocks", "[fast]") {
  for (const char* network :
       {"spdnn:1024x3", "random:neurons=500,layers=4,degree=7", "random:neurons=64,layers=2,degree=0"}) {
    for (const char* chip :
         {"jetson_agx_orin", "h100_pcie --set sm.clock=x0.5", "rtx_4090 --set timing.lds_wavefront=x0.5",
          "h200 --set sm.clock=x2 --set timing.tensor_issue=x2"}) {
      const Run answer =
          run(std::string("predict --format json --images 600 --alive 10% --network ") + network + " --chip " + chip);
      CAPTURE(network, chip, answer.err);
      if (const Json json = Json::parse(answer.out, nullptr, false); json.is_object() && json["ms"].is_number()) {
        const double floor = json["floor_ms"].is_number() ? json["floor_ms"].get<double>() : 0;
        CHECK((floor <= json["interval_ms"][0] && json["interval_ms"][0] <= json["ms"]));
        CHECK(json["ms"] <= json["interval_ms"][1]);
      }
    }
  }
}

TEST_CASE("what does not fit says what would make it fit, and it does", "[fast]") {
  const std::string network = "fit --network spdnn:16384x2 --alive 3% --chip h100_sxm";
  const Json json = run_json(network, 1);
  CHECK(json.at("fits") == false);
  REQUIRE(json.at("to_fit").size() == 1);
  const std::string option = json.at("to_fit").at(0).at("option");
  CHECK(run_json(network + " " + option).at("fits") == true);
  const double kib = json.at("to_fit").at(0).at("to").get<double>() / 1024;
  CHECK(run(network + " --set 'shared_memory.per_sm=" + std::to_string(static_cast<int>(kib) - 1) + " KiB'").status ==
        1);
  const Run through_l2 = run(network);
  CHECK(through_l2.out.starts_with("Stays on the chip: no; runs through L2 in "));
  CHECK(json.at("family") == "streamed");
  CHECK(says(run("fit --network spdnn:1024x12 --alive all --chip a100").out, "sm_90"));
}

TEST_CASE("a network without blocks is predicted as it runs", "[fast]") {
  const std::string network = " --network random:neurons=256,layers=2,degree=8,clip=1 --alive all";
  const Run fit = run("fit" + network);
  CHECK(fit.status == 0);
  CHECK(fit.out.starts_with("Stays on the chip: yes, but not in blocks; runs unstructured in "));
  CHECK(says(fit.out, "\nno blocks   "));
  const Json json = run_json("predict" + network);
  CHECK(json.at("family") == "unstructured");
  CHECK(json.at("floor_ms").is_null());
  CHECK_THAT(sum(json.at("terms_ms")), WithinRel(json.at("ms").get<double>(), 1e-3));
  CHECK(json.at("image_layers").at("executed") == 120000);
}

TEST_CASE("a plan for images of any values takes them, whatever is asked", "[fast]") {
  const Folder folder;
  const auto images = [&](const char* value) {
    std::string text;
    for (int image = 1; image <= 40; ++image) {
      for (int neuron = image; neuron <= 1024; neuron += 7) {
        text += std::to_string(image) + '\t' + std::to_string(neuron) + '\t' + (image == 40 ? value : "1") + '\n';
      }
    }
    return " --chip h100_sxm --network spdnn:1024x3 --images " + folder.write(std::string(value) + ".tsv", text);
  };
  const std::string gray = images("0.5"), binary = images("1");
  CHECK(run_json("predict" + binary).at("family") == "blocks");
  CHECK(run_json("predict" + gray).at("family") == "unstructured");
  CHECK(run_json("predict" + gray + " --alive all").at("family") == "unstructured");
  const Json ranking = run_json("predict" + gray + " --plan all");
  for (const Json& plan : ranking.at("plans")) {
    const std::string family = plan.at("family");
    CHECK((family == "unstructured" || family.ends_with("_layers") || plan.at("why") == "takes images of 0 and 1"));
  }
#ifdef ONCHIP_HAS_CUDA
  for (const std::string& of : {gray, binary}) {
    CHECK(run_json("measure --compile-only" + of).at("plan") == run_json("predict" + of).at("plan").at("text"));
  }
#endif
}

TEST_CASE("images without a feature, and rows without a weight, take their time", "[fast]") {
  const auto predicted = [](const std::string& network) {
    return run_json("predict --chip h100_sxm --images digits:60000 --network random:" + network);
  };
  const Json one = predicted("neurons=1,layers=2,degree=1");  // whose pixel few images have
  CHECK(one.at("image_layers").at("executed") >= 60000);
  CHECK(one.at("ms") > 0.015);
  CHECK(predicted("neurons=1024-4096,degree=0,bias=0.5").at("ms") >
        1.5 * predicted("neurons=1024-32,degree=0,bias=0.5").at("ms").get<double>());
}

TEST_CASE("images may be given by their number and the share that stays alive", "[fast]") {
  const Json all = run_json("predict --network spdnn:1024x12 --images 5000 --alive all --chip h100_sxm");
  const Json few = run_json("predict --network spdnn:1024x12 --images 5000 --alive 1% --chip h100_sxm");
  CHECK(all.at("image_layers").at("alive") == 60000);
  CHECK(few.at("image_layers").at("alive") == 5000 + 11 * 50);
  CHECK(few.at("ms") < all.at("ms"));
  const Json two = run_json("predict --network spdnn:1024x12 --images 50000 --alive all --chip h100_sxm --gpus 2");
  const Json one = run_json("predict --network spdnn:1024x12 --images 50000 --alive all --chip h100_sxm");
  CHECK(two.at("gpus") == 2);
  CHECK(two.at("ms") < 0.6 * one.at("ms").get<double>());
  CHECK(two.at("tera_edges_per_s") > 1.6 * one.at("tera_edges_per_s").get<double>());
}

TEST_CASE("what-if compares a feed-forward network on two chips", "[fast]") {
  const std::string base = "predict" + kShort, change = " --set sm.clock=+20%";
  const Json json = run_json("what-if" + kShort + change);
  const auto without_seconds = [](Json answer) {
    answer.at("structure").erase("seconds");
    answer.erase("difference_is_told");
    answer.erase("schema");
    answer.erase("version");
    return answer;
  };
  CHECK(without_seconds(json.at("base")) == without_seconds(run_json(base)));
  CHECK(without_seconds(json.at("changed")) == without_seconds(run_json(base + change)));
  CHECK(json.at("changed").at("ms") < json.at("base").at("ms"));
  // Several are compared each alone, too, and the base's numbers ranked.
  const Json several = run_json("what-if" + kShort + change + " --set sm.count=+50%");
  CHECK(without_seconds(several.at("alone").at(0)).at("ms") == json.at("changed").at("ms"));
  CHECK(several.at("alone").at(1).at("change") == "sm.count=+50%");
  CHECK(several.at("sensitivity").at(0).at("key") == "sm.clock");
  const Table csv = parse_csv(run("what-if" + kShort + change + " --no-ranking --format csv").out, "csv");
  CHECK(csv.rows.size() == 2);
  CHECK(csv.columns.back() == "difference_is_told");
}

TEST_CASE("a feed-forward network is predicted by the plan that is asked for, or all are ranked", "[fast]") {
  const Json ranked = run_json("predict" + kShort + "--plan all");
  REQUIRE(ranked.at("plans").size() == 7);
  CHECK(ranked.at("plans").at(0).at("family") == "blocks");
  for (const Json& plan : ranked.at("plans")) {
    if (plan.contains("ms")) {
      const Json one = run_json("predict" + kShort + "--plan '" + plan.at("plan").at("text").get<std::string>() + "'",
                                plan.at("fits") == true ? 0 : 1);
      CHECK(one.at("ms") == plan.at("ms"));
    } else {
      CHECK(plan.at("why").get<std::string>().size() > 10);
    }
  }
  CHECK(says(run("predict" + kShort + "--plan 'sparse_persistent slots=1'").err, "a plan of a recurrent network"));
  CHECK(says(run("predict --hidden 64 --plan blocks").err, "a plan of a feed-forward network"));
}

TEST_CASE("what is faster but rounds otherwise is named beside the plan that runs, and is faster", "[fast]") {
  for (const char* text : {"spdnn:1024x12", "random:neurons=300-400-200-10,degree=40,values=uniform:-1..1,logits=yes",
                           "random:neurons=500-700-600-10,degree=60,values=uniform:-0.1..0.1,bias=0"}) {
    const std::string network = " --chip h100_sxm --images 6000 --alive all --network " + std::string(text);
    const Json json = run_json("predict" + network);
    if (!json.at("library_ms").is_null()) {
      CHECK(json.at("library_ms") < json.at("ms"));
      const Json library = run_json("predict" + network + " --plan '" + json.at("library").get<std::string>() + "'", 1);
      CHECK(library.at("ms") == json.at("library_ms"));
    } else {
      for (const char* family : {"cublas_layers", "cusparse_layers"}) {
        CHECK(run_json("predict" + network + " --plan " + family, 1).at("ms") >= json.at("ms"));
      }
    }
    const Json rounded = run_json("predict" + network + ",precision=fp16");
    CHECK(rounded.at("fp16_ms").is_null());
    CHECK((json.at("fp16_ms").is_null() ? json.at("ms") <= rounded.at("ms") : json.at("fp16_ms") == rounded.at("ms")));
  }
  CHECK_FALSE(run_json("predict --chip h100_sxm --images 60000 --alive all --network "
                       "random:neurons=784-1024-1024-10,degree=100,values=uniform:-0.1..0.1,bias=0")
                  .at("library_ms")
                  .is_null());
}

TEST_CASE("the price of libraries' layers is near the measured times", "[slow]") {
  const Json json = run_json("validate " ONCHIP_SOURCE_DIR "/experiments/data/h200/spdnn_baselines.csv");
  int seen = 0;
  for (const Json& family : json.at("families")) {
    if (family.at("family").get<std::string>().ends_with("_layers")) {
      ++seen;
      CHECK(family.at("max_percent") < 15);
      CHECK(family.at("coverage_percent") == 100);
    }
  }
  CHECK(seen == 2);
}

TEST_CASE("what-if finds the least of a chip's numbers for a time, and it is the least", "[fast]") {
  const std::string network = " --network spdnn:1024x12 --images 60000 --alive 3% --chip h100_sxm ";
  const double now = run_json("predict" + network).at("ms"), wanted = 0.9 * now;
  const std::string target = "--target 'ms<=" + std::to_string(wanted) + "' ";
  const Json json = run_json("what-if" + network + target + "--vary sm.count --price sm.count=1");
  CHECK(json.at("base").at("reached") == false);
  const Json& least = json.at("alone").at(0);
  const int sms = least.at("values").at("sm.count");
  CHECK(sms > 132);
  CHECK(json.at("cheapest").at("cost") == sms - 132);
  const auto with = [&](int count) -> double {
    return run_json("predict" + network + "--set sm.count=" + std::to_string(count)).at("ms");
  };
  CHECK(with(sms) <= wanted);
  CHECK(with(sms - 1) > wanted);
  CHECK(least.at("ms") == with(sms));
  const Run text = run("what-if" + network + target);
  for (const char* key : {"shared_memory.per_sm", "sm.count", "library.l2_bandwidth"}) {
    CHECK(says(text.out, key));
  }
  // Without a time: that the features stay on the chip.
  const std::string wide = " --network spdnn:16384x2 --alive 3% --chip h100_sxm ";
  const Json fits = run_json("what-if" + wide + "--vary shared_memory.per_sm");
  CHECK(fits.at("alone").at(0).at("option") == run_json("fit" + wide, 1).at("to_fit").at(0).at("option"));
  CHECK(says(run("what-if" + network + "--target 'step_us<=2'").err, "expected ms<=T"));
  CHECK(says(run("what-if --hidden 512 --target 'ms<=2'").err, "expected hidden=N"));
}

TEST_CASE("options of recurrent networks contradict --network, and its options need it", "[fast]") {
  for (const char* wrong : {"--hidden 5", "--batch 3", "--layers 2", "--family auto"}) {
    const Run refused = run("predict --network spdnn:1024x12 " + std::string(wrong));
    CHECK(refused.status == 2);
    CHECK(says(refused.err, "contradicts --network"));
  }
  CHECK(says(run("fit --images digits:5").err, "needs --network"));
  CHECK(run("predict --network spdnn:1024x12 --alive 2").status == 2);
  CHECK(run("predict --network spdnn:1024x12 --alive all --sample 5").status == 2);
  CHECK(run("predict --network spdnn:1024x12 --images digits:0").status == 2);
}

// Nothing is fitted to these rows. What is known to be missing: docs/feed-forward.md.
TEST_CASE("the price of plans of blocks is near the measured times", "[slow]") {
  const Json json = run_json("validate " ONCHIP_SOURCE_DIR "/experiments/data/h100_sxm/spdnn.csv");
  CHECK(json.at("points") >= 11);
  CHECK(json.at("families").at(0).at("family") == "blocks");
  CHECK(json.at("families").at(0).at("mape_percent") < 8);
  CHECK(json.at("families").at(0).at("max_percent") < 25);
  CHECK(json.at("families").at(0).at("coverage_percent") == 100);
}
