// SPDX-License-Identifier: Apache-2.0
// onchip validate and stamp.
#include "tests/experiments/command.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <map>
#include <optional>
#include <string>

using namespace onchip;

TEST_CASE("validate scores measured rows against the model", "[fast]") {
  const Folder folder;
  const std::string good = measured_file(folder, 1.02);
  const Json json = run_json("validate " + good);
  CHECK(json.at("points") == 1);
  CHECK_THAT(json.at("mape_percent").get<double>(), Catch::Matchers::WithinAbs(100 * (1 - 1 / 1.02), 0.01));
  CHECK(json.at("max_percent") == json.at("mape_percent"));
  CHECK_THAT(json.at("bias").get<double>(), Catch::Matchers::WithinAbs(1 / 1.02, 1e-4));
  CHECK(json.at("kendall_tau").is_number());
  CHECK(json.at("coverage_percent") == 100);
  REQUIRE(json.at("rows").size() == 1);
  CHECK(json["rows"][0].at("configuration").at("hidden") == 2304);
  CHECK(json["rows"][0].at("inside") == true);
  // The same through the environment, as the shipped data is found.
  CHECK(run("validate", "ONCHIP_DATA=" + (folder / "").string()).status == 0);

  const std::string bad = measured_file(folder, 2);
  CHECK(run_json("validate " + bad, 1).at("coverage_percent") == 0);
  CHECK(run("validate --max-mape 60 " + bad).status == 0);
}

// As percentages of today, rounded up. No price of kernels was fitted to the drawn files.
TEST_CASE("regression: the steps of every family are predicted as near to measured ones as they were", "[fast][long]") {
  const std::map<std::string, std::map<std::string, double>> most_mape{
      {"h200/families", {{"sparse_persistent", 4.6}, {"dense_persistent", 3.1}, {"cublas_graph", 4.6}, {"cudnn", 7.3}}},
      {"h100_sxm/drawn",
       {{"sparse_persistent", 5.8}, {"dense_persistent", 6.6}, {"cublas_graph", 9.8}, {"cudnn", 8.2}}},
      {"h100_sxm/drawn_again",
       {{"sparse_persistent", 5.5}, {"dense_persistent", 6}, {"cublas_graph", 8.2}, {"cudnn", 8}}},
      {"h200/libraries", {{"cublas_graph", 11.7}, {"cudnn", 10.2}}},
      {"h100_sxm/clusters", {{"dense_persistent", 8.1}}}};
  for (const auto& [file, of_families] : most_mape) {
    const Json json = run_json("validate --max-mape 12 " ONCHIP_SOURCE_DIR "/experiments/data/" + file + ".csv");
    REQUIRE(json.at("families").size() == of_families.size());
    for (const Json& family : json["families"]) {
      CAPTURE(file, family);
      CHECK(family.at("mape_percent") <= of_families.at(family.at("family")));
    }
  }
}

TEST_CASE("validate scores every chip alone, too", "[fast]") {
  const Folder folder;
  measured_file(folder, 1.02);
  const Json of_one = run_json("validate " + measured_file(folder, 1.25, "a100"), 1);
  REQUIRE(of_one.at("chips").size() == 1);
  CHECK(of_one["chips"][0].at("mape_percent") == of_one.at("mape_percent"));
  const std::string arguments =
      "validate " + (folder / "a100/validation.csv").string() + " " + (folder / "h200/validation.csv").string();
  const Json json = run_json(arguments, 1);  // 11 % off on average
  CHECK(json.at("points") == 2);
  REQUIRE(json.at("chips").size() == 2);
  CHECK(json["chips"][0].at("chip") == "A100");
  CHECK_THAT(json["chips"][0].at("mape_percent").get<double>(), Catch::Matchers::WithinAbs(20, 0.01));
  CHECK_THAT(json["chips"][1].at("mape_percent").get<double>(), Catch::Matchers::WithinAbs(100 * (1 - 1 / 1.02), 0.01));
  CHECK(says(run(arguments).out, "By chip:"));
}

