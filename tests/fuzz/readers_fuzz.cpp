// SPDX-License-Identifier: Apache-2.0
// libFuzzer target for all readers that have none of their own: the first byte of an input chooses one ('a' the first),
// the others are what it reads. Only InputError may come out, with a message of one line.
//   tests/fuzz/run build-asan readers
#include "experiments/claims/recipe.hpp"
#include "experiments/command/configuration_rows.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/explore/result_file.hpp"
#include "experiments/measurement/manifest.hpp"
#include "kernels/feed_forward/network/plan_cache.hpp"
#include "kernels/runtime/cubin_cache.hpp"
#include "model/ask/ask.hpp"
#include "model/explore/expression.hpp"
#include "model/explore/spec.hpp"
#include "model/families/workload.hpp"
#include "model/feed_forward/files/network_text.hpp"
#include "model/workload/files/weights_file.hpp"
#include "sim/trace/trace_file.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onchip {

// Of the caches: of the tests, and not the user's.
std::filesystem::path cache_directory() {
  static const std::filesystem::path folder = [] {
    std::cout.rdbuf(nullptr);
    std::cerr.rdbuf(nullptr);
    std::filesystem::path made =
        std::filesystem::temp_directory_path() / ("onchip_readers_fuzz_" + std::to_string(::getpid()));
    std::filesystem::create_directories(made);
    return made;
  }();
  return folder;
}

namespace {

std::string written(const std::string& name, std::string_view bytes) {
  const std::filesystem::path path = cache_directory() / name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path.string();
}

void run_quietly(const Verb& verb, std::vector<std::string> arguments) {
  run_verb(verb, std::move(arguments));
  std::cout.clear();
}

template <typename Plan>
void read_plan(std::string_view text) {
  require(to_string(parse_plan_as<Plan>(text)).size() > 0);
}

void read_rows(std::string_view bytes) {
  const CsvReader file(written("rows.csv", bytes));
  for (std::size_t i = 0; i < file.size(); ++i) {
    run_reader([&] { read_configuration_row(file, i, /*with_weights=*/false); });
    run_reader([&] { file.number(i, "value"); });  // as calibrate does
  }
}

// The tail of a plan that is in the cache is replaced: what comes back is what was made.
void read_cached_plan(std::string_view bytes) {
  const FeedForward network = read_network("spdnn:64x2");
  const std::string made = "a plan";
  const auto ask = [&] {
    return *PlanCache(network).plan("fuzz", {}, "no images", [&] { return Found<std::string>(made); });
  };
  require(ask() == made);
  for (const auto& entry : std::filesystem::directory_iterator(cache_directory())) {
    if (entry.path().extension() == ".plan") {
      const auto size = std::filesystem::file_size(entry.path());
      std::fstream file(entry.path(), std::ios::binary | std::ios::in | std::ios::out);
      file.seekp(
          static_cast<std::streamoff>(size - std::min<std::size_t>(size, std::min<std::size_t>(bytes.size(), 40))));
      file << bytes;
    }
  }
  require(ask() == made);
}

struct Reader {
  std::string_view what;
  void (*read)(std::string_view bytes);
};
using Bytes = std::string_view;
constexpr std::array kReaders{
    Reader{"validate",
           [](Bytes b) {
             run_quietly(kValidateVerb, {"--chip", "h200", written("v.csv", b)});
           }},
    Reader{"configurations", read_rows},
    Reader{"report of CSV", [](Bytes b) { run_quietly(kReportVerb, {written("r.csv", b)}); }},
    Reader{"report of rows as JSON", [](Bytes b) { run_quietly(kReportVerb, {written("r.jsonl", b)}); }},
    Reader{"report of JSON", [](Bytes b) { run_quietly(kReportVerb, {written("r.json", b)}); }},
    Reader{"report of SVG", [](Bytes b) { run_quietly(kReportVerb, {written("r.svg", b)}); }},
    Reader{"report with a manifest",
           [](Bytes b) {
             written("m.manifest.json", b);
             run_quietly(kReportVerb, {written("m.csv", "hidden,step_us\n1,2\n")});
           }},
    Reader{"manifest of measurements", [](Bytes b) { read_manifest(written("d.manifest.json", b)); }},
    Reader{"pareto",
           [](Bytes b) {
             run_quietly(kParetoVerb, {written("p.csv", b), "--objectives", "hidden:max,step_us:min"});
           }},
    Reader{"result file",
           [](Bytes b) {
             written("s.manifest.json", R"({"spec": {}})");
             const ResultFile file(written("s.csv", b), {{"spec", Json::object()}}, "row,hidden\n");
           }},
    Reader{"manifest of a result file",
           [](Bytes b) {
             written("t.manifest.json", b);
             const ResultFile file(written("t.csv", "row,hidden\n0,1\n"), {{"spec", Json::object()}}, "row,hidden\n");
           }},
    Reader{"index of a checkpoint", [](Bytes b) { read_weights(written("i.json", b)); }},
    Reader{"spec of a sweep",
           [](Bytes b) {
             SweepSpec spec;
             read_spec_file(spec, written("s.toml", b));
             finish(spec);
           }},
    Reader{"recipe",
           [](Bytes b) {
             std::filesystem::create_directories(cache_directory() / "claims");
             written("claims/r.toml", b);
             read_recipes(cache_directory() / "claims");
           }},
    Reader{"recurrent plan", read_plan<RecurrentPlan>},
    Reader{"feed-forward plan", read_plan<FeedForwardPlan>},
    Reader{"training plan", read_plan<TrainingPlan>},
    Reader{"network", [](Bytes b) { read_network(b); }},
    Reader{"expression", [](Bytes b) { Expression("fuzz", std::string(b)); }},
    Reader{"axis", [](Bytes b) { SweepSpec().add_axis(std::string(b)); }},
    Reader{"objectives", [](Bytes b) { parse_objectives(b); }},
    Reader{"question", [](Bytes b) { ask(find_chip("h200"), b); }},
    Reader{"list of kernels", [](Bytes b) { kernels_of(written("kernelslist.g", b)); }},
    Reader{"cubin", [](Bytes b) { load_cubin(written("k.cubin", std::string(b) + hash_text(b)), "key"); }},
    Reader{"plan in the cache", read_cached_plan},
};

}  // namespace
}  // namespace onchip

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  onchip::cache_directory();
  if (size > 0 && data[0] >= 'a' && data[0] < 'a' + onchip::kReaders.size()) {
    run_reader([&] { onchip::kReaders[data[0] - 'a'].read({reinterpret_cast<const char*>(data + 1), size - 1}); });
  }
  return 0;
}
