// SPDX-License-Identifier: Apache-2.0
// How many words of weights per thread the compiler keeps in registers, shape by shape: what model/fit_registers.py
// fits the register model to.
//
//   probe_registers [seed count] > probed.csv      the chosen shapes, or `count` shapes drawn with the seed
//
// The words are counted up or down from the model's guess until they spill or do not, and bisected. The compiler is not
// monotonic:
//   safe      the most words up to which none tried spills
//   largest   the most words tried that do not spill
// NVRTC makes the PTX once for all attempts of kernels/compiler.cpp, and ptxas, of the same toolkit and found in $PATH,
// does the rest: that takes half the time.
#include "kernels/compiler.hpp"
#include "kernels/persistent_kernel.hpp"
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
#include <stdexcept>
#include <thread>
#include <utility>

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
bool all_in_registers(const std::string& ptx_file, const char* architecture, std::string_view option) {
  const std::string command =
      "ptxas -v -arch=" + std::string(architecture) + " " + std::string(option) + " -o /dev/null " + ptx_file + " 2>&1";
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
  Prober(const Shape& shape, std::string file) : shape_(shape), file_(std::move(file)) {}
  ~Prober() {
    for (const auto& [what, made] : ptx_) {
      std::error_code ignored;
      std::filesystem::remove(made, ignored);
    }
  }
  Prober(const Prober&) = delete;
  Prober& operator=(const Prober&) = delete;

  // Counts from `guess` in steps of `first_step`, then twice that, ... `modelled` is tried too.
  Found find(const char* architecture, int modelled, int guess, int first_step) {
    std::map<int, bool> known;
    const auto fits = [&](int words) {
      const auto [place, is_new] = known.try_emplace(words, false);
      for (const std::string_view option : kCarefulOptions) {  // they first: more often than not they do
        place->second = place->second || (is_new && all_in_registers(ptx(words, architecture), architecture, option));
      }
      place->second = place->second || (is_new && all_in_registers(ptx(words, architecture), architecture, ""));
      return place->second;
    };
    const Case nothing = with_words(shape_, 0);
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
  const std::string& ptx(int words, const std::string& architecture) {
    std::string& made = ptx_[{words, architecture}];
    if (made.empty()) {
      made = file_ + "-" + architecture + "-" + std::to_string(words) + ".ptx";
      const Case c = with_words(shape_, words);
      std::ofstream(made) << make_ptx(compile_request(c.network, c.plan, architecture));
    }
    return made;
  }

  Shape shape_;
  std::string file_;
  std::map<std::pair<int, std::string>, std::string> ptx_;  // by words and architecture
};

void write(const Shape& s, const char* architecture, const Found& found) {
  const Case any = with_words(s, 8 * s.rows_per_group);
  std::cout << architecture << ',' << info(s.precision).name << ',' << s.batch << ',' << s.threads << ','
            << s.lanes_per_row << ',' << s.rows_per_group << ',' << s.loads_in_flight << ',' << name(s.storage) << ','
            << info(s.cell).name << ',' << s.tile_rows << ',' << s.pass_planes << ',' << s.tail << ',' << s.ring_chunks
            << ',' << s.chunks_in_flight << ',' << exchange_bytes(any.network, any.plan) / 16 << ',' << register_cap(s)
            << ',' << found.safe << ',' << found.largest << std::endl;
}

void probe(const std::vector<Shape>& shapes) {
  std::cout << "architecture,precision,batch,threads,lanes_per_row,rows_per_group,loads_in_flight,storage,cell,"
               "tile_rows,pass_planes,tail,ring_chunks,chunks_in_flight,state_words,registers,safe,largest"
            << std::endl;
  std::atomic<std::size_t> next{0};
  std::mutex writing;
  const auto work = [&] {
    for (std::size_t i; (i = next++) < shapes.size();) {
      const Shape& shape = shapes[i];
      const Case any = with_words(shape, 8 * shape.rows_per_group);
      Prober prober(shape, std::filesystem::temp_directory_path() /
                               ("onchip-probe-" + std::to_string(getpid()) + "-" + std::to_string(i)));
      int guess = register_cap(shape) - working_registers(any.network, any.plan) + 4, step = 2;
      for (const char* architecture : kArchitectures) {
        const int modelled = register_cap(shape) - working_registers(any.network, any.plan, architecture);
        try {
          const Found found = prober.find(architecture, modelled, guess, step);
          const std::lock_guard lock(writing);
          write(shape, architecture, found);
          guess = found.largest;  // the next is much the same
          step = 1;
        } catch (const std::exception& error) {
          const std::lock_guard lock(writing);
          std::cerr << describe(shape) << ": " << error.what() << '\n';
        }
      }
    }
  };
  std::vector<std::jthread> workers;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
    workers.emplace_back(work);
  }
}

}  // namespace
}  // namespace onchip

int main(int count, char** arguments) {
  using namespace onchip;
  if (count == 3) {
    probe(random_shapes(static_cast<std::uint32_t>(std::atoi(arguments[1])),
                        static_cast<std::size_t>(std::atoi(arguments[2]))));
  } else {
    probe({std::begin(kChosenShapes), std::end(kChosenShapes)});
  }
}