TEST_CASE("validate scores every family, and how often the fastest predicted is the measured best", "[fast]") {
  const Folder folder;
  const Json plans = run_json("predict --hidden 2304 --density 0.3 --plan all --producer-warps 0").at("plans");
  std::string text = "cell,hidden,batch,steps,density,precision,mask,seed,nnz,family,plan,step_us,fingerprint,note\n";
  for (const Json& plan : plans) {
    const std::string family = plan.at("family");
    if (!plan.contains("step_us")) {  // it takes no such network
      continue;
    }
    text += "relu,2304,4,256,0.3,fp16,uniform,1,1592000," + family + ",";
    if (family == "cusparse_graph") {
      text += ",,,not there\n";
      continue;
    }
    // The fastest predicted takes a tenth longer than the sparse plan.
    const double us = family == "dense_persistent"    ? 2.2
                      : family == "sparse_persistent" ? 2.0
                                                      : plan.at("step_us").get<double>();
    text += plan.at("plan").at("text").get<std::string>() + "," + std::to_string(us) + ",0123456789abcdef,\n";
  }
  const Json json = run_json("validate " + folder.write("h200/families.csv", text), 1);
  CHECK(json.at("points") == 2);  // kernels
  REQUIRE(json.at("families").size() == 4);
  CHECK(json["families"][2].at("family") == "cublas_graph");
  CHECK(json["families"][2].at("mape_percent") < 0.01);
  CHECK(json.at("left_out") == 1);
  CHECK(json.at("failed").empty());
  CHECK(json.at("picks").at("networks") == 1);
  CHECK(json["picks"].at("best") == 0);
  CHECK_THAT(json["picks"].at("worst_loss_percent").get<double>(), Catch::Matchers::WithinAbs(10, 0.01));
  const std::string said = run("validate " + (folder / "h200/families.csv").string()).out;
  CHECK(says(said, "measured best of 0 in 1 networks (0.0 %); at worst it takes 10.0 % longer"));
  const Json simulated = run_json("validate --simulate " + (folder / "h200/families.csv").string(), 1);
  CHECK(simulated.at("points") == 2);
  CHECK(simulated.at("not_simulated") == 2);
  CHECK(simulated.at("left_out") == 1);
}

TEST_CASE("validate scores rows in-sample and held out apart, as the table of cost terms says", "[fast]") {
  const Folder folder;
  const std::string fitted = measured_file(folder, 1.02);  // h200/validation.csv
  Json json = run_json("validate " + fitted);
  CHECK(json.at("in_sample") == true);
  REQUIRE(json.at("scores").size() == 1);
  CHECK(json["scores"][0].at("in_sample") == true);
  CHECK(json["rows"][0].at("in_sample") == true);
  // The same steps in a file that no term was fitted to.
  const std::string fresh = folder.write("h200/fresh.csv", read(fitted));
  json = run_json("validate " + fresh);
  CHECK(json.at("in_sample") == false);
  CHECK(json.at("scores").at(0).at("in_sample") == false);
  CHECK(!says(run("validate " + fresh).out, "in-sample"));
  // Of both kinds; an error in either is enough to say no.
  const std::string wrong = folder.write("h200/wrong.csv", read(measured_file(folder, 1.15)));
  measured_file(folder, 1.02);
  json = run_json("validate " + fitted + " " + wrong, 1);
  CHECK(json.at("in_sample").is_null());
  CHECK(json.at("mape_percent") < 10);
  REQUIRE(json.at("scores").size() == 2);
  CHECK(json["scores"][0].at("in_sample") == true);
  CHECK(json["scores"][0].at("mape_percent") < 3);
  CHECK(json["scores"][1].at("in_sample") == false);
  CHECK(json["scores"][1].at("mape_percent") > 10);
  const Run text = run("validate " + fitted + " " + wrong);
  CHECK(text.out.find("\nin-sample") < text.out.find("\nheld out"));
  CHECK(says(text.out, "\nheld out"));
  // A file is known by its folder, from wherever it is named.
  const Run csv = run("validate --format csv " + (folder / "h200/../h200/validation.csv").string());
  CHECK(says(csv.out, ",in_sample\n"));
  CHECK(csv.out.ends_with(",true\n"));
}

