// SPDX-License-Identifier: Apache-2.0
#include "model/answer/configuration.hpp"

#include "model/base/error.hpp"
#include "model/workload/files/weights_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <mutex>
#include <tuple>
#include <utility>

namespace onchip {

MaskKind parse_mask(std::string_view word) {
  const auto found = std::find(kMaskNames.begin(), kMaskNames.end(), word);
  if (found == kMaskNames.end()) {
    const std::string hint = did_you_mean(word, kMaskNames);
    throw InputError("unknown mask " + in_quotes(word) +
                     (hint.empty() ? ": expected uniform, power-law or 2:4" : hint));
  }
  return static_cast<MaskKind>(found - kMaskNames.begin());
}

std::string_view mask_name(const Configuration& configuration) {
  return configuration.weights ? "file" : name(configuration.mask);
}

namespace {

// What a matrix that is no cell's recurrent weights seems to be instead, after its shape.
std::string shape_hint(const SparseMatrix& matrix, const CellInfo& asked) {
  const std::int64_t rows = matrix.rows, columns = matrix.columns;
  for (const CellInfo& cell : kCells) {
    if (rows == cell.gates * columns) {
      return "; --cell " + std::string(cell.name) + " has this shape";
    }
  }
  for (const CellInfo& cell : kCells) {
    if (columns == cell.gates * rows) {
      return "; it seems to be transposed, as Keras saves weights: --transpose reads it" +
             (cell.gates == asked.gates ? "" : " with --cell " + std::string(cell.name));
    }
  }
  if (asked.gates > 1 && rows % asked.gates == 0 && rows / asked.gates > columns) {
    return "; it seems to be of " + std::to_string(rows / asked.gates) + " units with a projection to " +
           std::to_string(columns) + ", which no kernel computes";
  }
  return "";
}

}  // namespace

void take_matrix(Configuration& configuration, const SparseMatrix& given, const std::string& from) {
  const CellInfo& cell = info(configuration.network.cell);
  const std::string where = from.empty() ? "" : from + ": ";
  if (given.rows != std::int64_t{cell.gates} * given.columns) {
    throw InputError(where + "the matrix is " + std::to_string(given.rows) + " x " + std::to_string(given.columns) +
                     ": the recurrent weights of a " + std::string(cell.name) + " cell have " +
                     (cell.gates == 1 ? "as many rows as columns" : std::to_string(cell.gates) + " rows per column") +
                     shape_hint(given, cell));
  }
  if (given.nnz() == 0) {
    throw InputError(where + "the matrix has no non-zero");
  }
  auto matrix = std::make_shared<SparseMatrix>(given);
  round_weights(*matrix, configuration.network.precision);
  drop_zeros(*matrix);
  if (matrix->nnz() == 0) {
    throw InputError(where + "no weight is left when they are rounded to " +
                     std::string(info(configuration.network.precision).name));
  }
  if (!std::all_of(matrix->value.begin(), matrix->value.end(), [](float value) { return std::isfinite(value); })) {
    throw InputError(where + "a weight is too large for " + std::string(info(configuration.network.precision).name));
  }
  configuration.network.hidden = matrix->columns;
  configuration.network.density = matrix->density();
  configuration.weights = std::move(matrix);
}

void take_weights(Configuration& configuration, const std::filesystem::path& file) {
  const int gates = info(configuration.network.cell).gates;
  take_matrix(configuration, read_weights(file, {configuration.tensor, configuration.transpose, gates}), file.string());
}

std::shared_ptr<const SparseMatrix> recurrent_matrix(const Configuration& configuration) {
  if (configuration.weights) {
    return configuration.weights;
  }
  const Recurrent& network = configuration.network;
  return std::make_shared<const SparseMatrix>(generate_mask(network.rows(), network.hidden, network.density,
                                                            configuration.seed, network.precision, configuration.mask));
}

namespace {

bool has_exact_rows(const Configuration& configuration) {
  const Recurrent& network = configuration.network;
  return configuration.weights ||
         (!configuration.has_expected_rows && network.density * network.rows() * network.hidden <= kMostGenerated);
}

}  // namespace

MaskKind expected_mask(const Configuration& configuration) {
  const bool is_two_four =
      configuration.weights ? !find_crowded_group(*configuration.weights) : configuration.mask == MaskKind::two_four;
  return is_two_four ? MaskKind::two_four : MaskKind::uniform;
}

namespace {

// Of generated masks, those asked for last: rows of a sweep over chips, and both sides of a comparison, have the same.
RowProfile profile_of_generated(const Configuration& configuration) {
  constexpr std::size_t kMostBytes = 128 << 20;  // of all, but for the last one
  const Recurrent& network = configuration.network;
  const bool may_underflow = network.precision == Precision::fp8;  // else no value is zero
  using Key = std::tuple<int, int, double, std::uint64_t, MaskKind, bool>;
  const Key key{network.rows(), network.hidden, network.density, configuration.seed, configuration.mask, may_underflow};
  static std::mutex mutex;
  static std::deque<std::pair<Key, RowProfile>> last;
  {
    const std::lock_guard lock(mutex);
    if (const auto known = std::ranges::find(last, key, &std::pair<Key, RowProfile>::first); known != last.end()) {
      std::rotate(known, known + 1, last.end());
      return last.back().second;
    }
  }
  RowProfile profile =
      RowProfile::from_matrix(may_underflow ? *recurrent_matrix(configuration)
                                            : generate_pattern(network.rows(), network.hidden, network.density,
                                                               configuration.seed, configuration.mask));
  const std::lock_guard lock(mutex);
  last.emplace_back(key, profile);
  const auto bytes = [](const auto& one) { return one.second.words()->of_span.size() * sizeof(std::uint16_t); };
  std::size_t all = 0;
  for (const auto& one : last) {
    all += bytes(one);
  }
  for (; last.size() > 1 && all > kMostBytes; last.pop_front()) {
    all -= bytes(last.front());
  }
  return profile;
}

}  // namespace

RowProfile row_profile(const Configuration& configuration) {
  if (!has_exact_rows(configuration)) {
    return RowProfile::uniform(configuration.network, expected_mask(configuration));
  }
  return configuration.weights ? RowProfile::from_matrix(*configuration.weights) : profile_of_generated(configuration);
}

RowProfile row_profile(const Configuration& configuration, const SparseMatrix& matrix) {
  return has_exact_rows(configuration) ? RowProfile::from_matrix(matrix)
                                       : RowProfile::uniform(configuration.network, expected_mask(configuration));
}

void check(const Configuration& configuration) {
  if (configuration.network.hidden > 0) {
    check(configuration.network);
  } else if (configuration.mask == MaskKind::power_law) {
    throw InputError("a mask of kind " + std::string(name(configuration.mask)) +
                     " needs a hidden size (--hidden): the search for the largest assumes rows that are alike");
  }
  if (configuration.mask == MaskKind::two_four) {
    check_two_four_density(configuration.network.density);
  }
}

PlannedNetwork plan_network(const Chip& chip, const Configuration& configuration, const RowProfile& rows) {
  const Recurrent& network = configuration.network;
  if (!configuration.plan) {
    return choose_plan(chip, network, rows, configuration.constraints);
  }
  check_plan(network, *configuration.plan);
  check_rows(network, *configuration.plan, rows);
  return {network, *configuration.plan, predict(chip, network, *configuration.plan)};
}

}  // namespace onchip
