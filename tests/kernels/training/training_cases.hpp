// SPDX-License-Identifier: Apache-2.0
// LSTM and GRU layers with random data, trained by any executor, and compared with the reference.
#pragma once

#include "kernels/api/confirmed_plan.hpp"
#include "kernels/runtime/kernel_program.hpp"
#include "kernels/training/sparse_program.hpp"
#include "model/base/numeric.hpp"
#include "model/base/parallel.hpp"
#include "model/base/random.hpp"
#include "model/plan/plan_text.hpp"
#include "model/training/memory.hpp"
#include "model/training/planner.hpp"
#include "model/workload/mask.hpp"
#include "model/workload/reference.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace onchip {

// So many SMs of an H200, and the plan that is chosen there, which the compiler confirms.
inline Chip some_sms(int sms) {
  Chip chip = find_chip("h200").chip;
  chip.sm_count.value = sms;
  return chip;
}
inline DenseTrainingPlan chosen_on(const TrainingSize& size, int sms) {
  return std::get<DenseTrainingPlan>(
      choose_on_chip(some_sms(sms), training_of(size, Precision::fp16)).value_or_throw());
}
// The largest stacks of five kinds that are on the SMs of an H100 or H200 at once, in steps of 8 units.
struct ResidentStack {
  Cell cell;
  int layers, batch, hidden;
  Precision precision;
};
inline constexpr std::array<ResidentStack, 5> kResidentStacks{{{Cell::lstm, 4, 4, 768, Precision::fp16},
                                                               {Cell::lstm, 3, 16, 768, Precision::fp16},
                                                               {Cell::gru, 4, 4, 768, Precision::fp16},
                                                               {Cell::lstm, 2, 64, 1056, Precision::fp16},
                                                               {Cell::gru, 2, 8, 1056, Precision::bf16}}};
// Of a plan as it is, to be interpreted: no compiler says what fits.
inline TrainingProgram planned_program(const TrainingSize& size, Precision precision, const TrainingPlan& plan,
                                       const SparseMatrix* mask = nullptr, int sms = 132) {
  return training_program(size, precision, plan, mask, some_sms(sms), "sm_90");
}
inline TrainingProgram confirmed_program(const TrainingSize& size, Precision precision, const TrainingPlan& plan,
                                         const std::string& architecture, const SparseMatrix* mask = nullptr,
                                         int sms = 132) {
  const Chip chip = some_sms(sms);
  return training_program(size, precision, confirmed_plan(chip, size, precision, mask, plan, architecture).chosen, mask,
                          chip, architecture);
}

// Elements that the type has. `initial`: h0 and c0; `last`: gradients of the last h and c; else zeros.
inline TrainingInput random_training(const TrainingSize& size, Precision precision, bool initial, bool last,
                                     std::uint64_t seed) {
  Random random(seed, 7);
  const auto values = [&](std::int64_t count, double most) {
    std::vector<double> all(static_cast<std::size_t>(count));
    for (double& value : all) {
      value = round_to(precision, static_cast<float>(most * (2 * random.unit() - 1)));
    }
    return all;
  };
  const std::int64_t rows = std::int64_t{info(size.cell).gates} * size.hidden,
                     state = std::int64_t{size.batch} * size.hidden;
  const std::int64_t cell = size.cell == Cell::lstm ? state : 0;
  const double scale = 1.5 / std::sqrt(size.hidden);
  TrainingInput in{.x = values(size.steps * size.batch * size.input, 2),
                   .w_ih = values(rows * size.input, 1 / std::sqrt(size.input)),
                   .w_hh = values(rows * size.hidden, scale),
                   .b_ih = values(rows, 0.5),
                   .b_hh = values(rows, 0.5),
                   .h0 = {},
                   .c0 = {},
                   .dy = values(size.steps * state, 1),
                   .dhn = {},
                   .dcn = {},
                   .lengths = {}};
  for (int sample = 0; size.length_bytes > 0 && sample < size.batch; ++sample) {
    in.lengths.push_back(1 + static_cast<std::int64_t>(random.unit() * static_cast<double>(size.steps)));
  }
  if (initial) {
    in.h0 = values(state, 1);
    in.c0 = values(cell, 2);
  }
  if (last) {
    in.dhn = values(state, 2);
    in.dcn = values(cell, 2);
  }
  return in;
}

