// SPDX-License-Identifier: Apache-2.0
// The largest network that fits, and what would change it.
#pragma once

#include "model/chip/chip.hpp"
#include "model/families/planner.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// The largest number up to `most` that fits, 0 if not even 1 does. What is needed grows with it, but for rounding: the
// search goes from what is expected by growing strides, then halves, then looks over the ripples.
int largest_that_fits(const std::function<bool(int)>& fits_at, int most, int expected = 1, int stride = 1);

// The plan of a network of a given size.
using PlanOf = std::function<PlannedNetwork(const Recurrent&, const Constraints&)>;

// The largest hidden size, a multiple of `granule`, that fits with its fastest plan, everything else as in `network`,
// and the next granule, which does not. The search goes by the expected rows of a uniform mask, or of one that is 2:4;
// with `exact`, which may take long (a certain mask, a compiler), only its end is decided by that. Unless asked
// otherwise, what fits stays in registers and shared memory: no step reads a weight from L2.
struct Capacity {
  std::optional<PlannedNetwork> largest;  // nothing if not even one granule fits
  PlannedNetwork next;                    // does not fit; its footprint says what would have to change
};
Capacity find_capacity(const Chip& chip, const Recurrent& network, int granule, const Constraints& constraints = {},
                       const PlanOf& exact = {}, MaskKind kind = MaskKind::uniform);

// What a predicted ratio of two step times is off on average: of the same plan on two chips (266 steps of families.csv
// and validation.csv that were measured on an H100 and an H200), of two plans of a network (417 pairs of the H200's
// families.csv).
inline constexpr double kSamePlanError = 0.026, kOtherPlanError = 0.053;
// What a plan takes.
struct PlanTime {
  bool fits = false;
  double us = 0;  // infinity where there is no plan
  std::string plan;
};
PlanTime plan_time(const PlannedNetwork& planned);
// Whether two predicted times differ by more than that.
bool is_told(const PlanTime& base, const PlanTime& changed);

// How capacity and step time answer to 10 % more of one chip number, everything else unchanged.
struct Sensitivity {
  std::string_view key;
  double hidden_percent = 0;  // change of the largest hidden size
  double step_percent = 0;    // change of the step time of the fastest plan
  bool is_told = false;       // of that change
};
// What is asked of a chip and of changed ones, whatever the workload: the largest size, where one near `expected` is
// looked for first, and the time of the plan.
struct AskedOfChips {
  std::function<int(const Chip&, int expected, int stride)> capacity;
  std::function<PlanTime(const Chip&)> time;
  int expected = 1;  // capacity
};
// Of a recurrent network, its sizes with rows as they are expected, in granules.
AskedOfChips asked_of_chips(const Recurrent& network, const RowProfile& rows, int granule,
                            const Constraints& constraints = {});

// For every chip number that matters to the answer, largest effect first; numbers without effect are left out.
std::vector<Sensitivity> sensitivities(const ChipFile& chip, const AskedOfChips& asked);

// What one more of a chip number buys, everything else unchanged: an SM, a KiB, a bank.
struct OneMore {
  std::string_view key;
  std::string amount;  // "1 KiB"
  int hidden = 0;      // more units of the largest network
  double step_us = 0;  // change of the step time of the fastest plan
  bool is_told = false;
};
std::vector<OneMore> one_more(const ChipFile& chip, const AskedOfChips& asked);

}  // namespace onchip
