// SPDX-License-Identifier: Apache-2.0
// What the costs of model/registers.cpp are fitted to, and how well they do: the most weight words per thread with
// which the compiler keeps everything in registers, for many shapes of sparse persistent plans. Needs no GPU.
//
//   register_limits shapes NUMBER > SHAPES.csv         plans, three of four picks of the planner near their limit
//   register_limits domain LIMITS.csv... > SHAPES.csv  all of a grid of relu and tanh networks on four chips that the
//                                                      planner picks near the limit, packed_pair in registers, but
//                                                      those that these files already speak for; the most frequent
//                                                      first
//   register_limits measure SHAPES.csv [PART/PARTS [ARCHITECTURE...]] > LIMITS.csv
//                                                      about ten seconds per shape and architecture; every PARTS-th
//                                                      shape from the PART-th on, to measure on all cores:
//                                                        seq 0 15 | xargs -P 16 -I{} sh -c
//                                                        'register_limits measure SHAPES.csv {}/16 > {}.csv'
//   register_limits table LIMITS.csv... > ../model/register_table.inc
//   register_limits fit LIMITS.csv                     the costs of model/registers.cpp, anew; before them the score of
//                                                      costs that are fitted without the shapes held out
//   register_limits score LIMITS.csv...                how far the model's words are below the compiler's; which are
//                                                      far, or above, on the standard error
//   register_limits check NUMBER [SEED]                picks of the planner for relu and tanh networks drawn at random,
//   on
//                                                      every architecture: whether one spills that is said to fit, and
//                                                      whether one is kept with more than 8 words more
//   register_limits picks CONFIGURATIONS.csv           the planner's sparse plans near the limit of an H200, compiled
//
// A row of LIMITS.csv (NVRTC 13.0.88): all plans of this shape with up to `words` words were kept in registers, the
// next larger one, with `spilling_words`, was not; `registers` is what a computing thread of such a block may use.
// data/register_limits.csv, to which the costs are fitted, has shapes of every kind, of which every third, by a hash of
// it, can be held out; data/register_table.csv those of a `domain` of before, and those on which `check` or a test had
// failed. The table is made of both.
#include "experiments/configuration.hpp"
#include "kernels/program.hpp"
#include "model/error.hpp"
#include "model/footprint.hpp"
#include "model/occupancy.hpp"
#include "model/parallel.hpp"
#include "model/registers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace onchip;

constexpr std::array kArchitectures{"sm_80", "sm_90", "sm_100", "sm_120"};
constexpr std::array kMajors{8, 9, 10, 12};
constexpr int kClose = 8;  // words
constexpr std::array kChips{"a100", "h200", "b200", "rtx 4090"};

// A chip of each architecture; of sm_120 there is none.
const Chip& chip_of(std::size_t architecture) {
  static const std::vector<Chip> chips = [] {
    std::vector<Chip> all{find_chip("a100").chip, find_chip("h200").chip, find_chip("b200").chip};
    all.push_back(all.back());
    all.back().architecture = kArchitectures.back();
    all.back().compute_capability_major.value = kMajors.back();
    return all;
  }();
  return chips[architecture];
}

struct Shape {
  Network network;
  Plan plan;
};

// Without the slots, which are what is sought.
std::string text_of(const Shape& shape) {
  Plan plan = shape.plan;
  plan.slots.fill(0);
  std::fill_n(plan.slots.begin(), plan.rows_per_group, 1);
  return std::string(info(shape.network.cell).name) + "," + std::to_string(shape.network.hidden) + "," +
         std::to_string(shape.network.batch) + "," + std::string(info(shape.network.precision).name) + "," +
         to_string(plan);
}

// What the kernel is made of, as far as its registers may depend on it: shapes alike in this are one shape.
std::string key_of(const Shape& shape) {
  const Network& n = shape.network;
  const Plan& p = shape.plan;
  const auto words = static_cast<int>((exchange_bytes(n, p) / 16 + p.threads - 1) / p.threads);
  std::string key(info(n.cell).name);
  key += info(n.precision).name;
  for (const int value :
       {n.batch, max_registers_per_thread(find_chip("h200").chip, p.threads), p.lanes_per_row, p.rows_per_group,
        static_cast<int>(p.storage), p.tile_rows, p.pass_planes, p.batch_padded, p.load_bytes, p.loads_in_flight, words,
        static_cast<int>(p.has_tail()), p.ring_chunks, p.chunks_in_flight}) {
    key += "," + std::to_string(value);
  }
  return key;
}

bool held_out(const std::string& shape) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char byte : shape) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  }
  return (hash >> 32) % 3 == 0;
}

