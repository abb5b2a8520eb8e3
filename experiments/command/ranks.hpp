// SPDX-License-Identifier: Apache-2.0
// The processes that mpirun started, on one machine or several; a process that it did not start is the only one.
#pragma once

#include "model/base/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace onchip {

// At most one object at a time, and only one in the life of a process.
class Ranks {
 public:
  // Joins the others. Throws InputError if mpirun started several processes of a command that was built without MPI.
  Ranks();
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return rank_; }
  int count() const { return count_; }
  // What every rank has to say, [count] in rank 0; empty elsewhere. All ranks must call it.
  std::vector<std::string> gather(const std::string& mine) const;
  // The number that rank 0 has. All ranks must call it.
  std::uint64_t of_first(std::uint64_t mine) const;

  // What read() returns on this rank, if it throws no InputError on any. If it does, rank 0 throws that of the first
  // such rank, and there is no result elsewhere: those that end at once would be the end of rank 0, too, before it has
  // said what is wrong. All ranks must call it.
  template <typename Read>
  auto together(Read&& read) const -> std::optional<decltype(read())> {
    std::optional<decltype(read())> result;
    std::string problem;
    try {
      result.emplace(read());
    } catch (const InputError& error) {
      problem = error.what();
    }
    return none_failed(problem) ? std::move(result) : std::nullopt;
  }

 private:
  // `problem`: of this rank; empty: none.
  bool none_failed(const std::string& problem) const;

  int rank_ = 0, count_ = 1;
};

// Which rank mpirun gave this process, known before it joins; 0 if mpirun did not start it.
int launched_rank();

}  // namespace onchip
