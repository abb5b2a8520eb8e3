// SPDX-License-Identifier: Apache-2.0
// The dense plans that are worth pricing.
#include "model/dense/bitmap.hpp"
#include "model/dense/family.hpp"
#include "model/dense/registers.hpp"
#include "model/plan/search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

namespace onchip {
namespace {

constexpr std::array kThreads{128, 256, 384, 512, 768, 1024};
constexpr double kFewestWords =
    0.4;  // of what is expected of a bitmap: there may be fewer spans and rows than tiles have
constexpr double kMostPadding = 1.6;     // times as many units as there are
constexpr int kMostSpans = 1 << 12;      // of a warp
constexpr int kFirstWithTheProduct = 8;  // compute capability of mma.m16n8k16

bool is_possible(const Chip& chip, const Recurrent& network) {
  const bool multiplies = network.precision == Precision::fp16 || network.precision == Precision::bf16;
  return chip.compute_capability_major >= kFirstWithTheProduct && multiplies;
}

class Candidates {
 public:
  Candidates(const Chip& chip, const Recurrent& network, const RowProfile& rows, const Constraints& constraints,
             const Consider<DensePlan>& consider)
      : chip_(chip),
        network_(network),
        rows_(rows),
        constraints_(constraints),
        consider_(consider),
        storage_(fixed_value<&DensePlan::storage>(constraints)),
        exchange_(fixed_value<&DensePlan::exchange>(constraints)),
        sms_(fixed_value<&DensePlan::sms>(constraints)),
        loads_in_flight_(fixed_value<&DensePlan::loads_in_flight>(constraints)),
        batch_groups_(fixed_value<&DensePlan::batch_groups>(constraints)),
        tier_(constraints.tier.value_or(Tier::streamed)) {}

  void all() {
    if (!is_possible(chip_, network_)) {
      return;
    }
    if (storage_ != Storage::structured_2_4) {
      of_storage(Storage::dense);
    }
    if (rows_.is_two_four() && storage_.value_or(Storage::structured_2_4) == Storage::structured_2_4) {
      of_storage(Storage::structured_2_4);
    }
    std::ranges::stable_sort(branches_, is_first, &Branch::bound);
    for (const Branch& branch : branches_) {
      if (consider_.is_worth(branch.bound)) {
        of_groups(branch.plan);
      }
    }
  }

 private:
  // SMs and batch groups, with every number of threads and of loads in flight.
  struct Branch {
    DensePlan plan;
    Bound bound;
  };

  void of_storage(Storage storage) {
    const auto even = [](int units) { return (units + 1) / 2 * 2; };
    const ExchangeProtocol over_l2 = exchange_.value_or(ExchangeProtocol::lamport);
    for (int groups = batch_groups_.value_or(1); groups <= network_.batch; groups *= 2) {
      const bool alone = groups > 1 && over_l2 != ExchangeProtocol::lamport && over_l2 != ExchangeProtocol::cluster;
      if (network_.batch % groups != 0 || alone) {
        break;
      }
      if (over_l2 != ExchangeProtocol::cluster) {
        const int all = std::max(1, static_cast<int>(chip_.sm_count) / groups);
        const int fewest = even((network_.hidden + all - 1) / all);
        int last_sms = 0;
        // As many SMs as there are, or fewer that have more to do.
        for (int units = fewest; units <= even(network_.hidden); units += 2) {
          // Also as many as whole spans need: a span is a warp's.
          for (const int of : {network_.hidden, (network_.hidden + kSpanUnits - 1) / kSpanUnits * kSpanUnits}) {
            const int sms = sms_.value_or(std::min((of + units - 1) / units, all));
            if (sms != last_sms) {
              add_branches(storage, over_l2, sms, groups);
            }
            last_sms = sms;
          }
        }
      }
      if (exchange_.value_or(ExchangeProtocol::cluster) == ExchangeProtocol::cluster) {
        constexpr int kFewest = 2;
        const double usable = std::min<double>(chip_.cluster_usable_sms, chip_.sm_count);
        for (auto sms = static_cast<int>(chip_.cluster_sms); sms >= kFewest; sms /= 2) {
          if (sms * groups <= usable && sms_.value_or(sms) == sms) {
            add_branches(storage, ExchangeProtocol::cluster, sms, groups);
          }
        }
      }
      if (batch_groups_) {
        break;
      }
    }
  }