int room(const Shape& shape, std::size_t architecture = 1) {
  return registers_available(chip_of(architecture), shape.plan);
}

// ---- shapes ---------------------------------------------------------------------------------------------------------

template <typename T, std::size_t kCount>
T one_of(std::mt19937& random, const std::array<T, kCount>& choices) {
  return choices[random() % kCount];
}

constexpr std::array kCellsTried{Cell::relu, Cell::tanh, Cell::lstm, Cell::gru};
constexpr std::array kPrecisionsTried{Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp8};
constexpr std::array kBatches{1, 2, 4, 8, 16, 32};

Network any_network(std::mt19937& random) {
  Network network;
  network.cell = one_of(random, kCellsTried);
  network.precision = one_of(random, kPrecisionsTried);
  network.batch = one_of(random, kBatches);
  return network;
}

// A pick of the planner that fills the registers, or one that has a tail.
bool pick(std::mt19937& random, const std::vector<Chip>& chips, Shape& shape) {
  const Chip& chip = chips[random() % chips.size()];
  shape.network = any_network(random);
  shape.network.density = one_of(random, std::array{0.01, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0});
  shape.network.hidden = 256 << random() % 6;
  shape.network.hidden += shape.network.hidden / 32 * static_cast<int>(random() % 32);
  PlanWishes wishes;
  wishes.family = Family::sparse_persistent;
  if (random() % 3 == 0 && shape.network.precision != Precision::fp32) {
    wishes.storage = Storage::packed_delta;
  }
  const PlannedNetwork planned = choose_plan(chip, shape.network, RowProfile::uniform(shape.network), wishes);
  shape.plan = planned.plan;
  constexpr double kNear = 0.85;
  return planned.prediction.footprint.fits &&
         (shape.plan.has_tail() || planned.prediction.footprint.resources[0].share() > kNear);
}

// Anything that a kernel can be built from.
bool draw(std::mt19937& random, const std::vector<Chip>& chips, Shape& shape) {
  Network& network = shape.network = any_network(random);
  Plan& plan = shape.plan = {};
  const int gates = info(network.cell).gates;
  plan.sms = 132;
  plan.threads = 32 * (8 + static_cast<int>(random() % 25));
  plan.lanes_per_row = one_of(random, std::array{32, 32, 16, 16, 8, 4});
  plan.rows_per_group = gates * (1 + static_cast<int>(random() % (gates > 1 ? 3 : 8)));
  plan.batch_padded = network.batch;
  constexpr std::array kStorages{Storage::packed_pair, Storage::dense, Storage::packed_delta};
  plan.storage = one_of(random, kStorages);
  if (plan.storage == Storage::packed_delta && network.precision == Precision::fp32) {
    plan.storage = Storage::packed_pair;
  }
  plan.promote_every = state_type(network.precision) == Precision::fp16 ? 8 : 1;
  plan.tile_rows = gates > 1 ? 4 : 1 << random() % 4;
  while (plan.tile_rows >= 2 * plan.rows_per_group) {
    plan.tile_rows /= 2;
  }
  plan.pass_planes = std::min(planes(network, plan), 1 << random() % 3);
  if (random() % 2) {
    plan.tail_chunks = plan.warps() * plan.rows_per_group;
    plan.longest_tail = plan.rows_per_group;
    plan.ring_chunks = one_of(random, std::array{0, 2, 3, 4});
    plan.shared_chunks = plan.ring_chunks > 0 ? plan.tail_chunks / 2 : plan.tail_chunks;
    plan.chunks_in_flight = 1 << random() % 3;
  }
  const int most = plan.sms * plan.groups() * plan.rows_per_group / gates;
  network.hidden = most - most / 8 * static_cast<int>(random() % 5);
  plan.line_words = best_line_words(network, plan);
  const auto words = static_cast<int>((exchange_bytes(network, plan) / 16 + plan.threads - 1) / plan.threads);
  plan.loads_in_flight = 1 + static_cast<int>(random() % std::min(8, words));
  constexpr int kMostSums = 64;
  return static_cast<double>(shared_bytes(network, plan)) <= chips[1].smem_bytes_per_block &&
         network.hidden <= kMaxHidden &&
         plan.tile_rows * plan.pass_planes * plan.batch_padded / planes(network, plan) <= kMostSums &&
         room(shape) - working_registers(chips[1], network, plan) > 2 * plan.rows_per_group;
}

// The larger a kernel, the longer it takes to compile, up to ten seconds: few of the large ones.
bool is_quick(std::mt19937& random, const Shape& shape) {
  constexpr int kSmall = 128, kLarge = 184;
  return room(shape) <= kSmall || (room(shape) <= kLarge && random() % 4 == 0);
}

