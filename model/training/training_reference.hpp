// SPDX-License-Identifier: Apache-2.0
// What one LSTM or GRU layer computes and the gradients of a loss of its outputs, in double precision, as torch.nn.LSTM
// and GRU do (batch_first=False); p = W_hh h + b_hh, a = W_ih x + b_ih, s: the logistic function.
// LSTM, gates i, f, g, o; a' = a + p:
//   i, f, o = s(a'), g = tanh(a');  c' = f c + i g;  h' = o tanh(c')
//   dh = dy + W_hh^T da';  dc += dh o (1 - tanh(c)^2);  da_i = dc g i (1 - i),  da_f = dc c f (1 - f),
//   da_g = dc i (1 - g^2),  da_o = dh tanh(c) o (1 - o);  dc' = dc f;  dp = da
// GRU, gates r, z, n:
//   r, z = s(a + p), n = tanh(a + r p);  h' = (1 - z) n + z h
//   dh = dy + W_hh^T dp' + dh' z';  da_n = dh (1 - z) (1 - n^2),  da_z = dh (h - n) z (1 - z),  da_r = da_n p_n r (1 -
//   r); dp = da_r, da_z, r da_n
#pragma once

#include "model/workload/recurrent.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

struct TrainingSize {
  int input = 0, hidden = 0, batch = 1;
  std::int64_t steps = 0;
  Cell cell = Cell::lstm;
  int directions = 1;       // of the layer; outputs and their gradients have those of all beside each other
  bool is_reverse = false;  // from a sample's last position to its first: the second, or all layers without a stash
  int length_bytes = 0;     // 4 or 8 if samples have lengths
  int layers = 1;           // with a stash of replay, of the stack that is replayed: this is its first
};

// Row-major, as PyTorch has them. Empty: zeros.
struct TrainingInput {
  std::vector<double> x;              // [steps, batch, input]
  std::vector<double> w_ih, w_hh;     // [gates * hidden, input], [gates * hidden, hidden]
  std::vector<double> b_ih, b_hh;     // [gates * hidden]
  std::vector<double> h0, c0;         // [batch, hidden]; c is an LSTM's only
  std::vector<double> dy;             // gradient of every h, [steps, batch, hidden]
  std::vector<double> dhn, dcn;       // of the last h and c, [batch, hidden]
  std::vector<std::int64_t> lengths;  // [batch], each from 1 to steps; positions from there on have no gradients
};

struct TrainingResult {
  std::vector<double> y;       // every h, [steps, batch, hidden]; zero beyond a sample's length
  std::vector<double> hn, cn;  // of a sample's last step, [batch, hidden]
  std::vector<double> dx;      // [steps, batch, input]
  std::vector<double> dw_ih, dw_hh;
  std::vector<double> db, db_hh;  // an LSTM's are the same
  std::vector<double> dh0, dc0;
};

// Without gradients y, hn and cn alone. Throws InputError for arrays that are neither empty nor of their size; x and
// the weights must not be empty.
TrainingResult training_reference(const TrainingSize& size, const TrainingInput& in, bool has_gradients = true);

}  // namespace onchip
