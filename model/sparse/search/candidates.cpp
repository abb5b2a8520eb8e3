// SPDX-License-Identifier: Apache-2.0
// The sparse plans that are worth pricing.
#include "model/sparse/family.hpp"
#include "model/sparse/price.hpp"
#include "model/sparse/registers.hpp"
#include "model/sparse/search/overflow.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <optional>
#include <vector>

namespace onchip {
namespace {

constexpr std::array kLanes{32, 16, 8, 4, 2};
struct Fetching {
  ExchangeProtocol exchange;
  int warps;
};
// Two warps are enough for bulk copies; warpgroups of four hand registers over.
constexpr std::array kFetchings{Fetching{ExchangeProtocol::lamport, 4}, Fetching{ExchangeProtocol::lamport, 5},
                                Fetching{ExchangeProtocol::lamport, 8}, Fetching{ExchangeProtocol::bulk_copy, 2},
                                Fetching{ExchangeProtocol::bulk_copy, 4}};
constexpr int kLeastOfBulk = 32000;  // bytes of a plane of the state, below which its flags take longer than its words
// Bytes of a load where passes are pipelined: at least one bank's. With seven warps that fetch, at least two: with 4
// bytes their steps took up to a third longer than with four (pipelined.csv), with 8 and more up to a quarter less.
constexpr int kLeastPipelinedLoad = 4, kLeastOfManyWarps = 8, kManyWarps = 8;
constexpr int kMostLoads = 8;
constexpr int kMostLoadsOfPlanes = 6;  // of several planes at once, what the registers of a fetching thread hold
constexpr int kPromote = 8;            // products summed in fp16 before they join the fp32 sum

// The numbers of SMs worth trying: for every number of units of an SM the fewest that give no SM more, and all.
std::vector<int> sm_choices(const Chip& chip, const Recurrent& network) {
  const int units = network.hidden, all = static_cast<int>(chip.sm_count);
  std::vector<int> choices{all};
  for (int of_sm = (units + all - 1) / all; of_sm <= units; ++of_sm) {
    const int sms = (units + of_sm - 1) / of_sm;
    if (sms != choices.back()) {
      choices.push_back(sms);
    }
  }
  return choices;
}

// Zeros cost dense storage more than indices cost the others; distances are slower to read than indices, and worth it
// where indices leave no room in the registers.
bool is_worth_trying(const Chip& chip, const Recurrent& network, const RowProfile& rows, Storage storage) {
  if (storage == Storage::dense) {
    return network.density >= 0.4;
  }
  constexpr double kFilled = 0.7;  // of the registers
  const double pairs = static_cast<double>(rows.nnz()) * (info(network.precision).weight_bits + 16) / 32;
  return storage == Storage::packed_pair || pairs > kFilled * chip.registers_per_sm * chip.sm_count;
}

// What is fixed of the plan, read once.
struct Fixed {
  explicit Fixed(const Constraints& constraints)
      : storage(fixed_value<&SparsePlan::storage>(constraints)),
        order(fixed_value<&SparsePlan::order>(constraints)),
        exchange(fixed_value<&SparsePlan::exchange>(constraints)),
        sms(fixed_value<&SparsePlan::sms>(constraints)),
        lanes_per_row(fixed_value<&SparsePlan::lanes_per_row>(constraints)),
        rows_per_group(fixed_value<&SparsePlan::rows_per_group>(constraints)),
        tile_rows(fixed_value<&SparsePlan::tile_rows>(constraints)),
        load_bytes(fixed_value<&SparsePlan::load_bytes>(constraints)),
        loads_in_flight(fixed_value<&SparsePlan::loads_in_flight>(constraints)),
        promote_every(fixed_value<&SparsePlan::promote_every>(constraints)),
        row_splits(fixed_value<&SparsePlan::row_splits>(constraints)),
        producer_warps(fixed_value<&SparsePlan::producer_warps>(constraints)) {}