int shapes(int number) {
  std::vector<Chip> chips;
  for (const char* name : kChips) {
    chips.push_back(find_chip(name).chip);
  }
  std::mt19937 random(1);
  std::set<std::string> known;
  std::puts("cell,hidden,batch,precision,plan");
  for (int made = 0; made < number;) {
    Shape shape;
    if ((made % 4 == 3 ? draw(random, chips, shape) : pick(random, chips, shape)) && is_quick(random, shape) &&
        known.insert(key_of(shape)).second) {
      std::puts(text_of(shape).c_str());
      std::fflush(stdout);
      ++made;
    }
  }
  return 0;
}

// With a bundle for every row: the limits are of whole bundles.
Shape read_shape(const CsvReader& file, std::size_t row) {
  Shape shape;
  shape.network.cell = parse_cell(file.text(row, "cell"));
  shape.network.precision = parse_precision(file.text(row, "precision"));
  shape.network.hidden = static_cast<int>(file.number(row, "hidden"));
  shape.network.batch = static_cast<int>(file.number(row, "batch"));
  shape.plan = parse_plan(file.text(row, "plan"));
  std::fill_n(shape.plan.slots.begin(), shape.plan.rows_per_group, bundle(shape.network, shape.plan).slots);
  return shape;
}

// ---- all shapes of a domain -----------------------------------------------------------------------------------------

struct Wished {
  Chip chip;
  Network network;
  bool in_registers;  // packed_pair, if it fits or not; else whatever is best
};

// Some more registers than there are: what would be picked if kernels took fewer.
constexpr std::array kShares{1.0, 1.125};
constexpr std::array kDensities{0.01, 0.02, 0.03, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5};
constexpr int kSmallest = 256, kOctaves = 6, kPerOctave = 4;

std::vector<Wished> domain_networks() {
  std::vector<Wished> all;
  const auto add = [&](const Chip& chip, Network network) {
    // Words of weights over registers: what is far from filling them, or far beyond, is not picked near the limit.
    constexpr double kFew = 0.08, kMany = 3;
    const double words = (network.precision == Precision::fp32 ? 1.5 : 1.0) * network.density * network.hidden *
                         network.hidden / (chip.registers_per_sm * chip.sm_count);
    for (const bool in_registers : {false, true}) {
      if (words > kFew && words < (in_registers ? 1 : kMany)) {
        all.push_back({chip, network, in_registers});
      }
    }
  };
  for (const char* name : kChips) {
    for (const double share : kShares) {
      Chip chip = find_chip(name).chip;
      chip.registers_per_sm.value *= share;
      chip.registers_per_block.value *= share;
      for (const Cell cell : {Cell::relu, Cell::tanh}) {
        for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp32}) {
          for (const int batch : kBatches) {
            for (const double density : kDensities) {
              for (int size = 0; size <= kOctaves * kPerOctave; ++size) {
                const double hidden = kSmallest * std::exp2(static_cast<double>(size) / kPerOctave);
                add(chip, {.cell = cell,
                           .precision = precision,
                           .hidden = static_cast<int>(std::lround(hidden / 8)) * 8,
                           .batch = batch,
                           .density = density});
              }
            }
          }
        }
      }
    }
  }
  return all;
}

// Whether all but the registers suffices, and these are nearly filled, or nearly suffice.
bool is_near(const Footprint& footprint) {
  constexpr double kNear = 0.85, kBeyond = 1.25;
  for (std::size_t i = 0; i < footprint.resources.size(); ++i) {
    const double share = footprint.resources[i].share();
    if (i == static_cast<std::size_t>(Resource::registers) ? share < kNear || share > kBeyond : share > 1) {
      return false;
    }
  }
  return footprint.indexed_units <= kMostIndexedUnits;
}

