// SPDX-License-Identifier: Apache-2.0
#include "model/explore/table_columns.hpp"

#include "model/base/error.hpp"
#include "model/base/units.hpp"
#include "model/explore/arrow_abi.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <limits>
#include <new>

namespace onchip {

// ---- columns --------------------------------------------------------------------------------------------------------

void TableColumn::add_bit(std::vector<std::uint8_t>& bits, bool bit) const {
  if (size_ % 8 == 0) {
    bits.push_back(0);
  }
  bits.back() = static_cast<std::uint8_t>(bits.back() | (bit ? 1 : 0) << (size_ % 8));
}

// After its value.
void TableColumn::count(bool is_there) {
  add_bit(there_, is_there);
  nones_ += is_there ? 0 : 1;
  ++size_;
}

void TableColumn::add_none() {
  if (type_ == ColumnType::text) {
    ends_.push_back(ends_.back());
  } else if (type_ == ColumnType::truth) {
    add_bit(truths_, false);
  } else {
    values_.push_back(0);
  }
  count(false);
}

void TableColumn::add(std::int64_t whole) {
  values_.push_back(static_cast<std::uint64_t>(whole));
  count(true);
}

void TableColumn::add(double number) {
  if (!std::isfinite(number)) {
    return add_none();
  }
  values_.push_back(std::bit_cast<std::uint64_t>(number));
  count(true);
}

void TableColumn::add(bool truth) {
  add_bit(truths_, truth);
  count(true);
}

void TableColumn::add(std::string_view text) {
  texts_ += text;
  if (texts_.size() > std::numeric_limits<std::int32_t>::max()) {
    throw InputError(name_ + ": more than 2 GiB of text: expected fewer rows");
  }
  ends_.push_back(static_cast<std::int32_t>(texts_.size()));
  count(true);
}

std::vector<const void*> TableColumn::buffers() const {
  const void* const there = nones_ > 0 ? there_.data() : nullptr;
  switch (type_) {
    case ColumnType::text:
      return {there, ends_.data(), texts_.data()};
    case ColumnType::truth:
      return {there, truths_.data()};
    default:
      return {there, values_.data()};
  }
}

bool TableColumn::is_none(std::int64_t row) const {
  return (there_[index(row) / 8] >> (row % 8) & 1) == 0;
}

double TableColumn::number(std::int64_t row) const {
  return std::bit_cast<double>(values_[index(row)]);
}

bool TableColumn::truth(std::int64_t row) const {
  return (truths_[index(row) / 8] >> (row % 8) & 1) != 0;
}

std::string_view TableColumn::text(std::int64_t row) const {
  const auto begin = static_cast<std::size_t>(ends_[index(row)]), end = static_cast<std::size_t>(ends_[index(row) + 1]);
  return std::string_view(texts_).substr(begin, end - begin);
}

// ---- tables ---------------------------------------------------------------------------------------------------------

namespace {

std::int64_t size(const ColumnBatch& batch) {
  return batch.empty() ? 0 : batch.front().size();
}

void append_json(std::string& text, const TableColumn& column, std::int64_t row) {
  if (column.is_none(row)) {
    text += "null";
  } else if (column.type() == ColumnType::text) {
    text += Json(column.text(row)).dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  } else if (column.type() == ColumnType::truth) {
    text += column.truth(row) ? "true" : "false";
  } else if (column.type() == ColumnType::whole) {
    text += std::to_string(column.whole(row));
  } else {
    text += format_number(column.number(row));
  }
}

}  // namespace

std::int64_t ColumnTable::rows() const {
  std::int64_t count = 0;
  for (const auto& batch : batches) {
    count += size(*batch);
  }
  return count;
}

std::string ColumnTable::json() const {
  std::string text = "[";
  for (const auto& batch : batches) {
    for (std::int64_t row = 0; row < size(*batch); ++row) {
      text += text.size() > 1 ? ",{" : "{";
      for (const TableColumn& column : *batch) {
        text += (&column == batch->data() ? "" : ",") + Json(column.name()).dump() + ':';
        append_json(text, column, row);
      }
      text += '}';
    }
  }
  return text + ']';
}

ColumnTable table_of(const Json& rows) {
  struct Found {
    bool is_whole = true, is_number = true, is_truth = true, is_text = true, is_any = false;
  };
  std::vector<std::pair<std::string, Found>> columns;
  if (!rows.is_array() || !std::ranges::all_of(rows, [](const Json& row) { return row.is_object(); })) {
    throw InputError("rows: expected an array of objects");
  }
  for (const Json& row : rows) {
    std::size_t next = 0;  // rows have their columns in the same order, mostly
    for (const auto& [key, value] : row.items()) {
      auto at = next < columns.size() && columns[next].first == key
                    ? columns.begin() + static_cast<std::ptrdiff_t>(next)
                    : std::ranges::find(columns, key, &std::pair<std::string, Found>::first);
      at = at == columns.end() ? columns.insert(at, {key, Found()}) : at;
      next = static_cast<std::size_t>(at - columns.begin()) + 1;
      if (!value.is_null()) {
        Found& found = at->second;
        const bool is_long = value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{1} << 62;
        found.is_whole &= value.is_number_integer() && !is_long;
        found.is_number &= value.is_number();
        found.is_truth &= value.is_boolean();
        found.is_any = true;
      }
    }
  }
  auto batch = std::make_shared<ColumnBatch>();
  for (const auto& [name, found] : columns) {
    const ColumnType type = !found.is_any     ? ColumnType::text
                            : found.is_whole  ? ColumnType::whole
                            : found.is_number ? ColumnType::number
                            : found.is_truth  ? ColumnType::truth
                                              : ColumnType::text;
    TableColumn& column = batch->emplace_back(name, type);
    for (const Json& row : rows) {
      const auto value = row.find(name);
      if (value == row.end() || value->is_null()) {
        column.add_none();
      } else if (type == ColumnType::whole) {
        column.add(value->get<std::int64_t>());
      } else if (type == ColumnType::number) {
        column.add(value->get<double>());
      } else if (type == ColumnType::truth) {
        column.add(value->get<bool>());
      } else {
        column.add(std::string_view(value->is_string() ? value->get<std::string>() : value->dump()));
      }
    }
  }
  return {{std::move(batch)}};
}

// ---- Arrow's structures ---------------------------------------------------------------------------------------------

namespace {

// What a structure points to, until whoever has it releases it. A child may be moved and outlive its parent.
template <typename Structure>
struct Held {
  std::shared_ptr<const ColumnBatch> batch;
  std::string format, name;
  std::vector<const void*> buffers;
  std::vector<Structure> children;
  std::vector<Structure*> pointers;
};

template <typename Structure>
void release(Structure* structure) {
  auto* const held = static_cast<Held<Structure>*>(structure->private_data);
  for (Structure& child : held->children) {
    if (child.release != nullptr) {  // else it was moved
      child.release(&child);
    }
  }
  delete held;
  structure->release = nullptr;
}

// Owns `held`, whose children are released with it.
template <typename Structure>
void hold(Structure& structure, Held<Structure>* held) {
  for (Structure& child : held->children) {
    held->pointers.push_back(&child);
  }
  structure.n_children = static_cast<std::int64_t>(held->children.size());
  structure.children = held->pointers.data();
  structure.dictionary = nullptr;
  structure.private_data = held;
  structure.release = release<Structure>;
}

void fill(ArrowSchema& schema, std::string format, std::string name, std::int64_t flags,
          std::vector<ArrowSchema> children) {
  auto* const held = new Held<ArrowSchema>{nullptr, std::move(format), std::move(name), {}, std::move(children), {}};
  schema = {};
  schema.format = held->format.c_str();
  schema.name = held->name.c_str();
  schema.flags = flags;
  hold(schema, held);
}

void fill(ArrowArray& array, std::int64_t length, std::int64_t nones, const std::shared_ptr<const ColumnBatch>& batch,
          std::vector<const void*> buffers, std::vector<ArrowArray> children) {
  auto* const held = new Held<ArrowArray>{batch, "", "", std::move(buffers), std::move(children), {}};
  array = {};
  array.length = length;
  array.null_count = nones;
  array.n_buffers = static_cast<std::int64_t>(held->buffers.size());
  array.buffers = held->buffers.data();
  hold(array, held);
}

struct StreamState {
  ColumnTable table;
  std::size_t next = 0;
};

StreamState& state_of(ArrowArrayStream* stream) {
  return *static_cast<StreamState*>(stream->private_data);
}

// No exception leaves a function that C calls.
template <typename Work>
int without_throwing(Work&& work) {
  try {
    work();
    return 0;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
}

int get_schema(ArrowArrayStream* stream, ArrowSchema* schema) {
  return without_throwing([&] {
    std::vector<ArrowSchema> children;
    for (const TableColumn& column : *state_of(stream).table.batches.front()) {
      fill(children.emplace_back(), std::string(1, static_cast<char>(column.type())), column.name(),
           ARROW_FLAG_NULLABLE, {});
    }
    fill(*schema, "+s", "", 0, std::move(children));
  });
}

int get_next(ArrowArrayStream* stream, ArrowArray* array) {
  return without_throwing([&] {
    StreamState& state = state_of(stream);
    const auto& batches = state.table.batches;
    while (state.next < batches.size() && size(*batches[state.next]) == 0) {
      ++state.next;
    }
    *array = {};  // released: the end
    if (state.next < batches.size()) {
      const std::shared_ptr<const ColumnBatch>& batch = batches[state.next++];
      std::vector<ArrowArray> children;
      for (const TableColumn& column : *batch) {
        fill(children.emplace_back(), column.size(), column.nones(), batch, column.buffers(), {});
      }
      fill(*array, size(*batch), 0, batch, {nullptr}, std::move(children));
    }
  });
}

}  // namespace

void ColumnTable::export_to(ArrowArrayStream* stream) const {
  *stream = {get_schema, get_next, [](ArrowArrayStream*) -> const char* { return nullptr; },
             [](ArrowArrayStream* of) {
               delete static_cast<StreamState*>(of->private_data);
               of->release = nullptr;
             },
             new StreamState{*this, 0}};
}

}  // namespace onchip
