// SPDX-License-Identifier: Apache-2.0
// How many words of weights per thread the compiler keeps in registers, plan by plan: what model/fit_registers.py fits
// the register model to.
//
//   probe_registers FILE SEED COUNT [WORKERS]     adds the plans of COUNT networks drawn with the seed to FILE
//
// A pair of plan and architecture that FILE has already is left out, so an interrupted probe goes on where it was.
//
// The words are counted up or down from a guess until they spill or do not, and bisected. The compiler is not
// monotonic:
//   safe      the most words up to which none tried spills
//   largest   the most words tried that do not spill
// NVRTC makes the PTX once for all attempts of kernels/compiler.cpp, and ptxas, of the same toolkit and found in $PATH,
// does the rest: that takes half the time.
#include "kernels/compiler.hpp"
#include "kernels/program.hpp"
#include "tests/kernels/register_shapes.hpp"

#include <nvrtc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace onchip {
namespace {

// Of "sm_90": for "compute_90", because the headers and the compiler's front end differ.
std::string make_ptx(const CompileRequest& request) {
  const std::string source(request.source);
  nvrtcProgram program = nullptr;
  nvrtcCreateProgram(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr);
  std::vector<std::string> options{"--gpu-architecture=compute_" + request.architecture.substr(3), "--std=c++17"};
  for (const std::string& define : request.defines) {
    options.push_back("-D" + define);
  }
  std::vector<const char*> arguments;
  for (const std::string& option : options) {
    arguments.push_back(option.c_str());
  }
  if (nvrtcCompileProgram(program, static_cast<int>(arguments.size()), arguments.data()) != NVRTC_SUCCESS) {
    std::size_t size = 0;
    nvrtcGetProgramLogSize(program, &size);
    std::string log(size, '\0');
    nvrtcGetProgramLog(program, log.data());
    throw std::runtime_error(log);
  }
  std::size_t size = 0;
  nvrtcGetPTXSize(program, &size);
  std::string ptx(size, '\0');
  nvrtcGetPTX(program, ptx.data());
  nvrtcDestroyProgram(&program);
  ptx.erase(std::min(ptx.find('\0'), ptx.size()));
  return ptx;
}

// Whether ptxas keeps everything in registers.
bool all_in_registers(const std::string& ptx_file, const std::string& architecture, std::string_view option) {
  const std::string command =
      "ptxas -v -arch=" + architecture + " " + std::string(option) + " -o /dev/null " + ptx_file + " 2>&1";
  FILE* const pipe = popen(command.c_str(), "r");
  std::string log;
  char buffer[512];
  while (pipe != nullptr && std::fgets(buffer, sizeof buffer, pipe) != nullptr) {
    log += buffer;
  }
  if (pipe == nullptr || pclose(pipe) != 0) {
    throw std::runtime_error(command + "\n" + log);
  }
  return log.find("    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") != std::string::npos;
}

struct Found {
  int safe = 0, largest = 0;
};

class Prober {
 public:
  Prober(const Case& plan, std::string architecture, std::string file)
      : case_(plan), architecture_(std::move(architecture)), file_(std::move(file)) {}

  // Counts from `guess` in steps of `first_step`, then twice that, ... `modelled` is tried too.
  Found find(int modelled, int guess, int first_step) {
    std::map<int, bool> known;
    const auto fits = [&](int words) {
      const auto [place, is_new] = known.try_emplace(words, false);
      if (is_new) {
        place->second = compiles(words);
      }
      return place->second;
    };
    const Case nothing = with_words(case_, 0);
    const int least = register_words(nothing.network, nothing.plan);
    int low = std::max(least, guess);
    for (int step = first_step; low > least && !fits(low); step *= 2) {
      low = std::max(least, low - step);
    }
    int high = low;
    for (int step = first_step; fits(high); step *= 2) {
      low = high;
      high += step;
    }
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (fits(middle) ? low : high) = middle;
    }
    for (int words = std::clamp(modelled, least, low); words >= least && !fits(words);) {
      --words;
    }
    Found found;
    bool safe = true;
    for (const auto& [words, good] : known) {
      safe = safe && good;
      found.safe = safe ? words : found.safe;
      found.largest = good ? words : found.largest;
    }
    return found;
  }