int domain(const std::vector<std::string>& known_limits) {
  std::set<std::uint64_t> known;
  for (const std::string& path : known_limits) {
    const CsvReader file(path);
    for (std::size_t row = 0; row < file.size(); ++row) {
      const Shape shape = read_shape(file, row);
      if (const auto keys = register_keys(kMajors[0], shape.network, shape.plan)) {
        known.insert(keys->shape);
      }
    }
  }
  const std::vector<Wished> networks = domain_networks();
  std::vector<Shape> picks(networks.size());
  std::vector<char> near(networks.size());
  parallel_for(static_cast<int>(networks.size()), all_cores(), [&](int i) {
    const Wished& wished = networks[static_cast<std::size_t>(i)];
    PlanWishes wishes;
    wishes.family = Family::sparse_persistent;
    if (wished.in_registers) {
      wishes.storage = Storage::packed_pair;
      wishes.tier = Tier::registers;
    }
    const PlannedNetwork planned =
        choose_plan(wished.chip, wished.network, RowProfile::uniform(wished.network), wishes);
    picks[static_cast<std::size_t>(i)] = {planned.network, planned.plan};
    near[static_cast<std::size_t>(i)] = is_near(planned.prediction.footprint);
  });
  struct Picked {
    Shape shape;
    int times = 0;
  };
  std::map<std::uint64_t, Picked> picked;  // the shape with the fewest registers, but kEasy: it compiles soonest
  constexpr int kEasy = 96;
  for (std::size_t i = 0; i < picks.size(); ++i) {
    const auto keys = register_keys(kMajors[0], picks[i].network, picks[i].plan);
    if (!near[i] || !keys || known.contains(keys->shape)) {
      continue;
    }
    Picked& p = picked[keys->shape];
    if (p.times++ == 0 || std::abs(room(picks[i]) - kEasy) < std::abs(room(p.shape) - kEasy)) {
      p.shape = picks[i];
    }
  }
  std::vector<Picked> order;
  for (const auto& [key, p] : picked) {
    order.push_back(p);
  }
  std::ranges::stable_sort(order, std::greater{}, &Picked::times);
  std::puts("cell,hidden,batch,precision,plan");
  for (const Picked& p : order) {
    std::puts(text_of(p.shape).c_str());
  }
  std::fprintf(stderr, "%zu networks, %zu shapes\n", networks.size(), order.size());
  return 0;
}

// ---- measuring ------------------------------------------------------------------------------------------------------

// The plan with the most weights, evenly over its rows and in whole bundles, in `words` words or fewer, but a bundle
// for every row; the rows of a dense plan are alike.
Plan with_words(const Shape& shape, int words) {
  const int whole = bundle(shape.network, shape.plan).slots;
  const int rows = shape.plan.rows_per_group;
  Plan plan = shape.plan;
  for (int bundles = rows, step = plan.storage == Storage::dense ? rows : 1;; bundles += step) {
    Plan more = shape.plan;
    more.slots.fill(0);
    for (int row = 0; row < rows; ++row) {
      more.slots[row] = (bundles / rows + (row < bundles % rows)) * whole;
    }
    if (bundles > rows && register_words(shape.network, more) > words) {
      return plan;
    }
    plan = more;
  }
}

struct Limit {
  int words = 0, spilling_words = 0;
};

class Search {
 public:
  Search(Shape shape, std::string architecture) : shape_(std::move(shape)), architecture_(std::move(architecture)) {}

  Limit run(int first) {
    const int least = real_words(0);
    int fits = std::max(first, least), spills = fits;
    // Outwards from the guess, until the limit lies between two numbers of words, then inwards.
    constexpr int kStep = 6, kNarrow = 3, kAround = 2;
    while (lacks(fits) > 0 && fits > least) {
      spills = fits;
      fits = std::max(least, fits - std::max(kNarrow, lacks(fits)));
    }
    while (lacks(spills) == 0) {
      fits = spills;
      spills += kStep;
    }
    while (spills - fits > kNarrow) {
      const int middle = std::clamp(spills - lacks(spills), fits + 1, (fits + spills) / 2);
      (lacks(middle) > 0 ? spills : fits) = middle;
    }
    // The compiler is not monotonic: fewer words may spill. Nearly all of data/ was measured with one look below the
    // limit; of 200 fresh plans one then lay in a hole.
    constexpr int kLooks = 3;
    for (int fewer = fits - kAround, looks = 0; fewer >= least && looks < kLooks; fewer -= kAround) {
      if (lacks(fewer) > 0) {
        spills = fewer;
        fits = fewer - 1;
        looks = 0;
      } else {
        ++looks;
      }
    }
    Limit limit{fits < least ? 0 : real_words(fits), 0};
    for (int words = fits; limit.spilling_words <= limit.words || words < spills;) {
      limit.spilling_words = real_words(++words);
    }
    return limit;
  }

 private:
  int real_words(int words) const { return register_words(shape_.network, with_words(shape_, words)); }

  // About how many registers are missing; 0 where all is kept.
  int lacks(int words) {
    const Plan plan = with_words(shape_, words);
    const int real = register_words(shape_.network, plan);
    if (const auto known = known_.find(real); known != known_.end()) {
      return known->second;
    }
    const ResourceReport report = compile(compile_request(shape_.network, plan, architecture_)).resources;
    const bool kept = report.spill_bytes == 0 && report.stack_bytes == 0;
    return known_[real] = kept ? 0 : std::max({1, report.stack_bytes / 4, report.spill_bytes / 8});
  }

  Shape shape_;
  std::string architecture_;
  std::map<int, int> known_;
};

