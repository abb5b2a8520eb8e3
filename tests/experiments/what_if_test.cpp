// SPDX-License-Identifier: Apache-2.0
#include "experiments/command/progress.hpp"
#include "model/answer/capacity.hpp"
#include "model/base/table.hpp"
#include "tests/experiments/command.hpp"

#include <pty.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>

using namespace onchip;

TEST_CASE("no two rows of a comparison have the same name", "[fast]") {
  const Run result = run("what-if --hidden 512 --set sm.count=x2 --no-ranking");
  REQUIRE(result.status == 0);
  CHECK(!says(result.out, "10 % more of"));
  std::istringstream lines(result.out);
  std::set<std::string> labels;
  std::string line;
  for (bool in_table = false; std::getline(lines, line);) {
    in_table |= says(line, "change %");
    if (in_table && line.empty()) {
      break;
    }
    if (in_table) {
      CAPTURE(line);
      CHECK(labels.insert(line.substr(0, line.find("  ", 2))).second);
    }
  }
  CHECK(labels.count("l2 (bytes)") == 1);
  CHECK(labels.count("shared_memory (bytes per SM)") == 1);
}

TEST_CASE("the ranking of numbers may be left out", "[fast]") {
  std::set<std::string> keys;
  const Json ranked = run_json("what-if --hidden 512");
  for (const Json& sensitivity : ranked.at("sensitivity")) {
    keys.insert(sensitivity.at("key"));
    CHECK(sensitivity.at("d_hidden_percent").is_number());
    CHECK(sensitivity.at("d_step_percent").is_number());
  }
  for (const char* key : {"sm.count", "sm.clock", "cluster.latency"}) {  // the plan exchanges in clusters
    CHECK(keys.contains(key));
  }
  const Json json = run_json("what-if --hidden 512 --no-ranking");
  CHECK_FALSE((json.contains("sensitivity") || json.contains("changed")));
  require_prediction(json.at("base"));
}

TEST_CASE("several changes are compared each alone and all together, with what they do beyond their sum", "[fast]") {
  const std::string question =
      "what-if --no-ranking --hidden 2304 --density 30% --set sm.count=+20% --set sm.clock=+10%";
  const Json json = run_json(question);
  REQUIRE(json.at("alone").size() == 2);
  const auto percent = [&](const Json& side) {
    return 100 * (side.at("step_us").get<double>() / json["base"]["step_us"].get<double>() - 1);
  };
  CHECK(json["alone"][0]["change"] == "sm.count=+20%");
  CHECK(json["interaction"]["d_step_percent"].get<double>() ==
        Approx(percent(json["changed"]) - percent(json["alone"][0]) - percent(json["alone"][1])).epsilon(1e-3));
  for (const std::size_t i : {0, 1}) {  // each as if it were the only one
    const Json alone = run_json("what-if --no-ranking --hidden 2304 --density 30% --set " +
                                json["alone"][i]["change"].get<std::string>());
    CHECK(alone["changed"]["step_us"] == json["alone"][i]["step_us"]);
    CHECK(alone["changed"]["largest_hidden"] == json["alone"][i]["largest_hidden"]);
    CHECK_FALSE(alone.contains("alone"));
  }
  CHECK(says(run(question).out, "together less the sum of each alone: step "));
  CHECK(says(run(question + " --format csv").out, "\nsm.clock=+10%,H200,relu,2304,"));
  // What cannot be without the other.
  const Json both = run_json(
      "what-if --no-ranking --hidden 512 --set shared_memory.per_sm='256 KiB' --set shared_memory.per_block='255 KiB'");
  CHECK(says(both["alone"][1].at("problem").get<std::string>(), "is more than"));
  CHECK_FALSE(both.contains("interaction"));
}

TEST_CASE("one more of a number buys what a chip with one more has", "[fast]") {
  const Json json = run_json("what-if --hidden 1024 --density 30% --precision fp32 --batch 16");
  int of_sms = 0;
  for (const Json& more : json.at("one_more")) {
    if (more["key"] == "sm.count") {
      ++of_sms;
      const Json changed =
          run_json("what-if --no-ranking --hidden 1024 --density 30% --precision fp32 --batch 16 --set sm.count=133");
      CHECK(more["amount"] == "1");
      CHECK(
          more["d_step_us"].get<double>() ==
          Approx(changed["changed"]["step_us"].get<double>() - changed["base"]["step_us"].get<double>()).margin(1e-5));
      CHECK(more["d_hidden"] >= 0);
    }
  }
  CHECK(of_sms == 1);
  CHECK(json["one_more"].size() == 8);
}

TEST_CASE("differences below what the model is off are marked", "[fast]") {
  const std::string question = "what-if --no-ranking --hidden 2304 --density 30% --set timing.lds_latency=";
  CHECK(says(run(question + "+10%").out, "+0.3 ~"));
  CHECK(run_json(question + "+10%")["changed"]["difference_is_told"] == false);
  CHECK(run_json(question + "x4")["changed"]["difference_is_told"] == true);
}

