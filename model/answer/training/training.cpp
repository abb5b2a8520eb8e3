// SPDX-License-Identifier: Apache-2.0
#include "model/answer/training/training.hpp"

#include "model/answer/least.hpp"
#include "model/base/error.hpp"
#include "model/base/units.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace onchip {
namespace {

using FoundPlan = Found<PlannedTraining>;

PlannedTraining planned(const Chip& chip, const Training& training, TrainingPlan plan) {
  TrainingPrediction prediction = predict(chip, training, plan);
  return {std::move(plan), std::move(prediction)};
}

// The family that keeps this training's weights on the chip.
std::string_view family_on_chip(const Training& training) {
  return training.mask ? SparseTrainingPlan::kName : DenseTrainingPlan::kName;
}

}  // namespace

namespace {

// The plan, or why it needs more memory than there is.
FoundPlan within_memory(PlannedTraining plan, const TrainingConstraints& constraints) {
  const auto peak = static_cast<double>(plan.prediction.memory.peak_bytes);
  if (!constraints.memory_bytes || peak <= *constraints.memory_bytes) {
    return plan;
  }
  const auto gibibytes = [](double bytes) { return significant(bytes / (1 << 30), 7) + " GiB"; };
  return FoundPlan::nothing("it needs " + gibibytes(peak) +
                            " of device memory beside the input and the weights; there are " +
                            gibibytes(*constraints.memory_bytes));
}

// Of how many layers with cells those are that are considered with the next.
int mix_step(const Stack& stack) {
  constexpr int kMixes = 8;
  return (stack.layers + kMixes - 1) / kMixes;
}

constexpr int kFewestSteps = 8;  // of a chunk that a budget chooses

// The longest chunks with which an iteration takes no more than that, else those with which it takes the least: the
// shorter they are, the more states are kept.
void shorten_chunks(const Training& training, double bytes, DenseTrainingPlan& plan) {
  const auto peak = [&](const DenseTrainingPlan& of) {
    return static_cast<double>(training_memory(training, of).peak_bytes);
  };
  DenseTrainingPlan shorter = plan;
  shorter.chunk = static_cast<int>(chunk_steps(size_of(training), of_layer(plan, 0)));
  while ((plan.stash != Stash::gates || plan.cell_layers > 0) && peak(plan) > bytes &&
         (shorter.chunk /= 2) >= kFewestSteps) {
    plan = peak(shorter) < peak(plan) ? shorter : plan;
  }
}

FoundPlan of_stash(const Chip& chip, const Training& training, const TrainingConstraints& constraints, Stash stash) {
  const Found<TrainingPlan> chosen =
      constraints.resident ? choose_resident(chip, training) : choose_on_chip(chip, training, stash);
  if (!chosen) {
    return FoundPlan::nothing(chosen.why());
  }
  TrainingPlan plan = with_fields(chip, training, *chosen, constraints.fields);
  auto* const dense = std::get_if<DenseTrainingPlan>(&plan);
  if (dense != nullptr && constraints.memory_bytes && !constraints.stash) {
    return within_memory(within_budget(chip, training, *dense, *constraints.memory_bytes), constraints);
  }
  if (dense != nullptr) {
    dense->cell_layers = constraints.cell_layers;
    if (constraints.memory_bytes) {
      shorten_chunks(training, *constraints.memory_bytes, *dense);
    }
  }
  return within_memory(planned(chip, training, std::move(plan)), constraints);
}

}  // namespace

FoundPlan plan_training_on_chip(const Chip& chip, const Training& training, const TrainingConstraints& constraints) {
  const PassFields& fields = constraints.fields;
  if (constraints.plan && stash_of(*constraints.plan) == Stash::none && constraints.stash != Stash::none) {
    throw InputError("plan: without a stash it is of a forward pass alone, which 'predict --layers' asks for");
  }
  if (constraints.plan) {
    return within_memory(planned(chip, training, with_fields(chip, training, *constraints.plan, fields)), constraints);
  }
  if (constraints.family == CudnnTrainingPlan::kName) {
    return within_memory(planned(chip, training, with_fields(chip, training, CudnnTrainingPlan{}, fields)),
                         constraints);
  }
  if (const std::string_view family = family_on_chip(training);
      constraints.family.value_or(std::string(family)) != family) {
    return FoundPlan::nothing(*constraints.family + " trains " + (training.mask ? "dense" : "sparse") +
                              " networks, and this one is " + (training.mask ? "sparse" : "dense"));
  }
  return of_stash(chip, training, constraints, constraints.stash.value_or(Stash::gates));
}

