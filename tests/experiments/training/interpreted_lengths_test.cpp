// SPDX-License-Identifier: Apache-2.0
// Samples of other lengths in an interpreted training step: what would be wrong is found, what is left is written, and
// what are no lengths is reported.
#include "experiments/measurement/interpreted/interpreted_program.hpp"
#include "kernels/training/training_layer.hpp"
#include "tests/experiments/training/with_change.hpp"
#include "tests/kernels/training/training_cases.hpp"
#include "tests/nightly.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onchip {
namespace {

// Products of each half over other rows, as when only one of them was captured in a graph.
KernelProgram program_of_halves(const TrainingProgram& training, const TrainingRows& forward,
                                const TrainingRows& backward) {
  KernelProgram program = training.program;
  program.nodes = [nodes = training.nodes_of_rows, forward, backward](ArrayPlaces at) {
    std::vector<ProgramNode> of_forward = nodes(at, forward), all = nodes(at, backward);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (half_of(all[i].label) == TrainingHalf::forward) {
        all[i] = std::move(of_forward[i]);
      }
    }
    return all;
  };
  return program;
}

}  // namespace

TEST_CASE("lengths that are handled wrongly anywhere are found", "[slow]") {
  const TrainingSize size{.input = 6, .hidden = 16, .batch = 5, .steps = 6, .is_reverse = true, .length_bytes = 4};
  TrainingInput in = random_training(size, Precision::fp16, true, true, 4);
  in.lengths = {3, 6, 1, 5, 3};
  DenseTrainingPlan plan = chosen_on(size, 2);
  plan.forward = changed(plan.forward, "batch_groups=1 sub_batches=2");
  plan.backward = changed(plan.backward, "batch_groups=1 sub_batches=2");
  const TrainingProgram training = planned_program(size, Precision::fp16, plan);
  TrainingInput sorted = in;
  const KernelProgram packed = packed_program(training, size, sorted);
  // 18 rows: a forward half that was captured multiplies 20, the other all.
  const KernelProgram halves = program_of_halves(training, {.products = 20, .unit = 4}, {});
  const auto is_right = [&](const KernelProgram& program, bool is_packed = false) {
    InterpretedProgram interpreted(program);
    const std::vector<std::uint16_t> nan(program.arrays[training.arrays.kept].bytes / 2, 0xffff);
    interpreted.write(training.arrays.kept, std::as_bytes(std::span(nan)));
    const auto errors = training_errors(interpreted, training.arrays, size, Precision::fp16, is_packed ? sorted : in,
                                        nullptr, is_packed);
    return std::ranges::all_of(errors, [](const auto& of) { return of.second <= most_error(Precision::fp16); });
  };
  CHECK(is_right(training.program));
  CHECK(is_right(packed, true));
  CHECK(is_right(halves));
  int number = 0;
  for (const auto& [from, to] : std::initializer_list<std::pair<std::string_view, std::string_view>>{
           {"? ranked.length - static", "? a.ranks[0].length - static"},
           {"a.ranks[rank].sample : rank", "rank : rank"},
           {"a.packed_rows > 0 ? place.row", "false ? place.row"},
           {"rows.packed < end_of_products(a) ? kCellGates", "true ? kCellGates"},
           {"kBatch + ranked.sample", "kBatch + rank"},
           {"place.row = offsets(a)[position]", "place.row = offsets(a)[0]"},
           {"item.index(found_before.row)", "item.index(row)"},
           {"load_ahead(a.initial_cell", "load_ahead(a.initial"},
           {"offsets(a)[before] + rows.rank", "offsets(a)[rows.position] + rows.rank"},
           {"copy.from = a.initial;", ""},
           {"rows.is_there || !copy.adds", "rows.is_there"},
           {"(a.descends ? -1 : 1)", "(a.descends ? 1 : -1)"},
           {"before += min(of_other, position)", "before += min(of_other, position + 1)"},
           {"a.descends ? place.rest - 1", "!a.descends ? place.rest - 1"},
           {"ranked.length - static_cast<int>(step)", "ranked.length - 1 - static_cast<int>(step)"},
           {"if (rest == 0) {", "if (rest == 1) {"},
           {"clear_beyond_ends(a, first, threads);", ""},
           {"rank += of_other > length", "rank += of_other < length"}}) {
    if (!is_chosen(number++, 3)) {
      continue;
    }
    INFO(to);
    std::string source;
    CHECK_FALSE(
        (is_right(with_change(halves, from, to, source)) && is_right(with_change(packed, from, to, source), true)));
  }
}

