// SPDX-License-Identifier: Apache-2.0
// The C API's matrices.
#include "kernels/api/handles.hpp"
#include "model/workload/files/weights_file.hpp"

#include <cmath>
#include <utility>

namespace onchip {
namespace {

SparseMatrix checked_matrix(SparseMatrix matrix) {
  if (!std::all_of(matrix.value.begin(), matrix.value.end(), [](float value) { return std::isfinite(value); })) {
    throw InputError("a weight is not finite");
  }
  return matrix;
}

void check_size(std::int32_t rows, std::int32_t columns) {
  require_range("rows", rows, 1, kMaxDimension);
  require_range("columns", columns, 1, kMaxDimension);
}

}  // namespace
}  // namespace onchip

using namespace onchip;

onchip_status onchip_matrix_create_dense(std::int32_t rows, std::int32_t columns, const float* values,
                                         onchip_matrix** matrix, onchip_error* error) {
  return guarded(error, [&] {
    require(values, "values");
    require(matrix, "matrix");
    check_size(rows, columns);
    SparseMatrix sparse{rows, columns, {0}, {}, {}};
    for (std::int32_t row = 0; row < rows; ++row) {
      for (std::int32_t column = 0; column < columns; ++column) {
        if (const float value = values[static_cast<std::size_t>(row) * columns + column]; value != 0) {
          sparse.column.push_back(column);
          sparse.value.push_back(value);
        }
      }
      sparse.row_begin.push_back(sparse.nnz());
    }
    *matrix = new onchip_matrix{checked_matrix(std::move(sparse))};
  });
}

onchip_status onchip_matrix_create_csr(std::int32_t rows, std::int32_t columns, const std::int64_t* row_begin,
                                       const std::int32_t* column, const float* value, onchip_matrix** matrix,
                                       onchip_error* error) {
  return guarded(error, [&] {
    require(row_begin, "row_begin");
    require(matrix, "matrix");
    check_size(rows, columns);
    SparseMatrix sparse{rows, columns, {0}, {}, {}};
    require_range("row_begin[0]", row_begin[0], 0, 0);
    for (std::int32_t row = 0; row < rows; ++row) {
      const std::int64_t begin = row_begin[row], end = row_begin[row + 1];
      if (end < begin || end - begin > columns) {
        throw InputError("row " + std::to_string(row) + " has elements " + std::to_string(begin) + " to " +
                         std::to_string(end) + "; expected at most " + std::to_string(columns) + ", ascending");
      }
      if (begin < end) {
        require(column, "column");
        require(value, "value");
      }
      std::int32_t before = -1;
      for (std::int64_t i = begin; i < end; ++i) {
        if (column[i] <= before || column[i] >= columns) {
          throw InputError("row " + std::to_string(row) + " has column " + std::to_string(column[i]) + " after " +
                           std::to_string(before) + "; expected ascending columns below " + std::to_string(columns));
        }
        before = column[i];
        if (value[i] != 0) {
          sparse.column.push_back(column[i]);
          sparse.value.push_back(value[i]);
        }
      }
      sparse.row_begin.push_back(sparse.nnz());
    }
    *matrix = new onchip_matrix{checked_matrix(std::move(sparse))};
  });
}

onchip_status onchip_matrix_create_from_file(const char* file, const char* tensor, onchip_matrix** matrix,
                                             onchip_error* error) {
  return guarded(error, [&] {
    require(file, "file");
    require(matrix, "matrix");
    *matrix = new onchip_matrix{read_weights(file, {tensor == nullptr ? "" : tensor})};
  });
}

onchip_status onchip_matrix_size(const onchip_matrix* matrix, std::int32_t* rows, std::int32_t* columns,
                                 std::int64_t* nnz, onchip_error* error) {
  return guarded(error, [&] {
    require(matrix, "matrix");
    if (rows != nullptr) {
      *rows = matrix->matrix.rows;
    }
    if (columns != nullptr) {
      *columns = matrix->matrix.columns;
    }
    if (nnz != nullptr) {
      *nnz = matrix->matrix.nnz();
    }
  });
}

void onchip_matrix_destroy(onchip_matrix* matrix) {
  delete matrix;
}
