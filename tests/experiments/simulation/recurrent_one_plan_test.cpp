// SPDX-License-Identifier: Apache-2.0
// The plan of a recurrent network that is predicted is the one that is replayed and launched, before a compiler has
// spoken.
#include "kernels/recurrent/program.hpp"
#include "model/answer/answer.hpp"
#include "model/base/random.hpp"
#include "model/base/units.hpp"
#include "sim/simulate.hpp"
#include "tests/experiments/command.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace onchip {
namespace {

RecurrentQuestion drawn_question(Random& random, bool is_dense) {
  const auto one_of = [&](const auto&... of) {
    const std::array all{of...};
    return all[random.below(all.size())];
  };
  using enum Precision;
  RecurrentQuestion question{find_chip("h200"), {}};
  Configuration& asked = question.configuration;
  asked.network = {.cell = one_of(Cell::relu, Cell::tanh, Cell::lstm, Cell::gru),
                   .precision = is_dense ? one_of(fp16, bf16) : one_of(fp16, bf16, fp32, fp8),
                   .hidden = one_of(64, 131, 256, 333, 512, 640),
                   .batch = one_of(1, 3, 4, 8, 16, 33),
                   .steps = one_of(3, 256),
                   .density = one_of(0.02, 0.1, 0.3, 0.5, 1.0)};
  asked.seed = random.below(100);
  asked.constraints.family = is_dense ? DensePlan::kName : SparsePlan::kName;
  if (is_dense && random.below(2) == 0) {
    fix<&DensePlan::exchange>(asked.constraints, ExchangeProtocol::lamport);
  }
  return question;
}

std::string options_of(const Configuration& asked) {
  const Recurrent& network = asked.network;
  return " --cell " + std::string(info(network.cell).name) + " --precision " +
         std::string(info(network.precision).name) + " --hidden " + std::to_string(network.hidden) + " --batch " +
         std::to_string(network.batch) + " --steps " + std::to_string(network.steps) + " --density " +
         format_number(network.density) + " --seed " + std::to_string(asked.seed) + " --family " +
         *asked.constraints.family + (asked.constraints.fixed.empty() ? "" : " --exchange lamport");
}

}  // namespace

TEST_CASE("of 50 drawn recurrent networks the predicted, replayed and launched plans are the same text", "[fast]") {
  std::map<std::string_view, int> replayed, refused;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed, 23);
    const RecurrentQuestion question = drawn_question(random, seed % 2 == 1);
    const Configuration& asked = question.configuration;
    const std::string options = options_of(asked);
    CAPTURE(options);
    const PlannedNetwork planned = predict(question).answer.planned;
    REQUIRE(planned.prediction.footprint.fits);
    const std::string predicted = to_string(planned.plan);

    // As onchip_program_create() makes it.
    const SparseMatrix weights = *recurrent_matrix(asked);
    const PlannedNetwork launched =
        choose_plan(question.chip.chip, asked.network, RowProfile::from_matrix(weights), asked.constraints);
    CHECK(to_string(make_uncompiled_program(make_layout(asked.network, launched.plan, weights), {}, "sm_90").plan) ==
          predicted);

    if (is_replayed(planned.plan)) {
      CHECK(run_json("simulate" + options).at("plan").at("text") == predicted);
      ++replayed[family_name(planned.plan)];
    } else {
      require_refusal("simulate" + options, "the simulator knows no exchange inside a cluster");
      ++refused[family_name(planned.plan)];
    }
  }
  CHECK(replayed[SparsePlan::kName] == 25);
  CHECK(replayed[DensePlan::kName] >= 10);
  CHECK(refused[DensePlan::kName] == 25 - replayed[DensePlan::kName]);
}

}  // namespace onchip
