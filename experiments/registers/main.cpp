// SPDX-License-Identifier: Apache-2.0
// What the costs of model/registers.cpp are fitted to, and how well they do: the most weight words per thread with
// which the compiler keeps everything in registers, for many shapes of sparse persistent plans. Needs no GPU.
//
//   register_limits shapes NUMBER > SHAPES.csv         plans, three of four picks of the planner near their limit
//   register_limits domain LIMITS.csv... > SHAPES.csv  all of a grid of relu and tanh networks on six chips that the
//                                                      planner picks near the limit, packed_pair in registers, but
//                                                      those that these files already speak for; the most frequent
//                                                      first
//   register_limits measure SHAPES.csv [PART/PARTS [ARCHITECTURE...]] > LIMITS.csv
//                                                      about ten seconds per shape and architecture; every PARTS-th
//                                                      shape from the PART-th on, to measure on all cores:
//                                                        seq 0 15 | xargs -P 16 -I{} sh -c
//                                                        'register_limits measure SHAPES.csv {}/16 > {}.csv'
//   register_limits table LIMITS.csv... > ../model/register_table.inc
//   register_limits fit LIMITS.csv                     the costs of model/registers.cpp, anew; before them the score of
//                                                      costs that are fitted without the shapes held out
//   register_limits score LIMITS.csv...                how far the model's words are below the compiler's; which are
//                                                      far, or above, on the standard error
//   register_limits check NUMBER [SEED]                picks of the planner for relu and tanh networks drawn at random,
//                                                      on every architecture: whether one spills that is said to fit,
//                                                      and whether one is kept with more than 8 words more
//   register_limits missing NUMBER SEED LIMITS.csv... > SHAPES.csv
//                                                      of as many picks as `check` draws, the shapes that are in none
//                                                      of these files, the most frequent first
//   register_limits picks CONFIGURATIONS.csv           the planner's sparse plans near the limit of an H200, compiled
//
// data/register_limits.csv (NVRTC 13.0.88, as the other), to which the costs are fitted, has shapes of every kind, of
// which every third, by a hash of it, can be held out; data/register_table.csv those of a `domain` of before, and those
// on which `check` or a test had failed. The table is made of both.
#include "experiments/registers/shape.hpp"
#include "experiments/registers/verbs.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

int main(int count, char** arguments) {
  using namespace onchip::registers;
  try {
    const std::string verb = count >= 3 ? arguments[1] : "";
    const std::vector<std::string> files(arguments + std::min(2, count), arguments + count);
    if (verb == "shapes" && count == 3) {
      return print_shapes(std::stoi(files[0]));
    }
    if (verb == "domain") {
      return print_domain(files);
    }
    if (verb == "measure") {
      const std::vector<std::string> all(kArchitectures.begin(), kArchitectures.end());
      return measure(files[0], count > 3 ? files[1] : "0/1",
                     count > 4 ? std::vector<std::string>(files.begin() + 2, files.end()) : all);
    }
    if (verb == "check" && count <= 4) {
      return check_fresh(std::stoi(files[0]), count == 4 ? static_cast<unsigned>(std::stoul(files[1])) : 1);
    }
    if (verb == "missing" && count >= 4) {
      return print_missing(std::stoi(files[0]), static_cast<unsigned>(std::stoul(files[1])),
                           {files.begin() + 2, files.end()});
    }
    if (verb == "table") {
      return print_table(files);
    }
    if (verb == "picks" && count == 3) {
      return check_picks(files[0]);
    }
    if (verb == "score") {
      return score(files);
    }
    if (verb == "fit" && count == 3) {
      return fit(files[0]);
    }
    std::fputs(
        "usage: register_limits shapes NUMBER | domain LIMITS.csv... | measure SHAPES.csv [PART/PARTS "
        "[ARCHITECTURE...]] | "
        "table LIMITS.csv... | fit LIMITS.csv | score LIMITS.csv... | check NUMBER [SEED] | "
        "missing NUMBER SEED LIMITS.csv... | picks CONFIGURATIONS.csv\n",
        stderr);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "register_limits: %s\n", error.what());
    return 2;
  }
}