// Rows of [steps, batch] that there are, in the order of a packed sequence, whose lengths are the longest first.
inline std::vector<std::int64_t> rows_within(const TrainingSize& size, const TrainingInput& in) {
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < size.steps * size.batch; ++row) {
    if (in.lengths.empty() || row / size.batch < in.lengths[row % size.batch]) {
      rows.push_back(row);
    }
  }
  return rows;
}

// With NaN where nobody may read: beyond lengths, and where outputs come. `is_packed`: so are x and dy.
inline void write_training(ProgramExecutor& executor, const TrainingArrays& a, const TrainingSize& size,
                           Precision precision, const TrainingInput& in, bool is_packed = false) {
  const auto elements = [&](int array) { return executor.program().arrays[array].bytes / 2; };
  std::vector<std::byte> lengths(executor.program().arrays[a.lengths].bytes);
  for (std::size_t sample = 0; sample < in.lengths.size(); ++sample) {
    std::memcpy(&lengths[sample * size.length_bytes], &in.lengths[sample], size.length_bytes);  // little-endian
  }
  executor.write(a.lengths, lengths);
  constexpr std::uint16_t kNan = 0xffff;
  std::vector<std::uint16_t> dy(elements(a.dy), kNan);
  executor.write(a.y, std::as_bytes(std::span(dy)));
  const bool is_added = size.is_reverse && size.directions == 2;  // to the first direction's
  const std::vector<std::uint16_t> dx(elements(a.dx), is_added ? 0 : kNan);
  executor.write(a.dx, std::as_bytes(std::span(dx)));
  std::vector<std::uint16_t> x(elements(a.x), kNan);
  const std::vector<std::int64_t> rows = rows_within(size, in);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto copy = [&](std::vector<std::uint16_t>& to, std::int64_t stride, const std::vector<double>& from,
                          std::int64_t columns) {
      const std::int64_t row = is_packed ? static_cast<std::int64_t>(i) : rows[i];
      for (std::int64_t column = 0; column < columns; ++column) {
        const auto value = static_cast<float>(from[rows[i] * columns + column]);
        to[row * stride + column] = static_cast<std::uint16_t>(to_bits(precision, value));
      }
    };
    copy(dy, std::int64_t{size.directions} * size.hidden, in.dy, size.hidden);
    copy(x, size.input, in.x, size.input);
  }
  executor.write(a.dy, std::as_bytes(std::span(dy)));
  executor.write(a.x, std::as_bytes(std::span(x)));
  for (const auto& [array, values] : {std::pair{a.w_ih, &in.w_ih},
                                      {a.w_hh, &in.w_hh},
                                      {a.b_ih, &in.b_ih},
                                      {a.b_hh, &in.b_hh},
                                      {a.h0, &in.h0},
                                      {a.c0, &in.c0},
                                      {a.dhn, &in.dhn},
                                      {a.dcn, &in.dcn}}) {
    std::vector<std::uint16_t> bits(elements(array), 0);
    for (std::size_t i = 0; i < values->size(); ++i) {
      bits[i] = static_cast<std::uint16_t>(to_bits(precision, static_cast<float>((*values)[i])));
    }
    executor.write(array, std::as_bytes(std::span(bits)));
  }
}

inline std::vector<float> read_elements(const ProgramExecutor& executor, int array, Precision precision) {
  std::vector<std::uint16_t> bits(executor.program().arrays[array].bytes / 2);
  executor.read(array, std::as_writable_bytes(std::span(bits)));
  std::vector<float> values;
  for (const std::uint16_t of : bits) {
    values.push_back(from_bits(precision, of));
  }
  return values;
}

// Leaves of a gradient what the mask has.
inline void mask_gradient(const SparseMatrix& mask, std::vector<double>& gradient) {
  const std::vector<double> all = std::exchange(gradient, std::vector<double>(gradient.size(), 0.0));
  for (int row = 0; row < mask.rows; ++row) {
    for (std::int64_t e = mask.row_begin[row]; e < mask.row_begin[row + 1]; ++e) {
      const auto at = static_cast<std::size_t>(std::int64_t{row} * mask.columns + mask.column[e]);
      gradient[at] = all[at];
    }
  }
}

