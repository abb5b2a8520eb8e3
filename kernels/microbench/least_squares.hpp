// SPDX-License-Identifier: Apache-2.0
// Constants from more measurements than there are constants.
#pragma once

#include "kernels/microbench/fit_rows.hpp"

#include <Eigen/Dense>

#include <string>
#include <vector>

namespace onchip::microbench {

struct LeastSquares {
  Eigen::VectorXd fit, errors, widths;  // of each constant; of each row, absolute; of the 95 % intervals

  std::string method(const std::string& of) const {
    return "least squares over " + std::to_string(errors.size()) + of + ": mean error " + text(100 * errors.mean()) +
           " %, worst " + text(100 * errors.maxCoeff()) + " %";
  }
};

// terms: [rows, constants], relative to what was measured.
inline LeastSquares least_squares(const Eigen::MatrixXd& terms, const Eigen::VectorXd& goal) {
  LeastSquares result;
  result.fit = terms.colPivHouseholderQr().solve(goal);
  result.errors = (terms * result.fit - goal).cwiseAbs();
  const double variance = result.errors.squaredNorm() / static_cast<double>(terms.rows() - terms.cols());
  result.widths = kNormal95 * (variance * (terms.transpose() * terms).inverse()).diagonal().cwiseSqrt();
  return result;
}

// The same of those constants only that do not come out below zero, as no cost can; the others are 0, with intervals
// of no width.
inline LeastSquares least_squares_of_costs(const Eigen::MatrixXd& terms, const Eigen::VectorXd& goal) {
  std::vector<Eigen::Index> kept;
  for (Eigen::Index i = 0; i < terms.cols(); ++i) {
    kept.push_back(i);
  }
  LeastSquares some = least_squares(terms, goal);
  for (Eigen::Index least = 0; some.fit.minCoeff(&least) < 0 && kept.size() > 1;) {
    kept.erase(kept.begin() + least);
    Eigen::MatrixXd columns(terms.rows(), static_cast<Eigen::Index>(kept.size()));
    for (Eigen::Index i = 0; i < columns.cols(); ++i) {
      columns.col(i) = terms.col(kept[static_cast<std::size_t>(i)]);
    }
    some = least_squares(columns, goal);
  }
  LeastSquares all{Eigen::VectorXd::Zero(terms.cols()), some.errors, Eigen::VectorXd::Zero(terms.cols())};
  for (std::size_t i = 0; i < kept.size(); ++i) {
    all.fit[kept[i]] = some.fit[static_cast<Eigen::Index>(i)];
    all.widths[kept[i]] = some.widths[static_cast<Eigen::Index>(i)];
  }
  return all;
}

}  // namespace onchip::microbench