  std::optional<Storage> storage;
  std::optional<RowOrder> order;
  std::optional<ExchangeProtocol> exchange;
  std::optional<int> sms, lanes_per_row, rows_per_group, tile_rows, load_bytes, loads_in_flight, promote_every,
      row_splits, producer_warps;
};

class Candidates {
 public:
  Candidates(const Chip& chip, const Recurrent& network, const RowProfile& rows, const Constraints& constraints,
             const Consider<SparsePlan>& consider)
      : chip_(chip),
        network_(network),
        rows_(rows),
        constraints_(constraints),
        fixed_(constraints),
        gates_(info(network.cell).gates),
        tier_(constraints.tier.value_or(Tier::streamed)),
        consider_(consider) {}

  // Most SMs first, for what is fast on them leaves the others less to look at; of each number the shapes with the
  // fastest plans first, by lower bounds of their times. False if there is no shape.
  bool all() {
    std::vector<Storage> storages{Storage::packed_pair, Storage::dense, Storage::packed_delta};
    std::erase_if(storages, [&](Storage storage) {
      return (fixed_.storage ? *fixed_.storage != storage : !is_worth_trying(chip_, network_, rows_, storage)) ||
             (storage == Storage::packed_delta && network_.precision == Precision::fp32);  // no smaller than pairs
    });
    for (const int sms : fixed_.sms ? std::vector{*fixed_.sms} : sm_choices(chip_, network_)) {
      std::erase_if(storages, [&](Storage storage) { return !of_sms(storage, sms); });
    }
    return any_;
  }

 private:
  // A shape with one width of loads and number of producer warps, and all variants of it.
  struct Branch {
    SparsePlan plan;
    Bound bound;
    LeastWork least;
    int shape = 0;  // of those that share what is known of their rows
  };

  // False if the weights have no room, nor have they on fewer SMs.
  bool of_sms(Storage storage, int sms) {
    SparsePlan of_any_shape = shape_sparse_plan(network_, rows_, storage, sms, kLanes.front(), gates_);
    of_any_shape.promote_every = promote_every();
    const SparseGeometry shape = geometry(network_, of_any_shape);
    const double nonzeros =
        storage == Storage::dense ? 1.0 * network_.rows() * network_.hidden : static_cast<double>(rows_.nnz());
    const auto bound_of = [&](int fewest_threads, int most_threads, int threads) {
      const LeastWorkOfSms least{nonzeros, least_bytes_beyond_of_sms(chip_, shape, nonzeros, threads), fewest_threads,
                                 most_threads};
      const auto state = static_cast<double>(shape.exchange_bytes);
      return Bound{least_us_of_sms(chip_, shape, least),
                   least_overload(chip_, shape, state, least.bytes_beyond, tier_)};
    };
    constexpr int kWarp = 32;
    const int most_threads = std::max(shape.threads, static_cast<int>(chip_.max_threads_per_block));
    const Bound bound = bound_of(kWarp, most_threads, 0);
    if (!consider_.is_worth(bound)) {
      any_ = true;
      return bound.overload <= 1;
    }
    branches_.clear();
    shape_by_number_.clear();
    for (const int lanes : kLanes) {
      if ((fixed_.lanes_per_row && *fixed_.lanes_per_row != lanes) || (gates_ > 1 && lanes < 4)) {
        continue;
      }
      for (int rows_per_group = gates_; rows_per_group <= kMaxRowsPerGroup; rows_per_group += gates_) {
        if (fixed_.rows_per_group && *fixed_.rows_per_group != rows_per_group) {
          continue;
        }
        const int units = (rows_.units() + sms - 1) / sms;
        const int units_per_group = rows_per_group / gates_;
        const int groups = (units + units_per_group - 1) / units_per_group;
        const int threads = (groups * lanes + 31) / 32 * 32;
        if (!fixed_.rows_per_group) {
          if (threads > chip_.max_threads_per_block) {
            continue;
          }
          if (rows_per_group > gates_ && threads == last_threads_) {
            continue;  // as many threads as with fewer units each
          }
        }
        last_threads_ = threads;
        if (consider_.is_worth(bound_of(threads, threads, threads))) {
          of_shape(shape_sparse_plan(network_, rows_, storage, sms, lanes, rows_per_group));
        } else {
          any_ = true;
        }
      }
    }
    any_ |= !branches_.empty();
    std::ranges::stable_sort(branches_, is_first, &Branch::bound);
    for (const Branch& branch : branches_) {
      if (consider_.is_worth(branch.bound)) {
        of_variants(branch);
      }
    }
    return true;
  }

