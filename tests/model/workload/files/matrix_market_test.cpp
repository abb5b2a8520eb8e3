// SPDX-License-Identifier: Apache-2.0
#include "model/base/error.hpp"
#include "model/workload/files/weights_file.hpp"
#include "tests/catch.hpp"
#include "tests/error_of.hpp"
#include "tests/folder.hpp"

#include <sys/stat.h>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <vector>

using namespace onchip;

namespace {

SparseMatrix parse(std::string_view text) {
  return parse_matrix_market(text, "w.mtx");
}

std::string error_in(std::string_view text) {
  return error_of([&] { parse(text); });
}

const std::string kReal = "%%MatrixMarket matrix coordinate real general\n";

std::vector<std::string> lines_of(const SparseMatrix& matrix) {
  std::vector<std::string> lines;
  for (int row = 0; row < matrix.rows; ++row) {
    for (std::int64_t i = matrix.row_begin[row]; i < matrix.row_begin[row + 1]; ++i) {
      std::array<char, 64> line{};
      std::snprintf(line.data(), line.size(), "%d %d %.9g\n", row + 1, matrix.column[i] + 1,
                    static_cast<double>(matrix.value[i]));
      lines.emplace_back(line.data());
    }
  }
  return lines;
}

std::string text_of(const SparseMatrix& matrix, const std::vector<std::string>& lines) {
  std::string text = kReal + std::to_string(matrix.rows) + " " + std::to_string(matrix.columns) + " " +
                     std::to_string(lines.size()) + "\n";
  for (const std::string& line : lines) {
    text += line;
  }
  return text;
}

}  // namespace

TEST_CASE("a matrix written in any order of its entries reads back", "[matrix_market][fast]") {
  const Folder directory;
  const SparseMatrix matrix = generate_mask(61, 127, 0.2, 1, Precision::fp32);
  std::vector<std::string> lines = lines_of(matrix);
  std::mt19937 random(1);
  for (int trial = 0; trial < 5; ++trial) {
    CHECK(read_weights(directory.write("w.mtx", text_of(matrix, lines))) == matrix);
    std::shuffle(lines.begin(), lines.end(), random);
  }
}

TEST_CASE("headers in any case, comments, empty lines and DOS line ends are read", "[matrix_market][fast]") {
  const SparseMatrix expected{2, 3, {0, 1, 2}, {2, 0}, {1.5F, -20}};
  CHECK(parse(kReal + "2 3 2\n1 3 1.5\n2 1 -2e1\n") == expected);
  CHECK(parse("%%matrixmarket MATRIX Coordinate ReAl GENERAL\r\n%\r\n% a comment\r\n\r\n2 3 2\r\n\r\n1 3 1.5\r\n"
              "% another\r\n2 1 -2E+1\r\n\r\n") == expected);
  CHECK(parse("\xef\xbb\xbf%%MatrixMarket\tmatrix  coordinate real general \n 2\t3 2 \n 1  3 +1.5\n2 1 -20.") ==
        expected);
}

TEST_CASE("pattern entries have the value 1 and integers are read", "[matrix_market][fast]") {
  CHECK(parse("%%MatrixMarket matrix coordinate pattern general\n2 2 2\n2 2\n1 1\n") ==
        SparseMatrix{2, 2, {0, 1, 2}, {0, 1}, {1, 1}});
  CHECK(parse("%%MatrixMarket matrix coordinate integer general\n1 2 2\n1 2 -7\n1 1 +3\n") ==
        SparseMatrix{1, 2, {0, 2}, {0, 1}, {3, -7}});
}

TEST_CASE("a skew-symmetric file gives both triangles, one with its signs turned, and exponents are C's or Fortran's",
          "[matrix_market][fast]") {
  const std::string header = "%%MatrixMarket matrix coordinate real skew-symmetric\n3 3 ";
  CHECK(parse(header + "2\n2 1 1.5D+1\n1 3 -2d-1\n") ==
        SparseMatrix{3, 3, {0, 2, 3, 4}, {1, 2, 0, 0}, {-15, -0.2F, 15, 0.2F}});
  CHECK(error_in(header + "2\n2 1 1\n3 3 1\n") ==
        "w.mtx:4:1: an entry on the diagonal, which is zero in a skew-symmetric matrix");
  CHECK(error_in(header + "4\n") == "w.mtx:2:5: number of entries '4' is outside 0 to 3");
  CHECK(error_in(kReal + "1 1 1\n1 1 1D5D2\n") == "w.mtx:3:5: expected a value, found '1D5D2'");
}