TEST_CASE("validate says what a cost term is worth", "[fast]") {
  const Folder folder;
  const std::string file = measured_file(folder, 1);  // as predicted, so every term that it uses is worth something
  Json json = run_json("validate --without item_warp " + file);
  CHECK(json.at("without").at("terms") == Json{"item_warp"});
  const Json used = json["without"].at("used");
  CHECK(used.at("points") == 1);
  CHECK(used.at("mape_percent") < 0.01);
  CHECK(used.at("mape_without_percent") > 1);
  CHECK(json["without"].at("rows") == used);
  // The same as the chip with another number.
  const Json changed = run_json("validate --max-mape 100 --set cost.item_warp=0 " + file);
  CHECK(changed.at("mape_percent") == used.at("mape_without_percent"));
  CHECK(changed.at("rows").at(0).at("predicted_us") == json.at("rows").at(0).at("without_us"));
  // A term that the plan does not use changes nothing, whatever is left out with it.
  json = run_json("validate --without dense_look " + file);
  CHECK(json.at("without").at("used").at("points") == 0);
  CHECK(json["without"]["used"].at("difference_percent").is_null());
  CHECK(run_json("validate --without dense_look --without item_warp " + file)["without"]["used"] == used);
  CHECK(says(run("validate --without dense_look " + file).out, "Without dense_look:"));

  const Json all = run_json("validate --without all " + file).at("terms");
  CHECK(all.size() == run_json("chips --cost-terms").at("terms").size());
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i].at("points") > 0) {
      CHECK(all[i - 1].at("difference_percent") >= all[i].at("difference_percent"));
    }
  }
  const auto line =
      std::find_if(all.begin(), all.end(), [](const Json& term) { return term.at("term") == "item_warp"; });
  REQUIRE(line != all.end());
  CHECK(line->at("mape_without_percent") == used.at("mape_without_percent"));

  require_refusal("validate --without dense_lok " + file, "did you mean 'dense_look'?");
  require_refusal("validate --without all --without squash " + file, "expected no other");
  require_refusal("validate --simulate --without squash " + file, "banks");
}

TEST_CASE("the page of equations has the terms of the table with their values, and the registers' table", "[fast]") {
  const std::string page = read(ONCHIP_SOURCE_DIR "/docs/equations.md");
  const Json terms = run_json("chips --cost-terms").at("terms");
  CHECK(terms.size() > 20);
  const std::string csv = run("chips --cost-terms --format csv").out;
  for (const Json& term : terms) {
    const std::string name = term.at("term");
    const std::size_t in_csv = csv.find("," + name + ",");
    REQUIRE(in_csv != std::string::npos);
    const std::size_t value = in_csv + name.size() + 2;
    CAPTURE(name);
    CHECK(says(page, "| `" + name + "` | " + csv.substr(value, csv.find(',', value) - value) + " | "));
    std::string heading = term.at("group");
    heading.front() = static_cast<char>(std::toupper(heading.front()));
    CHECK(says(page, "\n## " + heading + "\n"));
  }
  const Json registers = run_json("chips --register-costs").at("costs");
  CHECK(registers.size() > 20);
  for (const Json& cost : registers) {
    CAPTURE(cost);
    CHECK(says(page, "| `" + cost.at("cost").get<std::string>() + "` | "));
    CHECK(cost.at("sm_90").get<double>() >= 0);
    CHECK(!cost.at("source").get<std::string>().empty());
  }
  std::size_t rows = 0;
  for (std::size_t at = page.find("\n| `"); at != std::string::npos; at = page.find("\n| `", at + 1)) {
    ++rows;
  }
  CHECK(rows == terms.size() + registers.size());  // none that is gone
  // A chip's own values.
  const Run changed = run("chips h200 --cost-terms --set cost.squash=77 --format csv");
  CHECK(says(changed.out, ",squash,77,0,cycles,"));
}

TEST_CASE("validate refuses data that it cannot read", "[fast]") {
  const Folder folder;
  require_refusal("validate", "no measured data", "ONCHIP_DATA=" + (folder / "nowhere").string());
  require_refusal("validate " + folder.write("h200/empty.csv", ""), "empty.csv");
  require_refusal("validate " + folder.write("h200/short.csv", "cell,hidden\nrelu\n"), "short.csv:2:1");
  require_refusal("validate " + folder.write("nobody/v.csv", kMeasured), "--chip");
  require_refusal("validate " + folder.write("h200/plan.csv", kMeasured), "row 1");
  require_refusal("validate --max-mape x " + measured_file(folder, 1), "number");
}

