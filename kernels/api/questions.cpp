// SPDX-License-Identifier: Apache-2.0
// The half of the C API that needs no CUDA: chips, and questions to the model.
#include "kernels/api/handles.hpp"
#include "model/ask/ask.hpp"
#include "model/families/plan.hpp"

#include <cmath>
#include <cstdlib>

namespace onchip {
namespace {

static_assert(ONCHIP_GRU == static_cast<int>(Cell::gru) && kCells.size() == 4);
static_assert(ONCHIP_FP8 == static_cast<int>(Precision::fp8) && kPrecisions.size() == 4);
static_assert(ONCHIP_SMS == static_cast<int>(Resource::sms) && kResources.size() == ONCHIP_RESOURCES);
static_assert(ONCHIP_TIER_STREAMED == static_cast<int>(Tier::streamed) && kTierNames.size() == 3);

}  // namespace

Configuration read_configuration(const onchip_network* given, const onchip_matrix* matrix) {
  require_struct(given, "network");
  require_range("cell", given->cell, 0, static_cast<int>(kCells.size()) - 1);
  require_range("precision", given->precision, 0, static_cast<int>(kPrecisions.size()) - 1);
  require_range("tier", given->tier, 0, static_cast<int>(kTierNames.size()) - 1);
  Configuration asked;
  Recurrent& network = asked.network;
  network.cell = static_cast<Cell>(given->cell);
  network.precision = static_cast<Precision>(given->precision);
  network.hidden = given->hidden;
  network.batch = given->batch;
  network.density = given->density;
  asked.constraints.tier = static_cast<Tier>(given->tier);
  if (matrix != nullptr) {
    const SparseMatrix& weights = matrix->matrix;
    if (weights.rows != network.rows() || weights.columns != network.hidden) {
      throw InputError("the matrix is " + std::to_string(weights.rows) + " x " + std::to_string(weights.columns) +
                       "; a " + std::string(info(network.cell).name) + " network of " + std::to_string(network.hidden) +
                       " units has " + std::to_string(network.rows()) + " x " + std::to_string(network.hidden));
    }
    take_matrix(asked, weights);
  }
  check(network);
  return asked;
}

char* copy_of(const std::string& text) {
  auto* const copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) {
    throw std::bad_alloc();
  }
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

onchip_fit to_fit(const PlannedNetwork& planned) {
  const Prediction& prediction = planned.prediction;
  onchip_fit fit{};
  fit.struct_bytes = sizeof fit;
  fit.runs = prediction.footprint.fits;
  fit.fits = fit.runs != 0 && keeps_weights(planned.plan);
  fit.tier = static_cast<std::int32_t>(tier_of(planned.plan));
  fit.binding = static_cast<std::int32_t>(prediction.footprint.binding);
  for (std::size_t i = 0; i < kResources.size(); ++i) {
    fit.resources[i].used = prediction.footprint.resources[i].used;
    fit.resources[i].available = prediction.footprint.resources[i].available;
    write(fit.resources[i].name, kResources[i].name);
    write(fit.resources[i].unit, kResources[i].unit);
  }
  fit.streamed_share = streamed_share(planned.network, planned.plan);
  if (fit.runs != 0) {
    fit.step_us = prediction.step_us;
    fit.low_us = prediction.low_us;
    fit.high_us = prediction.high_us;
    fit.floor_us = prediction.floor_us;
  }
  std::string why = explain(prediction.footprint);
  if (fit.runs != 0 && fit.fits == 0) {
    why.replace(0, std::string_view("fits").size(), "runs");
    why += "; " + std::to_string(std::lround(100 * fit.streamed_share)) +
           " % of the weights are read from L2 in every step";
  }
  write(fit.why, why);
  write(fit.plan, to_string(planned.plan));
  return fit;
}

}  // namespace onchip

using namespace onchip;

std::int32_t onchip_api_version(void) {
  return ONCHIP_API_VERSION;
}

onchip_status onchip_chip_create(const char* name_or_file, onchip_chip** chip, onchip_error* error) {
  return guarded(error, [&] {
    require(name_or_file, "name_or_file");
    require(chip, "chip");
    *chip = new onchip_chip{find_chip(name_or_file)};
  });
}

onchip_status onchip_chip_set(onchip_chip* chip, const char* assignment, onchip_error* error) {
  return guarded(error, [&] {
    require(chip, "chip");
    require(assignment, "assignment");
    set_chip_key(chip->file, assignment);
  });
}

void onchip_chip_destroy(onchip_chip* chip) {
  delete chip;
}

onchip_status onchip_fit_network(const onchip_chip* chip, const onchip_network* network, const onchip_matrix* matrix,
                                 onchip_fit* fit, onchip_error* error) {
  return guarded(error, [&] {
    require(chip, "chip");
    require_struct(fit, "fit");
    const Configuration asked = read_configuration(network, matrix);
    *fit = to_fit(plan_network(chip->file.chip, asked, row_profile(asked)));
  });
}

onchip_status onchip_largest_hidden(const onchip_chip* chip, const onchip_network* network, std::int32_t granule,
                                    std::int32_t* hidden, onchip_error* error) {
  return guarded(error, [&] {
    require(chip, "chip");
    require_struct(network, "network");
    require(hidden, "hidden");
    require_range("granule", granule, 1, kMostGranule);
    onchip_network sized = *network;
    sized.hidden = granule;
    RecurrentQuestion question{chip->file, read_configuration(&sized, nullptr), granule};
    question.configuration.network.hidden = 0;
    const FitAnswer answer = onchip::fit(question);
    *hidden = answer.answer.runs() ? answer.answer.planned.network.hidden : 0;
  });
}

onchip_status onchip_ask(const onchip_chip* chip, const char* question, const onchip_matrix* matrix, char** answer,
                         onchip_error* error) {
  return guarded(error, [&] {
    require(chip, "chip");
    require(question, "question");
    require(answer, "answer");
    *answer = copy_of(json_text(ask(chip->file, question, matrix == nullptr ? nullptr : &matrix->matrix)));
  });
}

void onchip_text_destroy(char* text) {
  std::free(text);
}