void print_limit(const Shape& shape, std::size_t architecture, int& working) {
  const int available = room(shape, architecture);
  const Limit limit = Search(shape, kArchitectures[architecture]).run(available - working);
  working = limit.words > 0 ? available - limit.words : working;
  std::printf("%s,%s,%d,%d,%d\n", kArchitectures[architecture], text_of(shape).c_str(), available, limit.words,
              limit.spilling_words);
  std::fflush(stdout);
}

std::size_t architecture_of(const std::string& name) {
  const auto found = std::ranges::find(kArchitectures, name);
  if (found == kArchitectures.end()) {
    throw InputError("unknown architecture '" + name + "'");
  }
  return static_cast<std::size_t>(found - kArchitectures.begin());
}

int measure(const char* path, const char* part, const std::vector<std::string>& architectures) {
  std::size_t first = 0, step = 1;
  if (std::sscanf(part, "%zu/%zu", &first, &step) != 2 || step == 0) {
    throw InputError("'" + std::string(part) + "' is no PART/PARTS");
  }
  const CsvReader file(path);
  std::fprintf(stderr, "%s\n", compiler_version().c_str());
  std::puts("architecture,cell,hidden,batch,precision,plan,registers,words,spilling_words");
  for (std::size_t row = first; row < file.size(); row += step) {
    const Shape shape = read_shape(file, row);
    Plan plan = shape.plan;  // where exchange warps fetch the state, it takes no registers of those that compute
    plan.loads_in_flight = plan.exchange_warps > 0 ? 1 : plan.loads_in_flight;
    int working = working_registers(chip_of(1), shape.network, plan);
    for (const std::string& architecture : architectures) {
      print_limit(shape, architecture_of(architecture), working);
    }
  }
  return 0;
}

// Exit status 1 if a plan that is said to fit spills.
int picks(const char* path) {
  const CsvReader file(path);
  const Chip chip = find_chip("h200").chip;
  std::set<std::string> known;
  int compiled = 0, spilled = 0;
  for (std::size_t row = 0; row < file.size(); ++row) {
    Configuration configuration = read_configuration_row(file, row);
    configuration.wishes.family = Family::sparse_persistent;
    configuration.plan.reset();
    const PlannedNetwork planned = plan_network(chip, configuration, row_profile(configuration));
    constexpr double kNear = 0.9;
    const Footprint& need = planned.prediction.footprint;
    if (!need.fits || need.resources[static_cast<std::size_t>(Resource::registers)].share() < kNear) {
      continue;
    }
    const CompileRequest request = compile_request(planned.network, planned.plan, chip.architecture);
    if (!known.insert(fingerprint(request)).second) {
      continue;
    }
    const ResourceReport report = compile(request).resources;
    ++compiled;
    if (report.spill_bytes > 0 || report.stack_bytes > 0) {
      ++spilled;
      std::printf("%s: spills %d bytes, %s\n", describe(planned.network).c_str(), report.spill_bytes,
                  to_string(planned.plan).c_str());
      std::fflush(stdout);
    }
  }
  std::printf("%d plans compiled, %d spill\n", compiled, spilled);
  return spilled > 0 ? 1 : 0;
}

// ---- fresh networks -------------------------------------------------------------------------------------------------

bool spills(const Network& network, const Plan& plan, std::size_t architecture) {
  const ResourceReport report = compile(compile_request(network, plan, kArchitectures[architecture])).resources;
  return report.spill_bytes > 0 || report.stack_bytes > 0;
}

// A network that is none of the domain's, and the planner's pick for it, in registers and near their limit.
Shape fresh_pick(std::mt19937& random) {
  for (;;) {
    Network network;
    network.cell = one_of(random, std::array{Cell::relu, Cell::tanh});
    network.precision = one_of(random, std::array{Precision::fp16, Precision::bf16, Precision::fp32});
    network.batch = 1 + static_cast<int>(random() % 32);
    network.batch = random() % 4 > 0 ? one_of(random, kBatches) : network.batch;
    network.hidden = 300 + static_cast<int>(random() % 9000);
    network.density = 0.01 * std::exp2(std::ldexp(static_cast<double>(random()), -32) * 5.5);
    const Chip chip = find_chip(kChips[random() % kChips.size()]).chip;
    PlanWishes wishes;
    wishes.family = Family::sparse_persistent;
    wishes.storage = Storage::packed_pair;
    wishes.tier = Tier::registers;
    const PlannedNetwork planned = choose_plan(chip, network, RowProfile::uniform(network), wishes);
    constexpr double kNear = 0.8;
    if (planned.prediction.footprint.fits && planned.prediction.footprint.resources[0].share() > kNear) {
      return {planned.network, planned.plan};
    }
  }
}