  // With as many units as there are, and with whole sectors of them on each SM.
  void add_branches(Storage storage, ExchangeProtocol exchange, int sms, int groups) {
    const int sectors = kSectorUnits * sms, whole = (network_.hidden + sectors - 1) / sectors * sectors;
    add_branch(storage, exchange, sms, groups, 0);
    if (whole > network_.hidden && whole <= kMostPadding * network_.hidden) {
      add_branch(storage, exchange, sms, groups, whole);
    }
  }

  void add_branch(Storage storage, ExchangeProtocol exchange, int sms, int groups, int padded_units) {
    DensePlan plan = shape_dense_plan(network_, sms, kThreads.back(), groups, storage);
    plan.padded_units = padded_units;
    plan.exchange = exchange;
    // A span of a sample is half a line, of several SMs in any case; in a cluster there are no lines.
    plan.line_words = exchange != ExchangeProtocol::cluster && network_.batch == groups ? kLineWords / 2 : kLineWords;
    branches_.push_back({plan, least_of_sms(chip_, DenseGeometry(network_, plan), least_share(plan), tier_)});
  }

  void of_groups(DensePlan plan) {
    for (const int threads : kThreads) {
      plan.threads = threads;
      plan.loads_in_flight = 2 * network_.batch * kMostSpans;  // all at once
      const DenseGeometry shape(network_, plan);
      if (consider_.is_worth({least_step_us(chip_, shape), least_overload(chip_, shape, least_share(plan), tier_)})) {
        of_loads(plan);
      }
    }
  }

  // Of a tile's room in shared memory, what it takes there at least, without its empty words.
  double least_share(const DensePlan& plan) const {
    const bool may_compact = plan.storage == Storage::dense && (storage_ == Storage::bitmap || rows_.word_share() < 1);
    return !may_compact ? 1 : storage_ == Storage::bitmap ? 0 : kFewestWords * rows_.word_share();
  }

  // Every useful number of loads in flight.
  void of_loads(DensePlan plan) {
    const DenseGeometry shape(network_, plan);
    const int one = 2 * shape.sample_tiles;  // loads of a span
    int last_groups = 0;
    for (int group_spans = 1; group_spans <= std::max(1, (shape.warp_spans + 1) / 2); ++group_spans) {
      const int groups = (shape.warp_spans + group_spans - 1) / group_spans;
      if (groups == last_groups) {
        continue;  // registers for nothing
      }
      last_groups = groups;
      plan.loads_in_flight = loads_in_flight_.value_or(one * group_spans);
      if (plan.loads_in_flight % one == 0) {
        keep_tiles(plan);
        const bool asks_bitmap = storage_ == Storage::bitmap;
        if (!asks_bitmap) {
          consider_(plan);
        }
        const bool is_of_use = plan.storage == Storage::dense && rows_.word_share() < 1 && !storage_;
        bool has_room_for_any = has_room(plan);
        if (asks_bitmap || (is_of_use && !has_room_for_any)) {
          const DensePlan compact = compact_plan(plan);
          if (asks_bitmap || has_room(compact)) {
            consider_(compact);
            has_room_for_any = true;
          }
        }
        if (!has_room_for_any) {
          break;  // more loads leave less room still
        }
      }
      if (loads_in_flight_) {
        break;
      }
    }
  }

  // Tiles beyond what the registers hold go to shared memory, unless it is asked that nothing does.
  void keep_tiles(DensePlan& plan) const {
    constexpr int kTileRegisters = 4;
    plan.shared_tiles = 0;
    const int tiles = DenseGeometry(network_, plan).warp_tiles;
    for (int more = tiles; tier_ != Tier::registers && more > 0;) {  // tiles on their way from there take registers too
      const DenseGeometry geometry(network_, plan);
      const int room = registers_available(chip_, plan) - working_registers(chip_, geometry) - geometry.metadata_words -
                       constraints_.spare_registers;
      more = tiles - std::clamp(room / kTileRegisters, 0, tiles) - plan.shared_tiles;
      plan.shared_tiles += std::max(0, more);
    }
  }

