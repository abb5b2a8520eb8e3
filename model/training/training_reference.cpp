// SPDX-License-Identifier: Apache-2.0
#include "model/training/training_reference.hpp"

#include "model/base/error.hpp"

#include <Eigen/Core>
#include <cmath>
#include <string>

namespace onchip {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Array = Eigen::Array<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Eigen::Index;

Matrix matrix(const char* name, const std::vector<double>& values, Index rows, Index columns) {
  if (values.empty()) {
    return Matrix::Zero(rows, columns);
  }
  if (static_cast<Index>(values.size()) != rows * columns) {
    throw InputError("'" + std::string(name) + "' has " + std::to_string(values.size()) + " elements; expected " +
                     std::to_string(rows * columns));
  }
  return Eigen::Map<const Matrix>(values.data(), rows, columns);
}

std::vector<double> values(const Matrix& of) {
  return {of.data(), of.data() + of.size()};
}

}  // namespace

TrainingResult training_reference(const TrainingSize& size, const TrainingInput& in) {
  const Index hidden = size.hidden, batch = size.batch, rows = size.steps * batch;
  const Matrix x = matrix("x", in.x, rows, size.input);
  const Matrix w_ih = matrix("w_ih", in.w_ih, 4 * hidden, size.input);
  const Matrix w_hh = matrix("w_hh", in.w_hh, 4 * hidden, hidden);
  const Matrix bias = matrix("b_ih", in.b_ih, 1, 4 * hidden) + matrix("b_hh", in.b_hh, 1, 4 * hidden);
  const Matrix dy = matrix("dy", in.dy, rows, hidden);

  Matrix h(rows + batch, hidden), c(rows + batch, hidden);  // the initial ones first
  h.topRows(batch) = matrix("h0", in.h0, batch, hidden);
  c.topRows(batch) = matrix("c0", in.c0, batch, hidden);
  Matrix gates = (x * w_ih.transpose()).rowwise() + bias.row(0);
  const auto gate = [&](Index step, Index which) {
    return gates.block(step * batch, which * hidden, batch, hidden).array();
  };
  const auto step_of = [&](auto& of, Index step) { return of.middleRows(step * batch, batch).array(); };
  for (Index t = 0; t < size.steps; ++t) {
    gates.middleRows(t * batch, batch) += h.middleRows(t * batch, batch) * w_hh.transpose();
    for (const Index which : {0, 1, 3}) {
      gate(t, which) = gate(t, which).logistic();
    }
    gate(t, 2) = gate(t, 2).tanh();
    step_of(c, t + 1) = gate(t, 1) * step_of(c, t) + gate(t, 0) * gate(t, 2);
    step_of(h, t + 1) = gate(t, 3) * step_of(c, t + 1).tanh();
  }

  Matrix dgates(rows, 4 * hidden);
  Array dh = matrix("dhn", in.dhn, batch, hidden), dc = matrix("dcn", in.dcn, batch, hidden);
  for (Index t = size.steps - 1; t >= 0; --t) {
    const Array i = gate(t, 0), f = gate(t, 1), g = gate(t, 2), o = gate(t, 3);
    const Array squashed = step_of(c, t + 1).tanh();
    dh += step_of(dy, t);
    dc += dh * o * (1 - squashed.square());
    const auto dgate = [&](Index which) { return dgates.block(t * batch, which * hidden, batch, hidden).array(); };
    dgate(0) = dc * g * i * (1 - i);
    dgate(1) = dc * step_of(c, t) * f * (1 - f);
    dgate(2) = dc * i * (1 - g.square());
    dgate(3) = dh * squashed * o * (1 - o);
    dc *= f;
    dh = (dgates.middleRows(t * batch, batch) * w_hh).array();
  }
  return {.y = values(h.bottomRows(rows)),
          .cn = values(c.bottomRows(batch)),
          .dx = values(dgates * w_ih),
          .dw_ih = values(dgates.transpose() * x),
          .dw_hh = values(dgates.transpose() * h.topRows(rows)),
          .db = values(dgates.colwise().sum()),
          .dh0 = values(dh.matrix()),
          .dc0 = values(dc.matrix())};
}

}  // namespace onchip
