// SPDX-License-Identifier: Apache-2.0
// Training steps as predicted and as measured on an H100 by a prototype and by cuDNN. Nothing was fitted to these rows.
#include "model/base/table.hpp"
#include "model/training/planner.hpp"
#include "model/training/price.hpp"
#include "tests/catch.hpp"
#include "tests/experiments/command.hpp"

#include <cmath>
#include <set>
#include <string>

using namespace onchip;

namespace {

const std::string kData = ONCHIP_SOURCE_DIR "/experiments/data/h100_sxm/";

struct Errors {
  double sum = 0, worst = 0;
  int count = 0;

  void add(double predicted, double measured) {
    const double error = std::abs(predicted / measured - 1);
    sum += error, worst = std::max(worst, error), ++count;
  }
  double mean() const { return sum / count; }
};

}  // namespace

TEST_CASE("regression: training steps of a prototype take about as long as predicted", "[fast]") {
  const Chip chip = find_chip("h100_sxm").chip;
  const CsvReader file(kData + "training_prototype.csv");
  Errors whole, forward, backward, products;
  for (std::size_t row = 0; row < file.size(); ++row) {
    const Training training{{Cell::lstm, Precision::fp16, static_cast<int>(file.number(row, "hidden")),
                             static_cast<int>(file.number(row, "batch")), 256, 1},
                            {}};
    const TrainingPlan plan = choose_on_chip(chip, training).value_or_throw();
    const std::vector<Phase> phases = phases_of(training, plan);
    const TrainingPrediction predicted = predict(chip, training, plan);
    double forward_us = 0, backward_us = 0;
    for (std::size_t i = 0; i < phases.size(); ++i) {
      forward_us += phases[i].kind == PhaseKind::forward ? predicted.phases[i].us : 0;
      backward_us += phases[i].kind == PhaseKind::backward ? predicted.phases[i].us : 0;
    }
    const double steps = training.network.steps, us = predicted.iteration.us;
    whole.add(us / steps, file.number(row, "graph_us"));
    forward.add(forward_us / steps, file.number(row, "forward_us"));
    backward.add(backward_us / steps, file.number(row, "backward_us"));
    products.add((us - forward_us - backward_us) / steps, file.number(row, "products_us"));
    CAPTURE(file.text(row, "hidden"), file.text(row, "batch"), us / steps);
    CHECK(predicted.iteration.low_us / steps < file.number(row, "graph_us"));
  }
  CAPTURE(whole.mean(), whole.worst, forward.mean(), forward.worst, backward.mean(), backward.worst, products.mean(),
          products.worst);
  CHECK(whole.count == 14);
  CHECK(whole.mean() < 0.07);
  CHECK(whole.worst < 0.15);
  CHECK(forward.mean() < 0.12);
  CHECK(backward.mean() < 0.10);
  CHECK(products.mean() < 0.10);
}

TEST_CASE("regression: training steps of cuDNN take about as long as predicted", "[fast]") {
  const Chip chip = find_chip("h100_sxm").chip;
  const CsvReader file(kData + "training_cudnn.csv");
  Errors errors;
  for (std::size_t row = 0; row < file.size(); ++row) {
    const auto whole = [&](const char* column) { return static_cast<int>(file.number(row, column)); };
    const Training training{{parse_cell(file.text(row, "cell")), parse_precision(file.text(row, "precision")),
                             whole("hidden"), whole("batch"), whole("steps"), 1},
                            {whole("layers"), whole("directions") == 2}};
    if (training.stack.layers * training.stack.directions() == 1) {  // of others cuDNN runs several at once
      errors.add(predict(chip, training, CudnnTrainingPlan{}).step_us, file.number(row, "us_per_step"));
    }
  }
  CAPTURE(errors.mean(), errors.worst);
  CHECK(errors.count == 56);
  CHECK(errors.mean() < 0.06);
}