TEST_CASE("a symmetric file gives both triangles, the diagonal once", "[matrix_market][fast]") {
  const SparseMatrix expected{3, 3, {0, 2, 3, 5}, {0, 2, 2, 0, 1}, {1, 3, 4, 3, 4}};
  CHECK(parse("%%MatrixMarket matrix coordinate real symmetric\n3 3 3\n1 1 1\n3 1 3\n3 2 4\n") == expected);
  CHECK(parse("%%MatrixMarket matrix coordinate real symmetric\n3 3 3\n1 1 1\n1 3 3\n2 3 4\n") == expected);
}

TEST_CASE("explicit zeros are dropped, also those too small for fp32", "[matrix_market][fast]") {
  CHECK(parse(kReal + "2 2 4\n1 1 0\n1 2 -0.0\n2 1 1e-60\n2 2 1e-400\n") == SparseMatrix{2, 2, {0, 0, 0}, {}, {}});
  CHECK(parse(kReal + "1 2 2\n1 1 0\n1 2 5\n") == SparseMatrix{1, 2, {0, 1}, {1}, {5}});
}

TEST_CASE("a matrix without entries is a matrix", "[matrix_market][fast]") {
  CHECK(parse(kReal + "3 2 0\n") == SparseMatrix{3, 2, {0, 0, 0, 0}, {}, {}});
  CHECK(parse(kReal + "3 2 0") == SparseMatrix{3, 2, {0, 0, 0, 0}, {}, {}});
}

TEST_CASE("what is not a supported Matrix Market file is refused by name", "[matrix_market][fast]") {
  CHECK(error_in("") == "w.mtx:1:1: not a Matrix Market file: it does not begin with '%%MatrixMarket'");
  CHECK(error_in("1 2 3\n") == "w.mtx:1:1: not a Matrix Market file: it does not begin with '%%MatrixMarket'");
  CHECK(error_in("%%MatrixMarket vector coordinate real general\n") ==
        "w.mtx:1:16: unsupported object 'vector'; supported: matrix");
  CHECK(error_in("%%MatrixMarket matrix dense real general\n") ==
        "w.mtx:1:23: unsupported format 'dense'; supported: coordinate, array");
  CHECK(error_in("%%MatrixMarket matrix coordinate complex general\n") ==
        "w.mtx:1:34: unsupported field 'complex'; supported: real, integer, pattern");
  CHECK(error_in("%%MatrixMarket matrix coordinate pattern skew-symmetric\n") ==
        "w.mtx:1:33: a pattern has no signs; expected 'pattern general' or 'pattern symmetric'");
  CHECK(error_in("%%MatrixMarket matrix coordinate real hermitian\n") ==
        "w.mtx:1:39: unsupported symmetry 'hermitian'; supported: general, symmetric, skew-symmetric");
  CHECK(error_in("%%MatrixMarket matrix coordinate real\n1 1 1\n") ==
        "w.mtx:1:38: the header ends before the symmetry; supported: general, symmetric, skew-symmetric");
  CHECK(error_in("%%MatrixMarket matrix coordinate real general lower\n") ==
        "w.mtx:1:47: expected the end of the line after the header, found 'lower'");
}

TEST_CASE("impossible sizes are refused with their place", "[matrix_market][fast]") {
  const std::string most = std::to_string(kMaxDimension);
  const std::string too_many = std::to_string(kMaxDimension + 1);
  CHECK(error_in(kReal) == "w.mtx:2:1: the file ends before the line with rows, columns and entries");
  CHECK(error_in(kReal + "% only\n\n") == "w.mtx:4:1: the file ends before the line with rows, columns and entries");
  CHECK(error_in(kReal + "3 3\n") == "w.mtx:2:4: expected a number of entries, found the end of the line");
  CHECK(error_in(kReal + "3") == "w.mtx:2:2: expected a number of columns, found the end of the file");
  CHECK(error_in(kReal + "three 3 1\n") == "w.mtx:2:1: expected a number of rows, found 'three'");
  CHECK(error_in(kReal + "3.5 3 1\n") == "w.mtx:2:1: expected a number of rows, found '3.5'");
  CHECK(error_in(kReal + "0 3 1\n") == "w.mtx:2:1: number of rows '0' is outside 1 to " + most);
  CHECK(error_in(kReal + "3 -3 1\n") == "w.mtx:2:3: number of columns '-3' is outside 1 to " + most);
  CHECK(error_in(kReal + too_many + " 3 1\n") ==
        "w.mtx:2:1: number of rows '" + too_many + "' is outside 1 to " + most);
  CHECK(error_in(kReal + "3 3 10\n") == "w.mtx:2:5: number of entries '10' is outside 0 to 9");
  CHECK(error_in(kReal + "3 3 99999999999999999999\n") ==
        "w.mtx:2:5: number of entries '99999999999999999999' is outside 0 to 9");
  CHECK(error_in(kReal + "3 3 1 1\n") ==
        "w.mtx:2:7: expected the end of the line after the numbers of rows, columns and entries, found '1'");
  CHECK(error_in("%%MatrixMarket matrix coordinate real symmetric\n3 2 1\n1 1 1\n") ==
        "w.mtx:2:1: a symmetric matrix must be square; found 3 x 2");
  const std::string all = std::to_string(std::int64_t{kMaxDimension} * kMaxDimension);
  CHECK(error_in(kReal + most + " " + most + " " + all + "\n1 1 1\n") ==
        "w.mtx:2:17: " + all +
            " entries do not fit into the 6 bytes that follow (at most 1 do); is the file truncated?");
}