#ifdef ONCHIP_HAS_CUDA
namespace {

// A row of a kernel, with the plan and the fingerprints that `compiled`, a JSON of --compile-only, has, and one of a
// library. The code's column is there if `code` is.
std::string stamped_file(const Json& compiled, const std::string& source, const std::optional<std::string>& code) {
  return "cell,hidden,batch,steps,density,precision,mask,seed,nnz,plan,step_us,fingerprint," +
         std::string(code ? "code_fingerprint," : "") +
         "note\n"
         "relu,1024,4,256,0.1,fp16,uniform,1,104879," +
         compiled.at("plan").at("text").get<std::string>() + ",0.9," + source + "," + (code ? *code + "," : "") +
         "\n"
         "relu,1024,4,256,0.1,fp16,uniform,1,104879,cublas_graph,2.5,," +
         (code ? "," : "") + "\"a, quoted\"\n";
}

std::string manifest_text(const std::string& compiler) {
  return Json{{"gpu", "NVIDIA H200"}, {"architecture", "sm_90"}, {"driver", "580"},   {"runtime", "13.0"},
              {"compiler", compiler}, {"sm_count", 132},         {"clock_mhz", 1980}, {"date", "2026-11-23"}}
      .dump();
}

}  // namespace

TEST_CASE("stamp renews the fingerprints of rows whose machine code is the same, and of no others", "[fast]") {
  const Folder folder;
  const Json compiled = run_json("measure --hidden 1024 --batch 4 --density 10% --compile-only --arch sm_90");
  const std::string source = compiled.at("fingerprint"), code = compiled.at("code_fingerprint");
  const std::string compiler = compiled.at("compiler"), other = "0123456789abcdef";
  folder.write("h200/rows.manifest.json", manifest_text(compiler));
  const auto file = [&](const std::string& text) { return folder.write("h200/rows.csv", text); };
  const auto stamp = [&](const std::string& text, const std::string& answer, int status = 0) {
    const std::string path = file(text);
    const Json json = run_json("stamp " + path, status);
    CHECK(json.at(answer) == 1);
    CHECK(json.at("files").at(0).at("rows") == 1);  // without the library's
    return read(path);
  };
  // Its source is today's, and so is its compiler: what it compiles to is what ran.
  CHECK(stamp(stamped_file(compiled, source, std::nullopt), "recorded") == stamped_file(compiled, source, code));
  CHECK(stamp(stamped_file(compiled, source, ""), "recorded") == stamped_file(compiled, source, code));
  CHECK(stamp(stamped_file(compiled, source, code), "unchanged") == stamped_file(compiled, source, code));
  // Its source has changed.
  CHECK(stamp(stamped_file(compiled, other, code), "same") == stamped_file(compiled, source, code));
  CHECK(stamp(stamped_file(compiled, other, other), "differs", 1) == stamped_file(compiled, other, other));
  CHECK(stamp(stamped_file(compiled, other, ""), "unknown") == stamped_file(compiled, other, ""));
  // Nothing is written in a dry run.
  const std::string path = file(stamped_file(compiled, other, code));
  CHECK(run_json("stamp --dry-run " + path).at("same") == 1);
  CHECK(read(path) == stamped_file(compiled, other, code));
  // A plan that there is no longer.
  std::string text = stamped_file(compiled, other, code);
  text.replace(text.find("_persistent"), 11, "_forgotten");
  const std::string forgotten = text;
  CHECK(stamp(forgotten, "failed", 1) == forgotten);
  // What would not be written as it was.
  const std::string quoted = "\"cell\"" + stamped_file(compiled, other, code).substr(4);
  require_refusal("stamp " + file(quoted), "not written as onchip writes it");
  CHECK(read(path) == quoted);
  require_refusal("stamp", "no file");
  // Another compiler makes other machine code, of whichever source.
  folder.write("h200/rows.manifest.json", manifest_text("NVRTC 12.0.1"));
  CHECK(stamp(stamped_file(compiled, other, code), "other_compiler") == stamped_file(compiled, other, code));
  CHECK(stamp(stamped_file(compiled, source, ""), "other_compiler") == stamped_file(compiled, source, ""));
  // Files that have no kernels are left alone.
  CHECK(run_json("stamp " + folder.write("h200/other.csv", "a,b\n1,2\n")).at("files").empty());
}