PlannedTraining within_budget(const Chip& chip, const Training& training, const DenseTrainingPlan& chosen, double bytes,
                              bool may_replay, int length_bytes) {
  std::optional<PlannedTraining> best;
  const auto peak = [](const PlannedTraining& of) { return of.prediction.memory.peak_bytes; };
  const auto consider = [&](DenseTrainingPlan plan) {
    if (best && static_cast<double>(peak(*best)) <= bytes &&
        static_cast<double>(training_memory(training, plan, length_bytes).peak_bytes) > bytes) {
      return;
    }
    PlannedTraining one = planned(chip, training, plan);
    one.prediction.memory = training_memory(training, plan, length_bytes);
    const bool fits = static_cast<double>(peak(one)) <= bytes;
    if (!best || (static_cast<double>(peak(*best)) > bytes
                      ? peak(one) < peak(*best)
                      : fits && one.prediction.iteration.us < best->prediction.iteration.us)) {
      best = std::move(one);
    }
  };
  const auto consider_chunks = [&](DenseTrainingPlan plan) {
    consider(plan);
    TrainingSize size = size_of(training);
    size.length_bytes = length_bytes;
    plan.chunk = static_cast<int>(chunk_steps(size, of_layer(plan, 0)));
    while (length_bytes == 0 && (plan.chunk /= 2) >= kFewestSteps) {
      consider(plan);
    }
  };
  DenseTrainingPlan plan = chosen;
  plan.stash = Stash::gates;
  consider(plan);
  if (static_cast<double>(peak(*best)) <= bytes) {
    return *best;  // nothing is computed twice
  }
  for (int layers = 1; layers < training.stack.layers; layers += mix_step(training.stack)) {
    plan.cell_layers = layers;
    consider_chunks(plan);
  }
  plan.cell_layers = 0;
  plan.stash = Stash::cells;
  consider_chunks(plan);
  plan.stash = Stash::replay;
  if (may_replay && why_no_replay(training.stack).empty() && length_bytes == 0) {
    consider_chunks(plan);
    plan.chunk = 2 * static_cast<int>(chunk_steps(size_of(training), plan));
    consider(plan);
  }
  return *best;
}

FoundPlan plan_training(const Chip& chip, const Training& training, const TrainingConstraints& constraints) {
  FoundPlan own = plan_training_on_chip(chip, training, constraints);
  if (constraints.plan || constraints.family || constraints.fields.any()) {
    return own;
  }
  FoundPlan library = within_memory(planned(chip, training, CudnnTrainingPlan{}), constraints);
  const bool takes_own =
      !library || (own && own->prediction.iteration.us <= (1 - kLibraryDoubt) * library->prediction.iteration.us);
  return takes_own ? own : library;
}

Found<CallPrices> call_prices(const Chip& chip, const Training& training, bool is_inference) {
  const bool is_stack = is_inference && !training.stack.bidirectional && !training.mask;
  const FoundPlan own =
      plan_training_on_chip(chip, training, {.stash = is_stack ? std::optional(Stash::none) : std::nullopt});
  if (!own) {
    return Found<CallPrices>::nothing(own.why());
  }
  const auto price_us = [&](const TrainingPlan& plan) {
    return is_inference ? inference_us(chip, training, plan) : predict(chip, training, plan).iteration.us;
  };
  return CallPrices{price_us(own->plan), price_us(CudnnTrainingPlan{})};
}

namespace {

// What forward keeps.
std::string kept_words(const TrainingPlan& plan) {
  const auto* const dense = std::get_if<DenseTrainingPlan>(&plan);
  const int cell_layers = dense != nullptr ? dense->cell_layers : 0;
  return stash_of(plan) == Stash::replay
             ? "keeps states to replay from"
             : "keeps the " + std::string(stash_name(plan)) +
                   (cell_layers > 0
                        ? ", of the first " + (cell_layers > 1 ? std::to_string(cell_layers) + " layers" : "layer") +
                              " the cells"
                        : "");
}

}  // namespace

