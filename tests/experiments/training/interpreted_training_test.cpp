// SPDX-License-Identifier: Apache-2.0
// A training step of an LSTM or GRU layer, its kernels interpreted, against the reference in double precision.
#include "experiments/measurement/interpreted/interpreted_program.hpp"
#include "model/base/error.hpp"
#include "model/training/memory.hpp"
#include "tests/experiments/training/with_change.hpp"
#include "tests/kernels/training/training_cases.hpp"
#include "tests/nightly.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {
namespace {

// `forward`, `backward`: what differs from a plan without choices; empty: the chosen one.
void check_interpreted(const TrainingSize& size, Precision precision, bool initial, bool last,
                       const std::string& forward, const std::string& backward, int chunk = 0) {
  INFO(info(size.cell).name << " of input " << size.input << " hidden " << size.hidden << " batch " << size.batch
                            << " steps " << size.steps << ", " << info(precision).name << ", '" << forward << "', '"
                            << backward << "' chunk " << chunk);
  DenseTrainingPlan plan = chosen_on(size, 8);
  plan.forward = forward.empty() ? plan.forward : changed(RecurrencePlan{}, forward);
  plan.backward = backward.empty() ? plan.backward : changed(RecurrencePlan{}, backward);
  plan.stash = chunk > 0 ? Stash::cells : Stash::gates;
  plan.chunk = chunk;
  const TrainingProgram training = planned_program(size, precision, plan);
  InterpretedProgram interpreted(training.program);
  TrainingInput in = random_training(size, precision, initial, last, 3);
  check_training(interpreted, training.arrays, size, precision, in);
  if (size.length_bytes > 0) {
    INFO("packed");
    InterpretedProgram packed(packed_program(training, size, in));
    check_training(packed, training.arrays, size, precision, in, nullptr, true);
  }
}

constexpr Precision fp16 = Precision::fp16, bf16 = Precision::bf16;

}  // namespace

TEST_CASE("an interpreted training step of an LSTM or a GRU has the gradients of the reference", "[fast]") {
  const Cell cell = GENERATE(Cell::lstm, Cell::gru);
  check_interpreted({24, 32, 4, 5, cell}, fp16, true, true, "", "");
  check_interpreted({5, 24, 1, 1, cell}, fp16, false, false, "", "");
  check_interpreted({16, 40, 3, 35, cell}, bf16, true, false, "ahead=4",
                    "split=2 ahead=4");  // half a span of each gate
  check_interpreted({7, 33, 9, 4, cell}, fp16, false, true, "batch_groups=1 shared_tiles=1", "batch_groups=1 split=2");
  check_interpreted({8, 17, 10, 20, cell}, bf16, true, true, "batch_groups=2 sub_batches=2 ahead=4",
                    "batch_groups=2 sub_batches=3 warps=1 ahead=4");
  check_interpreted({8, 70, 9, 4, cell}, fp16, true, true, "batch_groups=1 units=32",
                    cell == Cell::lstm ? "batch_groups=2 units=32 split=2" : "batch_groups=1 units=32 split=2");
  check_interpreted({8, 64, 20, 4, cell}, fp16, true, true, "batch_groups=1 sub_batches=2 shared_tiles=3 warps=8",
                    "batch_groups=1 sub_batches=2 split=4 shared_tiles=2 warps=8");
}

TEST_CASE("an interpreted training step of many loads in flight and warp groups has the gradients of the reference",
          "[fast]") {
  check_interpreted({8, 24, 18, 5}, fp16, true, true, "batch_groups=1 sub_batches=1 warps=4 loads_in_flight=12",
                    "batch_groups=1 sub_batches=1 warps=2 split=2 loads_in_flight=12");
  check_interpreted({8, 40, 22, 18}, bf16, true, true,
                    "batch_groups=1 sub_batches=4 shared_tiles=2 warps=2 ahead=4 warp_groups=2",
                    "batch_groups=1 sub_batches=2 warps=4 ahead=4 loads_in_flight=4 warp_groups=2");
  check_interpreted({8, 64, 20, 9}, fp16, true, true,
                    "batch_groups=1 sub_batches=4 warps=1 loads_in_flight=4 warp_groups=4",
                    "batch_groups=1 sub_batches=4 split=2 shared_tiles=2 warps=4 warp_groups=2");
}