// Exit status 1 if a plan that is said to fit spills.
int check(int number, unsigned seed) {
  std::mt19937 random(seed);
  std::array<int, kArchitectures.size()> compiled{}, measured{}, spilling{}, close{};
  for (int i = 0; i < number; ++i) {
    const Shape shape = fresh_pick(random);
    const auto a = static_cast<std::size_t>(i) % kArchitectures.size();
    const int words = room(shape, a) - working_registers(chip_of(a), shape.network, shape.plan);
    const Plan fits = with_words(shape, words);
    Plan beyond = fits;  // the next plan of more than kClose words more
    for (int more = words + kClose; register_words(shape.network, beyond) <= words + kClose;) {
      beyond = with_words(shape, ++more);
    }
    ++compiled[a];
    const bool is_known = measured_registers(kMajors[a], shape.network, shape.plan).has_value();
    measured[a] += is_known;
    const bool spilled = spills(shape.network, fits, a), kept = !spills(shape.network, beyond, a);
    spilling[a] += spilled;
    close[a] += !kept;
    if (spilled || kept) {
      std::printf("%s %s%s%d words: %s\n", kArchitectures[a], is_known ? "" : "not measured, ",
                  spilled ? "spills, " : "keeps more, ", words, text_of(shape).c_str());
    }
    std::fflush(stdout);
  }
  std::puts("architecture,count,measured,within_8,spill");
  for (std::size_t a = 0; a < kArchitectures.size(); ++a) {
    std::printf("%s,%d,%d,%d,%d\n", kArchitectures[a], compiled[a], measured[a], close[a], spilling[a]);
  }
  return std::ranges::count(spilling, 0) == std::ssize(spilling) ? 0 : 1;
}

// ---- score ----------------------------------------------------------------------------------------------------------

struct Measured {
  Shape shape;
  int most = 0;   // registers that are enough to work with: as many as the largest plan that was kept leaves
  int least = 0;  // as many as leave no room for the smallest plan that was not
  std::size_t architecture = 0;
  bool held_out = false;
};

void read_limits(const char* path, std::vector<Measured>& all) {
  const CsvReader file(path);
  for (std::size_t row = 0; row < file.size(); ++row) {
    Measured measured;
    measured.shape = read_shape(file, row);
    const int registers = static_cast<int>(file.number(row, "registers"));
    measured.most = registers - static_cast<int>(file.number(row, "words"));
    measured.least = registers - static_cast<int>(file.number(row, "spilling_words")) + 1;
    measured.architecture = architecture_of(std::string(file.text(row, "architecture")));
    measured.held_out = held_out(text_of(measured.shape));
    if (file.number(row, "words") > 0) {  // else no plan of this shape is kept
      all.push_back(measured);
    }
  }
}

std::vector<Measured> read_limits(const std::vector<std::string>& paths) {
  std::vector<Measured> all;
  for (const std::string& path : paths) {
    read_limits(path.c_str(), all);
  }
  return all;
}

constexpr const char* kScoreHeader = "architecture,shapes,count,within_8,too_few,mean_excess";

// One row of a table, and what stands out of it on the standard error; working(m): by some model.
template <typename Chosen, typename Working>
void print_score(std::size_t architecture, const char* which, const std::vector<Measured>& points, Chosen&& chosen,
                 Working&& working_of) {
  int count = 0, close = 0, few = 0, excess = 0;
  for (const Measured& m : points) {
    if (m.architecture != architecture || !chosen(m)) {
      continue;
    }
    const int working = working_of(m);
    ++count;
    close += working <= m.least + kClose;
    few += working < m.least;
    excess += working - m.least;
    if (working > m.least + kClose || working < m.most) {
      std::fprintf(stderr, "%s %d: %d to %d: %s\n", kArchitectures[architecture], working, m.least, m.most,
                   text_of(m.shape).c_str());
    }
  }
  std::printf("%s,%s,%d,%d,%d,%.1f\n", kArchitectures[architecture], which, count, close, few,
              count ? static_cast<double>(excess) / count : 0.0);
}

void print_fit_scores(std::size_t architecture, const RegisterCosts& costs, const std::vector<Measured>& points) {
  const auto working = [&](const Measured& m) { return working_registers(costs, m.shape.network, m.shape.plan); };
  print_score(
      architecture, "other", points, [](const Measured& m) { return !m.held_out; }, working);
  print_score(
      architecture, "held out", points, [](const Measured& m) { return m.held_out; }, working);
}

// Whether the table can speak for it.
bool has_keys(const Measured& m) {
  return register_keys(kMajors[m.architecture], m.shape.network, m.shape.plan).has_value();
}