std::vector<RankedTraining> rank_trainings(const Chip& chip, const Training& training,
                                           const std::vector<AskedStash>& stashes, std::optional<double> memory_bytes) {
  std::vector<RankedTraining> ranking{
      {CublasPlan::kName, {}, cublas_price(chip, training), "its products alone, without cells"}};
  const auto add = [&](std::string_view family, const AskedStash& asked) {
    RankedTraining& one = ranking.emplace_back();
    one.family = family;
    const FoundPlan found = plan_training_on_chip(chip, training,
                                                  {.family = std::string(family),
                                                   .stash = asked.stash,
                                                   .cell_layers = asked.cell_layers,
                                                   .memory_bytes = memory_bytes});
    if (found) {
      one.planned = *found;
      one.iteration = found->prediction.iteration;
    } else {
      one.why = found.why();
    }
  };
  for (const AskedStash& stash : stashes) {
    add(family_on_chip(training), stash);
  }
  add(CudnnTrainingPlan::kName, {});
  const auto us = [](const RankedTraining& one) {
    return one.planned ? one.iteration.us : std::numeric_limits<double>::infinity();
  };
  std::ranges::stable_sort(ranking, {}, us);
  const auto peak = [](const RankedTraining& of) {
    return static_cast<double>(of.planned->prediction.memory.peak_bytes);
  };
  for (RankedTraining& one : ranking) {
    if (one.planned) {
      const RankedTraining& best = ranking.front();
      one.why = &one == &best ? "the fastest"
                              : significant(one.iteration.us / best.iteration.us, 3) + " times as long, in " +
                                    significant(peak(one) / peak(best), 3) + " times the memory";
      one.why += is_on_chip(one.planned->plan) ? "; " + kept_words(one.planned->plan) : "";
    }
  }
  return ranking;
}

// ---- questions ------------------------------------------------------------------------------------------------------

TrainingConstraints with_memory_of(const Chip& chip, const Training& training, TrainingConstraints constraints) {
  if (!constraints.memory_bytes) {
    const Recurrent& network = training.network;
    double values = 1.0 * network.steps * network.batch * training.stack.columns(network, 0);
    for (int layer = 0; layer < training.stack.layers; ++layer) {
      values += 1.0 * training.stack.directions() * network.rows() *
                (training.stack.columns(network, layer) + network.hidden + 2);
    }
    constraints.memory_bytes = std::max(0.0, chip.dram_bytes - values * info(state_type(network.precision)).bytes);
  }
  return constraints;
}

Training training_of(const Configuration& configuration, const Stack& stack) {
  Training training{configuration.network, stack, nullptr};
  const Recurrent& network = training.network;
  if (network.density == 1) {
    return training;
  }
  if (const std::string lacks = what_lacks_sparse(training); !lacks.empty()) {
    throw InputError(lacks);
  }
  const double nonzeros = network.density * network.rows() * network.hidden;
  if (!configuration.weights && nonzeros > kMostGenerated) {
    throw InputError("W_hh has " + format_number(std::round(nonzeros)) + " non-zeros: no chip holds so many");
  }
  training.mask = recurrent_matrix(configuration);
  return training;
}

PlanTime plan_time(const TrainingCase& answer) {
  return answer.planned ? PlanTime{answer.fits(), answer.planned->prediction.step_us, to_string(answer.planned->plan)}
                        : PlanTime{false, std::numeric_limits<double>::infinity(), ""};
}

std::string TrainingCase::why_not() const {
  return fits()                      ? ""
         : !planned                  ? planned.why()
         : is_on_chip(planned->plan) ? explain(planned->prediction.footprint)
                                     : std::string(family_name(planned->plan)) + " keeps nothing on the chip";
}

std::string describe(const TrainingCase& answer) {
  const Recurrent& network = answer.training.network;
  return describe(network) + ", " + describe(answer.training.stack, network) +
         (answer.is_resident ? ", all layers on the SMs of " + answer.chip + " at once"
                             : ", training on " + answer.chip);
}

