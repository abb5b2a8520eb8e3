// SPDX-License-Identifier: Apache-2.0
// The verbs of the `onchip` command. Each stands in a file of its own, takes what follows its name on the command line
// and returns the exit status: 0 done, 1 the answer is no. Bad input is an InputError, for main to print.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

struct Verb {
  std::string_view name;
  std::string_view sentence;
  std::string_view example;
  int (*run)(const Verb&, const std::vector<std::string>& arguments);
};

int run_chips(const Verb&, const std::vector<std::string>& arguments);
int run_fit(const Verb&, const std::vector<std::string>& arguments);
int run_predict(const Verb&, const std::vector<std::string>& arguments);
int run_what_if(const Verb&, const std::vector<std::string>& arguments);
int run_sweep(const Verb&, const std::vector<std::string>& arguments);
int run_pareto(const Verb&, const std::vector<std::string>& arguments);
int run_measure(const Verb&, const std::vector<std::string>& arguments);
int run_calibrate(const Verb&, const std::vector<std::string>& arguments);
int run_simulate(const Verb&, const std::vector<std::string>& arguments);
int run_validate(const Verb&, const std::vector<std::string>& arguments);
int run_reproduce(const Verb&, const std::vector<std::string>& arguments);
int run_report(const Verb&, const std::vector<std::string>& arguments);
int run_stamp(const Verb&, const std::vector<std::string>& arguments);

inline constexpr std::array kVerbs{
    Verb{"chips", "List the chips that are shipped, every number of one with its source, or several side by side.",
         "onchip chips H200", run_chips},
    Verb{"fit", "Say whether a network stays on the chip or, without --hidden, how large one can be.",
         "onchip fit --chip h200 --density 10% --batch 4", run_fit},
    Verb{"predict", "Predict how long one time step takes, and its bottleneck.",
         "onchip predict --hidden 2304 --density 30% --batch 4", run_predict},
    Verb{"simulate", "Replay one time step, address by address and cycle by cycle, or a trace from a file.",
         "onchip simulate --hidden 2304 --density 30% --timeline step.json", run_simulate},
    Verb{"what-if",
         "Compare a chip with a changed one, rank the numbers that matter, or find the least that reaches a target.",
         "onchip what-if --hidden 2304 --density 30% --set sm.count=+20% --set sm.clock=\"2.2 GHz\"", run_what_if},
    Verb{"sweep", "Answer for every combination of values on axes of chip, network and plan, row by row into a file.",
         "onchip sweep --axis hidden=512:8192:256 --axis density=0.01,0.05,0.1 -o sweep.csv", run_sweep},
    Verb{"pareto", "Find the rows of a sweep that no other row beats, and what each step along them costs and gains.",
         "onchip pareto sweep.csv --objectives hidden:max,step_us:min", run_pareto},
    Verb{"measure", "Run a plan as a CUDA kernel: check its results, then time it.",
         "onchip measure --hidden 2304 --density 30% --baselines", run_measure},
    Verb{"calibrate", "Measure a chip's timing constants with microbenchmarks and write them as a chip file.",
         "onchip calibrate --chip h200 --data microbench.csv -o h200.toml", run_calibrate},
    Verb{"validate", "Score the predictions against measured step times.", "onchip validate --format csv -o parity.csv",
         run_validate},
    Verb{"reproduce", "Set claims of papers beside what the model says and what was measured, with a verdict.",
         "onchip reproduce all", run_reproduce},
    Verb{"report", "Write answers, sweeps and fronts as one HTML page with tables and figures.",
         "onchip report sweep.csv front.json -o report.html", run_report},
    Verb{"stamp", "Renew the fingerprints of measured rows whose machine code is found the same.",
         "onchip stamp experiments/data/*/*.csv", run_stamp},
};

}  // namespace onchip