TEST_CASE("validate scores files of training steps", "[fast]") {
  const std::string file = ONCHIP_SOURCE_DIR "/experiments/data/h200/training_lstm.csv";
  const Run answer = run("validate " + file);
  CHECK(answer.status == 0);
  CHECK(says(answer.out, "Kendall's tau"));
  const Json json = run_json("validate " + file);
  CHECK(json["points"].get<int>() >= 100);
  CHECK(json["mape_percent"].get<double>() < 6);
  CHECK(json["kendall_tau"].get<double>() > 0.95);
  require_refusal("validate " + file + " --machine-code", "is of inference");
}

TEST_CASE("validate says what cost terms are worth to training steps", "[fast]") {
  const std::string file = ONCHIP_SOURCE_DIR "/experiments/data/h200/training_lstm.csv";
  const Json json = run_json("validate " + file + " --without training_turn");
  const Json& used = json.at("without").at("used");
  CHECK(json.at("without").at("terms") == Json{"training_turn"});
  CHECK(used.at("points") == json.at("points"));
  CHECK(used.at("mape_without_percent") > used.at("mape_percent"));
  // The row's other time is that of a chip without the term.
  const Json changed = run_json("validate " + file + " --set cost.training_turn=0", 1);
  for (std::size_t row = 0; row < json.at("rows").size(); ++row) {
    CHECK(json["rows"][row].at("without_us") == changed.at("rows").at(row).at("predicted_us"));
  }
  const Json all = run_json("validate " + file + " --without all").at("terms");
  CHECK(all.size() == run_json("chips --cost-terms").at("terms").size());
  for (const Json& term : all) {
    const std::string name = term.at("term");
    CHECK((term.at("points") > 0) == (name.starts_with("training_") || name == "transfers_exposed"));
  }
  require_refusal("validate " + file + " --without training_trun", "did you mean 'training_turn'?");
}

TEST_CASE("regression: sparse training steps take about as long as predicted", "[fast]") {
  const std::string folder = ONCHIP_SOURCE_DIR "/experiments/data/h200/";
  for (const char* name : {"training_sparse.csv", "training_sparse_drawn.csv"}) {
    INFO(name);
    const Json json = run_json("validate " + folder + name);
    CHECK(json["points"].get<int>() >= 6);
    CHECK(json["mape_percent"].get<double>() < 7);
    CHECK(json["kendall_tau"].get<double>() > 0.85);
  }
}

TEST_CASE("regression: layers drawn at random train about as fast as predicted, and the chosen plan is the fastest",
          "[fast]") {
  const std::string tuned = ONCHIP_SOURCE_DIR "/experiments/data/h200/tuned.csv";
  const Json json = run_json("validate " + tuned);
  CHECK(json["points"] == 78);
  CHECK(json["mape_percent"].get<double>() < 8);
  CHECK(json["kendall_tau"].get<double>() > 0.92);
  CHECK(says(run("validate " + tuned).out, "in 26 of 26 networks"));
}

TEST_CASE("a sparse training step is predicted, and what was printed is predicted again", "[fast]") {
  const std::string train = "predict --mode train --cell lstm --hidden 1024 --batch 16 --density 0.1 --chip h200 ";
  const Json first = run_json(train);
  CHECK(run_json(train + "--plan '" + first["plan"]["text"].get<std::string>() + "'") == first);
  CHECK(first["network"]["density"] == 0.1);
  CHECK(first["plan"]["text"].get<std::string>().find("sparse_training gates forward=[samples=") == 0);
  const Json denser = run_json("predict --mode train --cell lstm --hidden 1024 --batch 16 --density 0.2 --chip h200");
  CHECK(denser["us"].get<double>() > first["us"].get<double>());
}

