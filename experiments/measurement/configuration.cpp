// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement/configuration.hpp"

#include "model/dense/bitmap.hpp"
#include "model/sparse/row_assignment.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/units.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace onchip {
namespace {

void require(bool holds, const std::string& expected) {
  if (!holds) {
    throw InputError("plan: expected " + expected);
  }
}

void check_range(const char* name, int value, int minimum, int maximum) {
  require(value >= minimum && value <= maximum, std::string(name) + " from " + std::to_string(minimum) + " to " +
                                                    std::to_string(maximum) + ", found " + std::to_string(value));
}

// That a sparse or a bitmap plan has room for these rows, and that a structured_2_4 one can store them; others have
// room for all.
void check_rows(const Network& network, const Plan& plan, const RowProfile& rows) {
  if (plan.storage == Storage::structured_2_4) {
    check_two_four(rows);
  }
  if (plan.storage == Storage::bitmap && rows.words() != nullptr) {
    check_bank_words(network, plan, *rows.words());
  }
  if (plan.family != Family::sparse_persistent) {
    return;
  }
  const int gates = rows.gates();
  const std::int64_t units_per_rank = std::int64_t{plan.sms} * plan.groups();
  require(units_per_rank * (plan.rows_per_group / gates) >= rows.units(),
          "room for " + std::to_string(rows.units()) + " units, found room for " +
              std::to_string(units_per_rank * (plan.rows_per_group / gates)));
  if (plan.pieces > 0) {
    const int room = plan.pieces * plan.groups(),
              most = most_pieces(network, plan, rows, deal_units(network, plan, rows));
    require(most <= room, "room for the " + std::to_string(most) + " pieces of rows of one SM, found room for " +
                              std::to_string(room));
  }
  const bool holds_all = !plan.has_tail() && plan.pieces == 0;
  for (int r = 0; holds_all && r < plan.rows_per_group && r / gates * units_per_rank < rows.units(); ++r) {
    const int first = static_cast<int>(r / gates * units_per_rank);
    const int longest =
        plan.storage == Storage::dense ? state_units(network, plan) : rows.longest_from(first, r % gates);
    require(plan.slots[r] >= row_slots(network, plan, longest),
            "room for a row of " + std::to_string(longest) + ", found " + std::to_string(plan.slots[r]) +
                " slots in each of " + std::to_string(plan.lanes_per_row) + " lanes");
  }
  if (plan.has_tail()) {
    const Tail tail = tail_of(network, plan, rows, /*exact=*/true);
    require(plan.ring_chunks > 0 || plan.shared_chunks >= tail.fullest,
            "shared_chunks for the fullest SM's " + std::to_string(tail.fullest) + ", or a ring, found " +
                std::to_string(plan.shared_chunks));
  }
}

void check_sparse_plan(const Network& network, const Plan& plan) {
  require(plan.lanes_per_row >= 1 && plan.lanes_per_row <= 32 &&
              std::has_single_bit(static_cast<unsigned>(plan.lanes_per_row)),
          "lanes_per_row 1, 2, 4, 8, 16 or 32, found " + std::to_string(plan.lanes_per_row));
  require(plan.exchange != ExchangeProtocol::cluster && plan.teams == 1,
          "neither the cluster exchange nor teams, which are dense_persistent's");
  require(plan.exchange != ExchangeProtocol::bulk_copy || plan.exchange_warps > 0,
          "exchange_warps, or another exchange than bulk_copy");
  require(plan.storage != Storage::structured_2_4 && plan.storage != Storage::bitmap,
          "packed_pair, packed_delta or dense: " + std::string(name(plan.storage)) + " is dense_persistent's");
  const int gates = info(network.cell).gates;
  check_range("slots for this many rows per group", plan.rows_per_group, 1, kMaxRowsPerGroup);
  require(plan.rows_per_group % gates == 0, "slots for the " + std::to_string(gates) + " gates of each unit, found " +
                                                std::to_string(plan.rows_per_group) + " rows");
  const auto power_of_two = [](int value) { return value > 0 && std::has_single_bit(static_cast<unsigned>(value)); };
  if (gates > 1) {
    require(plan.tile_rows == 4 && plan.lanes_per_row >= 4,
            "tile_rows=4 and at least 4 lanes_per_row, where the gates of a unit meet");
  } else {
    require(power_of_two(plan.tile_rows) && plan.tile_rows <= kMaxTileRows,
            "tile_rows 1, 2, 4 or 8, found " + std::to_string(plan.tile_rows));
  }
  require(power_of_two(plan.load_bytes) && plan.load_bytes >= info(network.precision).bytes &&
              plan.load_bytes <= kWidestLoad,
          "load_bytes from the size of an element to 16, a power of two, found " + std::to_string(plan.load_bytes));
  check_range("promote_every", plan.promote_every, 1, kMostPromoteEvery);
  require(state_type(network.precision) == Precision::fp16 || plan.promote_every == 1,
          "promote_every=1: only fp16 products are summed below fp32");
  for (int r = 0; r < plan.rows_per_group; ++r) {
    check_range("slots", plan.slots[r], plan.has_tail() ? 0 : 1, kMaxDimension);
  }
  require(power_of_two(plan.pass_planes) && plan.pass_planes <= planes(network, plan),
          "pass_planes a power of two and at most all planes, found " + std::to_string(plan.pass_planes));
  constexpr int kMostChunks = 1 << 20;
  check_range("tail_chunks", plan.tail_chunks, 0, kMostChunks);
  const int most = plan.has_tail() ? kMostChunks : 0;  // of what only a tail has
  check_range("longest_tail", plan.longest_tail, std::min(most, 1), most);
  check_range("shared_chunks", plan.shared_chunks, 0, most);
  require(power_of_two(plan.chunks_in_flight) && plan.chunks_in_flight <= kMostChunksInFlight,
          "chunks_in_flight a power of two up to " + std::to_string(kMostChunksInFlight) + ", found " +
              std::to_string(plan.chunks_in_flight));
  check_range("ring_chunks", plan.ring_chunks, 0, std::min(most, kMostRingChunks));
  require(plan.ring_chunks != 1, "ring_chunks=0, or 2 and more: what is used and what is under way");
  check_range("pieces", plan.pieces, 0, kMostPieces);
  require(plan.pieces == 0 || (power_of_two(plan.pieces) && plan.storage != Storage::dense),
          "pieces=0, or 1, 2 or 4, of packed_pair or packed_delta");
  const int most_of_row = plan.pieces > 0 ? most : 0;
  check_range("row_chunks", plan.row_chunks, 0, most_of_row);
  check_range("piece_chunks", plan.piece_chunks, 0, most_of_row);
  check_range("piece_slots", plan.piece_slots, plan.pieces > 0 && plan.piece_chunks == 0 ? 1 : 0,
              plan.pieces > 0 ? kMaxDimension : 0);
  check_range("most_pieces", plan.most_pieces, std::min(plan.pieces, 1), plan.pieces > 0 ? kMaxDimension : 0);
  check_range("exchange_warps", plan.exchange_warps, 0, kMostExchangeWarps);
  require(plan.exchange_warps != 1, "exchange_warps=0, or 2 and more: one hands out, the others fetch");
  require(plan.exchange_warps == 0 || takes_turns(network, plan),
          "exchange_warps=0, or 2 to " + std::to_string(kMostTurns) +
              " passes over the planes, the lamport or the bulk_copy exchange and no streamed chunks");
}

void check_dense_plan(const Network& network, const Plan& plan) {
  require(network.precision == Precision::fp16 || network.precision == Precision::bf16,
          "fp16 or bf16, which the tensor cores of dense_persistent multiply, found " +
              std::string(info(network.precision).name));
  require(plan.rows_per_group == 0, "no slots: dense_persistent has tiles");
  require(plan.storage == Storage::dense || plan.storage == Storage::structured_2_4 || plan.storage == Storage::bitmap,
          "dense, structured_2_4 or bitmap, as which dense_persistent stores weights, found " +
              std::string(name(plan.storage)));
  constexpr int kMostDenseThreads = 1024;
  check_range("threads", plan.threads, 32, kMostDenseThreads);
  const int step = 2 * sample_tiles(network, plan);
  require(plan.loads_in_flight % step == 0, "loads_in_flight in multiples of " + std::to_string(step) + ", found " +
                                                std::to_string(plan.loads_in_flight));
  require(plan.exchange != ExchangeProtocol::bulk_copy,
          "another exchange than bulk_copy, which is sparse_persistent's");
  check_range("teams", plan.teams, 1, network.batch);
  require(network.batch % plan.teams == 0,
          "teams that divide the batch of " + std::to_string(network.batch) + ", found " + std::to_string(plan.teams));
  const bool has_own_exchange =
      plan.exchange == ExchangeProtocol::lamport || plan.exchange == ExchangeProtocol::cluster;
  require(plan.teams == 1 || has_own_exchange, "one team: a barrier is of all SMs");
  constexpr int kMostOfCluster = 16;
  require(plan.exchange != ExchangeProtocol::cluster ||
              (std::has_single_bit(static_cast<unsigned>(plan.sms)) && plan.sms <= kMostOfCluster),
          "sms of a cluster to be a power of two of at most 16, found " + std::to_string(plan.sms));
  check_range("shared_tiles", plan.shared_tiles, 0, warp_tiles(network, plan));
  const int most_words = plan.storage == Storage::bitmap ? kLaneWords * plan.shared_tiles * plan.warps() : 0;
  check_range("bank_words", plan.bank_words, 0, most_words);
}

}  // namespace

