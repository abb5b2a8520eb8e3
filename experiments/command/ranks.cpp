// SPDX-License-Identifier: Apache-2.0
#include "experiments/command/ranks.hpp"

#ifdef ONCHIP_HAS_MPI
#include <mpi.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace onchip {
namespace {

// What Open MPI tells the processes that it starts.
int environment_number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? std::atoi(text) : otherwise;
}

int launched_processes() {
  return environment_number("OMPI_COMM_WORLD_SIZE", 0);
}

}  // namespace

int launched_rank() {
  return environment_number("OMPI_COMM_WORLD_RANK", 0);
}

Ranks::Ranks() {
#ifdef ONCHIP_HAS_MPI
  if (launched_processes() > 0) {
    // Of several threads only the one that made this object calls MPI.
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &count_);
  }
#else
  if (launched_processes() > 1) {
    throw InputError("mpirun started several processes, but this command was built without MPI");
  }
#endif
}

Ranks::~Ranks() {
#ifdef ONCHIP_HAS_MPI
  if (launched_processes() > 0) {
    MPI_Finalize();
  }
#endif
}

std::vector<std::string> Ranks::gather(const std::string& mine) const {
  std::vector<std::string> parts{mine};
#ifdef ONCHIP_HAS_MPI
  if (count_ > 1) {
    const auto count = static_cast<std::size_t>(count_);
    const int size = static_cast<int>(mine.size());
    std::vector<int> sizes(count), begins(count);
    MPI_Gather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
    std::exclusive_scan(sizes.begin(), sizes.end(), begins.begin(), 0);
    std::string all(static_cast<std::size_t>(std::reduce(sizes.begin(), sizes.end())), '\0');
    MPI_Gatherv(mine.data(), size, MPI_CHAR, all.data(), sizes.data(), begins.data(), MPI_CHAR, 0, MPI_COMM_WORLD);
    parts.clear();
    for (std::size_t rank = 0; rank_ == 0 && rank < count; ++rank) {
      parts.push_back(all.substr(static_cast<std::size_t>(begins[rank]), static_cast<std::size_t>(sizes[rank])));
    }
  }
#endif
  return parts;
}

std::uint64_t Ranks::of_first(std::uint64_t mine) const {
#ifdef ONCHIP_HAS_MPI
  if (count_ > 1) {
    MPI_Bcast(&mine, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  }
#endif
  return mine;
}

bool Ranks::none_failed(const std::string& problem) const {
  const std::vector<std::string> problems = gather(problem);
  const auto first = std::ranges::find_if(problems, [](const std::string& p) { return !p.empty(); });
  const bool failed = of_first(first != problems.end() ? 1 : 0) != 0;
  if (first != problems.end()) {
    throw InputError(*first);
  }
  return !failed;
}

}  // namespace onchip