TEST_CASE("an interpreted training step of fewer samples than its kernel has room for is that of the reference",
          "[fast]") {
  const Cell cell = GENERATE(Cell::lstm, Cell::gru);
  for (const int batch : {17, 18, 20}) {  // of one kernel, whose last batch group has one of its samples, two, or all
    check_interpreted({8, 24, batch, 4, cell}, fp16, true, true, "batch_groups=5 sub_batches=2 warps=4",
                      "batch_groups=5 sub_batches=1 warps=4 split=2");
  }
}

TEST_CASE("an interpreted training step knows lengths and the reverse direction", "[slow]") {
  const Cell cell = GENERATE(Cell::lstm, Cell::gru);
  int number = cell == Cell::gru;  // of two cases a change waits for one of each cell
  const auto check = [&](auto&&... of_case) {
    if (is_chosen(number++, 2)) {
      check_interpreted(of_case...);
    }
  };
  check(TrainingSize{6, 24, 3, 5, cell, 2, true, 0}, fp16, true, true, "", "");
  check(TrainingSize{6, 24, 4, 5, cell, 1, false, 4}, fp16, true, true, "", "");
  check(TrainingSize{5, 33, 5, 7, cell, 2, true, 8}, bf16, true, true, "", "split=2");
  check(TrainingSize{4, 16, 3, 1, cell, 2, true, 8}, fp16, true, false, "", "");
  check(TrainingSize{8, 32, 20, 9, cell, 1, true, 4}, fp16, true, true, "batch_groups=1 sub_batches=2",
        "batch_groups=1 sub_batches=2 ahead=4");
  check(TrainingSize{8, 17, 10, 20, cell, 2, false, 8}, fp16, false, true, "batch_groups=2 sub_batches=2 ahead=4",
        "batch_groups=2 sub_batches=3 warps=1 ahead=4");
  check(TrainingSize{8, 40, 22, 18, cell, 2, true, 4}, bf16, true, true,
        "batch_groups=1 sub_batches=4 shared_tiles=2 warps=2 ahead=4 warp_groups=2",
        "batch_groups=1 sub_batches=4 split=2 warps=4 ahead=4 loads_in_flight=4 warp_groups=2");
  // Copies with aligned rows.
  for (const int hidden : {19, 24}) {
    check(TrainingSize{hidden == 19 ? 16 : 7, hidden, 3, 4, cell, 2, true, 4}, fp16, true, true, "", "");
  }
  if (cell == Cell::lstm) {
    check(TrainingSize{265, 17, 3, 4, cell, 1, false, 4}, fp16, true, true, "", "");
  }
}

TEST_CASE("with a stash of cells, an interpreted training step has the gradients of the reference", "[fast]") {
  const Cell cell = GENERATE(Cell::lstm, Cell::gru);
  int number = cell == Cell::gru;  // of two cases a change waits for one of each cell
  const auto check = [&](const TrainingSize& size, Precision precision, bool initial, bool last, int chunk) {
    if (is_chosen(number++, 2)) {
      check_interpreted(size, precision, initial, last, "", "", chunk);
    }
  };
  check({24, 32, 4, 5, cell}, fp16, true, true, 2);
  check({24, 32, 4, 5, cell}, fp16, true, true, 5);
  check({5, 24, 2, 3, cell}, fp16, false, false, 1);
  check({16, 40, 3, 9, cell, 2, true}, bf16, true, true, 4);
  check({16, 24, 3, 9, cell, 2}, fp16, false, true, 4);
  check({6, 19, 3, 6, cell, 1, true}, fp16, true, false, 2);
  check({6, 19, 3, 6, cell}, fp16, true, true, 4);
  check({6, 24, 4, 5, cell, 1, false, 4}, fp16, true, true, 2);
}

