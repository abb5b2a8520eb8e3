// SPDX-License-Identifier: Apache-2.0
// The C API's handles around values, and exceptions as statuses: of what needs no CUDA. programs.cpp has the others.
#pragma once

#include "kernels/api/onchip.h"
#include "model/answer/answer.hpp"
#include "model/base/error.hpp"
#include "model/chip/chip.hpp"
#include "model/explore/table_columns.hpp"
#include "model/workload/mask.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>

struct onchip_chip {
  onchip::ChipFile file;
};
struct onchip_matrix {
  onchip::SparseMatrix matrix;
};
struct onchip_table {
  onchip::ColumnTable table;
};

namespace onchip {

template <std::size_t Size>
void write(char (&to)[Size], std::string_view text) {
  const std::size_t count = std::min(text.size(), Size - 1);
  std::memcpy(to, text.data(), count);
  std::memset(to + count, 0, Size - count);
}

// The status of an exception of no kind that is known here.
inline onchip_status internal_error(const std::exception&) {
  return ONCHIP_INTERNAL;
}

template <typename Action>
onchip_status guarded(onchip_error* error, Action&& action,
                      onchip_status (*status_of)(const std::exception&) = internal_error) noexcept {
  const auto failed = [&](onchip_status status, std::string_view message) {
    if (error != nullptr) {
      write(error->message, message);
    }
    return status;
  };
  try {
    action();
    return failed(ONCHIP_OK, "");
  } catch (const InputError& problem) {
    return failed(ONCHIP_INVALID, problem.what());
  } catch (const std::bad_alloc&) {
    return failed(ONCHIP_OUT_OF_MEMORY, "out of host memory");
  } catch (const std::exception& problem) {
    return failed(status_of(problem), problem.what());
  } catch (...) {
    return failed(ONCHIP_INTERNAL, "an unknown exception");
  }
}

inline void require(const void* pointer, const char* name) {
  if (pointer == nullptr) {
    throw InputError("'" + std::string(name) + "' is null");
  }
}

inline void require_range(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most) {
    throw InputError("'" + std::string(name) + "' is " + std::to_string(value) + "; expected " + std::to_string(least) +
                     " to " + std::to_string(most));
  }
}

// A caller who was compiled with another version of the struct is refused here, not misread.
template <typename Struct>
void require_struct(const Struct* given, const char* name) {
  require(given, name);
  if (given->struct_bytes != sizeof(Struct)) {
    throw InputError("'" + std::string(name) + "' has a struct_bytes of " + std::to_string(given->struct_bytes) +
                     "; expected " + std::to_string(sizeof(Struct)) + ", its size");
  }
}

// The network and what is asked of its plan; with a matrix, its weights.
Configuration read_configuration(const onchip_network* network, const onchip_matrix* matrix);

// For onchip_text_destroy.
char* copy_of(const std::string& text);

onchip_fit to_fit(const PlannedNetwork& planned);

}  // namespace onchip
