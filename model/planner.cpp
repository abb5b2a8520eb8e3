// SPDX-License-Identifier: Apache-2.0
#include "model/planner.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace onchip {
namespace {

// How far a plan is from fitting: its largest share of a resource; 1 and below fits.
double overload(const Footprint& footprint) {
  double worst = 0;
  for (const ResourceUse& resource : footprint.resources) {
    worst = std::max(worst, resource.share());
  }
  return worst;
}

bool better(const Prediction& a, const Prediction& b) {
  if (a.footprint.fits != b.footprint.fits) {
    return a.footprint.fits;
  }
  return a.footprint.fits ? a.step_us < b.step_us : overload(a.footprint) < overload(b.footprint);
}

constexpr std::array kLanes{32, 16, 8, 4, 2};
constexpr int kMostLoadsInFlight = 8;

// The numbers of SMs worth trying: as few as give each the same number of rows as all would, and half of that.
std::array<int, 2> sm_choices(const Chip& chip, int rows) {
  const int all = static_cast<int>(chip.sm_count);
  const int rows_per_sm = (rows + all - 1) / all;
  const int fewest = (rows + rows_per_sm - 1) / rows_per_sm;
  return {fewest, std::max(1, fewest / 2)};
}

// Calls `consider` with every plan that the wishes allow.
template <typename Consider>
void for_each_plan(const Chip& chip, const Network& network, const RowProfile& rows, const PlanWishes& wishes,
                   Consider&& consider) {
  for (const Storage storage : {Storage::packed_pair, Storage::dense}) {
    if (wishes.storage ? *wishes.storage != storage : storage == Storage::dense && network.density < 0.4) {
      continue;
    }
    for (const int choice : sm_choices(chip, rows.rows())) {
      const int sms = wishes.sms.value_or(choice);
      for (const int lanes : kLanes) {
        if (wishes.lanes_per_row && *wishes.lanes_per_row != lanes) {
          continue;
        }
        for (int rows_per_group = 1; rows_per_group <= kMaxRowsPerGroup; ++rows_per_group) {
          if (wishes.rows_per_group && *wishes.rows_per_group != rows_per_group) {
            continue;
          }
          Plan plan = shape_plan(network, rows, storage, sms, lanes, rows_per_group);
          if (plan.threads > chip.max_threads_per_block && !wishes.rows_per_group) {
            continue;
          }
          plan.order = wishes.order.value_or(RowOrder::bank_aware);
          plan.promote_every = wishes.promote_every.value_or(network.precision == Precision::fp16 ? 8 : 1);
          const std::int64_t words = exchange_bytes(network, plan) / 16;
          const int needed = static_cast<int>((words + plan.threads - 1) / plan.threads);
          for (const bool unpacked : {true, false}) {
            if (wishes.unpacked ? *wishes.unpacked != unpacked : unpacked && storage == Storage::dense) {
              continue;
            }
            plan.unpacked = unpacked;
            // Every plane of the state gets its share of the loads.
            const int step = planes(network, plan);
            for (int loads = step; loads <= std::max(step, kMostLoadsInFlight); loads += step) {
              plan.loads_in_flight = wishes.loads_in_flight.value_or(loads);
              consider(plan);
              if (wishes.loads_in_flight || loads >= needed) {
                break;  // more than there are words
              }
            }
          }
        }
      }
      if (wishes.sms) {
        break;
      }
    }
  }
}

}  // namespace

PlannedNetwork choose_plan(const Chip& chip, const Network& network, const RowProfile& rows, const PlanWishes& wishes) {
  PlannedNetwork best{network, {}, {}};
  bool found = false;
  for_each_plan(chip, network, rows, wishes, [&](const Plan& plan) {
    const Prediction prediction = predict(chip, network, plan);
    if (!found || better(prediction, best.prediction)) {
      best.plan = plan;
      best.prediction = prediction;
      found = true;
    }
  });
  if (!found && !wishes.rows_per_group) {  // no shape has few enough threads: say so with the least that is asked for
    PlanWishes most_rows = wishes;
    most_rows.rows_per_group = kMaxRowsPerGroup;
    return choose_plan(chip, network, rows, most_rows);
  }
  return best;
}