 private:
  bool compiles(int words) const {
    const Case c = with_words(case_, words);
    std::ofstream(file_) << make_ptx(compile_request(c.network, c.plan, architecture_));
    bool good = false;
    for (const std::string_view option : kCarefulOptions) {  // they first: more often than not they do
      good = good || all_in_registers(file_, architecture_, option);
    }
    good = good || all_in_registers(file_, architecture_, "");
    std::error_code ignored;
    std::filesystem::remove(file_, ignored);
    return good;
  }

  Case case_;
  std::string architecture_, file_;
};

constexpr std::string_view kHeader =
    "architecture,precision,cell,hidden,batch,sms,threads,lanes_per_row,rows_per_group,loads_in_flight,storage,tile_"
    "rows,"
    "pass_planes,tail,ring_chunks,chunks_in_flight,registers,safe,largest";

std::string describe_row(const Case& c, std::string_view architecture) {
  const Plan& p = c.plan;
  std::ostringstream row;
  row << architecture << ',' << info(c.network.precision).name << ',' << info(c.network.cell).name << ','
      << c.network.hidden << ',' << c.network.batch << ',' << p.sms << ',' << p.threads << ',' << p.lanes_per_row << ','
      << p.rows_per_group << ',' << p.loads_in_flight << ',' << name(p.storage) << ',' << p.tile_rows << ','
      << p.pass_planes << ',' << p.has_tail() << ',' << p.ring_chunks << ',' << p.chunks_in_flight << ','
      << register_cap(c);
  return row.str();
}

// Up to and with the registers: what a row is about.
std::set<std::string> known_rows(const std::filesystem::path& file) {
  std::set<std::string> rows;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    rows.insert(line.substr(0, line.rfind(',', line.rfind(',') - 1)));
  }
  return rows;
}

constexpr std::size_t kOfSm120 = 4;  // one in so many: it is as sm_100

void probe(const std::filesystem::path& file, const std::vector<Case>& cases, unsigned workers) {
  std::set<std::string> known = known_rows(file);
  std::ofstream out(file, std::ios::app);
  if (known.empty()) {
    out << kHeader << std::endl;
  }
  std::atomic<std::size_t> next{0};
  std::mutex writing;
  const auto work = [&] {
    for (std::size_t i; (i = next++) < cases.size();) {
      const Case& c = cases[i];
      int guess = register_cap(c) - working_registers(c.network, c.plan) + 4, step = 2;
      for (const char* architecture : kArchitectures) {
        const std::string row = describe_row(c, architecture);
        if (std::string_view(architecture) == "sm_120" && i % kOfSm120 != 0) {
          continue;
        }
        if (const std::lock_guard lock(writing); !known.insert(row).second) {
          continue;
        }
        try {
          const int modelled = register_cap(c) - working_registers(c.network, c.plan, architecture);
          const std::filesystem::path ptx = std::filesystem::temp_directory_path() /
                                            ("onchip-probe-" + std::to_string(getpid()) + "-" + std::to_string(i));
          const Found found = Prober(c, architecture, ptx).find(modelled, guess, step);
          guess = found.largest;  // the next is much the same
          step = 1;
          const std::lock_guard lock(writing);
          out << row << ',' << found.safe << ',' << found.largest << std::endl;
        } catch (const std::exception& error) {
          const std::lock_guard lock(writing);
          std::cerr << row << ": " << error.what() << '\n';
        }
      }
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < workers; ++i) {
    threads.emplace_back(work);
  }
}

}  // namespace
}  // namespace onchip

int main(int count, char** arguments) {
  using namespace onchip;
  if (count != 4 && count != 5) {
    std::cerr << "usage: probe_registers FILE SEED COUNT [WORKERS]\n";
    return 2;
  }
  const unsigned workers =
      count == 5 ? static_cast<unsigned>(std::atoi(arguments[4])) : std::max(1u, std::thread::hardware_concurrency());
  probe(arguments[1],
        probed_cases(static_cast<std::uint32_t>(std::atoi(arguments[2])),
                     static_cast<std::size_t>(std::atoi(arguments[3]))),
        workers);
}
