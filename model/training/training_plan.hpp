// SPDX-License-Identifier: Apache-2.0
// How a training is mapped on a chip: the value that is priced, replayed and launched. A plan has what is chosen; the
// phases of an iteration follow from it (phases.hpp). Each way to train is a family:
//
//   dense_training   dense recurrences whose weights stay on the chip in both passes
//   sparse_training  the same with the weights that a mask leaves
//   cudnn_training   cuDNN does all of it, as a CUDA graph, by the fastest of its algorithms
#pragma once

#include "model/chip/chip.hpp"
#include "model/training/recurrence_plan.hpp"
#include "model/training/sparse_recurrence.hpp"
#include "model/training/training.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace onchip {

// What the forward pass leaves for the backward pass beside h, which is the output.
//   gates  every step's gates, of an LSTM c, of a GRU the product of h that its reset gate multiplies
//   cells  of an LSTM c behind each chunk of steps, in fp32, of a GRU nothing: the gates of a chunk are computed anew
//          from x and h
//   replay of a stack of layers the state behind each chunk of steps, c or of a GRU h in fp32: from it the forward pass
//          of all layers runs again for the chunk, which then keeps the gates. Outputs of lower layers are not kept
//   none   of a stack of layers no backward follows: plan.forward.layers of them are on the SMs at once
enum class Stash : std::uint8_t { gates, cells, replay, none };
inline constexpr std::array<std::string_view, 4> kStashNames{"gates", "cells", "replay", "none"};

struct DenseTrainingPlan {
  using Workload = Training;
  using Recurrence = RecurrencePlan;
  static constexpr std::string_view kName = "dense_training";
  static constexpr bool kIsOnChip = true;

  Stash stash = Stash::gates;
  RecurrencePlan forward, backward;  // of every layer and direction
  bool beside = false;               // both directions of a layer at once, on half of the SMs each, in both passes
  // Where not all gates are kept, those of so many steps are there at a time; 0: as many as usual.
  int chunk = 0;
  int cell_layers = 0;  // with a stash of gates: so many of the first layers have one of cells
  // Without a stash, of few steps and samples: a launch for each step and layer, which reads all weights from L2 or
  // DRAM (single_step.cu), instead of `forward`.
  bool stepwise = false;

  friend bool operator==(const DenseTrainingPlan&, const DenseTrainingPlan&) = default;
};

struct SparseTrainingPlan {
  using Workload = Training;
  using Recurrence = SparseRecurrencePlan;
  static constexpr std::string_view kName = SparseRecurrencePlan::kName;
  static constexpr bool kIsOnChip = true;

  Stash stash = Stash::gates;
  SparseRecurrencePlan forward, backward;

  friend bool operator==(const SparseTrainingPlan&, const SparseTrainingPlan&) = default;
};

struct CudnnTrainingPlan {
  using Workload = Training;
  static constexpr std::string_view kName = "cudnn_training";
  static constexpr bool kIsOnChip = false;

  friend bool operator==(const CudnnTrainingPlan&, const CudnnTrainingPlan&) = default;
};

std::span<const Field<DenseTrainingPlan>> fields(const DenseTrainingPlan&);
std::span<const Field<SparseTrainingPlan>> fields(const SparseTrainingPlan&);
inline std::span<const Field<CudnnTrainingPlan>> fields(const CudnnTrainingPlan&) {
  return {};
}

using TrainingPlan = std::variant<DenseTrainingPlan, SparseTrainingPlan, CudnnTrainingPlan>;

Stash parse_stash(std::string_view name);  // of a training; throws InputError

// With the layer's own stash. The first layers have one of cells: when a chunk of theirs needs a workspace, the gates
// of the layers above are gone.
DenseTrainingPlan of_layer(DenseTrainingPlan plan, int layer);
inline constexpr int kMostReplayed = 16;  // layers

// Steps of a chunk but the last, which may have fewer. With lengths, all.
std::int64_t chunk_steps(const TrainingSize& size, const DenseTrainingPlan& plan);
inline std::int64_t chunk_count(const TrainingSize& size, const DenseTrainingPlan& plan) {
  const std::int64_t steps = chunk_steps(size, plan);
  return (size.steps + steps - 1) / steps;
}

bool is_on_chip(const TrainingPlan& plan);
std::string_view family_name(const TrainingPlan& plan);

// "dense_training gates forward=[batch_groups=4 sub_batches=1 ...] backward=[...] beside=1" and back.
std::string to_string(const TrainingPlan& plan);
TrainingPlan parse_training_plan(std::string_view text);

// Fields of one of its passes, "batch_groups=4 sub_batches=1 ..."; of a library's "".
std::string pass_text(const TrainingPlan& plan, bool is_backward);

// With a mask: what follows from a pass's plan on this chip, as sparse_recurrence() of sparse_recurrence.hpp.
Found<SparseRecurrence> sparse_recurrence(const Chip& chip, const Training& training, const SparseRecurrencePlan& plan,
                                          bool is_backward);

// Why a stack has no plans with a stash of replay, or nothing.
std::string why_no_replay(const Stack& stack);

// Without a stash, of a stack: groups of layers that are on the SMs at once, one after another.
struct LayerGroup {
  int first = 0, layers = 1;
};
std::vector<LayerGroup> layer_groups(int layers, const DenseTrainingPlan& plan);
// "4 layers on the SMs at once", "one layer at a time", "a launch for each step of a layer"
std::string way_text(const DenseTrainingPlan& plan);
inline constexpr int kMostOfSingleStep = 64;  // samples of a launch that is a step

// Throws InputError for a plan that is not of this training, or that no kernel can be built from. What comes in as text
// must pass here.
void check(const Training& training, const TrainingPlan& plan);

}  // namespace onchip
