// SPDX-License-Identifier: Apache-2.0
// Rows as columns in memory, laid out and handed on as Arrow does it:
// https://arrow.apache.org/docs/format/CDataInterface.html and CStreamInterface.html.
#pragma once

#include "model/base/json.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct ArrowArrayStream;

namespace onchip {

enum class ColumnType : char { whole = 'l', number = 'g', truth = 'b', text = 'u' };  // Arrow's letters

class TableColumn {
 public:
  TableColumn(std::string name, ColumnType type) : name_(std::move(name)), type_(type) {}

  void add_none();
  void add(std::int64_t whole);
  void add(double number);  // none where it is not finite
  void add(bool truth);
  void add(std::string_view text);  // throws InputError beyond 2 GiB of a column

  const std::string& name() const { return name_; }
  ColumnType type() const { return type_; }
  std::int64_t size() const { return size_; }
  std::int64_t nones() const { return nones_; }
  std::vector<const void*> buffers() const;  // in Arrow's order: which are there, (ends of texts,) values

  bool is_none(std::int64_t row) const;
  std::int64_t whole(std::int64_t row) const { return static_cast<std::int64_t>(values_[index(row)]); }
  double number(std::int64_t row) const;
  bool truth(std::int64_t row) const;
  std::string_view text(std::int64_t row) const;

 private:
  static std::size_t index(std::int64_t row) { return static_cast<std::size_t>(row); }
  void add_bit(std::vector<std::uint8_t>& bits, bool bit) const;
  void count(bool is_there);

  std::string name_;
  ColumnType type_;
  std::int64_t size_ = 0, nones_ = 0;
  std::vector<std::uint8_t> there_, truths_;  // a bit each, the first in the lowest
  std::vector<std::uint64_t> values_;         // of a number its bits
  std::vector<std::int32_t> ends_{0};         // [rows + 1]
  std::string texts_;
};

// Some rows: columns of the same length.
using ColumnBatch = std::vector<TableColumn>;

// All rows, in batches with the same columns. At least one batch, which may have no rows.
struct ColumnTable {
  std::vector<std::shared_ptr<const ColumnBatch>> batches;

  std::int64_t rows() const;
  // An array of objects, where a row leaves out nothing.
  std::string json() const;
  // Fills in *stream, which the caller releases. Streams, schemas and arrays outlive the table.
  void export_to(ArrowArrayStream* stream) const;
};

// Of an array of objects: a column is of whole numbers, numbers, truths or texts, by its values, and has none where a
// row does not have it; what is something else is its JSON. Throws InputError.
ColumnTable table_of(const Json& rows);

}  // namespace onchip