TEST_CASE("forward with lengths writes all that it leaves", "[fast]") {
  const Cell cell = GENERATE(Cell::lstm, Cell::gru);
  const int hidden = cell == Cell::lstm ? 16 : 13;
  const TrainingSize size{.input = 6, .hidden = hidden, .batch = 5, .steps = 6, .cell = cell, .length_bytes = 4};
  TrainingInput in = random_training(size, Precision::fp16, true, true, 4);
  in.lengths = {3, 6, 1, 5, 3};
  const TrainingProgram training = planned_program(size, Precision::fp16, chosen_on(size, 2));
  const TrainingArrays& a = training.arrays;
  const auto writes_all = [&](KernelProgram program, bool is_packed = false) {
    program.nodes = [nodes = program.nodes](ArrayPlaces at) {
      std::vector<ProgramNode> all = nodes(at);
      std::erase_if(all, [](const ProgramNode& node) {
        return node.label != "status" && half_of(node.label) == TrainingHalf::backward;
      });
      return all;
    };
    InterpretedProgram interpreted(program);
    write_training(interpreted, a, size, Precision::fp16, in, is_packed);
    for (const int array : {a.hn, a.cn, a.cells, a.kept}) {
      interpreted.write(array, std::vector<std::byte>(program.arrays[array].bytes, std::byte{0xff}));  // NaN
    }
    REQUIRE(interpreted.run()[0] == 0);
    const std::size_t rows = is_packed ? rows_within(size, in).size() : 30;
    return std::ranges::all_of(std::array{a.y, a.hn, a.cn, a.cells, a.kept}, [&](int array) {
      const std::vector<float> all = read_elements(interpreted, array, Precision::fp16);
      const std::size_t written = array == a.hn || array == a.cn ? all.size() : all.size() / 30 * rows;
      return std::none_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(written),
                          [](float value) { return std::isnan(value); });
    });
  };
  CHECK(writes_all(training.program));
  CHECK(writes_all(program_of_halves(training, {.products = 20, .unit = 4}, {})));
  std::string source;
  if (cell == Cell::lstm) {
    CHECK_FALSE(writes_all(
        with_change(training.program, "clear_row(a.cells, kHidden, kHidden", "clear_row(a.cells, kHidden, 0", source)));
  } else {
    CHECK_FALSE(writes_all(with_change(training.program, "4 * kGateColumns - written", "0", source)));
    CHECK_FALSE(writes_all(with_change(training.program, "clear_behind_q(a, first, threads);", ";", source)));
  }
  CHECK(writes_all(packed_program(training, size, in), true));
}