Capacity find_capacity(const Chip& chip, const Network& network, int granule, const PlanWishes& wishes,
                       const RowsOf& exact) {
  const RowsOf expected = [](const Network& sized) {
    return RowProfile::uniform(sized.rows(), sized.hidden, sized.density);
  };
  const auto plan_with = [&](const RowsOf& rows, int granules) {
    Network sized = network;
    sized.hidden = granules * granule;
    return choose_plan(chip, sized, rows(sized), wishes);
  };
  const auto plan_at = [&](int granules) { return plan_with(expected, granules); };
  // Footprints grow with the size, but for rounding: find a size that does not fit, halve, then walk over the ripples.
  const int most = kMaxHidden / granule;
  int fits = 0, fails = 1;
  while (fails < most && plan_at(fails).prediction.footprint.fits) {
    fits = fails;
    fails = std::min(most, 2 * fails);
  }
  while (fails - fits > 1) {
    const int middle = fits + (fails - fits) / 2;
    (plan_at(middle).prediction.footprint.fits ? fits : fails) = middle;
  }
  constexpr int kRipple = 8;
  for (int beyond = fits + kRipple; beyond > fits; --beyond) {
    if (beyond <= most && plan_at(beyond).prediction.footprint.fits) {
      fits = beyond;
      break;
    }
  }
  Capacity capacity;
  if (!exact) {
    if (fits > 0) {
      capacity.largest = plan_at(fits);
    }
    capacity.next = plan_at(fits + 1);
    return capacity;
  }
  // The longest of the exact rows may be a little shorter or longer than expected.
  capacity.next = plan_with(exact, fits + 1);
  while (capacity.next.prediction.footprint.fits && fits + 1 < most) {
    capacity.largest = std::move(capacity.next);
    capacity.next = plan_with(exact, ++fits + 1);
  }
  for (; !capacity.largest && fits > 0; --fits) {
    PlannedNetwork candidate = plan_with(exact, fits);
    (candidate.prediction.footprint.fits ? capacity.largest.emplace() : capacity.next) = std::move(candidate);
  }
  return capacity;
}

namespace {

// Units and ways of counting, of which 10 % more means nothing, and limits per block, which follow those per SM.
bool is_structural(std::string_view key) {
  constexpr std::array<std::string_view, 8> kStructural{"compute_capability.major",  "compute_capability.minor",
                                                        "registers.allocation_unit", "shared_memory.allocation_unit",
                                                        "registers.per_block",       "shared_memory.per_block",
                                                        "exchange.scatter",          "timing.gather_scatter"};
  return std::find(kStructural.begin(), kStructural.end(), key) != kStructural.end();
}

}  // namespace

std::vector<Sensitivity> sensitivities(const ChipFile& file, const Network& network, const RowProfile& rows,
                                       int granule, const PlanWishes& wishes) {
  const double base_step_us = choose_plan(file.chip, network, rows, wishes).prediction.step_us;
  const auto capacity = [&](const Chip& chip) {
    const Capacity found = find_capacity(chip, network, granule, wishes);
    return found.largest ? found.largest->network.hidden : 0;
  };
  const double base_hidden = capacity(file.chip);
  std::vector<Sensitivity> result;
  for (const ChipKey& key : chip_keys()) {
    if (is_structural(key.key)) {
      continue;
    }
    Chip changed = file.chip;
    const auto scale = [&](Number Chip::*member) {
      const double more = 1.1 * (changed.*member).value;
      (changed.*member).value = key.integral ? std::round(more) : more;
    };
    scale(key.member);
    // What an SM has, one block must be able to ask for.
    if (key.member == &Chip::registers_per_sm) {
      scale(&Chip::registers_per_block);
    } else if (key.member == &Chip::smem_bytes_per_sm) {
      scale(&Chip::smem_bytes_per_block);
    }
    Sensitivity s{key.key, 0, 0};
    if (base_hidden > 0) {
      s.hidden_percent = 100 * (capacity(changed) / base_hidden - 1);
    }
    s.step_percent = 100 * (choose_plan(changed, network, rows, wishes).prediction.step_us / base_step_us - 1);
    if (std::abs(s.hidden_percent) > 1e-9 || std::abs(s.step_percent) > 1e-9) {
      result.push_back(s);
    }
  }
  std::stable_sort(result.begin(), result.end(), [](const Sensitivity& a, const Sensitivity& b) {
    return std::max(std::abs(a.hidden_percent), std::abs(a.step_percent)) >
           std::max(std::abs(b.hidden_percent), std::abs(b.step_percent));
  });
  return result;
}

}  // namespace onchip
