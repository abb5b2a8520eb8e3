// SPDX-License-Identifier: Apache-2.0
// A training step of one LSTM or GRU layer: forward, and all gradients, as one list of kernels and products (a program
// with arrays in the place of images). A GPU runs it as one CUDA graph, an interpreter of PTX on the host.
//
//   packing of W and W^T | W_ih x, all steps at once | forward | backward | dx, dW_ih, dW_hh, all steps at once |
//   biases
//
// Where not all gates are kept, a half goes over the steps in chunks (plan.chunk), whose gates have the same place: of
// a stash of cells, and of a forward that no backward follows. With lengths, a chunk is all steps.
//
//   each chunk, from the first   packing | W_ih x | forward, which leaves its last c
//   each chunk, from the last    packing | W_ih x + W_hh h | the gates anew, from the c before the chunk | backward |
//                                dx, and what it adds to dW_ih and dW_hh, in fp32
//
// Of a stash of replay, a program is of a whole stack of layers, which share their workspaces but for a chunk's arrays:
//
//   each chunk, from the first   each layer: packing | W_ih x | forward, which leaves the state behind the chunk
//   each chunk, from the last    each layer: packing | W_ih x | forward, which keeps the chunk's gates;
//                                then each layer, from the last: packing | backward | dx, and what it adds to dW_ih and
//                                dW_hh, in fp32
#pragma once

#include "kernels/runtime/kernel_program.hpp"
#include "kernels/training/device/arguments.hpp"
#include "model/training/training_plan.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onchip {

// Arrays of elements of the layer's type, row-major, empty where the cell has none, as TrainingInput and TrainingResult
// have them. Those that come in must be written before a run; zeros where there are none.
struct TrainingArrays {
  int x = 0, w_ih = 0, w_hh = 0, b_ih = 0, b_hh = 0, h0 = 0, c0 = 0, dhn = 0, dcn = 0;
  int lengths = 0;     // [batch], integers of size.length_bytes; of packed rows the longest first
  int y = 0, dy = 0;   // [steps, batch, directions * hidden], from this direction's first element on
  int hn = 0, cn = 0;  // [batch, hidden]
  int cells = 0;  // every c, [steps + 1, batch, hidden]; the initial one first, or last of the second direction; with
                  // lengths [steps, batch, hidden] in packed order, without it, and zeros behind the last
  // What backward needs beside y and cells. Of a stash of gates [steps, batch, 4, hidden], which backward overwrites,
  // of a dense layer with zeros up to whole 16 bytes behind each gate's units; with lengths packed, likewise. Of a
  // stash of cells there are no `cells`, but of an LSTM, behind each chunk but the last, c in fp32: [chunks - 1, batch,
  // hidden]. Of a stash of replay it is the first layer's, and has of each layer the same, of a GRU h in fp32, then of
  // all layers but the last h.
  int kept = 0;
  // Of a stash of replay, dw_ih and dw_hh are in fp32, each gate's units and the columns up to the next multiple of 8.
  int dx = 0, dw_ih = 0, dw_hh = 0, db = 0, db_hh = 0, dh0 = 0, dc0 = 0;
};

enum class TrainingHalf { forward, backward };
// Of a node of the program, by its label.
TrainingHalf half_of(std::string_view label);

using RowCopies = std::array<RowCopy, kMostCopies>;

// What of a step's rows a run is of.
struct TrainingRows {
  bool keeps = true;  // false: of a forward that no backward follows, which keeps nothing; see forward_arrays
  // With lengths, how many there are.
  std::int64_t packed = 0;    // the sum of the lengths, where x, y and their gradients are packed; 0: they are padded
  std::int64_t products = 0;  // that products are over, no fewer than there are; 0: those of all steps and samples
  std::int64_t unit = 0;      // behind the last there are zeros up to a multiple of it; 0: up to all
};

struct SparseTraining;

struct TrainingProgram {
  KernelProgram program;  // results: one word, 1 if a wait was given up, 2 if a length is none
  TrainingArrays arrays;  // of the first layer
  // Of the layers that are replayed, or of the only one; x and dx are the first's, y and dy the last's.
  std::vector<TrainingArrays> layers = {};
  int own_arrays = 0;  // the first of those that are none of the caller's
  TrainingPlan plan;
  std::shared_ptr<const SparseTraining> sparse = {};  // sparse_program.hpp: of a sparse one
  int ranks = 0, ranks_back = 0;                      // arrays: of each half, see device/arguments.hpp
  // Those of program for other rows; none of a sparse one.
  std::function<std::vector<ProgramNode>(ArrayPlaces, const TrainingRows&)> nodes_of_rows = {};
  // What a forward that keeps nothing has room for beside the caller's arrays, in bytes.
  std::vector<std::pair<int, std::size_t>> forward_arrays = {};
};

// Kernels that are in the place of the dense ones, whose nodes then have no launches yet.
struct RecurrenceKernels {
  CompileRequest prepare, forward, backward;
  std::size_t bias_bytes = 0;
};

// A pass's kernel. `output_stride`: elements from one row of the output to the next; 0: those of all directions.
CompileRequest compile_request(const TrainingSize& size, Precision precision, const RecurrencePlan& plan,
                               bool is_backward, const std::string& architecture, std::int64_t output_stride = 0);

// Compiles nothing. Throws InputError for a plan that is not possible.
TrainingProgram training_program(const TrainingSize& size, Precision precision, const DenseTrainingPlan& plan,
                                 const std::string& architecture, const RecurrenceKernels* instead = nullptr);

}  // namespace onchip
