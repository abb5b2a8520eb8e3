// SPDX-License-Identifier: Apache-2.0
// The C API's tables: the rows of sweeps, for Arrow's readers.
#include "kernels/api/handles.hpp"
#include "model/ask/ask.hpp"
#include "model/explore/arrow_abi.h"

#include <dlfcn.h>

#include <cstdlib>
#include <memory>

using namespace onchip;

onchip_status onchip_table_create_sweep(const onchip_chip* chip, const char* question, onchip_progress* progress,
                                        onchip_table** table, onchip_error* error) {
  return guarded(error, [&] {
    require(chip, "chip");
    require(question, "question");
    require(table, "table");
    if (progress != nullptr) {
      require_struct(progress, "progress");
    }
    const auto watch = [progress](std::uint64_t rows) -> MayGoOn {
      if (progress == nullptr) {
        return {};
      }
      __atomic_store_n(&progress->rows, static_cast<std::int64_t>(rows), __ATOMIC_RELAXED);
      return [progress] {
        __atomic_add_fetch(&progress->done, 1, __ATOMIC_RELAXED);
        return __atomic_load_n(&progress->stop, __ATOMIC_RELAXED) == 0;
      };
    };
    *table = std::make_unique<onchip_table>(onchip_table{ask_table(chip->file, question, watch)}).release();
  });
}

onchip_status onchip_table_create_rows(const char* rows, onchip_table** table, onchip_error* error) {
  return guarded(error, [&] {
    require(rows, "rows");
    require(table, "table");
    *table = std::make_unique<onchip_table>(onchip_table{table_of(parse_json(rows, "rows"))}).release();
  });
}

onchip_status onchip_table_rows(const onchip_table* table, std::int64_t* rows, onchip_error* error) {
  return guarded(error, [&] {
    require(table, "table");
    require(rows, "rows");
    *rows = table->table.rows();
  });
}

onchip_status onchip_table_text(const onchip_table* table, char** rows, onchip_error* error) {
  return guarded(error, [&] {
    require(table, "table");
    require(rows, "rows");
    *rows = copy_of(table->table.json());
  });
}

onchip_status onchip_table_stream(const onchip_table* table, ArrowArrayStream* stream, onchip_error* error) {
  return guarded(error, [&] {
    require(table, "table");
    require(stream, "stream");
    table->table.export_to(stream);
  });
}

void onchip_table_destroy(onchip_table* table) {
  delete table;
}

// Python is found where it calls from: the library is linked to none.
void onchip_capsule_destroy(void* capsule) {
  using Pointer = void* (*)(void*, const char*);
  static const auto pointer_of = reinterpret_cast<Pointer>(::dlsym(RTLD_DEFAULT, "PyCapsule_GetPointer"));
  auto* const stream =
      pointer_of == nullptr ? nullptr : static_cast<ArrowArrayStream*>(pointer_of(capsule, "arrow_array_stream"));
  if (stream != nullptr && stream->release != nullptr) {  // nobody has taken it
    stream->release(stream);
  }
  std::free(stream);
}