void check_plan(const Network& network, const Plan& plan) {
  if (is_library(plan.family)) {
    return;
  }
  constexpr int kMostThreads = 65536;
  check_range("sms", plan.sms, 1, kMostSms);
  check_range("threads", plan.threads, 32, kMostThreads);
  require(plan.threads % 32 == 0, "threads in whole warps of 32, found " + std::to_string(plan.threads));
  require(plan.batch_padded == static_cast<int>(std::bit_ceil(static_cast<unsigned>(network.batch))),
          "batch_padded to be the power of two at or above the batch, found " + std::to_string(plan.batch_padded));
  // A span of every 8 samples is two loads.
  const int most_loads =
      plan.family == Family::dense_persistent ? (network.batch + 7) / 8 * 2 * kMostLoadsInFlight : kMostLoadsInFlight;
  check_range("loads_in_flight", plan.loads_in_flight, 1, most_loads);
  require(plan.line_words > 0 && plan.line_words <= kLineWords &&
              std::has_single_bit(static_cast<unsigned>(plan.line_words)),
          "line_words 1, 2, 4 or 8, found " + std::to_string(plan.line_words));
  require(plan.line_words == kLineWords ||
              (plan.exchange != ExchangeProtocol::cluster && plan.exchange != ExchangeProtocol::bulk_copy),
          "line_words=8 in a cluster, whose state has no lines, and for bulk copies, found " +
              std::to_string(plan.line_words));
  check_range("first_look", plan.first_look, 0, kMostFirstLook);
  if (plan.family == Family::dense_persistent) {
    check_dense_plan(network, plan);
  } else {
    check_sparse_plan(network, plan);
  }
}

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