TEST_CASE("of a half that gives up waiting, or has a length that is none, all results are NaN", "[fast]") {
  const Cell cell = GENERATE(Cell::lstm, Cell::gru);
  const TrainingHalf half = GENERATE(TrainingHalf::forward, TrainingHalf::backward);
  const bool gives_up = GENERATE(true, false), has_wrong_length = GENERATE(false, true);
  const TrainingSize size{.input = 6,
                          .hidden = 16,
                          .batch = 5,
                          .steps = 6,
                          .cell = cell,
                          .directions = 2,
                          .length_bytes = has_wrong_length ? 4 : 0};
  const TrainingProgram training = planned_program(size, Precision::fp16, chosen_on(size, 2));
  const TrainingArrays& a = training.arrays;
  std::string source;
  KernelProgram program =
      gives_up ? with_change(training.program, "kPolls = 1 << 20", "kPolls = 1", source) : training.program;
  const int kernel = program.add_kernel(outcome_request("sm_90"), "outcome");
  const int report = program.add_array(std::size_t{4});
  program.nodes = [&](ArrayPlaces at) {
    std::vector<ProgramNode> all = training.program.nodes(at);
    std::erase_if(all, [&](const ProgramNode& node) { return node.label != "status" && half_of(node.label) != half; });
    const std::vector<std::vector<std::byte*>> places{{at.begin(), at.end()}};
    all.push_back(outcome_node(kernel, size, {&training, 1}, places, half, 0,
                               array_at<std::uint32_t>(at, program.results), array_at<std::uint32_t>(at, report)));
    return all;
  };
  InterpretedProgram interpreted(program);
  TrainingInput in = random_training(size, Precision::fp16, true, true, 4);
  if (has_wrong_length) {
    in.lengths = {3, 6, 7, 5, 3};
  }
  write_training(interpreted, a, size, Precision::fp16, in);
  interpreted.write(report, std::vector<std::byte>(4));
  interpreted.write(a.y, std::vector<std::byte>(program.arrays[a.y].bytes));
  interpreted.write(a.dx, std::vector<std::byte>(program.arrays[a.dx].bytes));
  CHECK(interpreted.run()[0] == 0);  // as it was before
  std::array<std::uint32_t, 1> found{};
  interpreted.read(report, std::as_writable_bytes(std::span(found)));
  const bool is_wrong = gives_up || has_wrong_length;
  CHECK((found[0] != 0) == is_wrong);
  const std::initializer_list<int> forward{a.y, a.hn, a.cn, a.cells, a.kept},
      backward{a.dx, a.dw_ih, a.dw_hh, a.db, a.db_hh, a.dh0, a.dc0};
  for (const int array : half == TrainingHalf::forward ? forward : backward) {
    const std::vector<float> values = read_elements(interpreted, array, Precision::fp16);
    CAPTURE(array);
    CHECK(std::ranges::count_if(values, [](float value) { return std::isnan(value); }) ==
          (is_wrong ? std::ssize(values) : 0));
  }
}

TEST_CASE("a length that is none is reported", "[fast]") {
  const TrainingSize size{.input = 4, .hidden = 16, .batch = 3, .steps = 4, .length_bytes = 8};
  const TrainingProgram training = planned_program(size, Precision::fp16, chosen_on(size, 2));
  TrainingInput in = random_training(size, Precision::fp16, false, false, 4);
  InterpretedProgram interpreted(training.program);
  for (const std::int64_t length :
       {std::int64_t{0}, std::int64_t{5}, std::int64_t{-1}, std::int64_t{1} << 32, std::int64_t{4}}) {
    in.lengths = {4, length, 1};
    write_training(interpreted, training.arrays, size, Precision::fp16, in);
    CHECK(interpreted.run()[0] == (length == 4 ? 0 : 2));
  }
}

TEST_CASE("lengths that are not those of packed rows are reported", "[fast]") {
  const TrainingSize size{.input = 4, .hidden = 16, .batch = 3, .steps = 4, .length_bytes = 8};
  const TrainingProgram training = planned_program(size, Precision::fp16, chosen_on(size, 2));
  TrainingInput in = random_training(size, Precision::fp16, false, false, 4);
  in.lengths = {3, 2, 1};
  InterpretedProgram interpreted(packed_program(training, size, in));
  using Lengths = std::vector<std::int64_t>;
  const Lengths sorted = in.lengths;
  for (const Lengths& lengths : {sorted, Lengths{4, 2, 1}, {3, 1, 1}, {1, 2, 3}, {4, 4, 4}, sorted}) {
    in.lengths = lengths;
    write_training(interpreted, training.arrays, size, Precision::fp16, in);
    CHECK(interpreted.run()[0] == (lengths == sorted ? 0 : 2));
    const std::vector<float> y = read_elements(interpreted, training.arrays.y, Precision::fp16);
    CHECK(std::ranges::all_of(std::span(y).subspan(6 * 16), [](float value) { return std::isnan(value); }));
  }
}

}  // namespace onchip