// Of x, y and their gradients as a packed sequence has them, whose lengths `in` then has the longest first.
inline KernelProgram packed_program(const TrainingProgram& training, const TrainingSize& size, TrainingInput& in) {
  std::ranges::sort(in.lengths, std::greater{});
  KernelProgram program = training.program;
  const auto rows = static_cast<std::int64_t>(rows_within(size, in).size());
  program.nodes = [nodes = training.nodes_of_rows, rows](ArrayPlaces at) {
    return nodes(at, {.packed = rows, .products = rows});
  };
  return program;
}

// Of every result against the reference, relative to its norm. `mask`: of W_hh, which stays.
inline std::vector<std::pair<const char*, double>> training_errors(ProgramExecutor& executor, const TrainingArrays& a,
                                                                   const TrainingSize& size, Precision precision,
                                                                   const TrainingInput& in,
                                                                   const SparseMatrix* mask = nullptr,
                                                                   bool is_packed = false) {
  write_training(executor, a, size, precision, in, is_packed);
  REQUIRE(executor.run()[0] == 0);
  TrainingResult expected = training_reference(size, in);
  if (mask != nullptr) {
    mask_gradient(*mask, expected.dw_hh);
  }
  const auto error = [&](int array, const std::vector<double>& of) {
    return relative_error(of, read_elements(executor, array, precision));
  };
  // Of the first columns of rows; packed rows go to their places among zeros.
  const std::vector<std::int64_t> within = rows_within(size, in);
  const auto error_of_rows = [&](int array, std::int64_t stride, std::int64_t columns, const std::vector<double>& of) {
    const std::vector<float> all = read_elements(executor, array, precision);
    std::vector<float> found(of.size());
    const std::size_t count = is_packed ? within.size() : static_cast<std::size_t>(size.steps * size.batch);
    for (std::size_t row = 0; row < count; ++row) {
      const auto to = static_cast<std::size_t>(is_packed ? within[row] : static_cast<std::int64_t>(row));
      std::copy_n(&all[row * static_cast<std::size_t>(stride)], columns,
                  &found[to * static_cast<std::size_t>(columns)]);
    }
    return relative_error(of, found);
  };
  std::vector<std::pair<const char*, double>> errors{
      {"y", error_of_rows(a.y, std::int64_t{size.directions} * size.hidden, size.hidden, expected.y)},
      {"hn", error(a.hn, expected.hn)},
      {"dx", error_of_rows(a.dx, size.input, size.input, expected.dx)},
      {"dw_ih", error(a.dw_ih, expected.dw_ih)},
      {"dw_hh", error(a.dw_hh, expected.dw_hh)},
      {"db", error(a.db, expected.db)},
      {"db_hh", error(a.db_hh, expected.db_hh)},
      {"dh0", error(a.dh0, expected.dh0)}};
  if (size.cell == Cell::lstm) {
    errors.emplace_back("cn", error(a.cn, expected.cn));
    errors.emplace_back("dc0", error(a.dc0, expected.dc0));
  }
  return errors;
}

constexpr double most_error(Precision precision) {
  return precision == Precision::fp16 ? 3e-3 : 2e-2;
}

inline void check_training(ProgramExecutor& executor, const TrainingArrays& a, const TrainingSize& size,
                           Precision precision, const TrainingInput& in, const SparseMatrix* mask = nullptr,
                           bool is_packed = false) {
  for (const auto& [name, error] : training_errors(executor, a, size, precision, in, mask, is_packed)) {
    INFO(name);
    CHECK(error <= most_error(precision));
  }
}

// Random data for each layer of a stack, of which those behind the first have no x and only the last
// has dy.
inline std::vector<TrainingInput> random_stack(const TrainingSize& size, Precision precision, bool initial, bool last,
                                               std::uint64_t seed) {
  std::vector<TrainingInput> layers;
  for (int layer = 0; layer < size.layers; ++layer) {
    layers.push_back(random_training(layers_of(size, layer), precision, initial, last,
                                     seed + 100 * static_cast<std::uint64_t>(layer)));
  }
  return layers;
}

