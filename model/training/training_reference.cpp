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

// Of all steps: in comes W_ih x + b_ih, then these are the gates; W_hh h + b_hh; gradients of both sums. States begin
// with the initial ones.
struct Layer {
  Index hidden, batch;
  Matrix gates, products, dgates, dproducts;
  Matrix h, c;

  auto gate(Matrix& of, Index step, Index which) const {
    return of.block(step * batch, which * hidden, batch, hidden).array();
  }
  auto state(Matrix& of, Index step) const { return of.middleRows(step * batch, batch).array(); }
};

void lstm_step(Layer& l, Index t) {
  const auto gate = [&](Index which) { return l.gate(l.gates, t, which); };
  for (const Index which : {0, 1, 2, 3}) {
    gate(which) += l.gate(l.products, t, which);
    gate(which) = which == 2 ? Array(gate(which).tanh()) : Array(gate(which).logistic());
  }
  l.state(l.c, t + 1) = gate(1) * l.state(l.c, t) + gate(0) * gate(2);
  l.state(l.h, t + 1) = gate(3) * l.state(l.c, t + 1).tanh();
}

// Takes the gradient of h; returns what of that of the last h does not come by W_hh.
Array lstm_gradient(Layer& l, Index t, const Array& dh, Array& dc) {
  const Array i = l.gate(l.gates, t, 0), f = l.gate(l.gates, t, 1), g = l.gate(l.gates, t, 2),
              o = l.gate(l.gates, t, 3);
  const Array squashed = l.state(l.c, t + 1).tanh();
  dc += dh * o * (1 - squashed.square());
  l.gate(l.dgates, t, 0) = dc * g * i * (1 - i);
  l.gate(l.dgates, t, 1) = dc * l.state(l.c, t) * f * (1 - f);
  l.gate(l.dgates, t, 2) = dc * i * (1 - g.square());
  l.gate(l.dgates, t, 3) = dh * squashed * o * (1 - o);
  dc *= f;
  l.state(l.dproducts, t) = l.state(l.dgates, t);
  return Array::Zero(l.batch, l.hidden);
}

void gru_step(Layer& l, Index t) {
  const auto gate = [&](Index which) { return l.gate(l.gates, t, which); };
  for (const Index which : {0, 1}) {
    gate(which) = (gate(which) + l.gate(l.products, t, which)).logistic();
  }
  gate(2) = (gate(2) + gate(0) * l.gate(l.products, t, 2)).tanh();
  l.state(l.h, t + 1) = (1 - gate(1)) * gate(2) + gate(1) * l.state(l.h, t);
}

Array gru_gradient(Layer& l, Index t, const Array& dh) {
  const Array r = l.gate(l.gates, t, 0), z = l.gate(l.gates, t, 1), n = l.gate(l.gates, t, 2);
  const Array dn = dh * (1 - z) * (1 - n.square());
  l.gate(l.dgates, t, 0) = dn * l.gate(l.products, t, 2) * r * (1 - r);
  l.gate(l.dgates, t, 1) = dh * (l.state(l.h, t) - n) * z * (1 - z);
  l.gate(l.dgates, t, 2) = dn;
  l.state(l.dproducts, t) = l.state(l.dgates, t);
  l.gate(l.dproducts, t, 2) = dn * r;
  return dh * z;
}

}  // namespace

TrainingResult training_reference(const TrainingSize& size, const TrainingInput& in, bool has_gradients) {
  const bool is_lstm = size.cell == Cell::lstm;
  const Index hidden = size.hidden, batch = size.batch, steps = size.steps, rows = steps * batch;
  const Index units = info(size.cell).gates * hidden;
  const auto length = [&](Index sample) { return in.lengths.empty() ? steps : in.lengths[sample]; };
  // Of rows in the order of time and of those in the order of steps, one to the other; what is not there is zero.
  const auto turned = [&](const Matrix& of, bool to_steps) {
    Matrix to = Matrix::Zero(of.rows(), of.cols());
    for (Index sample = 0; sample < batch; ++sample) {
      for (Index step = 0; step < length(sample); ++step) {
        const Index position = size.is_reverse ? length(sample) - 1 - step : step;
        to.row((to_steps ? step : position) * batch + sample) = of.row((to_steps ? position : step) * batch + sample);
      }
    }
    return to;
  };
  const Matrix x = turned(matrix("x", in.x, rows, size.input), true);
  const Matrix w_ih = matrix("w_ih", in.w_ih, units, size.input);
  const Matrix w_hh = matrix("w_hh", in.w_hh, units, hidden);
  const Matrix b_ih = matrix("b_ih", in.b_ih, 1, units), b_hh = matrix("b_hh", in.b_hh, 1, units);
  const Matrix dy = turned(matrix("dy", in.dy, rows, hidden), true);

  Layer l{hidden, batch, (x * w_ih.transpose()).rowwise() + b_ih.row(0), {}, {}, {}, {}, {}};
  l.products = l.dgates = l.dproducts = Matrix(rows, units);
  l.h = l.c = Matrix(rows + batch, hidden);
  l.h.topRows(batch) = matrix("h0", in.h0, batch, hidden);
  l.c.topRows(batch) = matrix("c0", in.c0, batch, hidden);
  // Samples that are not there stay as they were.
  const auto keep_ended = [&](Index step, const Array& before, auto&& now) {
    for (Index sample = 0; sample < batch; ++sample) {
      if (step >= length(sample)) {
        now.row(sample) = before.row(sample);
      }
    }
  };
  for (Index t = 0; t < steps; ++t) {
    l.products.middleRows(t * batch, batch) =
        (l.h.middleRows(t * batch, batch) * w_hh.transpose()).rowwise() + b_hh.row(0);
    is_lstm ? lstm_step(l, t) : gru_step(l, t);
    keep_ended(t, l.state(l.c, t), l.state(l.c, t + 1));
    keep_ended(t, l.state(l.h, t), l.state(l.h, t + 1));
  }

  TrainingResult result;
  result.y = values(turned(l.h.bottomRows(rows), false));
  result.hn = values(l.h.bottomRows(batch));
  if (is_lstm) {
    result.cn = values(l.c.bottomRows(batch));
  }
  if (!has_gradients) {
    return result;
  }
  Array dh = matrix("dhn", in.dhn, batch, hidden), dc = matrix("dcn", in.dcn, batch, hidden);
  for (Index t = steps - 1; t >= 0; --t) {
    const Array last_dh = dh, last_dc = dc;
    dh += dy.middleRows(t * batch, batch).array();
    dh = is_lstm ? lstm_gradient(l, t, dh, dc) : gru_gradient(l, t, dh);
    for (Matrix* const gradients : {&l.dgates, &l.dproducts}) {
      keep_ended(t, Array::Zero(batch, units), l.state(*gradients, t));
    }
    dh += (l.dproducts.middleRows(t * batch, batch) * w_hh).array();
    keep_ended(t, last_dc, dc);
    keep_ended(t, last_dh, dh);
  }
  result.dx = values(turned(l.dgates * w_ih, false));
  result.dw_ih = values(l.dgates.transpose() * x);
  result.dw_hh = values(l.dproducts.transpose() * l.h.topRows(rows));
  result.db = values(l.dgates.colwise().sum());
  result.db_hh = values(l.dproducts.colwise().sum());
  result.dh0 = values(dh.matrix());
  if (is_lstm) {
    result.dc0 = values(dc.matrix());
  }
  return result;
}

}  // namespace onchip
