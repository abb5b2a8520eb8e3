// SPDX-License-Identifier: Apache-2.0
#include "model/answer/capacity.hpp"

#include "model/answer/least.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"
#include "model/chip/chip_keys.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

namespace onchip {

int largest_that_fits(const std::function<bool(int)>& fits_at, int most, int expected, int stride) {
  constexpr int kRipple = 8;
  const int first = std::clamp(expected, 1, most);
  int fits = 0, fails = most;
  if (fits_at(first)) {
    for (fits = first; fits + stride < most; fits += stride, stride *= 2) {
      if (!fits_at(fits + stride)) {
        fails = fits + stride;
        break;
      }
    }
  } else {
    for (fails = first; fails > stride; fails -= stride, stride *= 2) {
      if (fits_at(fails - stride)) {
        fits = fails - stride;
        break;
      }
    }
  }
  while (fails - fits > 1) {
    const int middle = fits + (fails - fits) / 2;
    (fits_at(middle) ? fits : fails) = middle;
  }
  for (int beyond = std::min(most, fits + kRipple); beyond > fits; --beyond) {
    if (fits_at(beyond)) {
      return beyond;
    }
  }
  return fits;
}

namespace {

// Unless asked otherwise, what fits stays in registers and shared memory.
Constraints on_chip(Constraints constraints) {
  constraints.tier = constraints.tier.value_or(Tier::shared_memory);
  return constraints;
}

}  // namespace

Capacity find_capacity(const Chip& chip, const Recurrent& network, int granule, const Constraints& asked,
                       const PlanOf& exact, MaskKind kind) {
  const Constraints constraints = on_chip(asked);
  const PlanOf expected = [&](const Recurrent& sized, const Constraints& all) {
    return choose_plan(chip, sized, RowProfile::uniform(sized, kind), all);
  };
  const auto plan_with = [&](const PlanOf& plan_of, int granules) {
    Recurrent sized = network;
    sized.hidden = granules * granule;
    return plan_of(sized, constraints);
  };
  const auto plan_at = [&](int granules) { return plan_with(expected, granules); };
  const int most = kMaxHidden / granule;
  const auto fits_at = [&](int granules) {
    Recurrent sized = network;
    sized.hidden = granules * granule;
    return any_plan_fits(chip, sized, RowProfile::uniform(sized, kind), constraints);
  };
  int fits = largest_that_fits(fits_at, most, 1, 1);
  Capacity capacity;
  if (!exact) {
    if (fits > 0) {
      capacity.largest = plan_at(fits);
    }
    capacity.next = plan_at(fits + 1);
    return capacity;
  }
  // The longest row may be a little shorter or longer than expected, or a compiler keep less.
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

PlanTime plan_time(const PlannedNetwork& planned) {
  return {planned.prediction.footprint.fits, planned.prediction.step_us, to_string(planned.plan)};
}

bool is_told(const PlanTime& base, const PlanTime& changed) {
  if (!base.fits || !changed.fits) {
    return base.fits != changed.fits;
  }
  return std::abs(changed.us / base.us - 1) > (base.plan == changed.plan ? kSamePlanError : kOtherPlanError);
}

namespace {

// Whether a number decides about what fits: not those of time.
bool decides_size(std::string_view key) {
  return !key.starts_with("timing.") && !key.starts_with("exchange.") && key != "sm.clock" && key != "dram.bandwidth" &&
         (!key.starts_with("cluster.") || key == "cluster.usable_sms");
}

// The largest size and the time of the plan, of a chip and of a changed one.
struct Effect {
  int base_capacity = 0, capacity = 0;
  double base_us = 0, us = 0;
};

// For each row what the assignment does that it stands for. Rows of chips that cannot be stay as they are.
// `stride(size)`: of the search from a size.
template <typename Row>
void compare_changed(const ChipFile& file, const AskedOfChips& asked, std::vector<Row>& rows, auto&& stride,
                     auto&& assignment, auto&& take) {
  const PlanTime base = asked.time(file.chip);
  const int base_capacity = asked.capacity(file.chip, asked.expected, stride(asked.expected));
  parallel_for(static_cast<int>(rows.size()), all_cores(), [&](int i) {
    Row& row = rows[static_cast<std::size_t>(i)];
    ChipFile changed = file;
    try {
      set_chip_key(changed, assignment(row));
    } catch (const InputError&) {
      return;  // no chip can have more
    }
    const int capacity =
        decides_size(row.key) ? asked.capacity(changed.chip, base_capacity, stride(base_capacity)) : base_capacity;
    const PlanTime time = asked.time(changed.chip);
    row.is_told = is_told(base, time);
    take(row, Effect{base_capacity, capacity, base.us, time.us});
  });
}

}  // namespace

AskedOfChips asked_of_chips(const Recurrent& network, const RowProfile& rows, int granule,
                            const Constraints& constraints) {
  const auto capacity = [=, kind = rows.kind()](const Chip& chip, int expected, int stride) {
    const auto fits_at = [&](int granules) {
      Recurrent sized = network;
      sized.hidden = granules * granule;
      return any_plan_fits(chip, sized, RowProfile::uniform(sized, kind), on_chip(constraints));
    };
    return largest_that_fits(fits_at, kMaxHidden / granule, expected, stride);
  };
  const auto time = [rows, network, constraints](const Chip& chip) {
    return plan_time(choose_plan(chip, network, rows, constraints));
  };
  return {capacity, time, network.hidden / granule};
}

std::vector<Sensitivity> sensitivities(const ChipFile& file, const AskedOfChips& asked) {
  std::vector<Sensitivity> result;
  for (const ChipKey& key : chip_keys()) {
    if (!is_structural(key.key) && !key.key.starts_with("library.")) {  // those are of what leaves the chip
      result.push_back({key.key});
    }
  }
  compare_changed(
      file, asked, result, [](int size) { return std::max(1, size / 16); },
      [](const Sensitivity& s) { return std::string(s.key) + "=+10%"; },
      [](Sensitivity& s, const Effect& of) {
        s.hidden_percent = of.base_capacity > 0 ? 100 * (static_cast<double>(of.capacity) / of.base_capacity - 1) : 0;
        s.step_percent = 100 * (of.us / of.base_us - 1);
      });
  std::erase_if(result, [](const Sensitivity& s) {
    return std::abs(s.hidden_percent) <= 1e-9 && std::abs(s.step_percent) <= 1e-9;
  });
  std::ranges::stable_sort(result, std::ranges::greater(), [](const Sensitivity& s) {
    return std::max(std::abs(s.hidden_percent), std::abs(s.step_percent));
  });
  return result;
}

std::vector<OneMore> one_more(const ChipFile& file, const AskedOfChips& asked) {
  const double registers = hardware_step(file.chip, *find_key("registers.per_sm"));
  std::vector<OneMore> result{{"sm.count", "1"},
                              {"sm.clock", "1 MHz"},
                              {"registers.per_sm", format_number(registers)},
                              {"registers.per_thread", "1"},
                              {"shared_memory.per_sm", "1 KiB"},
                              {"shared_memory.banks", "1"},
                              {"l2.size", "1 MiB"},
                              {"dram.bandwidth", "1 GB/s"}};
  compare_changed(
      file, asked, result, [](int) { return 4; },
      [&](const OneMore& more) {
        const ChipKey& key = *find_key(more.key);
        const double amount = parse_quantity(more.amount, key.dimension);
        return std::string(key.key) + "=" + format_quantity(file.chip.*key.member + amount, key.dimension);
      },
      [](OneMore& more, const Effect& of) {
        more.hidden = of.capacity - of.base_capacity;
        more.step_us = of.us - of.base_us;
      });
  return result;
}

}  // namespace onchip