  int promote_every() const {
    return fixed_.promote_every.value_or(state_type(network_.precision) == Precision::fp16 ? kPromote : 1);
  }

  // A shape with every width of loads and number of producer warps.
  void of_shape(SparsePlan plan) {
    const int element = info(network_.precision).bytes;
    ++shapes_;
    units_of_shape_ = 0;
    plan.promote_every = promote_every();
    plan.order = fixed_.order.value_or(RowOrder::bank_aware);
    plan.exchange = fixed_.exchange.value_or(ExchangeProtocol::lamport);
    plan.load_bytes = std::max(element, fixed_.load_bytes.value_or(kWidestLoad));
    if (fixed_.producer_warps.value_or(0) == 0 && plan.exchange != ExchangeProtocol::bulk_copy) {
      add_branch(plan);
    }
    // The loads that rows stored dense share take more registers than is known where passes are pipelined; mbarriers
    // came with compute capability 8.
    constexpr int kFirstWithMbarriers = 8;
    if (chip_.compute_capability_major < kFirstWithMbarriers || plan.storage == Storage::dense ||
        fixed_.producer_warps == 0) {
      return;
    }
    // Two passes at least: loads of half of the samples where one load could take all.
    const int unit_bytes = geometry(network_, plan).unit_bytes;
    plan.load_bytes = std::max(element, fixed_.load_bytes.value_or(std::min(kWidestLoad, unit_bytes / 2)));
    const SparseGeometry shape = geometry(network_, plan);
    if (shape.planes == 1 || (plan.load_bytes < kLeastPipelinedLoad && !fixed_.producer_warps)) {
      return;
    }
    const bool is_large = shape.exchange_bytes / shape.planes >= kLeastOfBulk;
    std::optional<ExchangeProtocol> last;
    for (const Fetching& fetching : kFetchings) {
      const bool in_bulk = fetching.exchange == ExchangeProtocol::bulk_copy;
      const bool is_possible = !in_bulk || chip_.compute_capability_major >= kFirstThatCopiesInBulk;
      const bool is_wanted = fixed_.exchange ? *fixed_.exchange == fetching.exchange : !in_bulk || is_large;
      const bool crowds = fetching.warps >= kManyWarps && plan.load_bytes < kLeastOfManyWarps && !fixed_.producer_warps;
      const bool is_again = fixed_.producer_warps && last == fetching.exchange;
      if (!is_possible || !is_wanted || crowds || is_again) {
        continue;
      }
      plan.exchange = fetching.exchange;
      plan.producer_warps = fixed_.producer_warps.value_or(fetching.warps);
      last = plan.exchange;
      if (plan.block_threads() <= chip_.max_threads_per_block) {
        add_branch(plan);
      }
    }
  }