TEST_CASE("a truncated file says how much of it is there", "[matrix_market][fast]") {
  CHECK(error_in(kReal + "3 3 3\n1 1 1.0000\n2 2 1.0000\n") == "w.mtx:5:1: the file ends after 2 of 3 entries");
  CHECK(error_in(kReal + "3 3 3\n1 1 1.0000\n2 2 1.0000\n3 3") == "w.mtx:5:4: the file ends after 2 of 3 entries");
  CHECK(error_in(kReal + "3 3 3\n1 1 1.0000\n2 2 1.0000\n3 ") == "w.mtx:5:3: the file ends after 2 of 3 entries");
}

TEST_CASE("every proper prefix of a file is refused, but for digits of its last value", "[matrix_market][fast]") {
  const SparseMatrix matrix = generate_mask(7, 5, 0.6, 1, Precision::fp16);
  const std::string text = text_of(matrix, lines_of(matrix));
  const std::size_t last_value = text.rfind(' ') + 1;
  for (std::size_t size = 0; size <= last_value; ++size) {
    CAPTURE(size);
    CHECK(error_in(std::string_view(text).substr(0, size)).starts_with("w.mtx:"));
  }
}

TEST_CASE("bad entries are refused with their place", "[matrix_market][fast]") {
  CHECK(error_in(kReal + "3 3 1\n0 1 1\n") == "w.mtx:3:1: row '0' is outside 1 to 3");
  CHECK(error_in(kReal + "3 3 1\n4 1 1\n") == "w.mtx:3:1: row '4' is outside 1 to 3");
  CHECK(error_in(kReal + "3 3 1\n1 4 1\n") == "w.mtx:3:3: column '4' is outside 1 to 3");
  CHECK(error_in(kReal + "3 3 1\n1 -1 1\n") == "w.mtx:3:3: column '-1' is outside 1 to 3");
  CHECK(error_in(kReal + "3 3 1\n1 a 1\n") == "w.mtx:3:3: expected a column, found 'a'");
  CHECK(error_in(kReal + "3 3 1\n1 1 x\n") == "w.mtx:3:5: expected a value, found 'x'");
  CHECK(error_in(kReal + "3 3 1\n1 1 1.5z\n") == "w.mtx:3:5: expected a value, found '1.5z'");
  CHECK(error_in(kReal + "3 3 1\n1 1 +-1\n") == "w.mtx:3:5: expected a value, found '+-1'");
  CHECK(error_in(kReal + "3 3 1\n1 1   \n") == "w.mtx:3:7: expected a value, found the end of the line");
  CHECK(error_in(kReal + "3 3 1\n1 1 nan\n") == "w.mtx:3:5: value 'nan' is not a finite number");
  CHECK(error_in(kReal + "3 3 1\n1 1 -inf\n") == "w.mtx:3:5: value '-inf' is not a finite number");
  CHECK(error_in(kReal + "3 3 1\n1 1 1e39\n") == "w.mtx:3:5: value '1e39' is beyond the range of fp32");
  CHECK(error_in(kReal + "3 3 1\n1 1 -1e999\n") == "w.mtx:3:5: value '-1e999' is beyond the range of fp32");
  CHECK(error_in(kReal + "3 3 1\n1 1 1 1\n") == "w.mtx:3:7: expected the end of the line after the entry, found '1'");
  CHECK(error_in(kReal + "3 3 1\n1 1 1\n2 2 2\n") == "w.mtx:4:1: unexpected '2' after the last of 1 entries");
  CHECK(error_in("%%MatrixMarket matrix coordinate integer general\n3 3 1\n1 1 1.5\n") ==
        "w.mtx:3:5: expected an integer value, found '1.5'");
  CHECK(error_in("%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 1 1\n") ==
        "w.mtx:3:5: an entry of a pattern is a row and a column; is the field 'real' or 'integer'?");
}