TEST_CASE("regression: recurrences of training take about as long as simulated", "[fast]") {
  const Json json = run_json("validate --simulate " + kData + "training_grid.csv");
  std::set<std::string> near;  // in fp16 and bf16 the simulator does the same
  Errors forward, backward;
  for (const Json& row : json["rows"]) {
    const bool is_backward = row["pass"] == "backward";
    (is_backward ? backward : forward).add(row["simulated_us"].get<double>(), row["measured_us"].get<double>());
    const auto network = row["network"].get<std::string>();
    if (is_backward && std::abs(row["error_percent"].get<double>()) <= 10) {
      near.insert(network.substr(0, network.rfind(' ')) + row["plan"].get<std::string>());
    }
  }
  CAPTURE(forward.mean(), forward.worst, backward.mean(), backward.worst);
  CHECK(backward.count == 40);
  CHECK(near.size() >= 18);
  CHECK(backward.mean() < 0.08);
  CHECK(forward.mean() < 0.10);
}

TEST_CASE("simulate --mode train replays both recurrences", "[fast]") {
  const std::string network = " --mode train --cell gru --hidden 512 --batch 16 --chip h100_sxm";
  const Run answer = run("simulate" + network);
  CHECK(answer.status == 0);
  for (const char* part : {"forward", "backward", "simulated us", "predicted us", "binding", "exchange", "groups="}) {
    CHECK(says(answer.out, part));
  }
  // The plans are those that are priced.
  const Json simulated = run_json("simulate" + network), priced = run_json("predict" + network);
  int found = 0;
  for (const Json& phase : priced["phases"]) {
    for (const Json& recurrence : simulated["recurrences"]) {
      if (phase["name"] == recurrence["pass"]) {
        ++found;
        CHECK(phase["plan"] == recurrence["plan"]);
      }
    }
  }
  CHECK(found == 2);
  require_refusal("simulate" + network + " --timeline t.json", "--timeline");
  require_refusal("simulate --mode train --cell relu --hidden 512 --batch 16", "there are training kernels for");
}

TEST_CASE("predict --mode train prints phases, bytes and libraries", "[fast]") {
  const Run answer = run("predict --mode train --cell lstm --hidden 512 --batch 64 --chip h100_sxm");
  CHECK(answer.status == 0);
  for (const char* part : {"input_product", "forward", "backward", "weight_product", "groups=", "stash", "workspace",
                           "cudnn", "cublas_graph", "us for each step"}) {
    CHECK(says(answer.out, part));
  }
}

TEST_CASE("options that a training step has not are refused, each with one line", "[fast]") {
  const std::string train = "predict --mode train --cell lstm --hidden 512 ";
  require_refusal("predict --mode trian --hidden 512", "expected inference or train");
  require_refusal("predict --hidden 512 --stash cells", "--stash needs --mode train");
  require_refusal(train + "--density 10% --layers 2", "one layer and direction of an LSTM");
  require_refusal(train + "--density 10% --precision fp32", "in fp16 or bf16");
  require_refusal("predict --mode train --cell gru --hidden 512 --density 10%", "of an LSTM");
  require_refusal("predict --mode train --cell lstm --hidden 65536 --density 10%", "no chip holds so many");
  require_refusal("simulate --mode train --cell lstm --hidden 512 --density 10%", "of dense networks");
  require_refusal(train + "--sms 8", "whole plan by --plan");
  require_refusal(train + "--plan 'dense_training gates forwad=[]'", "did you mean 'forward'");
  require_refusal(train + "--plan 'dense_training gates forward=[]'", "expects 'backward=', too");
  require_refusal(train + "--plan 'dense_training none forward=[]'", "without a stash it is of a forward pass alone");
  require_refusal(train + "--stash none", "expected gates, cells or replay");
  require_refusal(train + "--plan 'stash=gates | forward layer=0 groups=1'",
                  "expected 'dense_training gates forward=[");
  require_refusal(train + "--stash none", "expected gates, cells or replay");
  require_refusal(train + "--family dense_persistent", "expected dense_training, sparse_training or cudnn_training");
  CHECK(says(run(train + "--family cudnn_training").out, "\ncudnn_training\n"));
#ifdef ONCHIP_HAS_CUDA
  require_refusal("measure --cell lstm --hidden 512 --plan-forward sub_batches=2", "needs --mode train");
  require_refusal("measure --mode train --cell gru --hidden 512", "CUDA", "CUDA_VISIBLE_DEVICES=");
  require_refusal("measure --mode train --cell lstm --hidden 512 --floor", "is of inference");
  require_refusal("measure --mode train --cell lstm --hidden 512 --baselines", "CUDA", "CUDA_VISIBLE_DEVICES=");
#endif
}

