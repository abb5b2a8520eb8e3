// SPDX-License-Identifier: Apache-2.0
// What one warp does with the sums of its items, a unit of a sample each, as forward.cuh, backward.cuh, publish.cuh and
// bias.cuh of kernels/training do it: the cell or its derivative, what is published, what the products read, and the
// fetch of what a later turn needs.
#pragma once

#include "model/dense/plan.hpp"
#include "model/training/training_plan.hpp"
#include "sim/machine/warp_writer.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

inline constexpr int kElementBytes = 2, kTileSamples = 8;        // of all states; samples that are read together
inline constexpr int kSampleBytes = kSpanUnits * kElementBytes;  // of a span
// Where states begin, [steps][turns][sample tiles][spans][8 samples][32 values]: far from shared memory and from all
// other arrays.
inline constexpr std::uint64_t kStates = std::uint64_t{1} << 40;

class RecurrenceCell {
 public:
  RecurrenceCell(const TrainingSize& size, const RecurrencePlan& plan, bool is_backward, int warp);

 protected:
  // A thread's items follow one another at a distance of all threads.
  int rounds() const { return std::max(0, (items_ - warp_ * kWarpLanes + threads_ - 1) / threads_); }
  int index(int round, int lane) const { return warp_ * kWarpLanes + lane + round * threads_; }
  int unit(int i) const { return i % plan_.units; }
  int sample(int i) const { return i / plan_.units; }
  template <typename Address>
  void of_items(Operation operation, int width, int destination, int source, int round, Address&& address) {
    out_.access(operation, width, destination, source,
                [&](int lane) { return index(round, lane) < items_ ? address(index(round, lane)) : -1; });
  }
  int fp32(int a = kNoRegister, int b = kNoRegister, int c = kNoRegister) {
    return out_.operate(Operation::fp32, a, b, c);
  }

  std::int64_t tile_bytes() const { return std::int64_t{shape_.spans} * kTileSamples * kSampleBytes; }
  std::int64_t state(std::int64_t step, int turn, int span, int sample) const;
  // Shared memory: behind the weights two turns' sums of each warp group, then the carries.
  std::int64_t partials_begin() const { return std::int64_t{kTileBytes} * plan_.warps * plan_.shared_tiles; }
  std::int64_t partials_bytes() const;  // of a warp
  std::int64_t carry(int turn, int i) const;

  // `sums`: the rows of the round's item; `carried`: what it keeps from step to step.
  void finish_item(const std::vector<int>& sums, int carried, int step, int turn, int round);
  void fetch(int step, int turn, int round);
  void await_fetched();

  const TrainingSize& size_;
  const RecurrencePlan& plan_;
  RecurrenceShape shape_;
  bool is_backward_, is_lstm_;
  int warp_, threads_, items_;  // of the warp group; of a turn
  WarpWriter out_{CompilerView{}};

 private:
  enum Array : std::uint8_t { kGates, kNewCells, kLastCells, kOutput, kGradient, kLater };
  // What a cell reads beside the sums: of an array, a plane.
  struct Input {
    Array of;
    int plane;
  };
  std::vector<Input> inputs() const;
  int fetched(int round, int i) const;
  int read(int round, int i) { return out_.operate(Operation::conversion, fetched(round, i)); }
  std::int64_t element(Array of, int plane, int step, int turn, int i) const;
  void store(Array of, int plane, int value, int step, int turn, int round);
  void publish(int step, int turn, int round, int plane, int value);
  void keep(int value, int turn, int round);
  int tanh(int value) { return fp32(out_.logistic(fp32(value))); }
  int rounded(int value) { return out_.operate(Operation::special, value); }  // F2F
  void apply(const std::vector<int>& sums, int carried, int step, int turn, int round);
  void differentiate(int sum, int carried, int step, int turn, int round);
};

}  // namespace onchip