  void add_branch(SparsePlan plan) {
    SparseGeometry shape = geometry(network_, plan);
    plan.line_words = plan.exchange == ExchangeProtocol::bulk_copy
                          ? kLineWords  // it copies many at once
                          : line_words_for(shape.units_per_sm * shape.plane_unit_bytes / 16);
    if (plan.storage == Storage::dense) {  // narrower loads may need more places than the shape was made for
      const int before = plan.slots[0];
      const int slots = shape.row_slots(shape.state_units);
      std::replace(plan.slots.begin(), plan.slots.begin() + plan.rows_per_group, before, slots);
    }
    // Whatever is not stored as pairs has other places where the units of an SM are others.
    if (units_of_shape_ == 0 || (plan.storage != Storage::packed_pair && shape.units_per_sm != units_of_shape_)) {
      shapes_ += units_of_shape_ == 0 ? 0 : 1;
      units_of_shape_ = shape.units_per_sm;
      least_.splits = may_split(fixed_.row_splits, shape, rows_);
      least_.slots = least_slots(shape, rows_, least_.splits);
    }
    shape = geometry(network_, plan);
    least_.bytes_beyond = least_bytes_beyond(chip_, shape, least_.slots);
    branches_.push_back({plan,
                         {least_step_us(chip_, shape, least_),
                          least_overload(chip_, shape, least_state_bytes(shape), least_.bytes_beyond, tier_)},
                         least_,
                         shapes_});
  }

  SparseShape& shape_of(const Branch& branch) {
    auto& shape = shape_by_number_[branch.shape];
    if (!shape) {
      shape.emplace(network_, branch.plan, rows_, lengths_);
    }
    return *shape;
  }

  // Every way to run a branch's shape.
  void of_variants(const Branch& branch) {
    SparsePlan plan = branch.plan;
    SparseShape& rows_of_shape = shape_of(branch);
    LeastWork least = branch.least;
    least.any_tiles = false;
    const int all_planes = geometry(network_, plan).planes;
    const RowOrder order_of_split = fixed_.order.value_or(RowOrder::bank_merged);
    plan.order = order_of_split;
    const std::vector<SplitChoice> splits = worthwhile_splits(network_, fixed_.row_splits, plan, rows_of_shape);
    const int most_tile_rows =
        gates_ > 1 ? 4 : std::min<int>(kMaxTileRows, std::bit_ceil(static_cast<unsigned>(plan.rows_per_group)));
    for (int tile_rows = gates_ > 1 ? 4 : 1; tile_rows <= most_tile_rows; tile_rows *= 2) {
      if (gates_ == 1 && fixed_.tile_rows && *fixed_.tile_rows != tile_rows) {
        continue;
      }
      plan.tile_rows = tile_rows;
      for (int pass_planes = 1; pass_planes <= all_planes; pass_planes *= 2) {
        plan.pass_planes = pass_planes;
        plan.ring_chunks = 0;
        const SparseGeometry shape = geometry(network_, plan);
        if ((plan.producer_warps > 0 && !shape.can_pipeline()) ||
            !consider_.is_worth({least_step_us(chip_, shape, least), branch.bound.overload})) {
          continue;
        }
        const int most_loads = plan.pass_planes > 1 && register_split(plan) ? kMostLoadsOfPlanes : kMostLoads;
        for (int loads = 1; loads <= most_loads; ++loads) {
          plan.loads_in_flight = fixed_.loads_in_flight.value_or(loads);
          if (fixed_.row_splits.value_or(0) == 0) {
            plan.order = fixed_.order.value_or(RowOrder::bank_aware);
            consider_overflow(chip_, network_, constraints_, rows_of_shape, plan, consider_);
          }
          plan.order = order_of_split;
          consider_splits(chip_, network_, constraints_, splits, rows_of_shape, plan, consider_);
          if (fixed_.loads_in_flight || loads >= shape.fetched_words || plan.exchange == ExchangeProtocol::bulk_copy) {
            break;  // more than there are words
          }
        }
      }
    }
  }