#ifdef ONCHIP_HAS_CUDA
TEST_CASE("plans of a sparse training step are compiled without a GPU, of options and of rows", "[fast]") {
  const std::string compiles = " --mode train --compile-only --chip h100_sxm";
  const Json one = run_json("measure --cell lstm --hidden 512 --batch 8 --density 0.1" + compiles);
  REQUIRE(one["kernels"].size() == 2);
  for (const Json& kernel : one["kernels"]) {
    CHECK(kernel["spill_bytes"] == "0");
    CHECK(kernel["density"] == "0.1");
    CHECK(kernel["plan"].get<std::string>().find("samples=8 split=") == 0);
  }
  const Folder folder;
  const std::string rows = folder.write("rows.csv",
                                        "cell,hidden,batch,precision,density,plan_backward\n"
                                        "lstm,512,8,bf16,0.1,split=2\n"
                                        "lstm,512,8,fp16,,\n"
                                        "gru,512,8,fp16,0.1,\n");
  const Json many = Json::parse(run("measure --format json --configurations " + rows + compiles).out);
  REQUIRE(many["kernels"].size() == 5);
  CHECK(many["kernels"][1]["plan"].get<std::string>().find("samples=8 split=2 lanes=") == 0);
  CHECK(many["kernels"][2]["plan"].get<std::string>().find("batch_groups=") == 0);
  CHECK(says(many["kernels"][4]["problem"].get<std::string>(), "row 3: a sparse network"));
  const Run large = run("measure --cell lstm --hidden 1024 --batch 8 --density 0.8 --set sm.count=8" + compiles);
  CHECK(large.status == 1);
  CHECK(says(large.out, "do not fit on 8 SMs"));
}
#endif

TEST_CASE("a step that predict printed is predicted again", "[fast]") {
  const std::string train = "predict --mode train --cell gru --hidden 512 --batch 32 --layers 2 --bidirectional ";
  const Json first = run_json(train);
  const Json again = run_json(train + "--plan '" + first["plan"]["text"].get<std::string>() + "'");
  CHECK(again == first);
  CHECK(first["phases"].size() > 20);
}

TEST_CASE("fit --mode train says the largest sizes whose weights stay on the chip in both passes", "[fast]") {
  const std::string fit = "fit --mode train --cell lstm --batch 64 --chip h100_sxm";
  const Json largest = run_json(fit);
  CHECK(largest["fits"] == true);
  REQUIRE(largest["limits"].size() == 3);
  const int hidden = largest["limits"][0]["largest"].get<int>();
  CHECK(largest["network"]["hidden"] == hidden);
  CHECK(largest["stash_bytes"].get<double>() > 0);
  CHECK(largest["workspace_bytes"].get<double>() > 0);
  const Run text = run(fit);
  CHECK(text.status == 0);
  CHECK(says(text.out, "Weights stay on the chip in both passes up to"));
  const Run beyond = run(fit + " --hidden " + std::to_string(hidden + 32));
  CHECK(beyond.status == 1);
  CHECK(says(beyond.out, "there are 132"));
  CHECK(says(beyond.out, "Any one of these makes it fit"));
  CHECK(says(run(fit + " --format csv").out, "largest_hidden,largest_batch,largest_steps"));
  // With a budget of memory, steps have a limit, too, which the next step is beyond.
  const std::string budget = "fit --mode train --cell lstm --hidden 1024 --batch 64 --chip h100_sxm --memory '8 GiB'";
  const Json within = run_json(budget);
  const int steps = within["limits"][2]["largest"].get<int>();
  CHECK(says(within["limits"][2]["next"].get<std::string>(), "GiB of device memory beside the input and the weights"));
  const auto peak = [&](const std::string& more) {
    return run_json("predict --mode train --cell lstm --hidden 1024 --batch 64 --chip h100_sxm --steps " + more)
        .at("peak_bytes")
        .get<double>();
  };
  CHECK(peak(std::to_string(steps) + " --memory '8 GiB'") <= 8.0 * (1 << 30));
  CHECK(peak(std::to_string(steps + 1) + " --stash cells") > 8.0 * (1 << 30));
  require_refusal("fit --memory '8 GiB'", "--memory needs --mode train");
  require_refusal(fit + " --memory 8", "unit");
  require_refusal(fit + " --compile", "--compile");
}