int score(const std::vector<std::string>& paths) {
  const std::vector<Measured> all = read_limits(paths);
  const auto working = [](const Measured& m) {
    return working_registers(chip_of(m.architecture), m.shape.network, m.shape.plan);
  };
  std::puts(kScoreHeader);
  for (std::size_t a = 0; a < kArchitectures.size(); ++a) {
    print_score(a, "vanilla in registers", all, has_keys, working);
    print_score(
        a, "other", all, [](const Measured& m) { return !has_keys(m); }, working);
  }
  return 0;
}

// ---- table ----------------------------------------------------------------------------------------------------------

// What plans of one key need: all of them at least, and with how many each is within kClose.
struct Need {
  int enough = 0, close = std::numeric_limits<int>::max();

  void add(const Measured& m) {
    enough = std::max(enough, m.most);
    close = std::min(close, m.least + kClose);
  }
  // Some registers within, for plans that are alike, but were not measured. Above all none may spill.
  RegisterBounds bounds() const {
    constexpr int kSpare = 3;
    const int spare = std::clamp((close - enough) / 2, 0, kSpare);
    return {.least = enough + spare, .most = std::max(enough + spare, close - spare)};
  }
  bool holds(const RegisterBounds& b) const { return enough <= b.least && b.most <= close; }
};

// Prints model/register_table.inc. On sm_120 kernels take what they take on sm_100, as far as was measured: what is
// known of either is taken for both.
int table(const std::vector<std::string>& paths) {
  std::map<std::uint64_t, Need> shapes, staged;
  std::map<std::uint64_t, std::uint64_t> staged_of;
  for (const Measured& m : read_limits(paths)) {
    for (std::size_t a = 0; a < kArchitectures.size(); ++a) {
      const auto keys = register_keys(kMajors[a], m.shape.network, m.shape.plan);
      if (!keys || (a != m.architecture && (a < 2 || m.architecture < 2))) {
        continue;
      }
      shapes[keys->shape].add(m);
      staged_of[keys->shape] = keys->staged;
      if (keys->staged != 0) {
        staged[keys->staged].add(m);
      }
    }
  }
  std::map<std::uint64_t, RegisterBounds> entries;
  for (const auto& [key, need] : staged) {
    entries[key] = need.bounds();
  }
  for (const auto& [key, need] : shapes) {
    const std::uint64_t coarse = staged_of.at(key);
    if (coarse == 0 || !need.holds(entries.at(coarse))) {
      entries[key] = need.bounds();
    }
  }
  std::puts("// `register_limits table`: key (register_keys), the least and the most working registers.");
  int column = 0;
  for (const auto& [key, bounds] : entries) {
    constexpr int kColumns = 5;
    std::printf("{0x%llx, %d, %d},%s", static_cast<unsigned long long>(key), bounds.least, bounds.most,
                ++column % kColumns == 0 ? "\n" : " ");
  }
  std::puts("");
  return 0;
}

// ---- fit ------------------------------------------------------------------------------------------------------------

using Cost = double RegisterCosts::*;
struct NamedCost {
  const char* name;
  Cost cost;
};
#define ONCHIP_COST(name)       \
  NamedCost {                   \
#name, &RegisterCosts::name \
  }
constexpr std::array kAllCosts{
    ONCHIP_COST(base),
    ONCHIP_COST(two_tiles),
    ONCHIP_COST(more_tiles),
    ONCHIP_COST(staged_planes),
    ONCHIP_COST(staged_ring),
    ONCHIP_COST(loaded_word),
    ONCHIP_COST(output),
    ONCHIP_COST(ring),
    ONCHIP_COST(lstm),
    ONCHIP_COST(gru),
    ONCHIP_COST(kept_addresses),
    ONCHIP_COST(kept_per_word),
    ONCHIP_COST(several_planes),
    ONCHIP_COST(gated_pass),
    ONCHIP_COST(chunk_word_together),
    ONCHIP_COST(unpacked_together),
    ONCHIP_COST(more_together),
    ONCHIP_COST(wide_together),
    ONCHIP_COST(together_pass),
    ONCHIP_COST(dense_tail),
};
#undef ONCHIP_COST

// What is wrong with the costs: above all too few registers, then more than kClose too many, then any too many; costs
// that need not differ from `usual` should not.
double fault(const RegisterCosts& costs, const std::vector<Measured>& points, const RegisterCosts& usual) {
  constexpr double kTooFew = 50, kNotClose = 5, kFar = 1, kMore = 0.15, kUnusual = 1;
  double sum = 0;
  for (const Measured& m : points) {
    const int working = working_registers(costs, m.shape.network, m.shape.plan);
    sum += kTooFew * std::max(0, m.most - working) + kMore * std::max(0, working - m.least) +
           kFar * std::max(0, working - m.least - kClose) + kNotClose * (working > m.least + kClose);
  }
  for (const NamedCost& c : kAllCosts) {
    sum += kUnusual * std::abs(costs.*c.cost - usual.*c.cost);
  }
  return sum;
}