TEST_CASE("duplicate entries are refused, naming both lines", "[matrix_market][fast]") {
  CHECK(error_in(kReal + "3 3 4\n1 1 1\n2 3 1\n% between\n3 1 1\n2 3 4\n") ==
        "w.mtx:7:1: entry (2, 3) is already on line 4");
  CHECK(error_in(kReal + "3 3 2\n1 1 0\n1 1 0\n") == "w.mtx:4:1: entry (1, 1) is already on line 3");
  CHECK(error_in("%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n3 1 1\n1 3 1\n") ==
        "w.mtx:4:1: entry (1, 3) is already on line 3; a symmetric file holds one triangle");
}

TEST_CASE("messages about binary rubbish are one line of text", "[matrix_market][fast]") {
  CHECK(error_in(kReal + std::string("3 3 1\n\x01\0\xff 1 1\n", 13)) ==
        "w.mtx:3:1: expected a row, found '\\x01\\x00\\xff'");
  CHECK(error_in(kReal + "3 3 1\n" + std::string(100, 'a') + " 1 1\n") ==
        "w.mtx:3:1: expected a row, found '" + std::string(64, 'a') + "...'");
}

TEST_CASE("files that cannot be read are named", "[matrix_market][fast]") {
  const Folder directory;
  const auto file = directory / "w.mtx";
  const std::string name = file.string();
  CHECK(error_of([&] { read_weights(file); }) == name + ": cannot read the file: No such file or directory");
  std::filesystem::create_directory(file);
  CHECK(error_of([&] { read_weights(file); }) == name + ": cannot read the file: it is a directory");
  std::filesystem::remove(file);
  REQUIRE(::mkfifo(name.c_str(), 0600) == 0);
  CHECK(error_of([&] { read_weights(file); }) == name + ": cannot read the file: it is not a regular file");
  std::filesystem::remove(file);
  directory.write("w.mtx", "");
  CHECK(error_of([&] { read_weights(file); }) ==
        name + ":1:1: not a Matrix Market file: it does not begin with '%%MatrixMarket'");
}

TEST_CASE("weights files are told apart by their extension", "[matrix_market][fast]") {
  const Folder directory;
  CHECK(read_weights(directory.write("W.MTX", kReal + "1 1 1\n1 1 2\n")) == SparseMatrix{1, 1, {0, 1}, {0}, {2}});
  const std::string other = directory.write("w.h5", "\x89HDF");
  CHECK(error_of([&] { read_weights(other); }) ==
        other +
            ": unknown kind of weights file; expected a name that ends in .mtx, .smtx, .npy, .safetensors or "
            ".safetensors.index.json");
  const std::string matrix = directory.write("w.mtx", "");
  CHECK(error_of([&] { read_weights(matrix, {"cell"}); }) ==
        matrix + ": the file holds one matrix without a name; found a request for 'cell'");
}

TEST_CASE("a dense array, whole numbers with a point and a banner of one per cent are read", "[matrix_market][fast]") {
  const SparseMatrix matrix{2, 3, {0, 2, 3}, {0, 2, 1}, {1.5F, -2, 3}};
  CHECK(parse("%%MatrixMarket matrix array real general\n% column by column\n2 3\n1.5\n0\n0\n3\n-2\n0\n") == matrix);
  CHECK(error_in("%%MatrixMarket matrix array real general\n2 3\n1\n2\n3\n") ==
        "w.mtx:2:4: 6 entries do not fit into the 6 bytes that follow (at most 3 do); is the file truncated?");
  CHECK(error_in("%%MatrixMarket matrix array pattern general\n1 1\n1\n") ==
        "w.mtx:1:28: an array is read as 'real general' or 'integer general'");
  CHECK(parse("%MatrixMarket matrix coordinate integer general\n1 2 1\n1 2 4.0\n") ==
        SparseMatrix{1, 2, {0, 1}, {1}, {4}});
}

TEST_CASE("a pattern of the Deep Learning Matrix Collection is read", "[matrix_market][fast]") {
  const auto read = [](std::string_view text) { return parse_smtx(text, "w.smtx"); };
  CHECK(read("2, 3, 3\n0 2 3 \n0 2 1 \n") == SparseMatrix{2, 3, {0, 2, 3}, {0, 2, 1}, {1, 1, 1}});
  const auto error = [&](std::string_view text) { return error_of([&] { read(text); }); };
  CHECK(error("2, 3, 3\n0 2 3\n0 2 x") == "w.smtx:3:5: expected a column after the one before, from 0 to 2, found 'x'");
  CHECK(error("2, 3, 3\n0 2 3\n2 1 1") == "w.smtx:3:3: expected a column after the one before, from 3 to 2, found '1'");
  CHECK(error("2, 3, 3\n0 2 2\n0 1 2") == "w.smtx:2:6: the rows end at 2; expected 3");
  CHECK(error("2, 3, 6\n0 2 2\n") ==
        "w.smtx:1:8: 6 non-zeros of 2 rows do not fit into the 7 bytes that follow; is the file truncated?");
}