TEST_CASE("what-if --mode train compares chips, and finds what reaches a target", "[fast]") {
  const std::string ask = "what-if --mode train --cell gru --hidden 512 --batch 64 --chip h100_sxm --no-ranking ";
  const Json json = run_json(ask + "--set sm.clock=+10% --set sm.count=+50%");
  CHECK(json["changed"]["step_us"].get<double>() < json["base"]["step_us"].get<double>());
  CHECK(json["alone"].size() == 2);
  CHECK(json["changed"]["largest_hidden"].get<int>() > json["base"]["largest_hidden"].get<int>());
  const Run text = run(ask + "--set sm.clock=+10%");
  CHECK(text.status == 0);
  CHECK(says(text.out, "largest hidden"));
  CHECK(says(text.out, "backward"));
  CHECK(run(ask + "--set sm.clock=+10% --format csv").out.find("case,chip,cell,hidden") == 0);
  const Json target =
      run_json("what-if --mode train --cell lstm --hidden 2560 --batch 16 --chip h100_sxm --vary sm.count");
  CHECK(target["alone"][0]["reached"] == true);
  CHECK(target["base"]["reached"] == false);
}

TEST_CASE("a sweep over trainings has their times, bytes and plans, as predict has them", "[fast]") {
  const std::string sweep =
      "sweep --mode train --cell lstm --chip h100_sxm --axis hidden=256,512,8192 --axis batch=16,64 "
      "--column forward_us --column directions --threads 1";
  const Run rows = run(sweep);
  CHECK(rows.status == 0);
  CHECK(rows.out.find("row,hidden,batch,cell,chip,density,mode,precision,fits,binding,step_us,low_us,high_us,floor_us,"
                      "stash_bytes,workspace_bytes,peak_bytes,plan,forward_us,directions,problem\n") == 0);
  CHECK(says(rows.out, "takes 512 SMs"));
  const Json predicted = run_json("predict --mode train --cell lstm --hidden 512 --batch 64 --chip h100_sxm");
  CHECK(says(rows.out, predicted["plan"]["text"].get<std::string>()));
  CHECK(says(rows.out, std::to_string(predicted["stash_bytes"].get<std::int64_t>())));
  CHECK(run("sweep --mode train --axis cell=lstm,gru --chip h100_sxm --batch 64")
            .out.find("row,cell,batch,chip,density,mode,precision,hidden,") == 0);
  CHECK(says(
      run("sweep --mode train --cell lstm --hidden 512 --axis density=0.05,0.1 --axis layers=1 --axis batch=4 --format "
          "jsonl")
          .out,
      "sparse_training gates"));
  require_refusal("sweep --cell lstm --axis layers=1,2", "'layers' needs 'mode=train'");
  require_refusal("sweep --axis mode=train,inference", "it is no axis");
  require_refusal("sweep --mode train --cell lstm --axis hidden=256,512 --family sparse_persistent", "is of inference");
}