TEST_CASE("an interpreted training step of several launches has the gradients of the reference", "[fast]") {
  const Cell cell = GENERATE(Cell::lstm, Cell::gru);
  const std::string parts = "batch_groups=2 sub_batches=2 warps=4 ahead=4 launches=3";
  check_interpreted({8, 24, 17, 7, cell}, fp16, true, true, parts, "batch_groups=1 warps=4 split=2 launches=5");
  check_interpreted({7, 19, 11, 7, cell}, fp16, false, true, parts, parts, 3);
  check_interpreted({8, 24, 9, 6, cell, 2, true, 4}, fp16, true, true, parts, "sub_batches=2 warps=4 launches=2");
  // A second launch that has no samples is none.
  const TrainingSize size{8, 24, 20, 3, cell};
  const RecurrencePlan plan = changed(RecurrencePlan{}, "sub_batches=3 launches=4");
  CHECK(recurrence_shape(size, plan, false).samples == 2);
  CHECK(recurrence_shape(size, plan, false).launch_samples == 6);
}

namespace {

DenseTrainingPlan replay_plan(const TrainingSize& size, int chunk) {
  DenseTrainingPlan plan = chosen_on(layers_of(size, 0), 4);
  plan.stash = Stash::replay;
  plan.chunk = chunk;
  return plan;
}

}  // namespace

TEST_CASE("an interpreted stack that is replayed has the gradients of the reference, with whatever chunks", "[fast]") {
  const Cell cell = GENERATE(Cell::lstm, Cell::gru);
  const auto check = [](TrainingSize size, int layers, Precision precision, bool initial, bool last, int chunk) {
    size.layers = layers;
    INFO(info(size.cell).name << " of input " << size.input << " hidden " << size.hidden << " batch " << size.batch
                              << " steps " << size.steps << " layers " << layers << " chunk " << chunk);
    const TrainingProgram training = planned_program(size, precision, replay_plan(size, chunk));
    InterpretedProgram interpreted(training.program);
    check_stack(interpreted, training, size, precision, random_stack(size, precision, initial, last, 6));
  };
  check({24, 32, 4, 5, cell}, 2, fp16, true, true, 2);
  check({24, 32, 4, 5, cell}, 2, fp16, true, true, 5);
  check({5, 24, 2, 3, cell}, 1, fp16, false, false, 1);
  check({5, 24, 2, 1, cell}, 2, fp16, false, false, 1);
  check({6, 19, 3, 7, cell}, 3, bf16, true, false, 3);
  check({16, 24, 3, 6, cell}, 2, fp16, false, true, 4);
}

TEST_CASE("a replay has the bits of a step that keeps the gates, and in chunks those of its outputs", "[fast]") {
  const Cell cell = GENERATE(Cell::lstm, Cell::gru);
  const TrainingSize size{24, 32, 3, 6, cell};
  const TrainingInput in = random_training(size, fp16, true, true, 7);
  DenseTrainingPlan plan = replay_plan(size, 6);
  plan.stash = Stash::gates;
  const TrainingProgram kept = training_program(size, fp16, plan, "sm_90");
  InterpretedProgram expected(kept.program);
  training_errors(expected, kept.arrays, size, fp16, in);
  for (const int chunk : {6, 4, 1}) {
    const TrainingProgram training = training_program(size, fp16, replay_plan(size, chunk), "sm_90");
    InterpretedProgram interpreted(training.program);
    stack_errors(interpreted, training, size, fp16, {in});
    const auto same = [&](int TrainingArrays::*array) {
      return read_elements(interpreted, training.arrays.*array, fp16) ==
             read_elements(expected, kept.arrays.*array, fp16);
    };
    CAPTURE(chunk);
    for (const auto array : {&TrainingArrays::y, &TrainingArrays::hn, &TrainingArrays::cn, &TrainingArrays::dx,
                             &TrainingArrays::dh0, &TrainingArrays::dc0, &TrainingArrays::db}) {
      CHECK(same(array));
    }
  }
}