RankOf<TrainingCase> rank(const TrainingQuestion& question) {
  const std::string& chip = question.chip.chip.name;
  const Training training = training_of(question.configuration, question.stack);
  RankOf<TrainingCase> answer{chip, describe(TrainingCase{chip, training}), to_json(training.network)};
  const TrainingConstraints constraints = with_memory_of(question.chip.chip, training, question.constraints);
  std::vector<AskedStash> stashes{{constraints.stash, constraints.cell_layers}};
  if (!constraints.stash && !training.mask) {
    stashes = {{Stash::gates}};
    for (int layers = 1; layers < training.stack.layers; layers += mix_step(training.stack)) {
      stashes.push_back({Stash::gates, layers});
    }
    stashes.push_back({Stash::cells});
    if (why_no_replay(training.stack).empty()) {
      stashes.push_back({Stash::replay});
    }
  }
  for (const RankedTraining& ranked : rank_trainings(question.chip.chip, training, stashes, constraints.memory_bytes)) {
    RankedOf<TrainingCase>& one = answer.ranking.emplace_back();
    one.family = ranked.family;
    one.why = ranked.why;
    if (ranked.planned) {
      one.answer = {chip, training, *ranked.planned};
      one.is_on_chip = is_on_chip(ranked.planned->plan);
      answer.has_fitting |= one.answer->fits();
    } else if (ranked.iteration.us > 0) {
      one.why += ": " + significant(ranked.iteration.us / training.network.steps, 3) + " us of a step";
    }
  }
  return answer;
}

namespace {

AskedStash asked_of(const TrainingPlan& chosen, const TrainingConstraints& constraints) {
  const auto* const dense = std::get_if<DenseTrainingPlan>(&chosen);
  return {is_on_chip(chosen) ? stash_of(chosen) : constraints.stash, dense != nullptr ? dense->cell_layers : 0};
}

}  // namespace

TrainingAnswer predict_training(const ChipFile& chip, const Training& training,
                                const TrainingConstraints& constraints) {
  check(training.network);
  const PlannedTraining chosen = plan_training(chip.chip, training, constraints).value_or_throw();
  return {{chip.chip.name, training, chosen},
          rank_trainings(chip.chip, training, {asked_of(chosen.plan, constraints)}, constraints.memory_bytes)};
}

namespace {

// A number of a question, of which the largest is sought.
using SoughtNumber = int& (*)(TrainingQuestion&);
int& hidden_of(TrainingQuestion& question) {
  return question.configuration.network.hidden;
}
int& batch_of(TrainingQuestion& question) {
  return question.configuration.network.batch;
}
int& steps_of(TrainingQuestion& question) {
  return question.configuration.network.steps;
}
int& layer_count_of(TrainingQuestion& question) {
  return question.stack.layers;
}

TrainingQuestion with_number(TrainingQuestion question, SoughtNumber number, int value) {
  if (number == hidden_of && value != hidden_of(question)) {
    question.configuration.weights = nullptr;  // a file's are of one size: others are as dense
  }
  number(question) = value;
  return question;
}

FoundPlan planned_on(const Chip& chip, const Training& training, const TrainingConstraints& constraints) {
  return plan_training_on_chip(chip, training, with_memory_of(chip, training, constraints));
}

// What cannot be generated is no training.
Found<Training> training_of(const TrainingQuestion& question) {
  try {
    return training_of(question.configuration, question.stack);
  } catch (const InputError& error) {
    return Found<Training>::nothing(error.what());
  }
}

TrainingCase case_of(const Chip& chip, const TrainingQuestion& question) {
  const Found<Training> training = training_of(question);
  return {chip.name, training ? *training : Training{question.configuration.network, question.stack},
          training ? planned_on(chip, *training, question.constraints) : FoundPlan::nothing(training.why()),
          question.constraints.resident};
}

// Of what is answered; a search needs it not.
TrainingCase with_otherwise(const Chip& chip, TrainingCase answer) {
  if (answer.is_resident) {
    const FoundPlan fastest = planned_on(chip, answer.training, {.stash = Stash::none});
    if (fastest && !(answer.planned && answer.planned->plan == fastest->plan)) {
      answer.otherwise = *fastest;
    }
  }
  return answer;
}

// A whole plan or fields hold for one network.
const TrainingQuestion& without_plan(const TrainingQuestion& question) {
  if (question.constraints.plan || question.constraints.fields.any()) {
    throw InputError("a given plan is of one network: the largest is sought without it");
  }
  return question;
}

int largest_hidden(const Chip& chip, const TrainingQuestion& question, int expected = 1, int stride = 1) {
  const auto fits_at = [&](int granules) {
    return case_of(chip, with_number(question, hidden_of, granules * question.granule)).fits();
  };
  return question.granule * largest_that_fits(fits_at, kMaxHidden / question.granule, expected, stride);
}

TrainingLimit limit_of(const Chip& chip, const TrainingQuestion& question, std::string_view name, SoughtNumber number,
                       int granule, int most) {
  TrainingQuestion asked = question;
  const int expected = std::max(1, number(asked) / granule);
  const auto case_at = [&](int value) { return case_of(chip, with_number(question, number, value)); };
  const auto fits_at = [&](int granules) { return case_at(granules * granule).fits(); };
  const int largest = granule * (fits_at(most / granule)
                                     ? most / granule
                                     : largest_that_fits(fits_at, most / granule, expected, std::max(1, expected / 4)));
  const int next = largest + granule;
  return {name, largest, next > most ? "no kernel counts more" : std::to_string(next) + ": " + case_at(next).why_not()};
}

ReachedOf<TrainingCase> reach(const TrainingQuestion& question, const Training& training,
                              const std::optional<double>& step_us, const TargetQuestion& words) {
  const auto answer_of = [&](const ChipFile& chip) {
    return TrainingCase{chip.chip.name, training, planned_on(chip.chip, training, question.constraints),
                        question.constraints.resident};
  };
  const auto misses = [&](const ChipFile& chip) {
    const TrainingCase answer = answer_of(chip);
    return !answer.fits() ? kDoesNotFit : step_us ? answer.planned->prediction.step_us / *step_us - 1 : 0;
  };
  static constexpr std::array<std::string_view, 4> kKeys{kCapacityKeys[0], kCapacityKeys[1], kCapacityKeys[2],
                                                         "dram.size"};
  return with_answers<TrainingCase>(find_least({question.chip, words.vary_or(kKeys), words.prices, misses}),
                                    [&](const ChipFile& chip) { return with_otherwise(chip.chip, answer_of(chip)); });
}

}  // namespace