// Of every result against the reference, relative to its norm, after a run.
inline std::vector<std::pair<std::string, double>> stack_errors(ProgramExecutor& executor,
                                                                const TrainingProgram& training,
                                                                const TrainingSize& size, Precision precision,
                                                                std::vector<TrainingInput> in) {
  const auto write = [&](int array, const std::vector<double>& values) {
    std::vector<std::uint16_t> bits(executor.program().arrays[array].bytes / 2, values.empty() ? 0 : 0xffff);
    for (std::size_t i = 0; i < std::min(bits.size(), values.size()); ++i) {
      bits[i] = static_cast<std::uint16_t>(to_bits(precision, static_cast<float>(values[i])));
    }
    executor.write(array, std::as_bytes(std::span(bits)));
  };
  // Whatever lies in the workspace and in what comes out is none of its business.
  for (std::size_t array = 0; array < executor.program().arrays.size(); ++array) {
    executor.write(static_cast<int>(array),
                   std::vector<std::byte>(executor.program().arrays[array].bytes, std::byte{0xff}));
  }
  const std::size_t layers = training.layers.size();
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const TrainingArrays& a = training.layers[layer];
    const TrainingInput& of = in[layer];
    for (const auto& [array, values] : {std::pair{a.x, &of.x},
                                        {a.w_ih, &of.w_ih},
                                        {a.w_hh, &of.w_hh},
                                        {a.b_ih, &of.b_ih},
                                        {a.b_hh, &of.b_hh},
                                        {a.h0, &of.h0},
                                        {a.c0, &of.c0},
                                        {a.dhn, &of.dhn},
                                        {a.dcn, &of.dcn},
                                        {a.dy, &of.dy}}) {
      write(array, *values);
    }
  }
  REQUIRE(executor.run()[0] == 0);
  const bool has_gradients = stash_of(training.plan) != Stash::none;
  std::vector<TrainingResult> expected(layers);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    if (layer > 0) {
      in[layer].x = expected[layer - 1].y;
    }
    expected[layer] =
        training_reference(layers_of(size, static_cast<int>(layer)), in[layer], has_gradients && layer + 1 == layers);
  }
  for (std::size_t layer = has_gradients ? layers - 1 : 0; layer-- > 0;) {
    in[layer].dy = expected[layer + 1].dx;
    expected[layer] = training_reference(layers_of(size, static_cast<int>(layer)), in[layer]);
  }
  // Rows of fp32, of each gate's units and columns with what pads them.
  const auto read_sums = [&](int array, std::int64_t columns) {
    std::vector<float> all(executor.program().arrays[array].bytes / 4), found;
    executor.read(array, std::as_writable_bytes(std::span(all)));
    for (std::int64_t row = 0; row < info(size.cell).gates * size.hidden; ++row) {
      const std::int64_t from = row / size.hidden * aligned_columns(size.hidden) + row % size.hidden;
      const auto begin = all.begin() + from * aligned_columns(columns);
      found.insert(found.end(), begin, begin + columns);
    }
    return found;
  };
  std::vector<std::pair<std::string, double>> errors;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const TrainingArrays& a = training.layers[layer];
    const TrainingResult& of = expected[layer];
    const auto add = [&](const std::string& name, const std::vector<double>& right, const std::vector<float>& found) {
      errors.emplace_back(name + " of layer " + std::to_string(layer), relative_error(right, found));
    };
    const auto add_elements = [&](const std::string& name, int array, const std::vector<double>& right) {
      add(name, right, read_elements(executor, array, precision));
    };
    add_elements("hn", a.hn, of.hn);
    if (size.cell == Cell::lstm) {
      add_elements("cn", a.cn, of.cn);
    }
    if (layer + 1 == layers) {
      add_elements("y", a.y, of.y);
    }
    if (!has_gradients) {
      continue;
    }
    add("dw_ih", of.dw_ih, read_sums(a.dw_ih, layers_of(size, static_cast<int>(layer)).input));
    add("dw_hh", of.dw_hh, read_sums(a.dw_hh, size.hidden));
    add_elements("db", a.db, of.db);
    add_elements("db_hh", a.db_hh, of.db_hh);
    add_elements("dh0", a.dh0, of.dh0);
    if (size.cell == Cell::lstm) {
      add_elements("dc0", a.dc0, of.dc0);
    }
    if (layer == 0) {
      add_elements("dx", a.dx, of.dx);
    }
  }
  return errors;
}

