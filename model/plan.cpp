// SPDX-License-Identifier: Apache-2.0
#include "model/plan.hpp"

#include "model/error.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <numeric>
#include <sstream>

namespace onchip {

int Plan::slots_total() const {
  return std::accumulate(slots.begin(), slots.begin() + rows_per_group, 0);
}

bool Plan::skips() const {
  return !std::equal(slots.begin(), slots.begin() + rows_per_group, least_slots.begin());
}

int unit_bytes(const Network& network, const Plan& plan) {
  return plan.batch_padded * info(network.precision).bytes;
}

int plane_unit_bytes(const Network& network, const Plan& plan) {
  return std::min(plan.load_bytes, unit_bytes(network, plan));
}

int planes(const Network& network, const Plan& plan) {
  return unit_bytes(network, plan) / plane_unit_bytes(network, plan);
}

int units_per_sm(const Network& network, const Plan& plan) {
  const int units = (network.hidden + plan.sms - 1) / plan.sms;
  // Whole 16-byte words of every plane, and of the input whole 4-byte words.
  const int whole_words = std::max(16 / plane_unit_bytes(network, plan), 4 / info(network.precision).bytes);
  return (units + whole_words - 1) / whole_words * whole_words;
}

int state_units(const Network& network, const Plan& plan) {
  return plan.sms * units_per_sm(network, plan);
}

int zero_units(const Network& network, const Plan& plan) {
  return std::max(32, 128 / plane_unit_bytes(network, plan));
}

int index_shift(const Network& network, const Plan& plan) {
  const int stride = plane_unit_bytes(network, plan);
  const std::int64_t reach = static_cast<std::int64_t>(state_units(network, plan) + zero_units(network, plan)) * stride;
  return reach <= 65536 ? 0 : std::countr_zero(static_cast<unsigned>(stride));
}

std::int64_t exchange_bytes(const Network& network, const Plan& plan) {
  return static_cast<std::int64_t>(state_units(network, plan)) * unit_bytes(network, plan);
}

std::int64_t input_bytes(const Network& network, const Plan& plan) {
  return static_cast<std::int64_t>(state_units(network, plan)) * network.batch * info(network.cell).gates *
         info(network.precision).bytes;
}

// ---- lanes ----------------------------------------------------------------------------------------------------------

int load_phases(const Network& network, const Plan& plan) {
  return std::max(1, plane_unit_bytes(network, plan) / 4);
}

int spread_over_phases(const Network& network, const Plan& plan) {
  return std::min(load_phases(network, plan), plan.lanes_per_row);
}

int thread_of(const Network& network, const Plan& plan, int group, int lane) {
  const int spread = spread_over_phases(network, plan);
  const int low = plan.lanes_per_row / spread;  // lanes of the group that are neighbours
  const int groups = 32 / plan.lanes_per_row;   // of a warp
  return group / groups * 32 + lane / low * (32 / spread) + group % groups * low + lane % low;
}

GroupLane group_lane_of(const Network& network, const Plan& plan, int thread) {
  const int spread = spread_over_phases(network, plan);
  const int low = plan.lanes_per_row / spread;
  const int groups = 32 / plan.lanes_per_row;
  const int in_warp = thread % 32;
  return {thread / 32 * groups + in_warp % (32 / spread) / low, in_warp / (32 / spread) * low + in_warp % low};
}

// ---- weights --------------------------------------------------------------------------------------------------------

Bundle bundle(const Network& network, const Plan& plan) {
  const int value_bits = info(network.precision).weight_bits;
  if (plan.storage == Storage::dense) {
    return {32 / value_bits, 1};
  }
  return value_bits == 16 ? Bundle{1, 1} : value_bits == 32 ? Bundle{2, 3} : Bundle{4, 3};
}

int row_words(const Network& network, const Plan& plan, int slots) {
  const int value_words = (slots * info(network.precision).weight_bits + 31) / 32;
  if (plan.storage == Storage::dense) {
    return value_words;
  }
  return info(network.precision).weight_bits == 16 ? slots : value_words + (slots + 1) / 2;
}

int tile_height(const Network& network, const Plan& plan) {
  const int gates = info(network.cell).gates;
  return gates > 1 ? gates : plan.tile_rows;
}

int tiles(const Network& network, const Plan& plan) {
  const int height = tile_height(network, plan);
  return (plan.rows_per_group + height - 1) / height;
}

int tile_words(const Network& network, const Plan& plan, int tile) {
  const int height = tile_height(network, plan);
  int words = 0;
  for (int r = tile * height; r < std::min(plan.rows_per_group, (tile + 1) * height); ++r) {
    words += row_words(network, plan, plan.slots[r]);
  }
  return words;
}

int weight_words(const Network& network, const Plan& plan) {
  int words = 0;
  for (int r = 0; r < plan.rows_per_group; ++r) {
    words += row_words(network, plan, plan.slots[r]);
  }
  return words;
}

int register_words(const Network& network, const Plan& plan) {
  return weight_words(network, plan) - 4 * (plan.shared_quads + plan.streamed_quads);
}

int total_quads(const Network& network, const Plan& plan) {
  int quads = 0;
  for (int tile = 0; tile < tiles(network, plan); ++tile) {
    quads += tile_words(network, plan, tile) / 4;
  }
  return quads;
}

std::vector<Tier> quad_tiers(const Network& network, const Plan& plan) {
  const int quads = total_quads(network, plan);
  std::vector<Tier> tiers(quads, Tier::registers);
  // Number i of `all` is one of `some` spread evenly.
  const auto chosen = [](int i, int some, int all) {
    return static_cast<std::int64_t>(i + 1) * some / all > static_cast<std::int64_t>(i) * some / all;
  };
  int rest = 0;
  for (int quad = 0; quad < quads; ++quad) {
    if (chosen(quad, plan.streamed_quads, quads)) {
      tiers[quad] = Tier::streamed;
    } else if (chosen(rest++, plan.shared_quads, quads - plan.streamed_quads)) {
      tiers[quad] = Tier::shared_memory;
    }
  }
  return tiers;
}

std::int64_t state_bytes(const Network& network, const Plan& plan) {
  const auto whole_words = [](std::int64_t bytes) { return (bytes + 15) / 16 * 16; };
  const std::int64_t units = units_per_sm(network, plan);
  const int gates = info(network.cell).gates;
  const std::int64_t state = state_units(network, plan) + zero_units(network, plan);
  std::int64_t bytes = (state + units) * unit_bytes(network, plan);                         // and the outbox
  bytes += 2 * whole_words(units * network.batch * gates * info(network.precision).bytes);  // input
  if (gates > 1) {
    bytes += whole_words(4 * units * plan.batch_padded) + whole_words(4 * plan.batch_padded);  // carry, lengths
  }
  if (network.cell == Cell::gru) {
    bytes += whole_words(4 * units);  // recurrent bias
  }
  if (network.precision == Precision::fp8) {
    bytes += whole_words(4 * units * gates);  // scales
  }
  if (plan.skips()) {
    bytes += whole_words(4 * plan.rows_per_group * plan.warps());  // slots of each row and warp
  }
  return bytes;
}

std::int64_t shared_bytes(const Network& network, const Plan& plan) {
  const int ring = plan.streamed_quads > 0 ? plan.ring_quads : 0;
  return state_bytes(network, plan) + static_cast<std::int64_t>(kQuadBytes) * plan.threads * (plan.shared_quads + ring);
}

// ---- row profiles ---------------------------------------------------------------------------------------------------

std::vector<std::int32_t> units_by_length(const SparseMatrix& matrix) {
  const std::int32_t units = matrix.columns;
  std::vector<std::int64_t> longest(units, 0);
  for (std::int32_t row = 0; row < matrix.rows; ++row) {
    longest[row % units] = std::max(longest[row % units], matrix.row_begin[row + 1] - matrix.row_begin[row]);
  }
  std::vector<std::int32_t> order(units);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return longest[a] > longest[b]; });
  return order;
}