TEST_CASE("the arrays of drawn training programs have the bytes that are predicted", "[fast]") {
  int checked = 0, replayed = 0;
  for (std::uint64_t seed = 0; checked < 200; ++seed) {
    Random random(seed, 17);
    const auto up_to = [&](int most) { return 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(most))); };
    TrainingSize size{.input = up_to(700),
                      .hidden = up_to(900),
                      .batch = up_to(200),
                      .steps = up_to(600),
                      .cell = random.below(2) == 0 ? Cell::lstm : Cell::gru,
                      .directions = up_to(2),
                      .length_bytes = std::array{0, 4, 8}[random.below(3)],
                      .layers = up_to(3)};
    CAPTURE(seed, size.input, size.hidden, size.batch, size.steps);
    const bool is_replay = size.directions == 1 && size.length_bytes == 0 && random.below(2) == 0;
    size.layers = is_replay ? size.layers : 1;
    const Stash stash = is_replay ? Stash::replay : random.below(2) == 0 ? Stash::gates : Stash::cells;
    const Found<TrainingPlan> found = choose_on_chip(find_chip("h200").chip, training_of(size, fp16), stash);
    if (!found) {
      continue;
    }
    const auto plan = std::get<DenseTrainingPlan>(*found);
    replayed += is_replay ? 1 : 0;
    const TrainingProgram training = training_program(size, fp16, plan, "sm_90");
    const std::vector<ProgramArray>& arrays = training.program.arrays;
    std::int64_t kept = 0;
    for (int layer = 0; layer < size.layers; ++layer) {
      const bool is_last = layer + 1 == size.layers;
      const LayerMemory memory = layer_memory(layers_of(size, layer), plan, true, is_last);
      const TrainingArrays& a = training.layers[static_cast<std::size_t>(layer)];
      kept += memory.kept;
      CHECK(arrays[a.cells].bytes == static_cast<std::size_t>(memory.cells));
      CHECK((!is_replay || arrays[a.dw_ih].bytes == static_cast<std::size_t>(memory.copied_dw_ih)));
    }
    CHECK(arrays[training.arrays.kept].bytes == static_cast<std::size_t>(kept));
    std::size_t own = 0;
    for (int array = training.own_arrays; array < static_cast<int>(arrays.size()); ++array) {
      own += array == training.program.results ? 0 : (arrays[array].bytes + kArrayAlignment - 1) / kArrayAlignment;
    }
    CHECK(size.directions * own * kArrayAlignment + Cublas::kWorkspaceBytes ==
          static_cast<std::size_t>(workspace_bytes(size, plan)));
    ++checked;
  }
  CHECK(replayed >= 15);
}

TEST_CASE("interleaved interpreted training iterations of several layers have their own status", "[fast]") {
  check_iterations<InterpretedProgram>(4, 3, 24, 6, 2, "sm_90");
}

namespace {

struct Change {
  std::string_view from, to;
};

double largest_error(const KernelProgram& program, const TrainingArrays& arrays, const TrainingSize& size,
                     const TrainingInput& in) {
  InterpretedProgram interpreted(program);
  double largest = 0;
  for (const auto& [name, error] : training_errors(interpreted, arrays, size, Precision::fp16, in)) {
    largest = std::max(largest, error);
  }
  return largest;
}

// Each change of the kernels' source is found by a gradient or an output that is wrong. `chunk`: of a stash of cells.
void check_changes_are_found(Cell cell, std::span<const Change> changes, int chunk = 0) {
  const TrainingSize size{6, 16, 2, chunk > 0 ? 6 : 3, cell};
  const TrainingInput in = random_training(size, Precision::fp16, true, true, 4);
  DenseTrainingPlan plan = chosen_on(size, 2);
  plan.stash = chunk > 0 ? Stash::cells : Stash::gates;
  plan.chunk = chunk;
  const TrainingProgram training = planned_program(size, Precision::fp16, plan);
  CHECK(largest_error(training.program, training.arrays, size, in) <= most_error(Precision::fp16));
  for (const Change& change : changes) {
    INFO(change.to);
    std::string source;
    const KernelProgram program =
        with_change(training.program, change.from, change.to, source, "The derivative of the cell");
    CHECK(largest_error(program, training.arrays, size, in) > most_error(Precision::fp16));
  }
}

}  // namespace