TEST_CASE("predicted ratios of step times are off as stated", "[fast]") {
  struct Step {
    double measured, predicted;
  };
  const auto steps_of = [](const std::string& chip, std::initializer_list<const char*> names, bool with_plan) {
    std::map<std::string, std::vector<Step>> steps;  // by network, or network and plan
    for (const char* name : names) {
      const Table rows =
          parse_csv(run("validate --format csv " ONCHIP_SOURCE_DIR "/experiments/data/" + chip + '/' + name).out, name);
      const auto at = [&](const std::vector<std::string>& row, std::string_view column) {
        return row[static_cast<std::size_t>(std::ranges::find(rows.columns, column) - rows.columns.begin())];
      };
      for (const auto& row : rows.rows) {
        const std::string plan = at(row, "plan");
        std::string key = with_plan ? plan : "";
        for (const char* column : {"cell", "hidden", "batch", "density", "precision", "mask", "seed"}) {
          key += ' ' + at(row, column);
        }
        if (says(plan, "_persistent") && !at(row, "measured_us").empty()) {
          steps[key].push_back({std::stod(at(row, "measured_us")), std::stod(at(row, "predicted_us"))});
        }
      }
    }
    return steps;
  };
  const auto off = [](const Step& a, const Step& b) {
    return std::abs(std::log(a.measured / b.measured * b.predicted / a.predicted));
  };
  double same = 0, other = 0;
  int same_pairs = 0, other_pairs = 0;
  const auto on_h100 = steps_of("h100_sxm", {"validation.csv", "families.csv"}, true);
  for (const auto& [key, steps] : steps_of("h200", {"validation.csv", "families.csv"}, true)) {
    if (const auto found = on_h100.find(key); found != on_h100.end()) {
      same += off(steps.back(), found->second.back());
      ++same_pairs;
    }
  }
  for (const auto& [key, steps] : steps_of("h200", {"families.csv"}, false)) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (std::size_t j = i + 1; j < steps.size(); ++j) {
        other += off(steps[i], steps[j]);
        ++other_pairs;
      }
    }
  }
  CHECK(same_pairs > 200);
  CHECK(other_pairs > 400);
  CHECK(same / same_pairs == Approx(kSamePlanError).epsilon(0.1));
  CHECK(other / other_pairs == Approx(kOtherPlanError).epsilon(0.1));
}

TEST_CASE("the ranking is the same on one core and on all", "[fast]") {
  const std::string question = "what-if --hidden 1024 --density 30% --precision fp32 --batch 16 --format json";
  const Run one = run(question, "taskset -c 0");
  REQUIRE(one.status == 0);
  CHECK(one.out == run(question).out);
}

TEST_CASE("backwards, the least of a number reaches the target and the next smaller does not", "[fast]") {
  const std::string network = " --cell lstm --density 10% --batch 2 --set sm.count=16";
  const Json json = run_json("what-if --target hidden=2300 --vary shared_memory.per_sm" + network);
  CHECK(json["base"]["reached"] == false);
  const Json& least = json.at("alone").at(0);
  REQUIRE(least["reached"] == true);
  const double bytes = least["values"]["shared_memory.per_sm"];
  const auto fits = [&](double at_bytes) {
    return run("fit --hidden 2300 --set 'shared_memory.per_sm=" + std::to_string(static_cast<int>(at_bytes)) + " B'" +
               network)
               .status == 0;
  };
  CHECK(run("fit --hidden 2300 " + least["option"].get<std::string>() + network).status == 0);
  CHECK_FALSE(fits(bytes - 1024));
  // The same question without --target, and in the other direction.
  CHECK(run_json("what-if --hidden 2300 --vary shared_memory.per_sm" + network)["alone"] == json["alone"]);
  const Json large =
      run_json("what-if --target hidden=2300 --vary shared_memory.per_sm --set shared_memory.per_sm=x4" + network);
  CHECK(large["base"]["reached"] == true);
  CHECK(large["alone"][0]["values"]["shared_memory.per_sm"].get<double>() < large["alone"][0]["from"].get<double>());
}

TEST_CASE("what is out of reach is an answer with what comes nearest, and words that are none are refused", "[fast]") {
  const Run none = run("what-if --hidden 2304 --density 30% --target 'step_us<=0.1' --vary sm.count");
  CHECK(none.status == 1);
  CHECK(says(none.out, "sm.count alone comes nearest with "));
  CHECK(says(none.out, "bound by exchange"));
  require_refusal("what-if --vary sm.count", "expected a target such as hidden=8192");
  require_refusal("what-if --target hidden=64 --vary sm.cuont", "did you mean 'sm.count'?");
  require_refusal("what-if --target hidden=64 --vary sm.count --vary sm.count", "is there twice");
  require_refusal("what-if --target hidden=64 --vary sm.count --price sm.clock=1/MHz", "'sm.clock' is not varied");
  require_refusal("what-if --target hidden=64 --hidden 65", "contradicts");
  require_refusal("what-if --target 'step_us<=0' --hidden 65", "expected a time above 0");
}

TEST_CASE("a terminal sees from the first second on that work goes on", "[fast]") {
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  REQUIRE(child >= 0);
  if (child == 0) {
    {
      const Waiting waiting("seeking");
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    }
    ::_exit(0);
  }
  std::string seen;
  char buffer[4096];
  for (ssize_t got; (got = ::read(terminal, buffer, sizeof buffer)) > 0;) {
    seen.append(buffer, static_cast<std::size_t>(got));
  }
  ::waitpid(child, nullptr, 0);
  ::close(terminal);
  CHECK(says(seen, "seeking: 1 s"));
  CHECK(seen.ends_with("\r\033[K"));  // and is gone at the end
}