RowProfile RowProfile::from_matrix(const SparseMatrix& matrix) {
  RowProfile profile;
  profile.units_ = profile.columns_ = matrix.columns;
  profile.gates_ = matrix.rows / matrix.columns;
  profile.nnz_ = matrix.nnz();
  const std::vector<std::int32_t> order = units_by_length(matrix);
  for (int gate = 0; gate < profile.gates_; ++gate) {
    for (const std::int32_t unit : order) {
      const std::int32_t row = gate * profile.units_ + unit;
      profile.lengths_.push_back(static_cast<int>(matrix.row_begin[row + 1] - matrix.row_begin[row]));
    }
  }
  return profile;
}

RowProfile RowProfile::uniform(const Network& network) {
  RowProfile profile;
  profile.units_ = profile.columns_ = network.hidden;
  profile.gates_ = info(network.cell).gates;
  profile.mean_ = network.hidden * network.density;
  profile.deviation_ = std::sqrt(network.hidden * network.density * (1 - network.density));
  profile.nnz_ = std::llround(profile.mean_ * network.rows());
  return profile;
}

namespace {

// Inverse of the standard normal distribution, Acklam's rational approximation (relative error below 1.2e-9).
double normal_quantile(double p) {
  constexpr double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                          1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr double b[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02, 6.680131188771972e+01,
                          -1.328068155288572e+01};
  constexpr double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                          -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
  constexpr double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00};
  constexpr double low = 0.02425;
  if (p < low || p > 1 - low) {
    const double q = std::sqrt(-2 * std::log(p < low ? p : 1 - p));
    const double x = (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
                     ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
    return p < low ? x : -x;
  }
  const double q = p - 0.5, r = q * q;
  return (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
         (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
}

}  // namespace

int RowProfile::longest(int first, int count, int gate) const {
  if (!lengths_.empty()) {
    const auto begin = lengths_.begin() + static_cast<std::ptrdiff_t>(gate) * units_ + first;
    return gates_ == 1 ? *begin : *std::max_element(begin, begin + count);
  }
  // Blom's plotting position of the first-th largest of units_ draws, each the longest of its gates.
  const double above = (first + 1 - 0.375) / (units_ + 0.25);
  const double below = gates_ == 1 ? 1 - above : std::pow(1 - above, 1.0 / gates_);
  const double length = mean_ + deviation_ * normal_quantile(below);
  return static_cast<int>(std::clamp(std::round(length), 0.0, static_cast<double>(columns_)));
}

int RowProfile::shortest(int first, int count, int gate) const {
  if (!lengths_.empty()) {
    const auto begin = lengths_.begin() + static_cast<std::ptrdiff_t>(gate) * units_ + first;
    return gates_ == 1 ? begin[count - 1] : *std::min_element(begin, begin + count);
  }
  if (gates_ == 1) {
    return longest(first + count - 1, 1, gate);
  }
  // The shortest of so many draws; that their unit's longest row is known says little about them.
  const double length = mean_ - deviation_ * normal_quantile(1 - 0.625 / (count + 0.25));
  return static_cast<int>(std::clamp(std::round(length), 0.0, static_cast<double>(columns_)));
}

double RowProfile::average(int first, int count, int gate) const {
  if (!lengths_.empty()) {
    const auto begin = lengths_.begin() + static_cast<std::ptrdiff_t>(gate) * units_ + first;
    return std::accumulate(begin, begin + count, 0.0) / count;
  }
  if (gates_ > 1) {
    return mean_;
  }
  return (longest(first, 1, gate) + 4.0 * longest(first + count / 2, 1, gate) + longest(first + count - 1, 1, gate)) /
         6;
}

// ---- making plans ---------------------------------------------------------------------------------------------------

Plan shape_plan(const Network& network, const RowProfile& rows, Storage storage, int sms, int lanes_per_row,
                int rows_per_group, bool skip) {
  Plan plan;
  const int gates = info(network.cell).gates;
  plan.storage = storage;
  plan.sms = sms;
  plan.lanes_per_row = lanes_per_row;
  plan.rows_per_group = rows_per_group;
  plan.tile_rows = gates > 1 ? 4 : 1;
  plan.batch_padded = static_cast<int>(std::bit_ceil(static_cast<unsigned>(network.batch)));
  const int units_per_group = rows_per_group / gates;
  const int units = (rows.units() + sms - 1) / sms;
  const int groups = (units + units_per_group - 1) / units_per_group;
  plan.threads = (groups * lanes_per_row + 31) / 32 * 32;
  const int units_per_rank = plan.groups() * sms;
  const auto slots_of = [&](int length) { return (length + lanes_per_row - 1) / lanes_per_row; };
  double mean_slots = 0;
  for (int r = 0; r < rows_per_group; ++r) {
    const std::int64_t first = std::int64_t{r / gates} * units_per_rank;
    int longest = 0, shortest = 0;
    double average = 0;
    if (first < rows.units()) {
      const int count = static_cast<int>(std::min<std::int64_t>(units_per_rank, rows.units() - first));
      average = longest = shortest = state_units(network, plan);
      if (storage != Storage::dense) {
        longest = rows.longest(static_cast<int>(first), count, r % gates);
        shortest = rows.shortest(static_cast<int>(first), count, r % gates);
        average = rows.average(static_cast<int>(first), count, r % gates) * count / units_per_rank;
      }
    }
    plan.slots[r] = plan.least_slots[r] = std::max(1, slots_of(longest));
    if (skip && storage != Storage::dense) {
      const int whole_chunks = shortest / lanes_per_row / kSkippedSlots * kSkippedSlots;
      plan.least_slots[r] = std::min(plan.slots[r], std::max(kSkippedSlots, whole_chunks));
    }
    // A warp's rows are about equally long; it does whole slots, and beyond the least whole chunks of them.
    const double needed = average / lanes_per_row + 0.5;
    const int chunk = next_chunk(static_cast<int>(needed)) - static_cast<int>(needed);
    mean_slots += std::clamp(needed + 0.4 * chunk, 1.0 * plan.least_slots[r], 1.0 * plan.slots[r]);
  }
  plan.mean_slots = skip ? static_cast<int>(std::lround(mean_slots)) : plan.slots_total();
  return plan;
}

// ---- text -----------------------------------------------------------------------------------------------------------

namespace {

struct PlanField {
  std::string_view name;
  int Plan::*member;
};
constexpr PlanField kPlanFields[] = {
    {"sms", &Plan::sms},
    {"threads", &Plan::threads},
    {"lanes_per_row", &Plan::lanes_per_row},
    {"mean_slots", &Plan::mean_slots},
    {"tile_rows", &Plan::tile_rows},
    {"pass_planes", &Plan::pass_planes},
    {"batch_padded", &Plan::batch_padded},
    {"load_bytes", &Plan::load_bytes},
    {"loads_in_flight", &Plan::loads_in_flight},
    {"promote_every", &Plan::promote_every},
    {"shared_quads", &Plan::shared_quads},
    {"streamed_quads", &Plan::streamed_quads},
    {"ring_quads", &Plan::ring_quads},
};

}  // namespace

std::string to_string(const Plan& plan) {
  std::ostringstream text;
  text << name(plan.family) << ' ' << name(plan.storage) << ' ' << name(plan.order) << ' ' << name(plan.exchange)
       << " sms=" << plan.sms << " threads=" << plan.threads << " lanes_per_row=" << plan.lanes_per_row;
  const auto list = [&](const char* key, const std::array<int, kMaxRowsPerGroup>& slots) {
    text << ' ' << key << '=';
    for (int r = 0; r < plan.rows_per_group; ++r) {
      text << (r ? "/" : "") << slots[r];
    }
  };
  list("slots", plan.slots);
  list("least_slots", plan.least_slots);
  for (const PlanField& field : kPlanFields) {
    if (field.member != &Plan::sms && field.member != &Plan::threads && field.member != &Plan::lanes_per_row) {
      text << ' ' << field.name << '=' << plan.*field.member;
    }
  }
  return text.str();
}

namespace {

int parse_count(std::string_view text, std::string_view what) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    throw InputError("plan: '" + std::string(what) + "' expects a whole number, found '" + std::string(text) + "'");
  }
  return value;
}

template <typename Enum, std::size_t N>
bool parse_name(std::string_view word, const std::array<std::string_view, N>& names, Enum& result) {
  const auto found = std::find(names.begin(), names.end(), word);
  if (found == names.end()) {
    return false;
  }
  result = static_cast<Enum>(found - names.begin());
  return true;
}

}  // namespace