  bool has_room(const DensePlan& plan) const {
    return static_cast<double>(DenseGeometry(network_, plan).shared_bytes()) <= chip_.smem_bytes_per_block;
  }

  // A plan stored without the empty words of its tiles in shared memory, of which a share is not empty. Unless it is
  // asked for, one that has no room for far fewer words is not looked at closely.
  DensePlan compact_plan(DensePlan plan) const {
    plan.storage = Storage::bitmap;
    plan.bank_words = 0;
    keep_tiles(plan);
    const double share = rows_.word_share();
    const int all_words = kLaneWords * plan.shared_tiles * plan.warps();
    plan.bank_words = static_cast<int>(kFewestWords * share * all_words);
    if (storage_ || has_room(plan)) {
      const double expected = std::ceil(expected_bank_words(DenseGeometry(network_, plan), share));
      plan.bank_words = static_cast<int>(std::min<double>(all_words, expected));
    }
    return plan;
  }

  const Chip& chip_;
  const Recurrent& network_;
  const RowProfile& rows_;
  const Constraints& constraints_;
  const Consider<DensePlan>& consider_;
  const std::optional<Storage> storage_;
  const std::optional<ExchangeProtocol> exchange_;
  const std::optional<int> sms_, loads_in_flight_, batch_groups_;
  const Tier tier_;
  std::vector<Branch> branches_;
};

}  // namespace

DensePlan shape_dense_plan(const Recurrent& network, int sms, int threads, int batch_groups, Storage storage) {
  DensePlan plan;
  plan.storage = storage;
  plan.sms = sms;
  plan.threads = threads;
  plan.batch_groups = batch_groups;
  plan.loads_in_flight = 2 * DenseGeometry(network, plan).sample_tiles;
  return plan;
}

void for_each_candidate(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                        const Constraints& constraints, const Consider<DensePlan>& consider) {
  if (fixed_value<&DensePlan::storage>(constraints) == Storage::structured_2_4) {
    check_two_four(rows);
  }
  Candidates(chip, network, rows, constraints, consider).all();
}

std::string remark(const Chip& chip, const Recurrent& network, const RowProfile& rows, const Constraints& constraints,
                   const DensePlan& plan) {
  const bool is_dense = plan.storage == Storage::dense;
  if (fixed_value<&DensePlan::storage>(constraints) || (is_dense && !rows.is_two_four())) {
    return "";
  }
  Constraints otherwise = constraints;
  otherwise.family = DensePlan::kName;
  fix<&DensePlan::storage>(otherwise, is_dense ? Storage::structured_2_4 : Storage::dense);
  const std::optional<Planned<DensePlan>> other =
      FamilySearch<DensePlan>(chip, network, rows, otherwise, Effort::bounded, kNever).best();
  return other ? "; stored as " + std::string(name(other->plan.storage)) + ", " +
                     why_slower(predict_one(chip, network, plan), other->prediction)
               : "";
}

DensePlan settled(const Chip&, const Recurrent& network, const RowProfile& rows, const Constraints& constraints,
                  const DensePlan& chosen) {
  DensePlan plan = chosen;
  if (plan.storage == Storage::bitmap && rows.words() != nullptr) {  // which were estimated so far
    plan.bank_words = needed_bank_words(DenseGeometry(network, plan), *rows.words());
  }
  plan.poll_delay =
      fixed_value<&DensePlan::poll_delay>(constraints).value_or(best_poll_delay(DenseGeometry(network, plan)));
  return plan;
}

std::string why_none(const Chip& chip, const Recurrent& network, const Constraints& constraints, const DensePlan&) {
  if (!is_possible(chip, network)) {
    return std::string(DensePlan::kName) + " needs compute capability 8.0, and fp16 or bf16";
  }
  if (fixed_value<&DensePlan::exchange>(constraints) == ExchangeProtocol::cluster && chip.cluster_sms < 2) {
    return "the cluster exchange needs clusters, which " + chip.name + " has not";
  }
  return std::string(DensePlan::kName) +
         " needs loads_in_flight in multiples of two for every 8 samples of a batch group, batch groups that divide "
         "the "
         "batch, and of a cluster a size that the chip has";
}

}  // namespace onchip