  const Chip& chip_;
  const Recurrent& network_;
  const RowProfile& rows_;
  const Constraints& constraints_;
  const Fixed fixed_;
  const int gates_;
  const Tier tier_;  // at most
  const Consider<SparsePlan>& consider_;
  std::vector<Branch> branches_;
  std::map<int, std::optional<SparseShape>> shape_by_number_;
  GroupLengths lengths_{rows_};
  int last_threads_ = 0;
  bool any_ = false;  // a shape, looked at or not worth it
  // Of the shape that branches are added of.
  int shapes_ = 0, units_of_shape_ = 0;
  LeastWork least_;
};

}  // namespace

SparsePlan shape_sparse_plan(const Recurrent& network, const RowProfile& rows, Storage storage, int sms,
                             int lanes_per_row, int rows_per_group) {
  SparsePlan plan;
  const int gates = info(network.cell).gates;
  plan.storage = storage;
  plan.sms = sms;
  plan.lanes_per_row = lanes_per_row;
  plan.rows_per_group = rows_per_group;
  plan.tile_rows = gates > 1 ? 4 : 1;
  const int units_per_group = rows_per_group / gates;
  const int units = (rows.units() + sms - 1) / sms;
  const int groups = (units + units_per_group - 1) / units_per_group;
  plan.threads = (groups * lanes_per_row + 31) / 32 * 32;
  give_slots(network, rows, plan);
  return plan;
}

void give_slots(const Recurrent& network, const RowProfile& rows, SparsePlan& plan) {
  const SparseGeometry shape = geometry(network, plan);
  const int gates = rows.gates(), units_per_rank = plan.groups() * plan.sms;
  for (int r = 0; r < plan.rows_per_group; ++r) {
    const std::int64_t first = std::int64_t{r / gates} * units_per_rank;
    int longest = 0;
    if (first < rows.units()) {
      longest =
          plan.storage == Storage::dense ? shape.state_units : rows.longest_from(static_cast<int>(first), r % gates);
    }
    plan.slots[static_cast<std::size_t>(r)] = std::max(1, shape.row_slots(longest));
  }
}

void for_each_candidate(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                        const Constraints& constraints, const Consider<SparsePlan>& given) {
  if (Fixed(constraints).producer_warps == 1) {
    return;  // why_none() says why
  }
  const Consider<SparsePlan> consider = with_poll_delays(chip, network, constraints, given);
  if (!Candidates(chip, network, rows, constraints, consider).all() &&
      why_none(chip, network, constraints, SparsePlan{}).empty()) {
    // No shape has few enough threads: one says by how much.
    Constraints most_rows = constraints;
    const int gates = info(network.cell).gates;
    fix<&SparsePlan::rows_per_group>(most_rows, kMaxRowsPerGroup / gates * gates);
    Candidates(chip, network, rows, most_rows, consider).all();
  }
}

std::string why_none(const Chip& chip, const Recurrent& network, const Constraints& constraints, const SparsePlan&) {
  const Fixed fixed(constraints);
  if (fixed.producer_warps == 1) {
    return "producer_warps is 0, or 2 and more: one publishes, the others fetch";
  }
  if (const int least = info(network.cell).gates > 1 ? 4 : 2; fixed.lanes_per_row && *fixed.lanes_per_row < least) {
    return "lanes_per_row is " + std::to_string(least) + " or more";
  }
  if (fixed.storage == Storage::packed_delta && network.precision == Precision::fp32) {
    return "packed_delta stores values of 8 or 16 bits, found fp32: packed_pair takes no more room for them";
  }
  if (fixed.exchange == ExchangeProtocol::bulk_copy && chip.compute_capability_major < kFirstThatCopiesInBulk) {
    return "bulk_copy needs compute capability 9.0";
  }
  if (fixed.producer_warps.value_or(0) > 0 || fixed.exchange == ExchangeProtocol::bulk_copy) {
    return "producer warps need the lamport or the bulk_copy exchange, and at least two loads' worth of samples, of "
           "which each is exchanged in turn";
  }
  if (fixed.row_splits.value_or(0) > 0) {
    return "splits of rows are of packed_pair or packed_delta, 1, 2 or 4";
  }
  return fixed.rows_per_group ? "rows_per_group must be a multiple of the gates" : "";
}

}  // namespace onchip