TEST_CASE("a wrong sign in any term of an LSTM's cell or its derivative is found", "[fast]") {
  check_changes_are_found(
      Cell::lstm,
      std::array<Change, 15>{{{"input[g], g == 2)", "input[g], g == 3)"},
                              {"load_or_zero(a.input_bias, row) +", "load_or_zero(a.input_bias, row) -"},
                              {"kept[0] * kept[2]);", "-kept[0] * kept[2]);"},
                              {"dh += to_float(fetched.gradient)", "dh -= to_float(fetched.gradient)"},
                              {"dh += a.initial_carry", "dh -= a.initial_carry"},
                              {"fmaf(dh * o, fmaf(-squashed", "fmaf(-dh * o, fmaf(-squashed"},
                              {"fmaf(-squashed, squashed, 1.0f), carry)", "fmaf(squashed, squashed, 1.0f), carry)"},
                              {"1.0f), carry)", "1.0f), -carry)"},
                              {"dc * g * (i * (1.0f - i))", "dc * g * (i * (1.0f + i))"},
                              {"(f * (1.0f - f))", "(f * (1.0f + f))"},
                              {"dc * to_float(fetched.last)", "-dc * to_float(fetched.last)"},
                              {"dc * i * fmaf(-g, g, 1.0f)", "dc * i * fmaf(g, g, 1.0f)"},
                              {"dh * squashed * (o * (1.0f - o))", "dh * squashed * (o * (1.0f + o))"},
                              {"carried = dc, share = f", "carried = -dc, share = f"},
                              {"constants.bias[k] +=", "constants.bias[k] -="}}});
}

TEST_CASE("a wrong sign in any term of a GRU's cell or its derivative is found", "[fast]") {
  check_changes_are_found(
      Cell::gru,
      std::array<Change, 21>{{{"constants.bias[g] = load_or_zero", "constants.bias[g] = -load_or_zero"},
                              {"+= load_or_zero(a.recurrent_bias", "-= load_or_zero(a.recurrent_bias"},
                              {"sums[0] + input", "sums[0] - input"},
                              {"sums[1] + input", "sums[1] - input"},
                              {"sums[2] + constants", "sums[2] - constants"},
                              {"fmaf(kept[0], kept[3], input", "fmaf(-kept[0], kept[3], input"},
                              {"to_float(fetched.input[g]) + constants", "to_float(fetched.input[g]) - constants"},
                              {"fmaf(kept[1], carry - kept", "fmaf(kept[1], carry + kept"},
                              {"- kept[2], kept[2]);", "- kept[2], -kept[2]);"},
                              {"sums[0] + carry", "sums[0] - carry"},
                              {"dh += to_float(fetched.gradient)", "dh -= to_float(fetched.gradient)"},
                              {"dh += a.initial_carry", "dh -= a.initial_carry"},
                              {"dh * (1.0f - z)", "dh * (1.0f + z)"},
                              {"fmaf(-n, n, 1.0f)", "fmaf(n, n, 1.0f)"},
                              {"to_float(fetched.last) - n)", "to_float(fetched.last) + n)"},
                              {"(z * (1.0f - z))", "(z * (1.0f + z))"},
                              {"= dn * q *", "= -dn * q *"},
                              {"(r * (1.0f - r))", "(r * (1.0f + r))"},
                              {"= dn * r;", "= -dn * r;"},
                              {"carried = dh, share = z", "carried = -dh, share = z"},
                              {"constants.bias[k] +=", "constants.bias[k] -="}}});
}

TEST_CASE("what is wrong in gates that are computed anew, or between chunks, is found", "[fast]") {
  check_changes_are_found(Cell::lstm,
                          std::array<Change, 6>{{{"a.final_carry[index] = dh", "a.final_carry[index] = 2 * dh"},
                                                 {"kHidden + index] = carry", "kHidden + index] = 2 * carry"},
                                                 {"= *bias_sum(a, item, k)", "= 2 * *bias_sum(a, item, k)"},
                                                 {"carry = a.initial_carry ? a", "carry = a.initial_carry ? 2 * a"},
                                                 {"item.index(row(0)), to_bits(carry))", "item.index(row(0)), 0)"},
                                                 {"to_bits(static_cast<const float*>(copy.from)",
                                                  "to_bits(2 * static_cast<const float*>(copy.from)"}}},
                          2);
  check_changes_are_found(Cell::gru,
                          std::array<Change, 3>{{{"a.final_carry[index] = dh", "a.final_carry[index] = 2 * dh"},
                                                 {"rest > 1 || a.continues", "rest > 1"},
                                                 {"to_float(ahead[i][3]) : 0.0f", "-to_float(ahead[i][3]) : 0.0f"}}},
                          2);
}

