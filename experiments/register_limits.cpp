// SPDX-License-Identifier: Apache-2.0
// What the costs of model/registers.cpp are fitted to, and how well they do: the most weight words per thread with
// which the compiler keeps everything in registers, for many shapes of sparse persistent plans. Needs no GPU.
//
//   register_limits shapes NUMBER > SHAPES.csv         plans, three of four picks of the planner near their limit
//   register_limits measure SHAPES.csv > LIMITS.csv    some seconds per shape and architecture
//   register_limits fit LIMITS.csv                     the costs of model/registers.cpp, anew; before them the score of
//                                                      costs that are fitted without the shapes held out
//   register_limits score LIMITS.csv                   how far the model's words are below the compiler's; which are
//                                                      far, or above, on the standard error
//   register_limits picks CONFIGURATIONS.csv           the planner's sparse plans near the limit of an H200, compiled
//
// A row of LIMITS.csv (data/register_limits.csv, NVRTC 13.0): all plans of this shape with up to `words` words were
// kept in registers, the next larger one, with `spilling_words`, was not; `registers` is what a block of so many
// threads may use. Every third shape, by a hash of it, can be held out.
#include "experiments/configuration.hpp"
#include "kernels/program.hpp"
#include "model/error.hpp"
#include "model/footprint.hpp"
#include "model/occupancy.hpp"
#include "model/registers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace onchip;

constexpr std::array kArchitectures{"sm_80", "sm_90", "sm_100", "sm_120"};
constexpr std::array kMajors{8, 9, 10, 12};
constexpr std::array kChips{"a100", "h200", "b200", "rtx 4090"};

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

int room(const Shape& shape) {
  static const Chip chip = find_chip("h200").chip;  // every architecture here has the same register file
  return max_registers_per_thread(chip, shape.plan.threads);
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
    constexpr int kStep = 6, kClose = 3, kAround = 2;
    while (lacks(fits) > 0 && fits > least) {
      spills = fits;
      fits = std::max(least, fits - std::max(kClose, lacks(fits)));
    }
    while (lacks(spills) == 0) {
      fits = spills;
      spills += kStep;
    }
    while (spills - fits > kClose) {
      const int middle = std::clamp(spills - lacks(spills), fits + 1, (fits + spills) / 2);
      (lacks(middle) > 0 ? spills : fits) = middle;
    }
    // The compiler is not monotonic: fewer words may spill.
    for (int fewer = fits - kAround; fewer >= least && lacks(fewer) > 0; fewer -= kAround) {
      spills = fewer;
      fits = fewer - 1;
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

int measure(const char* path) {
  const CsvReader file(path);
  std::puts("architecture,cell,hidden,batch,precision,plan,registers,words,spilling_words");
  for (std::size_t row = 0; row < file.size(); ++row) {
    const Shape shape = read_shape(file, row);
    int guess = room(shape) - working_registers(find_chip(kChips[1]).chip, shape.network, shape.plan);
    for (const char* architecture : kArchitectures) {
      const Limit limit = Search(shape, architecture).run(guess);
      guess = limit.words;
      std::printf("%s,%s,%d,%d,%d\n", architecture, text_of(shape).c_str(), room(shape), limit.words,
                  limit.spilling_words);
      std::fflush(stdout);
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

// ---- score and fit --------------------------------------------------------------------------------------------------

struct Measured {
  Shape shape;
  int most = 0;   // registers that are enough to work with: as many as the largest plan that was kept leaves
  int least = 0;  // as many as leave no room for the smallest plan that was not
  std::size_t architecture = 0;
  bool held_out = false;
};

std::vector<Measured> read_limits(const char* path) {
  std::vector<Measured> all;
  const CsvReader file(path);
  for (std::size_t row = 0; row < file.size(); ++row) {
    Measured measured;
    measured.shape = read_shape(file, row);
    const int registers = static_cast<int>(file.number(row, "registers"));
    measured.most = registers - static_cast<int>(file.number(row, "words"));
    measured.least = registers - static_cast<int>(file.number(row, "spilling_words")) + 1;
    const auto found = std::ranges::find(kArchitectures, file.text(row, "architecture"));
    if (found == kArchitectures.end()) {
      file.fail(row, "unknown architecture");
    }
    measured.architecture = static_cast<std::size_t>(found - kArchitectures.begin());
    measured.held_out = held_out(text_of(measured.shape));
    if (file.number(row, "words") > 0) {  // else no plan of this shape is kept
      all.push_back(measured);
    }
  }
  return all;
}

constexpr int kClose = 8;  // words

// One row of a table, and what stands out of it on the standard error.
void print_score(std::size_t architecture, const RegisterCosts& costs, const std::vector<Measured>& points, bool out) {
  int count = 0, close = 0, few = 0, excess = 0;
  for (const Measured& m : points) {
    if (m.architecture != architecture || m.held_out != out) {
      continue;
    }
    const int working = working_registers(costs, m.shape.network, m.shape.plan);
    ++count;
    close += working <= m.least + kClose;
    few += working < m.least;
    excess += working - m.least;
    if (working > m.least + kClose || working < m.most) {
      std::fprintf(stderr, "%s %d: %d to %d: %s\n", kArchitectures[architecture], working, m.least, m.most,
                   text_of(m.shape).c_str());
    }
  }
  std::printf("%s,%s,%d,%d,%d,%.1f\n", kArchitectures[architecture], out ? "held out" : "other", count, close, few,
              count ? static_cast<double>(excess) / count : 0.0);
}

constexpr const char* kScoreHeader = "architecture,shapes,count,within_8,too_few,mean_excess";

int score(const char* path) {
  const std::vector<Measured> all = read_limits(path);
  std::puts(kScoreHeader);
  for (std::size_t a = 0; a < kArchitectures.size(); ++a) {
    print_score(a, register_costs(kMajors[a]), all, false);
    print_score(a, register_costs(kMajors[a]), all, true);
  }
  return 0;
}

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
  const std::vector<Measured> all = read_limits(path);
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
        print_score(a, costs, all, false);
        print_score(a, costs, all, true);
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
    const std::string verb = count == 3 ? arguments[1] : "";
    if (verb == "shapes") {
      return shapes(std::stoi(arguments[2]));
    }
    if (verb == "measure") {
      return measure(arguments[2]);
    }
    if (verb == "picks") {
      return picks(arguments[2]);
    }
    if (verb == "score") {
      return score(arguments[2]);
    }
    if (verb == "fit") {
      return fit(arguments[2]);
    }
    std::fputs(
        "usage: register_limits shapes NUMBER | measure SHAPES.csv | fit LIMITS.csv | score LIMITS.csv | picks "
        "CONFIGURATIONS.csv\n",
        stderr);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "register_limits: %s\n", error.what());
    return 2;
  }
}
