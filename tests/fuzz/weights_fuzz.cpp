// SPDX-License-Identifier: Apache-2.0
// libFuzzer target for the readers of users' weight files: every input goes to all. Only InputError may come out, its
// message is one line, and a matrix that is read is well formed.
//   tests/fuzz/run build-asan weights
#include "model/workload/files/weights_file.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace {

using onchip::SparseMatrix;

void check(const SparseMatrix& matrix) {
  require(matrix.rows > 0 && matrix.rows <= onchip::kMaxDimension);
  require(matrix.columns > 0 && matrix.columns <= onchip::kMaxDimension);
  require(matrix.row_begin.size() == static_cast<std::size_t>(matrix.rows) + 1);
  require(matrix.row_begin.front() == 0 && matrix.row_begin.back() == matrix.nnz());
  require(matrix.value.size() == matrix.column.size());
  for (int row = 0; row < matrix.rows; ++row) {
    const std::int64_t begin = matrix.row_begin[row];
    require(begin <= matrix.row_begin[row + 1]);
    for (std::int64_t i = begin; i < matrix.row_begin[row + 1]; ++i) {
      require(matrix.column[i] >= 0 && matrix.column[i] < matrix.columns);
      require(i == begin || matrix.column[i - 1] < matrix.column[i]);
      require(matrix.value[i] != 0 && std::isfinite(matrix.value[i]));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  run_reader([&] { check(onchip::parse_matrix_market(bytes, "fuzz.mtx")); });
  run_reader([&] { check(onchip::parse_smtx(bytes, "fuzz.smtx")); });
  run_reader([&] { check(onchip::parse_npy(bytes, "fuzz.npy")); });
  run_reader([&] { check(onchip::parse_safetensors(bytes, "fuzz.safetensors")); });
  run_reader([&] { check(onchip::parse_safetensors(bytes, "fuzz.safetensors", {"w"})); });
  return 0;
}