Plan parse_plan(std::string_view text) {
  Plan plan;
  plan.rows_per_group = 0;
  int least_count = 0;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) {
      if (!parse_name(word, kFamilyNames, plan.family) && !parse_name(word, kStorageNames, plan.storage) &&
          !parse_name(word, kRowOrderNames, plan.order) && !parse_name(word, kExchangeNames, plan.exchange)) {
        throw InputError("plan: unknown word '" + word + "'");
      }
      continue;
    }
    const std::string_view key = std::string_view(word).substr(0, equals);
    const std::string_view value = std::string_view(word).substr(equals + 1);
    if (key == "slots" || key == "least_slots") {
      int& count = key == "slots" ? plan.rows_per_group : least_count;
      for (std::size_t begin = 0; begin <= value.size();) {
        const std::size_t end = std::min(value.find('/', begin), value.size());
        if (count == kMaxRowsPerGroup) {
          throw InputError("plan: more than " + std::to_string(kMaxRowsPerGroup) + " rows per group");
        }
        (key == "slots" ? plan.slots : plan.least_slots)[count++] = parse_count(value.substr(begin, end - begin), key);
        begin = end + 1;
      }
    } else {
      const auto* field = std::find_if(std::begin(kPlanFields), std::end(kPlanFields),
                                       [&](const PlanField& f) { return f.name == key; });
      if (field == std::end(kPlanFields)) {
        std::vector<std::string_view> names{"slots", "least_slots"};
        std::transform(std::begin(kPlanFields), std::end(kPlanFields), std::back_inserter(names),
                       [](const PlanField& f) { return f.name; });
        throw InputError("plan: unknown key '" + std::string(key) + "'" + did_you_mean(key, names));
      }
      plan.*field->member = parse_count(value, key);
    }
  }
  if (least_count != plan.rows_per_group) {
    throw InputError("plan: " + std::to_string(plan.rows_per_group) + " slots, but " + std::to_string(least_count) +
                     " least_slots");
  }
  return plan;
}

}  // namespace onchip
