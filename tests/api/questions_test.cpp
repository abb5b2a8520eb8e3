// SPDX-License-Identifier: Apache-2.0
// The half of the C API that asks the model: what it answers and refuses.
#include "model/answer/json.hpp"
#include "model/explore/arrow_abi.h"
#include "model/families/plan.hpp"
#include "tests/api/calls.hpp"
#include "tests/folder.hpp"
#include "tests/nightly.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <limits>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace onchip {
namespace {

TEST_CASE("a C caller learns what fits, and the bottleneck of what does not", "[fast]") {
  CHECK(onchip_api_version() == ONCHIP_API_VERSION);
  auto fit = sized<onchip_fit>();
  onchip_error error;
  REQUIRE(fits_in_c("h200", 1024, 0.1, &fit, &error) == ONCHIP_OK);
  CHECK(std::string(error.message).empty());
  CHECK(fit.fits == 1);
  CHECK(std::string(fit.why).starts_with("fits: "));
  CHECK(is_on_chip(parse_recurrent_plan(fit.plan)));
  CHECK(fit.floor_us > 0);
  CHECK((fit.floor_us <= fit.step_us && fit.low_us <= fit.step_us && fit.step_us <= fit.high_us));
  CHECK(fit.streamed_share == 0);
  CHECK(std::string(fit.resources[ONCHIP_SHARED_MEMORY].name) == "shared_memory");
  CHECK(std::string(fit.resources[ONCHIP_SHARED_MEMORY].unit) == "bytes per SM");

  REQUIRE(fits_in_c("h200", 20000, 0.5, &fit, &error) == ONCHIP_OK);
  CHECK(fit.fits == 0);
  CHECK(std::string(fit.why).starts_with("does not fit: needs "));
  const onchip_resource& binding = fit.resources[fit.binding];
  CHECK(binding.used > binding.available);
  CHECK(fit.step_us == 0);

  CHECK(fits_in_c("h2000", 1024, 0.1, &fit, &error) == ONCHIP_INVALID);
  CHECK(says(error.message, "'h2000'"));
  CHECK(fits_in_c("h200", 0, 0.1, &fit, &error) == ONCHIP_INVALID);
  CHECK(fits_in_c("h200", 1024, -1, &fit, nullptr) == ONCHIP_INVALID);
}

TEST_CASE("weights beyond the SMs are streamed only if the caller allows it, and the answer says how many", "[fast]") {
  const auto h200 = chip();
  onchip_network network{sizeof network, ONCHIP_LSTM, ONCHIP_FP16, 6656, 4, 0.1, ONCHIP_TIER_STREAMED};
  auto fit = sized<onchip_fit>();
  REQUIRE(onchip_fit_network(h200.get(), &network, nullptr, &fit, nullptr) == ONCHIP_OK);
  CHECK((fit.fits == 0 && fit.runs == 1 && fit.tier == ONCHIP_TIER_STREAMED));
  CHECK(std::string(fit.why).starts_with("runs: "));
  CHECK((fit.step_us > 0 && fit.streamed_share > 0.1 && fit.streamed_share < 0.5));
  CHECK(says(fit.why, "are read from L2 in every step"));
  network.tier = ONCHIP_TIER_SHARED_MEMORY;
  REQUIRE(onchip_fit_network(h200.get(), &network, nullptr, &fit, nullptr) == ONCHIP_OK);
  CHECK(fit.fits == 0);
  CHECK(fit.streamed_share == 0);
}

TEST_CASE("the largest network that fits fits, and the next does not", "[fast]") {
  const auto h200 = chip();
  onchip_network network{sizeof network, ONCHIP_RELU, ONCHIP_FP16, 0, 4, 0.3, ONCHIP_TIER_SHARED_MEMORY};
  REQUIRE(onchip_largest_hidden(h200.get(), &network, 256, &network.hidden, nullptr) == ONCHIP_OK);
  CHECK(network.hidden > 0);
  auto fit = sized<onchip_fit>();
  for (const int fits : {1, 0}) {
    REQUIRE(onchip_fit_network(h200.get(), &network, nullptr, &fit, nullptr) == ONCHIP_OK);
    CHECK(fit.fits == fits);
    network.hidden += 256;
  }
}

TEST_CASE("a chip's numbers can be changed, one chip's only", "[fast]") {
  const auto changed = chip(), other = chip();
  REQUIRE(onchip_chip_set(changed.get(), "sm.count=20", nullptr) == ONCHIP_OK);
  const onchip_network network{sizeof network, ONCHIP_RELU, ONCHIP_FP16, 2304, 4, 0.3, ONCHIP_TIER_STREAMED};
  auto fit = sized<onchip_fit>();
  REQUIRE(onchip_fit_network(changed.get(), &network, nullptr, &fit, nullptr) == ONCHIP_OK);
  CHECK(fit.resources[ONCHIP_SMS].available == 20);
  REQUIRE(onchip_fit_network(other.get(), &network, nullptr, &fit, nullptr) == ONCHIP_OK);
  CHECK(fit.resources[ONCHIP_SMS].available == 132);
  CHECK(says(answer([&](onchip_error* e) { return onchip_chip_set(changed.get(), "sm.cuont=3", e); }),
             "did you mean 'sm.count'?"));
}

TEST_CASE("a matrix is the same from an array and from compressed rows, without the zeros of either", "[fast]") {
  const float dense[] = {0, 1, 0, 2, 0, -3};
  const std::int64_t row_begin[] = {0, 1, 4};
  const std::int32_t column[] = {1, 0, 1, 2};
  const float value[] = {1, 2, 0, -3};
  const auto one = made<onchip_matrix>(
      [&](onchip_matrix** to, onchip_error* e) { return onchip_matrix_create_dense(2, 3, dense, to, e); });
  const auto other = made<onchip_matrix>([&](onchip_matrix** to, onchip_error* e) {
    return onchip_matrix_create_csr(2, 3, row_begin, column, value, to, e);
  });
  for (const auto* matrix : {&one, &other}) {
    std::int32_t rows = 0, columns = 0;
    std::int64_t nnz = 0;
    CHECK(onchip_matrix_size(matrix->get(), &rows, &columns, &nnz, nullptr) == ONCHIP_OK);
    CHECK((rows == 2 && columns == 3 && nnz == 3));
    CHECK(onchip_matrix_size(matrix->get(), nullptr, nullptr, nullptr, nullptr) == ONCHIP_OK);
  }
}

TEST_CASE("a matrix that is 2:4 is planned for the sparse tensor cores, another one is not", "[fast]") {
  const auto h200 = chip();
  constexpr int kHidden = 512;
  const onchip_network network{sizeof network, ONCHIP_RELU, ONCHIP_FP16, kHidden, 4, 0.5, ONCHIP_TIER_SHARED_MEMORY};
  for (const MaskKind kind : {MaskKind::two_four, MaskKind::uniform}) {
    const std::vector<float> weights = to_dense(generate_mask(kHidden, kHidden, 0.5, 1, Precision::fp16, kind));
    const auto matrix = made<onchip_matrix>([&](onchip_matrix** to, onchip_error* e) {
      return onchip_matrix_create_dense(kHidden, kHidden, weights.data(), to, e);
    });
    auto fit = sized<onchip_fit>();
    REQUIRE(onchip_fit_network(h200.get(), &network, matrix.get(), &fit, nullptr) == ONCHIP_OK);
    CHECK(fit.fits == 1);
    const RecurrentPlan plan = parse_recurrent_plan(fit.plan);
    const auto* const dense = std::get_if<DensePlan>(&plan);
    CHECK((dense != nullptr && dense->storage == Storage::structured_2_4) == (kind == MaskKind::two_four));
  }
}

TEST_CASE("hostile matrices are refused in words", "[fast]") {
  onchip_matrix* matrix = nullptr;
  const std::int64_t from_one[] = {1, 1}, backwards[] = {0, -1}, long_row[] = {0, 4}, three[] = {0, 3};
  const std::int32_t twice[] = {0, 1, 1}, beyond[] = {0, 1, 3}, negative[] = {-1, 1, 2}, fine[] = {0, 1, 2};
  const float values[] = {1, 2, 3}, nan[] = {1, std::numeric_limits<float>::quiet_NaN(), 1};
  const auto csr = [&](const std::int64_t* row_begin, const std::int32_t* column, const float* value) {
    return answer(
        [&](onchip_error* e) { return onchip_matrix_create_csr(1, 3, row_begin, column, value, &matrix, e); });
  };
  CHECK(csr(from_one, fine, values) == "1: 'row_begin[0]' is 1; expected 0 to 0");
  CHECK(csr(backwards, fine, values) == "1: row 0 has elements 0 to -1; expected at most 3, ascending");
  CHECK(csr(long_row, fine, values) == "1: row 0 has elements 0 to 4; expected at most 3, ascending");
  CHECK(csr(three, twice, values) == "1: row 0 has column 1 after 1; expected ascending columns below 3");
  CHECK(csr(three, beyond, values) == "1: row 0 has column 3 after 1; expected ascending columns below 3");
  CHECK(csr(three, negative, values) == "1: row 0 has column -1 after -1; expected ascending columns below 3");
  CHECK(csr(three, fine, nan) == "1: a weight is not finite");
  CHECK(csr(three, nullptr, values) == "1: 'column' is null");
  CHECK(csr(nullptr, fine, values) == "1: 'row_begin' is null");
  CHECK(answer([&](onchip_error* e) { return onchip_matrix_create_dense(1, 3, nan, &matrix, e); }) ==
        "1: a weight is not finite");
  CHECK(answer([&](onchip_error* e) {
          return onchip_matrix_create_dense(0, 3, values, &matrix, e);
        }).starts_with("1: 'rows' is 0; expected 1 to "));
  CHECK(answer([&](onchip_error* e) {
          return onchip_matrix_create_from_file("none.safetensors", nullptr, &matrix, e);
        }).starts_with("1: none.safetensors: cannot read the file"));
  CHECK(matrix == nullptr);
}

TEST_CASE("null handles and numbers without a meaning are refused, and null is destroyed", "[fast]") {
  const auto h200 = chip();
  auto fit = sized<onchip_fit>();
  onchip_network network{sizeof network, ONCHIP_LSTM, ONCHIP_FP16, 128, 4, 0.1, ONCHIP_TIER_STREAMED};
  const auto asked = [&](const onchip_chip* of, const onchip_network* n) {
    return answer([&](onchip_error* e) { return onchip_fit_network(of, n, nullptr, &fit, e); });
  };
  CHECK(asked(nullptr, &network) == "1: 'chip' is null");
  CHECK(asked(h200.get(), nullptr) == "1: 'network' is null");
  network.struct_bytes = 0;
  CHECK(asked(h200.get(), &network) ==
        "1: 'network' has a struct_bytes of 0; expected " + std::to_string(sizeof network) + ", its size");
  network.struct_bytes = sizeof network;
  network.cell = 4;
  CHECK(asked(h200.get(), &network) == "1: 'cell' is 4; expected 0 to 3");
  network.cell = ONCHIP_GRU;
  network.precision = -1;
  CHECK(asked(h200.get(), &network) == "1: 'precision' is -1; expected 0 to 3");
  network.precision = ONCHIP_BF16;
  network.tier = 3;
  CHECK(asked(h200.get(), &network) == "1: 'tier' is 3; expected 0 to 2");
  network.tier = 0;
  network.batch = 65;
  network.cell = ONCHIP_RELU;  // gated cells have a family for it
  CHECK(asked(h200.get(), &network).starts_with("1: "));
  CHECK(answer([&](onchip_error* e) { return onchip_chip_create("h200", nullptr, e); }) == "1: 'chip' is null");
  onchip_chip_destroy(nullptr);
  onchip_matrix_destroy(nullptr);
  onchip_text_destroy(nullptr);
}

TEST_CASE("a message longer than its place is cut and ended", "[fast]") {
  const std::string name(5000, 'x');
  onchip_chip* none = nullptr;
  onchip_error error;
  CHECK(onchip_chip_create(("./" + name + ".toml").c_str(), &none, &error) == ONCHIP_INVALID);
  CHECK(std::string(error.message).size() == sizeof error.message - 1);
}

// ---- the same question everywhere -----------------------------------------------------------------------------------

std::string run(const std::string& command) {
  std::FILE* const pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string output;
  std::array<char, 4096> buffer{};
  for (std::size_t size = 0; (size = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    output.append(buffer.data(), size);
  }
  pclose(pipe);
  return output;
}

std::string asked_in_c(const std::string& question) {
  char* text = nullptr;
  onchip_error error;
  const onchip_status status = onchip_ask(chip("h100 sxm").get(), question.c_str(), nullptr, &text, &error);
  INFO(error.message);
  REQUIRE(status == ONCHIP_OK);
  std::string copy = text;
  onchip_text_destroy(text);
  return copy;
}

TEST_CASE("a question has the same bytes as its answer by command, in C and in Python", "[fast][long]") {
  // Every verb, mask and cell, with and without sizes and constraints.
  std::vector<std::string> questions, commands;
  const auto add = [&](const std::string& verb, int hidden, const std::string& cell, const std::string& precision,
                       int batch, const std::string& density, const std::string& mask, bool on_registers) {
    const std::string size = hidden > 0 ? "\"hidden\": " + std::to_string(hidden) + ", " : "";
    questions.push_back(
        "{\"ask\": \"" + verb + "\", \"network\": {\"cell\": \"" + cell + "\", " + size + "\"precision\": \"" +
        precision + "\", \"batch\": " + std::to_string(batch) + ", \"density\": " + density + "}, \"mask\": \"" + mask +
        "\", \"granule\": 512" +
        (on_registers ? ", \"constraints\": {\"tier\": \"registers\", \"exchange\": \"lamport\"}" : "") + "}");
    const std::string name = verb == "rank" ? "predict --plan all" : verb == "what_if" ? "what-if" : verb;
    commands.push_back(name + (hidden > 0 ? " --hidden " + std::to_string(hidden) : "") + " --cell " + cell +
                       " --precision " + precision + " --batch " + std::to_string(batch) + " --density " + density +
                       " --mask " + mask + (name == "fit" || name == "what-if" ? " --granule 512" : "") +
                       (on_registers ? " --tier registers --exchange lamport" : ""));
  };
  const std::array<std::string, 4> cells{"relu", "tanh", "lstm", "gru"}, precisions{"fp16", "bf16", "fp32", "fp8"};
  for (int i = 0; i < 100; ++i) {
    if (!is_chosen(i, 5) && i % 50 != 7) {
      continue;
    }
    const std::string verb = i % 50 == 7 ? "what_if" : i % 3 == 0 ? "fit" : i % 3 == 1 ? "predict" : "rank";
    const bool two_four = i % 7 == 3, any_size = verb == "fit" && i % 24 == 0;
    add(verb, any_size ? 0 : 64 + 23 * (i % 20), cells[static_cast<std::size_t>(i % 4)],
        precisions[static_cast<std::size_t>(i / 4 % 4)], 1 + i * 5 % 16,
        two_four     ? "0.5"
        : i % 2 == 0 ? "0.1"
                     : "0.3",
        two_four                  ? "2:4"
        : i % 5 == 1 && !any_size ? "power-law"
                                  : "uniform",
        verb != "rank" && i % 11 == 5);
  }
  const auto add_pair = [&](const std::string& question, const std::string& command) {
    questions.push_back(question);
    commands.push_back(command);
  };
  const std::string lstm = R"("mode": "train", "network": {"cell": "lstm", "hidden": 512, "batch": 64})";
  const std::string deep = R"("network": "spdnn:1024x12", "images": "5000", "alive": 0.25)";
  for (const auto& [ask, verb, more] :
       {std::array<std::string, 3>{"predict", "predict", ""}, {"rank", "predict", " --plan all"}, {"fit", "fit", ""}}) {
    add_pair("{\"ask\": \"" + ask + "\", " + lstm + "}",
             verb + more + " --mode train --cell lstm --hidden 512 --batch 64");
    add_pair("{\"ask\": \"" + ask + "\", " + deep + "}",
             verb + more + " --network spdnn:1024x12 --images 5000 --alive 25%");
  }
  add_pair(
      R"({"ask": "fit", "mode": "train", "stash": "cells", "network": {"cell": "gru", "batch": 16}, "granule": 512})",
      "fit --mode train --stash cells --cell gru --batch 16 --granule 512");
  add_pair(R"({"ask": "rank", "memory": "50 MiB", )" + lstm + "}",
           "predict --plan all --mode train --memory '50 MiB' --cell lstm --hidden 512 --batch 64");
  add_pair(R"({"ask": "what_if", "target": ["ms<=0.05"], "vary": ["sm.clock"], )" + deep + "}",
           "what-if --network spdnn:1024x12 --images 5000 --alive 25% --target 'ms<=0.05' --vary sm.clock");
  add_pair(R"({"ask": "what_if", "set": ["sm.clock=+10%", "sm.count=+50%"], )" + deep + "}",
           "what-if --network spdnn:1024x12 --images 5000 --alive 25% --set sm.clock=+10% --set sm.count=+50%");
  add_pair(R"({"ask": "what_if", "target": ["step_us<=3"], "vary": ["sm.clock"], )" + lstm + "}",
           "what-if --mode train --cell lstm --hidden 512 --batch 64 --target 'step_us<=3' --vary sm.clock");
  // How long it took to find a network's structure is another number each time.
  const auto without_seconds = [](const std::string& text) {
    return std::regex_replace(text, std::regex("\"seconds\": [-+.e0-9]+"), "");
  };

  std::string answers;
  for (const std::string& question : questions) {
    answers += asked_in_c(question);
  }
  // By command, a shell for all of them.
  const Folder folder;
  std::string script, lines;
  for (const std::string& command : commands) {
    script += ONCHIP_COMMAND " " + command + " --chip h100_sxm --format json\n";
  }
  answers = without_seconds(answers);
  CHECK((without_seconds(run("sh " + folder.write("questions.sh", script))) == answers));

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // python3 could not load the library
  if (run("python3 -c 'print(1)' 2> /dev/null") == "1\n") {
    const std::string asks = folder.write("questions.py",
                                          "import sys, onchip.api as a\nchip = a.Chip('h100 sxm')\n"
                                          "for line in sys.stdin:\n    sys.stdout.write(a.ask_text(chip, line))\n");
    for (const std::string& question : questions) {
      lines += question + '\n';
    }
    const std::string in_python =
        run("ONCHIP_LIBRARY='" ONCHIP_SHARED "' PYTHONPATH='" ONCHIP_PYTHON "' PYTHONDONTWRITEBYTECODE=1 python3 " +
            asks + " < " + folder.write("questions.txt", lines));
    CHECK((without_seconds(in_python) == answers));
  }
#endif
}

// ---- sweeps and fronts ----------------------------------------------------------------------------------------------

// The same sweep as a question and as options, drawn: lists, ranges and tables of axes, with keys left out.
struct DrawnSweep {
  Json question = {{"axis", Json::array()}, {"network", Json::object()}};
  std::string options;

  explicit DrawnSweep(std::mt19937& draw) {
    const auto one_of = [&](const std::vector<std::string>& words) { return words[draw() % words.size()]; };
    const int hidden = 64 * (1 + static_cast<int>(draw() % 20));
    if (draw() % 2 == 0) {
      axis(Json{{"hidden", {hidden, 2 * hidden, 65000}}},
           "hidden=" + std::to_string(hidden) + "," + std::to_string(2 * hidden) + ",65000");
    } else {
      const std::string range =
          std::to_string(hidden) + ":" + std::to_string(3 * hidden) + ":" + std::to_string(hidden);
      axis("hidden=" + range, "hidden=" + range);
    }
    if (draw() % 2 == 0) {
      axis(Json{{"batch", {1, 5}}, {"sm.clock", {"+0%", "1.5 GHz"}}}, "batch=1,5; sm.clock=+0%,1.5 GHz");
    } else if (draw() % 2 == 0) {
      fix("batch", Json(7), "7");
    }
    if (draw() % 2 == 0) {
      const std::string cell = one_of({"relu", "tanh", "lstm", "gru"});
      fix("cell", cell, cell);
    }
    if (draw() % 2 == 0) {
      fix("density", Json(0.1), "10%");
    }
    if (draw() % 3 == 0) {
      const std::string family = one_of({"sparse_persistent", "dense_persistent"});
      question["constraints"] = {{"family", family}};
      options += " --family " + family;
    }
    if (draw() % 3 == 0) {
      question["set"] = {"sm.count=100"};
      options += " --set sm.count=100";
    }
    if (draw() % 2 == 0) {
      question["column"] = {"x=step_us / batch", "gather_us"};
      options += " --column 'x=step_us / batch' --column gather_us";
    }
    if (draw() % 3 == 0) {
      question["where"] = "fits && step_us < 4";
      options += " --where 'fits && step_us < 4'";
    }
    if (draw() % 4 == 0) {
      question["keep_front"] = "step_us:min,hidden:max";
      options += " --keep-front step_us:min,hidden:max";
    }
    question["rows"] = one_of({"exact", "expected"});
    options += " --rows " + question["rows"].get<std::string>();
  }

 private:
  void axis(const Json& given, const std::string& text) {
    question["axis"].push_back(given);
    options += " --axis '" + text + "'";
  }
  void fix(const std::string& key, const Json& value, const std::string& text) {
    question["network"][key] = value;
    options += " --" + key + " " + text;
  }
};

Json lines_of(const std::string& text) {
  Json lines = Json::array();
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(Json::parse(line));
  }
  return lines;
}

TEST_CASE("a sweep asked in C has the rows of the command's, and their front", "[fast][long]") {
  std::mt19937 draw(43);
  const std::string command = ONCHIP_COMMAND;
  const std::string objectives = " --objectives step_us:min,hidden:max --within 5% --format json";
  const std::string more = " --by batch --where 'hidden > 100 && batch < 9'";
  const auto pareto = [&](Json question) {
    question["ask"] = "pareto";
    question["objectives"] = "step_us:min,hidden:max";
    question["within"] = "5%";
    return Json::parse(asked_in_c(question.dump()));
  };
  std::vector<DrawnSweep> drawn;
  for (int i = 0; i < 8; ++i) {
    drawn.emplace_back(draw);
  }
  DrawnSweep inferences = drawn.front();
  inferences.question = {{"axis", {Json{{"gpus", {1, 2}}}}}, {"network", "spdnn:1024x6,shuffle=yes"}, {"alive", "3%"}};
  inferences.options = " --axis gpus=1,2 --network spdnn:1024x6,shuffle=yes --alive 3%";
  for (const DrawnSweep& sweep : drawn) {
    Json question = sweep.question;
    question["ask"] = "sweep";
    const Folder folder;
    const std::string file = (folder / "rows.jsonl").string();
    run(command + " sweep --chip 'H100 SXM'" + sweep.options + " -o " + file + " 2> /dev/null");
    const std::string lines = read(file);
    CAPTURE(sweep.options, question.dump());
    const Json rows = Json::parse(asked_in_c(question.dump())).at("rows");
    REQUIRE(rows == lines_of(lines));
    CHECK(pareto(sweep.question) == Json::parse(run(command + " pareto " + file + objectives)));
    // Rows without a manifest, which says what the axes are.
    const std::string other = folder.write("other.jsonl", lines);
    if (!rows.empty()) {
      CHECK(pareto({{"rows", rows}}) == Json::parse(run(command + " pareto " + other + objectives)));
      CHECK(pareto({{"rows", rows}, {"by", "batch"}, {"where", "hidden > 100 && batch < 9"}}) ==
            Json::parse(run(command + " pareto " + other + objectives + more)));
    }
  }
  Json question = inferences.question;
  question["ask"] = "sweep";
  const Json rows = Json::parse(asked_in_c(question.dump())).at("rows");
  CHECK(rows.size() == 2);
  CHECK(rows ==
        lines_of(run(command + " sweep --chip 'H100 SXM'" + inferences.options + " --format jsonl 2> /dev/null")));
}

TEST_CASE("what a question leaves out is what the command takes, and what its page says", "[fast]") {
  const std::string command = std::string(ONCHIP_COMMAND) + " ";
  const auto same = [&](const std::string& question, const std::string& options) {
    CAPTURE(question);
    CHECK(asked_in_c("{" + question + "}") == run(command + options + " --chip h100_sxm --format json"));
  };
  same(R"("ask": "predict", "network": {"hidden": 700})", "predict --hidden 700");
  same(R"("ask": "rank", "network": {"hidden": 700})", "predict --plan all --hidden 700");
  same(R"("ask": "fit", "network": {"hidden": 700})", "fit --hidden 700");
  const Json answer = Json::parse(run(command + "predict --hidden 700 --format json")).at("network");
  const auto text = [&](const char* key) { return answer.at(key).dump(); };
  const std::string stated = answer.at("cell").get<std::string>() + ", batch " + text("batch") + ", density " +
                             text("density") + ", " + answer.at("precision").get<std::string>() + ", " + text("steps") +
                             " steps";
  std::ifstream page(ONCHIP_PYTHON "/../model/ask/ask.hpp");
  const std::string comment{std::istreambuf_iterator<char>(page), {}};
  CHECK(says(comment, "What is left out is as in the commands: " + stated + ";"));
}

TEST_CASE("a question that is none is refused in words", "[fast]") {
  const auto refused = [](const std::string& question) {
    char* text = nullptr;
    return answer([&](onchip_error* e) { return onchip_ask(chip().get(), question.c_str(), nullptr, &text, e); });
  };
  CHECK(refused("{") == "1: question: found '{': expected JSON");
  CHECK(refused(std::string(100000, '[')) == "1: question: more than 100 brackets within each other");
  CHECK(refused("[]") == "1: question: question is no JSON object");
  CHECK(refused("{\"ask\": \"fti\"}") ==
        "1: question: ask: found 'fti': expected fit, predict, rank, what_if, sweep or pareto");
  CHECK(refused("{\"aks\": \"fit\"}") == "1: question: unknown key 'aks' in question; did you mean 'ask'?");
  CHECK(refused("{\"ask\": \"fit\", \"network\": {\"hidden\": 0}}") ==
        "1: hidden: found 0: expected a whole number from 1 to 262144");
  CHECK(refused("{\"ask\": \"fit\", \"network\": {\"cell\": 3}}") == "1: question: network: cell: found 3");
  CHECK(refused("{\"ask\": \"predict\"}") == "1: how large is the network? expected a hidden size or a matrix");
  CHECK(refused("{\"ask\": \"fit\", \"constraints\": {\"sms\": \"many\"}}").starts_with("1: sms: found 'many'"));
  CHECK(says(refused("{\"ask\": \"fit\", \"set\": [\"sm.cuont=3\"]}"), "sm.count"));
  CHECK(refused("{\"ask\": \"sweep\"}").starts_with("1: nothing varies: expected an axis"));
  CHECK(refused("{\"ask\": \"sweep\", \"axis\": 3}") == "1: question: axis: found 3");
  CHECK(refused("{\"ask\": \"sweep\", \"axis\": [{}]}") == "1: axis: found {}: expected a key and its values");
  CHECK(refused("{\"ask\": \"sweep\", \"axis\": [{\"hiden\": [1, 2]}]}") ==
        "1: unknown key 'hiden'; did you mean 'hidden'?");
  CHECK(refused("{\"ask\": \"sweep\", \"axis\": [\"hidden=1:1000:1\", \"seed=1:1000:1\"]}") ==
        "1: 1000000 rows: expected at most 100000; 'onchip sweep' and 'onchip pareto' have no limit");
  CHECK(refused("{\"ask\": \"sweep\", \"axis\": [\"batch=1,2\"], \"granule\": 0}")
            .starts_with("1: granule: found 0: expected a whole number"));
  CHECK(refused("{\"ask\": \"pareto\", \"rows\": []}").starts_with("1: question: pareto needs objectives"));
  CHECK(refused("{\"ask\": \"pareto\", \"objectives\": \"a\", \"rows\": [{\"a\": \"x\"}]}") ==
        "1: question: row 0: a: found 'x': expected a number");
  CHECK(refused("{\"ask\": \"pareto\", \"objectives\": \"a\", \"rows\": [{\"b\": 1}]}")
            .starts_with("1: question: no column 'a'"));
  CHECK(refused("{\"ask\": \"pareto\", \"objectives\": \"a\", \"rows\": [3]}") ==
        "1: question: rows: found 3: expected objects");
  CHECK(refused("{\"ask\": \"pareto\", \"objectives\": \"a\", \"rows\": [{\"a\": 1}], \"seed\": 1}") ==
        "1: question: rows contradict the keys of a sweep");
}

// Rows of a sweep as Arrow hands them on: what they point to outlives the table, and a child its parent.
TEST_CASE("a C caller has a sweep as a stream of columns", "[fast]") {
  onchip_error error;
  onchip_table* table = nullptr;
  auto progress = sized<onchip_progress>();
  const char* const question = R"({"ask": "sweep", "axis": ["hidden=256:1024:256", "batch=1,4"], "cell": "lstm"})";
  REQUIRE(onchip_table_create_sweep(chip().get(), question, &progress, &table, &error) == ONCHIP_OK);
  CHECK((progress.done == 8 && progress.rows == 8));
  std::int64_t rows = 0;
  REQUIRE(onchip_table_rows(table, &rows, &error) == ONCHIP_OK);
  CHECK(rows == 8);
  ArrowArrayStream stream;
  REQUIRE(onchip_table_stream(table, &stream, &error) == ONCHIP_OK);
  char* text = nullptr;
  REQUIRE(onchip_table_text(table, &text, &error) == ONCHIP_OK);
  const Json as_json = parse_json(text, "rows");
  onchip_text_destroy(text);
  onchip_table_destroy(table);

  ArrowSchema schema;
  REQUIRE(stream.get_schema(&stream, &schema) == 0);
  std::vector<std::int64_t> hidden;
  std::vector<double> step_us;
  ArrowArray array;
  while (stream.get_next(&stream, &array) == 0 && array.release != nullptr) {
    REQUIRE(array.n_children == schema.n_children);
    for (std::int64_t i = 0; i < schema.n_children; ++i) {
      const std::string name = schema.children[i]->name;
      ArrowArray child = *array.children[i];  // moved
      array.children[i]->release = nullptr;
      for (std::int64_t row = 0; row < child.length; ++row) {
        if (name == "hidden" && std::string(schema.children[i]->format) == "l") {
          hidden.push_back(static_cast<const std::int64_t*>(child.buffers[1])[row]);
        } else if (name == "step_us" && std::string(schema.children[i]->format) == "g") {
          step_us.push_back(static_cast<const double*>(child.buffers[1])[row]);
        }
      }
      child.release(&child);
    }
    array.release(&array);
  }
  schema.release(&schema);
  stream.release(&stream);
  REQUIRE((hidden.size() == 8 && step_us.size() == 8 && as_json.size() == 8));
  for (std::size_t row = 0; row < 8; ++row) {
    CHECK(as_json[row]["hidden"] == hidden[row]);
    CHECK(as_json[row]["step_us"] == step_us[row]);
  }

  progress.stop = 1;
  CHECK(onchip_table_create_sweep(chip().get(), question, &progress, &table, &error) == ONCHIP_INVALID);
  CHECK(says(error.message, "the sweep was stopped"));
  for (const char* const bad : {"", "{}", R"({"ask": "predict"})", R"({"ask": "sweep", "axis": ["hiden=1"]})"}) {
    CHECK(onchip_table_create_sweep(chip().get(), bad, nullptr, &table, &error) == ONCHIP_INVALID);
  }
  for (const char* const bad : {"", "{}", "[1]"}) {
    CHECK(onchip_table_create_rows(bad, &table, &error) == ONCHIP_INVALID);
  }
  onchip_table_destroy(nullptr);
}

}  // namespace
}  // namespace onchip