TEST_CASE("measured inferences of feed-forward networks are scored by the plan that ran", "[fast]") {
  const Folder folder;
  const std::string same = " --network spdnn:1024x6 --images digits:2000 --chip h100_sxm";
  const Json now = run_json("predict" + same);
  const double ms = now.at("ms");
  const std::string header = "network,images,plan,gpus,correct,wall_ms\n", network = "spdnn:1024x6,digits:2000,";
  const std::string plan = "\"" + now.at("plan").at("text").get<std::string>() + "\"";
  const std::string file =
      folder.write("h100_sxm/spdnn.csv", header + network + plan + ",1,true," + std::to_string(1.25 * ms) + "\n" +
                                             network + plan + ",1,true," + std::to_string(ms) + "\n");
  const Json json = run_json("validate " + file + " --max-mape 11");
  CHECK(json.at("rows").at(0).at("error_percent").get<double>() == Approx(-20).epsilon(1e-3));
  CHECK(json.at("mape_percent").get<double>() == Approx(10).epsilon(1e-3));
  CHECK(json.at("families").at(0).at("family") == "blocks");
  CHECK(run("validate " + file + " --max-mape 9").status == 1);
  // Without a term a plan of blocks takes less time; the method of 2020 is none.
  const Json without = run_json("validate " + file + " --max-mape 11 --without inference_nodes");
  CHECK(without.at("without").at("used").at("points") == 2);
  CHECK(without.at("rows").at(1).at("without_ms") < without.at("rows").at(1).at("predicted_ms"));
  const Json terms = run_json("validate " + file + " --max-mape 11 --without all").at("terms");
  CHECK(terms.size() == run_json("chips --cost-terms").at("terms").size());
  for (const Json& term : terms) {
    const std::string name = term.at("term");
    if (name.starts_with("staged_") || name == "item_warp") {
      CHECK(term.at("points") == 0);
    }
  }
  // Other families by their texts; wrong categories are told, and are exit 1.
  folder.write("h100_sxm/spdnn.csv",
               header + network + "unstructured ascending warps=32 phases=6:16,1,true,2\n" + network +
                   "\"streamed groups=8 chain=2 warps=12 sms=22 at_once=2 wide_groups=2 phases=2,6\",1,true,2\n" +
                   network + "staged,1,true,2\n" + network + plan + ",1,false,2\n");
  const Run others = run("validate " + file + " --max-mape 1000");
  CHECK(others.status == 1);
  for (const char* word : {"unstructured  ", "streamed", "staged", "no valid measurement: spdnn:1024x6"}) {
    CHECK(says(others.out, word));
  }
  folder.write("h100_sxm/spdnn.csv", header + network + "blocks=3,1,true,2\n");
  require_refusal("validate " + file, "row 1: plan: unknown family 'blocks=3'");
  require_refusal("validate " + file + " --simulate", "of recurrent networks");
}

TEST_CASE("validate lets the machine code decide whether a row is stale, where it is asked to", "[fast]") {
  const Folder folder;
  const Json compiled = run_json("measure --hidden 1024 --batch 4 --density 10% --compile-only --arch sm_90");
  const std::string source = compiled.at("fingerprint"), code = compiled.at("code_fingerprint");
  const std::string other = "0123456789abcdef";
  folder.write("h200/rows.manifest.json", manifest_text(compiled.at("compiler")));
  const auto validate = [&](const std::string& options, const std::string& text, int status) {
    return run_json("validate --max-mape 1000 " + options + folder.write("h200/rows.csv", text), status);
  };
  CHECK(validate("", stamped_file(compiled, other, code), 0).at("stale") == 1);
  Json json = validate("--machine-code ", stamped_file(compiled, other, code), 0);
  CHECK(json.at("stale") == 0);
  CHECK(json.at("machine_code").at("same") == 1);
  CHECK(json.at("rows").at(0).at("machine_code") == "same");
  json = validate("--machine-code ", stamped_file(compiled, source, other), 1);
  CHECK(json.at("stale") == 1);
  CHECK(json.at("machine_code").at("differs") == 1);
  CHECK(json.at("machine_code").at("differing").size() == 1);
  CHECK(validate("--machine-code ", stamped_file(compiled, source, ""), 0).at("machine_code").at("not_recorded") == 1);
  folder.write("h200/rows.manifest.json", manifest_text("NVRTC 12.0.1"));
  json = validate("--machine-code ", stamped_file(compiled, other, code), 0);
  CHECK(json.at("machine_code").at("other_compiler") == 1);
  CHECK(json.at("stale") == 1);
  const Run said = run("validate --machine-code --max-mape 1000 " + (folder / "h200/rows.csv").string());
  CHECK(says(said.out, "Machine code: of 0 rows what ran"));
}

#endif