TrainingCase largest_training(const TrainingQuestion& question) {
  const Chip& chip = question.chip.chip;
  const int largest = std::max(question.granule, largest_hidden(chip, without_plan(question)));
  return case_of(chip, with_number(question, hidden_of, largest));
}

TrainingFit fit(const TrainingQuestion& asked) {
  const Chip& chip = asked.chip.chip;
  TrainingQuestion question = asked;
  Recurrent& network = question.configuration.network;
  TrainingFit fit;
  fit.answer = with_otherwise(chip, network.hidden == 0 ? largest_training(question) : case_of(chip, question));
  network.hidden = fit.answer.training.network.hidden;
  if (!question.constraints.plan && !question.constraints.fields.any()) {
    fit.limits = {
        limit_of(chip, question, "hidden", hidden_of, question.granule, kMaxHidden),
        limit_of(chip, question, "batch", batch_of, 1, kMaxBatch),
        limit_of(chip, question, "steps", steps_of, 1, static_cast<int>(kMostTrainedSamples / network.batch))};
    if (question.constraints.resident) {
      fit.limits.push_back(limit_of(chip, question, "layers", layer_count_of, 1, kMostLayersAtOnce));
    }
    if (const Found<Training> training = training_of(question); training && !fit.answer.fits()) {
      fit.to_fit = reach(question, *training, std::nullopt, {});
    }
  }
  return fit;
}

SideOf<TrainingCase> side_of(const ChipFile& chip, const TrainingQuestion& question) {
  const int largest = largest_hidden(chip.chip, without_plan(question)), hidden = question.configuration.network.hidden;
  const int size = hidden > 0 ? hidden : std::max(question.granule, largest);
  return {with_otherwise(chip.chip, case_of(chip.chip, with_number(question, hidden_of, size))), largest};
}

AskedOfChips asked_of_chips(const TrainingQuestion& question, const SideOf<TrainingCase>& base, int granule) {
  TrainingQuestion sizes = question;
  sizes.granule = granule;
  return {[sizes](const Chip& chip, int expected, int stride) {
            return largest_hidden(chip, sizes, expected, stride) / sizes.granule;
          },
          [training = base.training, constraints = question.constraints](const Chip& chip) {
            return plan_time({chip.name, training, planned_on(chip, training, constraints)});
          },
          std::max(1, base.largest_hidden / granule)};
}

TargetOf<TrainingCase> reach(const TrainingQuestion& asked, const TargetQuestion& words) {
  TrainingQuestion question = without_plan(asked);
  take_hidden(question.configuration.network, words.target);
  const Training training = training_of(question.configuration, question.stack);
  return {reach(question, training, words.target.step_us, words), words.target};
}

}  // namespace onchip