void take_weights(Configuration& configuration, const std::filesystem::path& file, std::string_view tensor) {
  auto matrix = std::make_shared<SparseMatrix>(read_weights(file, tensor));
  const int gates = info(configuration.network.cell).gates;
  const std::string size = std::to_string(matrix->rows) + " x " + std::to_string(matrix->columns);
  if (matrix->rows != std::int64_t{gates} * matrix->columns) {
    throw InputError(file.string() + ": the matrix is " + size + ": the recurrent weights of a " +
                     std::string(info(configuration.network.cell).name) + " cell have " +
                     (gates == 1 ? "as many rows as columns" : std::to_string(gates) + " rows per column"));
  }
  if (matrix->nnz() == 0) {
    throw InputError(file.string() + ": the matrix has no non-zero");
  }
  round_weights(*matrix, configuration.network.precision);
  if (!std::all_of(matrix->value.begin(), matrix->value.end(), [](float value) { return std::isfinite(value); })) {
    throw InputError(file.string() + ": a weight is too large for " +
                     std::string(info(configuration.network.precision).name));
  }
  configuration.network.hidden = matrix->columns;
  configuration.network.density = matrix->density();
  configuration.weights = std::move(matrix);
}

std::shared_ptr<const SparseMatrix> recurrent_matrix(const Configuration& configuration) {
  if (configuration.weights) {
    return configuration.weights;
  }
  const Network& network = configuration.network;
  return std::make_shared<const SparseMatrix>(generate_mask(network.rows(), network.hidden, network.density,
                                                            configuration.seed, network.precision, configuration.mask));
}

namespace {

bool has_exact_rows(const Configuration& configuration) {
  const Network& network = configuration.network;
  return configuration.weights || network.density * network.rows() * network.hidden <= kMostGenerated;
}

}  // namespace

MaskKind expected_mask(const Configuration& configuration) {
  const bool is_two_four =
      configuration.weights ? !find_crowded_group(*configuration.weights) : configuration.mask == MaskKind::two_four;
  return is_two_four ? MaskKind::two_four : MaskKind::uniform;
}

RowProfile row_profile(const Configuration& configuration) {
  return has_exact_rows(configuration) ? RowProfile::from_matrix(*recurrent_matrix(configuration))
                                       : RowProfile::uniform(configuration.network, expected_mask(configuration));
}

RowProfile row_profile(const Configuration& configuration, const SparseMatrix& matrix) {
  return has_exact_rows(configuration) ? RowProfile::from_matrix(matrix)
                                       : RowProfile::uniform(configuration.network, expected_mask(configuration));
}

