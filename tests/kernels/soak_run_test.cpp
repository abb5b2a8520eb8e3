// SPDX-License-Identifier: Apache-2.0
// Ten million steps whose result is known exactly: a permutation of the state, which fp16 carries without rounding.
#include "kernels/recurrent/recurrence.hpp"
#include "model/chip/chip.hpp"
#include "model/families/planner.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <numeric>
#include <random>

namespace onchip {
namespace {

constexpr std::int64_t kSteps = 10'000'000;

// [units]: where `steps` applications of `to` lead, cycle by cycle.
std::vector<int> applied(const std::vector<int>& to, std::int64_t steps) {
  std::vector<int> result(to.size(), -1);
  for (std::size_t first = 0; first < to.size(); ++first) {
    std::vector<int> cycle;
    for (int unit = static_cast<int>(first); result[unit] < 0 && (cycle.empty() || unit != cycle[0]); unit = to[unit]) {
      cycle.push_back(unit);
    }
    for (std::size_t i = 0; i < cycle.size(); ++i) {
      result[cycle[i]] = cycle[(i + steps) % cycle.size()];
    }
  }
  return result;
}

TEST_CASE("ten million steps lose, repeat and mix up nothing", "[gpu][soak]") {
  const Recurrent network{.cell = Cell::relu, .hidden = 1024, .batch = 4, .density = 1.0 / 1024};
  std::mt19937_64 random(7);
  std::vector<int> to(network.hidden);  // unit u of a step is unit to[u] of the next
  std::iota(to.begin(), to.end(), 0);
  std::shuffle(to.begin(), to.end(), random);
  SparseMatrix matrix{network.hidden, network.hidden, {0}, {}, {}};
  std::vector<int> from(network.hidden);
  for (int unit = 0; unit < network.hidden; ++unit) {
    from[to[unit]] = unit;
  }
  for (int row = 0; row < network.hidden; ++row) {
    matrix.column.push_back(from[row]);
    matrix.value.push_back(1);
    matrix.row_begin.push_back(row + 1);
  }
  Constraints constraints;
  constraints.family = GENERATE(SparsePlan::kName, DensePlan::kName);
  const PlannedNetwork planned =
      choose_plan(find_chip("h200").chip, network, RowProfile::from_matrix(matrix), constraints);
  CAPTURE(to_string(planned.plan));
  PersistentKernel kernel(make_layout(network, planned.plan, matrix));

  std::vector<float> initial(static_cast<std::size_t>(network.batch) * network.hidden);
  std::generate(initial.begin(), initial.end(), [&] { return static_cast<float>(random() % 2048); });
  const DeviceBuffer<std::byte> device_initial(to_elements(initial, network.precision));
  const DeviceBuffer<std::byte> device_final(device_initial.size());
  Sequences sequences;
  sequences.steps = kSteps;
  sequences.initial = device_initial.data();
  sequences.final_state = device_final.data();
  const Stream stream;
  kernel.enqueue(stream.get(), sequences);
  stream.synchronize();
  kernel.check_status();

  const std::vector<float> last = from_elements(device_final.download(), network.precision);
  const std::vector<int> place = applied(to, kSteps);
  int wrong = 0;
  for (int sample = 0; sample < network.batch; ++sample) {
    for (int unit = 0; unit < network.hidden; ++unit) {
      const std::size_t first = static_cast<std::size_t>(sample) * network.hidden;
      wrong += last[first + place[unit]] != initial[first + unit];
    }
  }
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace onchip
