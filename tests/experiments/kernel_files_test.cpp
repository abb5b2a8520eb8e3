// SPDX-License-Identifier: Apache-2.0
// What `measure --compile-only --write` writes, without a GPU: the PTX executed as its files say, the source compiled.
#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/cubin.hpp"
#include "model/base/numeric.hpp"
#include "model/workload/recurrent.hpp"
#include "sim/ptx/machine.hpp"
#include "tests/experiments/command.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace onchip {
namespace {

constexpr const char* kWrite = "measure --chip h100 --compile-only --write ";

const Json& buffer(const Json& about, const std::string& name) {
  for (const Json& each : about.at("buffers")) {
    if (each.at("name") == name) {
      return each;
    }
  }
  FAIL("no buffer " << name);
  return about;
}

// As examples/run_kernel.cpp does on a GPU: the first sample's first units after the steps of the check.
std::vector<double> executed(const std::filesystem::path& ptx, const Json& about, const std::string& layout) {
  const auto at = [&](const std::string& name) { return buffer(about, name).at("at").get<std::size_t>(); };
  const auto bytes_of = [&](const std::string& name) { return buffer(about, name).at("bytes").get<std::size_t>(); };
  const Json& check = about.at("check");
  const int steps = check.at("steps");
  const Precision precision = parse_precision(buffer(about, "input").at("type").get<std::string>());
  const auto element_bytes = static_cast<std::size_t>(info(precision).bytes);

  const auto alignment = about.at("workspace_alignment").get<std::size_t>();
  std::vector<std::byte> memory(about.at("workspace_bytes").get<std::size_t>() + alignment);
  std::byte* const workspace =
      memory.data() + (alignment - reinterpret_cast<std::uintptr_t>(memory.data()) % alignment) % alignment;
  std::memcpy(workspace, layout.data(), about.at("file_bytes").get<std::size_t>());
  const std::uint32_t input = to_bits(precision, check.at("input").get<float>());
  for (std::size_t i = 0; i + element_bytes <= bytes_of("input"); i += element_bytes) {
    std::memcpy(workspace + at("input") + i, &input, element_bytes);
  }
  for (std::size_t i = 0; i < bytes_of("lengths"); i += sizeof steps) {
    std::memcpy(workspace + at("lengths") + i, &steps, sizeof steps);
  }
  for (const Json& fill : about.at("filled_before_each_launch")) {
    std::memset(workspace + fill.at("at").get<std::size_t>(), fill.at("byte").get<int>(),
                fill.at("bytes").get<std::size_t>());
  }
  std::vector<std::byte> argument(about.at("argument").at("bytes").get<std::size_t>());
  for (const Json& member : about.at("argument").at("members")) {
    std::byte* const to = argument.data() + member.at("at").get<std::size_t>();
    if (member.contains("buffer")) {
      const std::byte* const pointer = workspace + at(member.at("buffer"));
      std::memcpy(to, &pointer, sizeof pointer);
    } else {
      const int value = member.at("name") == "steps" ? steps : member.at("value").get<int>();
      std::memcpy(to, &value, sizeof value);
    }
  }
  ptx::Machine machine(ptx::parse(read(ptx), ptx.string()));
  for (const Json& each : about.at("buffers")) {
    machine.memory().add(std::span(workspace + each.at("at").get<std::size_t>(), each.at("bytes").get<std::size_t>()));
  }
  machine.launch(about.at("kernel").get<std::string>(), {.blocks = about.at("grid"),
                                                         .threads = about.at("block"),
                                                         .dynamic_shared_bytes = about.at("dynamic_shared_bytes"),
                                                         .cooperative = about.at("cooperative"),
                                                         .parameters = argument});
  const std::byte* const state = workspace + at("states") + steps * about.at("state_bytes").get<std::size_t>();
  const char* const places = layout.data() + about.at("state_elements").at("at_in_file").get<std::size_t>();
  std::vector<double> values;
  for (std::size_t unit = 0; unit < check.at("states").size(); ++unit) {
    std::int32_t place = 0;
    std::uint32_t bits = 0;
    std::memcpy(&place, places + unit * sizeof place, sizeof place);
    std::memcpy(&bits, state + static_cast<std::size_t>(place) * element_bytes, element_bytes);
    values.push_back(static_cast<double>(from_bits(precision, bits)));
  }
  return values;
}

TEST_CASE("a written kernel computes the right states when it is run by what its files say", "[fast]") {
  const std::string network = GENERATE(
      as<std::string>(), "--family sparse_persistent --cell lstm --hidden 61 --density 20% --batch 3",
      "--family sparse_persistent --cell gru --hidden 61 --density 20% --batch 9 --precision fp32 --steps 3",
      "--family sparse_persistent --cell tanh --hidden 127 --density 30% --batch 1 --precision fp8",
      "--family dense_persistent --cell relu --hidden 127 --density 50% --batch 4 --mask 2:4 --storage structured_2_4",
      "--family dense_persistent --cell lstm --hidden 61 --density 100% --batch 12 --batch-groups 2 --sms 4",
      "--family dense_persistent --cell tanh --hidden 61 --density 100% --batch 3 --precision bf16 --exchange cluster");
  CAPTURE(network);
  const Folder folder;
  const Run run_of_command = run(kWrite + (folder / "kernel.ptx").string() + " " + network);
  REQUIRE(run_of_command.status == 0);
  const Json about = Json::parse(read(folder / "kernel.json"));
  const std::vector<double> states = executed(folder / "kernel.ptx", about, read(folder / "kernel.layout"));
  const auto expected = about.at("check").at("states").get<std::vector<double>>();
  REQUIRE(states.size() == 8);
  for (std::size_t i = 0; i < states.size(); ++i) {
    CHECK(std::abs(states[i] - expected[i]) <= 0.02 * std::abs(expected[i]) + 0.002);
  }
}

TEST_CASE("a written source needs nothing else, and compiles to the kernel that runs", "[fast]") {
  const Folder folder;
  for (const char* network : {"--hidden 512 --density 10% --cell gru --family sparse_persistent",
                              "--hidden 512 --density 100% --family dense_persistent"}) {
    CAPTURE(network);
    REQUIRE(run(kWrite + (folder / "k.cu").string() + " " + network).status == 0);
    const Json answer = run_json(kWrite + (folder / "k.cubin").string() + " " + network);
    const Json about = Json::parse(read(folder / "k.json"));
    const std::string source = read(folder / "k.cu"), cubin = read(folder / "k.cubin");
    CHECK(!says(source, "#include"));
    CHECK(says(source, about.at("command").get<std::string>() + " k.cu\n"));
    const auto name = about.at("kernel").get<std::string>();
    const CompiledKernel compiled = compile({name, source, "sm_90", {}});
    CHECK(significant_code(compiled.cubin) == significant_code(cubin));
    CHECK(compiled.resources.registers == answer.at("registers"));
#ifdef ONCHIP_NVCC
    // nvcc may order instructions otherwise.
    const std::string command = about.at("command").get<std::string>().substr(std::string("nvcc").size());
    const std::string log = (folder / "log").string();
    REQUIRE(std::system((ONCHIP_NVCC + command + " -Xptxas -v -w -o " + (folder / "n.cubin").string() + ' ' +
                         (folder / "k.cu").string() + " 2> " + log)
                            .c_str()) == 0);
    CHECK(says(read(log), "Used " + about.at("registers").dump() + " registers"));
    CHECK(code_bytes(read(folder / "n.cubin"), name) > 1000);
#endif
  }
}

TEST_CASE("what cannot be written is refused before anything is compiled", "[fast]") {
  const Folder folder;
  require_refusal(kWrite + (folder / "kernel.txt").string() + " --hidden 512", ".cu, .ptx or .cubin");
  require_refusal(kWrite + (folder / "nowhere/kernel.cu").string() + " --hidden 512", "nowhere");
  require_refusal("measure --hidden 512 --write " + (folder / "kernel.cu").string(), "--write needs --compile-only");
  const std::string json = (folder / "kernel.json").string();
  require_refusal(kWrite + (folder / "kernel.cu").string() + " --hidden 512 --format json -o " + json,
                  "--write writes");
  require_refusal(kWrite + (folder / "kernel.cu").string() + " --hidden 60000 --density 1 --tier registers",
                  "weights per thread");
  CHECK(folder.entries() == 0);
  for (const std::string other : {"kernel.json", "kernel.layout"}) {  // which nobody named
    const Folder own;
    const std::string there = own.write(other, "{\"fits\": true}");
    require_refusal(kWrite + (own / "kernel.cu").string() + " --hidden 512", there + ": there is such a file");
    CHECK(read(there) == "{\"fits\": true}");
    CHECK(own.entries() == 1);
  }
}

}  // namespace
}  // namespace onchip