TEST_CASE("a forward that keeps nothing has the outputs of one that does, in chunks of steps, too", "[fast]") {
  const Cell cell = GENERATE(Cell::lstm, Cell::gru);
  const auto [input, hidden, length_bytes] =
      GENERATE(table<int, int, int>({{8, 16, 0}, {6, 13, 0}, {6, 16, 4}, {8, 13, 4}}));
  const TrainingSize size{.input = input,
                          .hidden = hidden,
                          .batch = 5,
                          .steps = 5,
                          .cell = cell,
                          .is_reverse = hidden == 13,
                          .length_bytes = length_bytes};
  INFO(info(cell).name << " input " << input << " hidden " << hidden << " bytes of lengths " << length_bytes);
  DenseTrainingPlan plan = chosen_on(size, 2);
  plan.chunk = 2;
  const TrainingProgram training = planned_program(size, fp16, plan);
  const TrainingInput in = random_training(size, fp16, true, false, 5);
  const TrainingArrays& a = training.arrays;
  // Of the rows that there are, and of the last state; what is not written is NaN.
  const auto outputs = [&](KernelProgram program, const TrainingRows& rows) {
    program.nodes = [&training, rows](ArrayPlaces at) {
      std::vector<ProgramNode> all = training.nodes_of_rows(at, rows);
      std::erase_if(all, [](const ProgramNode& node) {
        return node.label != "status" && half_of(node.label) == TrainingHalf::backward;
      });
      return all;
    };
    InterpretedProgram interpreted(program);
    write_training(interpreted, a, size, fp16, in, false);
    for (const int array : {a.hn, a.cn, a.cells, a.y}) {
      interpreted.write(array, std::vector<std::byte>(program.arrays[array].bytes, std::byte{0xff}));
    }
    REQUIRE(interpreted.run()[0] == 0);
    std::vector<std::vector<float>> found;
    for (const int array : {a.y, a.hn, a.cn}) {
      found.push_back(read_elements(interpreted, array, fp16));
    }
    if (!rows.keeps) {
      const std::vector<float> cells = read_elements(interpreted, a.cells, fp16);
      CHECK(std::ranges::all_of(cells, [](float value) { return std::isnan(value); }));
    }
    return found;
  };
  const auto expected = outputs(training.program, {});
  CHECK(outputs(training.program, {.keeps = false}) == expected);
  if (hidden == 13 || length_bytes > 0) {
    return;
  }
  std::string source;
  const KernelProgram wrong =
      with_change(training.program, "a.final_carry[item.index(sample)] = carry;",
                  "a.final_carry[item.index(sample)] = to_float(to_bits(carry + 0.125f));", source);
  CHECK(outputs(wrong, {.keeps = false}) != expected);
}

TEST_CASE("an SM has 32 units where states are large and the weights have room", "[fast]") {
  const auto plan = [](int hidden, int batch, Cell cell) {
    return chosen_on({hidden, hidden, batch, 1, cell}, 132).backward;
  };
  CHECK(plan(512, 128, Cell::gru).units == 32);
  CHECK(plan(512, 128, Cell::gru).batch_groups == 8);
  CHECK(plan(512, 16, Cell::gru).units == 16);
  CHECK(plan(1024, 128, Cell::gru).units == 32);
  CHECK(plan(1024, 128, Cell::lstm).units == 16);
}

TEST_CASE("a training step refuses what it cannot do", "[fast]") {
  const TrainingSize size{8, 16, 2, 3};
  const DenseTrainingPlan plan = chosen_on(size, 8);
  CHECK_THROWS_WITH(training_program(size, Precision::fp32, plan, "sm_90"),
                    "layers are trained on the chip in 'fp16' or 'bf16', not in 'fp32'");
  CHECK_THROWS_WITH(training_program({8, 16, 2, 3, Cell::tanh}, Precision::fp16, plan, "sm_90"),
                    "the cell 'tanh' has no training kernels; 'lstm' and 'gru' have");
  CHECK_THROWS_AS(training_program({8, 16, 2, 0}, Precision::fp16, plan, "sm_90"), InputError);
  CHECK_THROWS_WITH(chosen_on({8, 4096, 1, 1}, 132),
                    Catch::Matchers::Contains("an LSTM of 4096 units takes 256 SMs to train on the chip"));
  CHECK_THROWS_AS(changed(plan.forward, "turn=2"), InputError);
  CHECK_THROWS_AS(recurrence_shape(size, changed(plan.forward, "split=2"), false), InputError);
}

}  // namespace onchip