inline void check_stack(ProgramExecutor& executor, const TrainingProgram& training, const TrainingSize& size,
                        Precision precision, const std::vector<TrainingInput>& in) {
  for (const auto& [name, error] : stack_errors(executor, training, size, precision, in)) {
    INFO(name);
    CHECK(error <= 2 * most_error(precision));  // of several layers
  }
}

// Another run gives the same bits.
inline void check_repeats(ProgramExecutor& executor, std::initializer_list<int> arrays, Precision precision) {
  for (const int array : arrays) {
    const std::vector<float> first = read_elements(executor, array, precision);
    REQUIRE(executor.run()[0] == 0);
    CHECK(first == read_elements(executor, array, precision));
  }
}

// Layers drawn at random are trained interleaved. Each iteration has its own status: that with lengths of 0 reports
// them, and no other does. The last has the bits of the first.
template <typename Executor>
void check_iterations(int layers, int iterations, int most_units, int most_rows, int sms,
                      const std::string& architecture) {
  struct Layer {
    TrainingSize size;
    Precision precision = Precision::fp16;
    TrainingInput in;
    std::optional<TrainingProgram> training;
    std::unique_ptr<Executor> executor;
    std::vector<std::vector<float>> first;

    std::vector<std::vector<float>> results() const {
      const TrainingArrays& a = training->arrays;
      std::vector<std::vector<float>> all;
      for (const int array : {a.y, a.dx, a.dw_ih, a.dw_hh, a.db, a.db_hh, a.dh0}) {
        all.push_back(read_elements(*executor, array, precision));
      }
      return all;
    }
  };
  std::vector<Layer> all(static_cast<std::size_t>(layers));
  parallel_for(layers, all_cores(), [&](int i) {
    Random random(static_cast<std::uint64_t>(i), 11);
    const auto up_to = [&](int most) { return 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(most))); };
    Layer& layer = all[static_cast<std::size_t>(i)];
    layer.size = {.input = up_to(most_units),
                  .hidden = up_to(most_units),
                  .batch = up_to(most_rows),
                  .steps = up_to(most_rows),
                  .cell = random.below(2) == 0 ? Cell::lstm : Cell::gru,
                  .length_bytes = std::array{0, 4, 8}[random.below(3)]};
    layer.precision = random.below(2) == 0 ? Precision::fp16 : Precision::bf16;
    layer.in = random_training(layer.size, layer.precision, true, true, static_cast<std::uint64_t>(i));
    layer.training = confirmed_program(layer.size, layer.precision, chosen_on(layer.size, sms), architecture);
  });
  for (int iteration = 0; iteration < iterations; ++iteration) {
    for (Layer& layer : all) {
      CAPTURE(iteration, layer.size.hidden, layer.size.batch, layer.size.steps);
      const TrainingArrays& a = layer.training->arrays;
      const bool is_first = iteration == 0, has_none = layer.size.length_bytes > 0 && iteration == iterations / 2;
      if (is_first) {
        layer.executor = std::make_unique<Executor>(layer.training->program);
        write_training(*layer.executor, a, layer.size, layer.precision, layer.in);
      }
      if (has_none) {
        layer.executor->write(a.lengths, std::vector<std::byte>(layer.training->program.arrays[a.lengths].bytes));
      }
      REQUIRE(layer.executor->run()[0] == (has_none ? 2 : 0));
      if (is_first) {
        layer.first = layer.results();
      }
      if (has_none) {
        write_training(*layer.executor, a, layer.size, layer.precision, layer.in);
      }
    }
  }
  for (const Layer& layer : all) {
    CAPTURE(layer.size.hidden, layer.size.batch, layer.size.steps);
    CHECK(layer.results() == layer.first);
  }
}

}  // namespace onchip