// Simulated annealing, in quarters of a register.
RegisterCosts anneal(RegisterCosts costs, const std::vector<Measured>& points, const RegisterCosts& usual) {
  constexpr int kMoves = 1000000;
  constexpr double kHot = 30, kCold = 0.1;
  std::mt19937 random(1);
  double now = fault(costs, points, usual), least = now;
  RegisterCosts best = costs;
  for (int move = 0; move < kMoves; ++move) {
    const double temperature = kHot * std::pow(kCold / kHot, static_cast<double>(move) / kMoves);
    RegisterCosts tried = costs;
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
      const Cost cost = kAllCosts[random() % kAllCosts.size()].cost;
      tried.*cost = std::max(0.0, tried.*cost + (static_cast<int>(random() % 9) - 4) / 4.0);
    }
    const double then = fault(tried, points, usual);
    if (then <= now || std::ldexp(static_cast<double>(random()), -32) < std::exp((now - then) / temperature)) {
      costs = tried;
      now = then;
    }
    if (now < least) {
      least = now;
      best = costs;
    }
  }
  std::fprintf(stderr, "fault %.1f of %zu points\n", least, points.size());
  return best;
}

// Each architecture's costs, from what is common to all. Those fitted without the held out shapes show what the form is
// worth on shapes that it has not seen; those fitted to all are for use.
int fit(const char* path) {
  const std::vector<Measured> all = read_limits({path});
  const RegisterCosts guess{.base = 13,
                            .more_tiles = 3,
                            .staged_planes = 3,
                            .loaded_word = 1,
                            .output = 4,
                            .ring = 8,
                            .lstm = 3,
                            .gru = 3,
                            .kept_addresses = 6,
                            .several_planes = 3,
                            .gated_pass = 5,
                            .chunk_word_together = 1,
                            .unpacked_together = 12,
                            .more_together = 8};
  for (const bool hold_out : {true, false}) {
    std::vector<Measured> fitted = all;
    std::erase_if(fitted, [&](const Measured& m) { return hold_out && m.held_out; });
    const RegisterCosts usual = anneal(guess, fitted, guess);
    std::puts(hold_out ? kScoreHeader : "");
    for (std::size_t a = 0; a < kArchitectures.size(); ++a) {
      std::vector<Measured> points = fitted;
      std::erase_if(points, [&](const Measured& m) { return m.architecture != a; });
      const RegisterCosts costs = anneal(usual, points, usual);
      if (hold_out) {
        print_fit_scores(a, costs, all);
        continue;
      }
      std::printf("// %s\n{", kArchitectures[a]);
      for (const NamedCost& c : kAllCosts) {
        std::printf(".%s = %g, ", c.name, costs.*c.cost);
      }
      std::puts("},");
    }
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const std::string verb = count >= 3 ? arguments[1] : "";
    const std::vector<std::string> files(arguments + std::min(2, count), arguments + count);
    if (verb == "shapes" && count == 3) {
      return shapes(std::stoi(files[0]));
    }
    if (verb == "domain") {
      return domain(files);
    }
    if (verb == "measure") {
      const std::vector<std::string> all(kArchitectures.begin(), kArchitectures.end());
      return measure(arguments[2], count > 3 ? arguments[3] : "0/1",
                     count > 4 ? std::vector<std::string>(files.begin() + 2, files.end()) : all);
    }
    if (verb == "check" && count <= 4) {
      return check(std::stoi(files[0]), count == 4 ? static_cast<unsigned>(std::stoul(files[1])) : 1);
    }
    if (verb == "table") {
      return table(files);
    }
    if (verb == "picks" && count == 3) {
      return picks(arguments[2]);
    }
    if (verb == "score") {
      return score(files);
    }
    if (verb == "fit" && count == 3) {
      return fit(arguments[2]);
    }
    std::fputs(
        "usage: register_limits shapes NUMBER | domain LIMITS.csv... | measure SHAPES.csv [PART/PARTS "
        "[ARCHITECTURE...]] | "
        "table LIMITS.csv... | fit LIMITS.csv | score LIMITS.csv... | check NUMBER [SEED] | picks CONFIGURATIONS.csv\n",
        stderr);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "register_limits: %s\n", error.what());
    return 2;
  }
}
