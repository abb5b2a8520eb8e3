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

int unit_bytes(const Network& network, const Plan& plan) {
  return plan.batch_padded * info(network.precision).bytes;
}

int plane_unit_bytes(const Network& network, const Plan& plan) {
  return std::min(16, unit_bytes(network, plan));
}

int planes(const Network& network, const Plan& plan) {
  return unit_bytes(network, plan) / plane_unit_bytes(network, plan);
}

int units_per_sm(const Network& network, const Plan& plan) {
  const int rows = (network.rows() + plan.sms - 1) / plan.sms;
  const int whole_words = 16 / plane_unit_bytes(network, plan);
  return (rows + whole_words - 1) / whole_words * whole_words;
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

int weight_words(const Network& network, const Plan& plan) {
  int words = 0;
  for (int r = 0; r < plan.rows_per_group; ++r) {
    const int slots = plan.slots[r];
    if (plan.storage == Storage::dense) {
      words += network.precision == Precision::fp32 ? slots : (slots + 1) / 2;
    } else {
      words += network.precision == Precision::fp32 ? slots + (slots + 1) / 2 : slots;
    }
  }
  return words;
}

std::int64_t state_bytes(const Network& network, const Plan& plan) {
  const std::int64_t state = state_units(network, plan) + zero_units(network, plan);
  return (state + units_per_sm(network, plan)) * unit_bytes(network, plan);
}

std::int64_t exchange_bytes(const Network& network, const Plan& plan) {
  return static_cast<std::int64_t>(state_units(network, plan)) * unit_bytes(network, plan);
}

// ---- row profiles ---------------------------------------------------------------------------------------------------

RowProfile RowProfile::from_lengths(std::vector<int> lengths) {
  RowProfile profile;
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  profile.rows_ = static_cast<int>(lengths.size());
  profile.nnz_ = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  profile.lengths_ = std::move(lengths);
  return profile;
}

RowProfile RowProfile::from_matrix(const SparseMatrix& matrix) {
  std::vector<int> lengths(matrix.rows);
  for (int row = 0; row < matrix.rows; ++row) {
    lengths[row] = static_cast<int>(matrix.row_begin[row + 1] - matrix.row_begin[row]);
  }
  return from_lengths(std::move(lengths));
}

RowProfile RowProfile::uniform(int rows, int columns, double density) {
  RowProfile profile;
  profile.rows_ = rows;
  profile.columns_ = columns;
  profile.mean_ = columns * density;
  profile.deviation_ = std::sqrt(columns * density * (1 - density));
  profile.nnz_ = std::llround(profile.mean_ * rows);
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

int RowProfile::length_at(int rank) const {
  if (!lengths_.empty()) {
    return lengths_[rank];
  }
  // Blom's plotting position of the rank-th largest of rows_ draws.
  const double above = (rank + 1 - 0.375) / (rows_ + 0.25);
  const double length = mean_ + deviation_ * normal_quantile(1 - above);
  return static_cast<int>(std::clamp(std::round(length), 0.0, static_cast<double>(columns_)));
}

// ---- making plans ---------------------------------------------------------------------------------------------------

Plan shape_plan(const Network& network, const RowProfile& rows, Storage storage, int sms, int lanes_per_row,
                int rows_per_group) {
  Plan plan;
  plan.storage = storage;
  plan.sms = sms;
  plan.lanes_per_row = lanes_per_row;
  plan.rows_per_group = rows_per_group;
  plan.batch_padded = static_cast<int>(std::bit_ceil(static_cast<unsigned>(network.batch)));
  const int rows_per_sm = (rows.rows() + sms - 1) / sms;
  const int groups = (rows_per_sm + rows_per_group - 1) / rows_per_group;
  plan.threads = (groups * lanes_per_row + 31) / 32 * 32;
  const std::int64_t rows_per_rank = static_cast<std::int64_t>(plan.groups()) * sms;
  for (int r = 0; r < rows_per_group; ++r) {
    const std::int64_t first = r * rows_per_rank;
    const int longest = first >= rows.rows()        ? 0
                        : storage == Storage::dense ? state_units(network, plan)
                                                    : rows.length_at(static_cast<int>(first));
    plan.slots[r] = std::max(1, (longest + lanes_per_row - 1) / lanes_per_row);
  }
  return plan;
}

// ---- text -----------------------------------------------------------------------------------------------------------

std::string to_string(const Plan& plan) {
  std::ostringstream text;
  text << name(plan.family) << ' ' << name(plan.storage) << ' ' << name(plan.order) << " sms=" << plan.sms
       << " threads=" << plan.threads << " lanes_per_row=" << plan.lanes_per_row << " slots=";
  for (int r = 0; r < plan.rows_per_group; ++r) {
    text << (r ? "/" : "") << plan.slots[r];
  }
  text << " batch_padded=" << plan.batch_padded << " unpacked=" << plan.unpacked
       << " loads_in_flight=" << plan.loads_in_flight << " promote_every=" << plan.promote_every;
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
  struct Field {
    std::string_view name;
    int Plan::*member;
  };
  static constexpr Field kFields[] = {
      {"sms", &Plan::sms},
      {"threads", &Plan::threads},
      {"lanes_per_row", &Plan::lanes_per_row},
      {"batch_padded", &Plan::batch_padded},
      {"loads_in_flight", &Plan::loads_in_flight},
      {"promote_every", &Plan::promote_every},
  };
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) {
      if (!parse_name(word, kFamilyNames, plan.family) && !parse_name(word, kStorageNames, plan.storage) &&
          !parse_name(word, kRowOrderNames, plan.order)) {
        throw InputError("plan: unknown word '" + word + "'");
      }
      continue;
    }
    const std::string_view key = std::string_view(word).substr(0, equals);
    const std::string_view value = std::string_view(word).substr(equals + 1);
    if (key == "slots") {
      for (std::size_t begin = 0; begin <= value.size();) {
        const std::size_t end = std::min(value.find('/', begin), value.size());
        if (plan.rows_per_group == kMaxRowsPerGroup) {
          throw InputError("plan: more than " + std::to_string(kMaxRowsPerGroup) + " rows per group");
        }
        plan.slots[plan.rows_per_group++] = parse_count(value.substr(begin, end - begin), key);
        begin = end + 1;
      }
    } else if (key == "unpacked") {
      plan.unpacked = parse_count(value, key) != 0;
    } else {
      const auto* field =
          std::find_if(std::begin(kFields), std::end(kFields), [&](const Field& f) { return f.name == key; });
      if (field == std::end(kFields)) {
        std::vector<std::string_view> names{"slots", "unpacked"};
        std::transform(std::begin(kFields), std::end(kFields), std::back_inserter(names),
                       [](const Field& f) { return f.name; });
        throw InputError("plan: unknown key '" + std::string(key) + "'" + did_you_mean(key, names));
      }
      plan.*field->member = parse_count(value, key);
    }
  }
  return plan;
}

}  // namespace onchip