PlannedNetwork plan_network(const Chip& chip, const Configuration& configuration, const RowProfile& rows) {
  const Network& network = configuration.network;
  if (configuration.plan) {
    check_plan(network, *configuration.plan);
    check_rows(network, *configuration.plan, rows);
    return {network, *configuration.plan, predict(chip, network, *configuration.plan)};
  }
  return choose_plan(chip, network, rows, configuration.wishes);
}

std::vector<std::string> configuration_columns() {
  return {"cell", "hidden", "batch", "steps", "density", "precision", "mask", "seed", "weights", "tensor"};
}

std::vector<std::string> configuration_cells(const Configuration& configuration) {
  const Network& network = configuration.network;
  return {std::string(info(network.cell).name),
          std::to_string(network.hidden),
          std::to_string(network.batch),
          std::to_string(network.steps),
          format_number(network.density),
          std::string(info(network.precision).name),
          std::string(mask_name(configuration)),
          std::to_string(configuration.seed),
          configuration.weights_file,
          configuration.tensor};
}

Family parse_family(std::string_view word) {
  const auto found = std::ranges::find(kFamilyNames, word);
  if (found == kFamilyNames.end()) {
    throw InputError("unknown family " + in_quotes(word) +
                     ": expected sparse_persistent or dense_persistent, or of the libraries cublas_graph, cudnn or "
                     "cusparse_graph");
  }
  return static_cast<Family>(found - kFamilyNames.begin());
}

Storage parse_storage(std::string_view word) {
  const auto found = std::ranges::find(kStorageNames, word);
  if (found == kStorageNames.end()) {
    throw InputError("unknown storage " + in_quotes(word) +
                     ": expected packed_pair, packed_delta, dense, structured_2_4 or bitmap");
  }
  return static_cast<Storage>(found - kStorageNames.begin());
}

Tier parse_tier(std::string_view word) {
  const auto found = std::ranges::find(kTierNames, word);
  if (found == kTierNames.end()) {
    throw InputError("unknown tier " + in_quotes(word) + ": expected registers, shared_memory or streamed");
  }
  return static_cast<Tier>(found - kTierNames.begin());
}

namespace {

// Of the row's own file, which lies where the table lies if its name is no absolute one.
void take_row_weights(Configuration& configuration, const CsvReader& file, std::size_t row) {
  const int hidden = configuration.network.hidden;
  configuration.weights_file = file.text(row, "weights");
  configuration.tensor = file.has("tensor") ? file.text(row, "tensor") : "";
  const auto folder = std::filesystem::path(file.file()).parent_path();
  take_weights(configuration, folder / configuration.weights_file, configuration.tensor);
  if (hidden != configuration.network.hidden) {
    throw InputError(in_quotes(configuration.weights_file) + " has " + std::to_string(configuration.network.hidden) +
                     " hidden units, the row " + std::to_string(hidden));
  }
}

}  // namespace

Configuration read_configuration_row(const CsvReader& file, std::size_t row, bool with_weights) {
  const auto whole = [&](const char* column, double maximum) {
    const double value = file.number(row, column);
    if (!(value >= 0 && value <= maximum) || value != std::floor(value)) {
      file.fail(row, "column '" + std::string(column) + "': found " + in_quotes(file.text(row, column)) +
                         ": expected a whole number from 0 to " + format_number(maximum));
    }
    return value;
  };
  constexpr double kInt = 2147483647;
  Configuration configuration;
  Network& network = configuration.network;
  network.hidden = static_cast<int>(whole("hidden", kInt));
  network.batch = static_cast<int>(whole("batch", kInt));
  network.steps = static_cast<int>(whole("steps", kInt));
  network.density = file.number(row, "density");
  configuration.seed = static_cast<std::uint64_t>(whole("seed", static_cast<double>(kMostSeed)));
  try {
    network.cell = parse_cell(file.text(row, "cell"));
    network.precision = parse_precision(file.text(row, "precision"));
    if (file.has("weights") && !file.text(row, "weights").empty()) {
      if (with_weights) {
        take_row_weights(configuration, file, row);
      }
    } else {
      configuration.mask = parse_mask(file.text(row, "mask"));
    }
    check(network);
    if (file.has("plan") && !file.text(row, "plan").empty()) {
      configuration.plan = parse_plan(file.text(row, "plan"));
    } else if (file.has("family") && !file.text(row, "family").empty()) {
      configuration.wishes.family = parse_family(file.text(row, "family"));
    }
    if (file.has("storage") && !file.text(row, "storage").empty()) {
      configuration.wishes.storage = parse_storage(file.text(row, "storage"));
    }
    if (file.has("tier") && !file.text(row, "tier").empty()) {
      configuration.wishes.tier = parse_tier(file.text(row, "tier"));
    }
  } catch (const InputError& error) {
    file.fail(row, error.what());
  }
  return configuration;
}

}  // namespace onchip
