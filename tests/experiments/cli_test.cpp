// SPDX-License-Identifier: Apache-2.0
// The command as a user runs it: a process with arguments, exit status, and what it writes where.
#include "tests/catch.hpp"

#include <nlohmann/json.hpp>

#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>

namespace {

using Json = nlohmann::json;

// A directory of its own for each test; gone afterwards.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "onchip_cli_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return (path_ / name).string();
  }
  int entries() const { return static_cast<int>(std::distance(std::filesystem::directory_iterator(path_), {})); }

 private:
  std::filesystem::path path_;
};

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Run {
  int status = -1;
  std::string out, err;
};

// `arguments` as in a shell; environment assignments may stand in `environment`.
Run run(const std::string& arguments, const std::string& environment = "") {
  const Folder folder;
  const std::string out = (folder / "out").string(), err = (folder / "err").string();
  const std::string command = "env " + environment + " '" ONCHIP_COMMAND "' " + arguments + " >" + out + " 2>" + err;
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(out), read(err)};
}

Json run_json(const std::string& arguments, int status = 0) {
  const Run result = run(arguments + " --format json");
  CAPTURE(arguments, result.err);
  REQUIRE(result.status == status);
  return Json::parse(result.out);
}

// One line on stderr, nothing on stdout, exit status 2.
void require_refusal(const std::string& arguments, const std::string& expected, const std::string& environment = "") {
  const Run result = run(arguments, environment);
  CAPTURE(arguments, result.out, result.err);
  CHECK(result.status == 2);
  CHECK(result.out.empty());
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  CHECK(result.err.size() < 600);
  CHECK(result.err.find(expected) != std::string::npos);
}

void require_prediction(const Json& json) {
  CHECK(json.at("chip").is_string());
  CHECK(json.at("network").at("hidden").is_number_integer());
  CHECK(json.at("plan").at("family").get<std::string>().ends_with("_persistent"));
  CHECK(json.at("fits").is_boolean());
  CHECK(json.at("binding").is_string());
  REQUIRE(json.at("resources").size() >= 3);
  for (const Json& resource : json.at("resources")) {
    CHECK(resource.at("name").is_string());
    CHECK(resource.at("used").is_number());
    CHECK(resource.at("available").is_number());
    CHECK(resource.at("unit").is_string());
  }
  REQUIRE(json.at("interval_us").size() == 2);
  REQUIRE(json.at("parts").size() >= 3);
  if (json.at("fits") == false) {
    CHECK(json.at("step_us").is_null());
    return;
  }
  const double step = json.at("step_us");
  CHECK(json.at("interval_us")[0] <= step);
  CHECK(step <= json.at("interval_us")[1]);
  CHECK(json.at("floor_us") <= step);
  double sum = 0;
  for (const Json& part : json.at("parts")) {
    CHECK(part.at("name").is_string());
    sum += part.at("us").get<double>();
  }
  CHECK_THAT(sum, Catch::Matchers::WithinRel(step, 1e-4));
}

constexpr const char* kMeasured =
    "cell,hidden,batch,steps,density,precision,mask,seed,nnz,plan,step_us,fingerprint\n"
    "relu,2304,4,256,0.3,fp16,uniform,1,1592000,PLAN,MEASURED,0123456789abcdef\n";

// A measured file on a chip whose only row differs from the prediction by `factor`.
std::string measured_file(const Folder& folder, double factor, const std::string& chip = "h200") {
  const Json predicted = run_json("predict --hidden 2304 --density 0.3 --chip " + chip);
  std::string text = kMeasured;
  text.replace(text.find("PLAN"), 4, predicted["plan"]["text"].get<std::string>());
  text.replace(text.find("MEASURED"), 8, std::to_string(predicted["step_us"].get<double>() * factor));
  return folder.write(chip + "/validation.csv", text);
}

}  // namespace

TEST_CASE("every verb explains itself", "[fast]") {
  for (const char* verb : {"chips", "fit", "predict", "what-if", "measure", "calibrate", "validate", "stamp"}) {
    const Run result = run(std::string(verb) + " --help");
    CAPTURE(verb, result.out);
    CHECK(result.status == 0);
    CHECK(result.err.empty());
    CHECK(result.out.find("Example:\n  onchip " + std::string(verb)) != std::string::npos);
  }
  CHECK(run("--help").status == 0);
  CHECK(run("--version").out.starts_with("onchip "));
  CHECK(run("").status == 2);
}

TEST_CASE("the shipped chips are listed and shown with their sources", "[fast]") {
  const Json chips = run_json("chips");
  CHECK(chips.size() >= 9);
  for (const Json& chip : chips) {
    CHECK(chip.at("sm_count") > 0);
  }
  const Json numbers = run_json("chips H200").at("numbers");
  CHECK(numbers.size() >= 20);
  for (const Json& number : numbers) {
    CHECK(!number.at("source").get<std::string>().empty());
    CHECK(number.at("unit").is_string());
  }
  CHECK(run("chips h200 --set sm.count=7 --format csv").out.find("sm.count,7,1,,,set by user") != std::string::npos);
}

TEST_CASE("predict answers for one network", "[fast]") {
  const Json json = run_json("predict --hidden 2304 --density 30% --batch 4");
  require_prediction(json);
  CHECK(json["fits"] == true);
  CHECK(json["network"]["hidden"] == 2304);
  CHECK(json["network"]["density"] == 0.3);
  // The plan that was printed gives the same answer when it is handed back.
  const std::string plan = json["plan"]["text"];
  CHECK(run_json("predict --hidden 2304 --density 0.3 --plan '" + plan + "'") == json);
}

TEST_CASE("predict answers for the family that is wished, and for the faster one without a wish", "[fast]") {
  const std::string network = "predict --cell lstm --hidden 1536 --batch 8 --density 100%";
  const Json dense = run_json(network + " --family dense_persistent");
  require_prediction(dense);
  CHECK(dense["plan"]["family"] == "dense_persistent");
  CHECK(dense["plan"]["storage"] == "dense");
  const std::string plan = dense["plan"]["text"];
  CHECK(run_json(network + " --plan '" + plan + "'") == dense);
  CHECK(run_json(network) == dense);
  CHECK(run_json(network + " --family auto") == dense);
  const Json sparse = run_json(network + " --family sparse_persistent");
  CHECK(sparse["plan"]["family"] == "sparse_persistent");
  CHECK(sparse["step_us"] > dense["step_us"]);
}

TEST_CASE("predict compares the families, best first, and says why the others lost", "[fast]") {
  const std::string network = "predict --cell lstm --hidden 1536 --batch 8 --density 100%";
  const Json plans = run_json(network + " --plan all").at("plans");
  REQUIRE(plans.size() == 5);
  CHECK(plans[0].at("plan") == run_json(network).at("plan"));
  CHECK(plans[0].at("why") == "the fastest that fits");
  CHECK(plans[0].at("step_us") < plans[1].at("step_us"));
  CHECK(plans[1].at("why").get<std::string>().find(" us slower, most of it ") != std::string::npos);
  const Json single = run_json("predict --hidden 512 --precision fp32 --plan all").at("plans");
  REQUIRE(single.size() == 5);
  CHECK(single[4].at("family") == "dense_persistent");
  CHECK(single[4].at("why").get<std::string>().find("fp16 or bf16") != std::string::npos);
  const Json large = run_json("predict --hidden 60000 --density 50% --plan all", 1);
  CHECK(large.at("fits") == false);
  CHECK(large.at("plans")[0].at("plan").at("family") == "cublas_graph");
  CHECK(large.at("plans")[4].at("fits") == false);
  require_refusal("predict --hidden 512 --family dense_persistent --plan all", "contradicts");
#ifdef ONCHIP_HAS_CUDA
  require_refusal("measure --hidden 512 --plan all --compile-only", "'all'");
  require_refusal("measure --hidden 512 --plan all --floor", "'all'");
  require_refusal("measure --hidden 512 --family dense_persistent --plan all", "contradicts");
  require_refusal("measure --hidden 512 --family cudnn --clocks", "not a library's");
  require_refusal("measure --hidden 512 --plan all", "CUDA", "CUDA_VISIBLE_DEVICES=");
  require_refusal("measure --hidden 512 --plan cublas_graph", "CUDA", "CUDA_VISIBLE_DEVICES=");
#endif
}

TEST_CASE("predict says of uneven rows where their tails are", "[fast]") {
  const std::string arguments =
      "predict --family sparse_persistent --hidden 2304 --density 10% --mask power-law "
      "--exchange-warps 0 --pieces 0";
  const Json tail = run_json(arguments).at("plan");
  CHECK(tail.at("tail_chunks") > 0);
  CHECK(tail.at("longest_tail") > 0);
  CHECK(tail.at("chunks_in_flight") > 0);
  CHECK(tail.at("shared_chunks") > 0);
  CHECK(tail.at("ring_chunks") == 0);  // shared memory has room for them
  const Json none = run_json(arguments + " --tier registers").at("plan");
  for (const char* key : {"tail_chunks", "longest_tail", "shared_chunks", "ring_chunks"}) {
    CHECK(none.at(key) == 0);
  }
}

TEST_CASE("what does not fit is an answer with numbers, and exit status 1", "[fast]") {
  const Json json = run_json("fit --hidden 20000 --density 50%", 1);
  require_prediction(json);
  CHECK(json["fits"] == false);
  CHECK(!json["to_fit"].empty());
  require_prediction(run_json("predict --hidden 20000 --density 50%", 1));
}

TEST_CASE("where nothing fits the quickest library is named with its time", "[fast]") {
  for (const char* verb : {"predict", "fit"}) {
    const std::string question = verb + std::string(" --cell lstm --hidden 12000 --density 50%");
    const Json json = run_json(question, 1);
    CHECK(json.at("fits") == false);
    CHECK(json.at("instead").at("plan").at("family") == "cublas_graph");
    CHECK(json.at("instead").at("step_us") > 100);
    CHECK(run(question).out.find("cublas_graph: ") != std::string::npos);
  }
  // What does not stay on the SMs may still be streamed from L2.
  const Json streamed = run_json("fit --cell lstm --hidden 6400 --density 10%", 1).at("instead");
  CHECK(streamed.at("plan").at("family") == "sparse_persistent");
  CHECK(!run_json("predict --hidden 2304").contains("instead"));
  const Json library = run_json("predict --hidden 2304 --family cudnn");
  CHECK(library.at("plan") == Json{{"family", "cudnn"}, {"text", "cudnn"}});
  CHECK(library.at("step_us") > 2);
  CHECK(run_json("predict --hidden 2304 --plan cudnn") == library);
  CHECK(run_json("predict --hidden 2304 --plan auto") == run_json("predict --hidden 2304"));
  for (const char* question : {"fit --family cudnn", "what-if --hidden 512 --family cublas_graph",
                               "simulate --hidden 512 --plan cusparse_graph"}) {
    require_refusal(question, "keeps nothing on the chip");
  }
}

TEST_CASE("fit finds the largest size, and the next granule does not fit", "[fast]") {
  const Json json = run_json("fit --density 10% --granule 64");
  require_prediction(json);
  CHECK(json["fits"] == true);
  const int hidden = json["network"]["hidden"];
  CHECK(hidden % 64 == 0);
  require_prediction(json["next"]);
  CHECK(json["next"]["fits"] == false);
  CHECK(json["next"]["network"]["hidden"] == hidden + 64);
  CHECK(json["binding"].is_string());
}

TEST_CASE("what-if compares two chips and ranks what matters", "[fast]") {
  // Few plans hold fp32 values of many samples: the searches are short.
  const std::string network = "what-if --hidden 1024 --density 30% --precision fp32 --batch 16";
  const Json json = run_json(network + " --set exchange.latency='2 us'");
  require_prediction(json.at("base"));
  require_prediction(json.at("changed"));
  CHECK(json["changed"]["step_us"] > json["base"]["step_us"]);
  REQUIRE(!json.at("sensitivity").empty());
  for (const Json& sensitivity : json["sensitivity"]) {
    CHECK(sensitivity.at("key").is_string());
    CHECK(sensitivity.at("d_hidden_percent").is_number());
    CHECK(sensitivity.at("d_step_percent").is_number());
  }
  CHECK(!run_json(network).contains("changed"));
}

TEST_CASE("weights from a file may be rounded to fp8, unless one is too large", "[fast]") {
  const Folder folder;
  const std::string head = "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n2 1 ";
  const Json json = run_json("predict --precision fp8 --weights " + folder.write("fine.mtx", head + "1e-30"));
  CHECK(json.at("network").at("precision") == "fp8");
  CHECK(json.at("network").at("density") == 0.5);
  require_refusal("predict --precision fp8 --weights " + folder.write("large.mtx", head + "3.4e38"),
                  "a weight is too large for fp8");
}

TEST_CASE("weights from a file bring their size and density", "[fast]") {
  const Folder folder;
  std::string text = "%%MatrixMarket matrix coordinate real general\n64 64 64\n";
  for (int i = 1; i <= 64; ++i) {
    text += std::to_string(i) + " " + std::to_string(1 + i * 7 % 64) + " 0.5\n";
  }
  const std::string file = folder.write("w.mtx", text);
  const Json json = run_json("predict --weights " + file);
  CHECK(json["network"]["hidden"] == 64);
  CHECK(json["network"]["density"] == 1.0 / 64);
  CHECK(json["network"]["mask"] == "file");
  CHECK(run_json("predict --weights " + file + " --hidden 64") == json);
  require_refusal("predict --hidden 65 --weights " + file, "contradicts");
  require_refusal("predict --density 0.5 --weights " + file, "contradicts");
  require_refusal("predict --cell lstm --weights " + file, "64 x 64");
}

TEST_CASE("bad input gets one clear line and exit status 2", "[fast]") {
  const Folder folder;
  require_refusal("predikt", "did you mean 'predict'?");
  require_refusal("predict --hiden 5", "did you mean '--hidden'?");
  require_refusal("predict --hid 5", "unknown option");  // nothing is guessed from a prefix
  require_refusal("predict 2304", "takes no argument");
  require_refusal("predict", "--hidden");
  require_refusal("predict --hidden", "--hidden");
  require_refusal("predict --hidden 64 --hidden 64", "hidden");
  require_refusal("predict --hidden -5", "'-5'");
  require_refusal("predict --hidden 0", "'0'");
  require_refusal("predict --hidden 1000000000", "from 1 to");
  require_refusal("predict --hidden 99999999999999999999", "from 1 to");
  require_refusal("predict --hidden 12abc", "'12abc'");
  require_refusal("predict --hidden 64 --batch 65", "1 to 64");
  for (const char* density : {"0", "1.5", "-0.1", "150%", "nan", "inf", "abc", "''", "%"}) {
    require_refusal(std::string("predict --hidden 64 --density=") + density, "--density");
  }
  require_refusal("predict --hidden 64 --cell rleu", "did you mean 'relu'?");
  require_refusal("predict --hidden 64 --precision fp18", "fp16");
  require_refusal("predict --hidden 64 --format xml", "table, csv or json");
  require_refusal("predict --hidden 64 --chip h2000", "did you mean 'H200'?");
  require_refusal("predict --hidden 64 --set sm.cuont=5", "did you mean 'sm.count'?");
  require_refusal("predict --hidden 64 --set shared_memory.per_sm=512", "KiB");
  require_refusal("predict --hidden 64 --plan 'sms=0'", "plan");
  require_refusal("predict --hidden 64 --plan 'sms=1 threads=32 slots=1 batch_padded=4'", "room");
  require_refusal("predict --hidden 64 --plan 'sms=2 threads=1024 slots=1 batch_padded=4 ring_chunks=2'",
                  "ring_chunks");
  require_refusal("predict --hidden 64 --plan 'dense_persistent sms=2 threads=64 batch_padded=4 loads_in_flight=3'",
                  "loads_in_flight in multiples of 2");
  require_refusal("predict --hidden 64 --plan 'dense_persistent sms=2 threads=64 batch_padded=4 shared_tiles=99'",
                  "shared_tiles");
  require_refusal("predict --hidden 64 --family dense", "sparse_persistent or dense_persistent");
  require_refusal("predict --hidden 64 --family dense_persistent --precision fp32", "fp16 or bf16");
  require_refusal("simulate --hidden 64 --family dense_persistent", "replays sparse_persistent plans");
  require_refusal("predict --hidden 64 --skip 1", "unknown option");
  require_refusal("predict --hidden 64 --lanes-per-row 3", "'3'");
  require_refusal("predict --hidden 64 --tensor x", "--weights");
  require_refusal("fit --mask power-law", "--hidden");
  require_refusal("predict --hidden 64 --mask random", "uniform, power-law or 2:4");
  require_refusal("predict --hidden 64 --mask 2:4 --density 60%", "at most half of all weights");
  require_refusal("predict --hidden 64 --storage dens", "structured_2_4");
  require_refusal("predict --hidden 64 --storage structured_2_4 --density 60%", "non-zeros in columns");
  require_refusal("predict --hidden 60000 --storage structured_2_4", "a mask of another kind");
  require_refusal("predict --hidden 64 --mask 2:4 --storage structured_2_4 --family sparse_persistent",
                  "sparse_persistent plans know neither");
  require_refusal("predict --hidden 64 --mask 2:4 --plan 'structured_2_4 sms=1 threads=32 slots=9 batch_padded=4'",
                  "structured_2_4 is dense_persistent's");
  require_refusal("predict --hidden 64 --plan 'dense_persistent structured_2_4 sms=2 threads=64 batch_padded=4'",
                  "non-zeros in columns");
  require_refusal("predict --hidden 64 --plan 'dense_persistent packed_pair sms=2 threads=64 batch_padded=4'",
                  "dense, structured_2_4 or bitmap");
  require_refusal("predict --hidden 64 --storage bitmap --family sparse_persistent", "nor bitmap");
  require_refusal("predict --hidden 64 --plan 'bitmap sms=1 threads=32 slots=9 batch_padded=4'",
                  "bitmap is dense_persistent's");
  require_refusal(
      "predict --hidden 64 --plan 'dense_persistent bitmap sms=2 threads=64 batch_padded=4 shared_tiles=4 "
      "bank_words=3'",
      "the plan has room for 3");
  require_refusal(
      "predict --hidden 64 --plan 'dense_persistent bitmap sms=2 threads=64 batch_padded=4 shared_tiles=4 "
      "bank_words=33'",
      "bank_words from 0 to 32");
  require_refusal("predict --hidden 64 --plan 'dense_persistent sms=2 threads=64 batch_padded=4 bank_words=3'",
                  "bank_words from 0 to 0");

  const std::string typo = folder.write("typo.toml", "name = \"X\"\narchitecure = \"sm_90\"\n");
  require_refusal("fit --chip " + typo, "typo.toml:2:");
  require_refusal("fit --chip " + (folder / "missing.toml").string(), "missing.toml");
  require_refusal("predict --weights " + (folder / "missing.mtx").string(), "missing.mtx");
  require_refusal(
      "predict --weights " + folder.write("cut.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1"),
      "cut.mtx:2:");
  require_refusal("predict --weights " + folder.write("cut.safetensors", "\x10"), "cut.safetensors");
  // A header that claims 40 GB.
  require_refusal(
      "predict --weights " + folder.write("huge.safetensors", std::string("\x00\x00\x00\x00\x0a\x00\x00\x00{}", 10)),
      "huge.safetensors");
}

TEST_CASE("2:4 masks are generated, known by their weights, and searched for the largest", "[fast]") {
  const Json asked = run_json("predict --hidden 512 --density 50% --mask 2:4");
  CHECK(asked["network"]["mask"] == "2:4");
  CHECK(asked["plan"]["text"].get<std::string>().starts_with("dense_persistent structured_2_4 "));
  const Json uniform = run_json("predict --hidden 512 --density 50%");
  CHECK(uniform["plan"]["text"].get<std::string>().find("structured_2_4") == std::string::npos);
  CHECK(asked["step_us"] <= uniform["step_us"]);
  const Json largest = run_json("fit --density 50% --mask 2:4 --family dense_persistent");
  CHECK(largest["plan"]["text"].get<std::string>().starts_with("dense_persistent structured_2_4 "));
  CHECK(largest["network"]["hidden"] > run_json("fit --density 50% --family dense_persistent")["network"]["hidden"]);

  const Folder folder;
  const auto predicted = [&](const std::string& last) {
    const std::string file =
        "%%MatrixMarket matrix coordinate real general\n8 8 5\n1 1 1\n1 4 1\n1 5 1\n8 6 1\n" + last;
    return "predict --storage structured_2_4 --weights " + folder.write("weights.mtx", file);
  };
  CHECK(run_json(predicted("1 6 1\n"))["network"]["mask"] == "file");
  require_refusal(predicted("1 3 1\n"), "row 0 has 3 non-zeros in columns 0 to 3");
}

TEST_CASE("dense networks without their empty words are asked for, planned, written down and read back", "[fast]") {
  const Json asked = run_json("predict --hidden 512 --storage bitmap");
  CHECK(asked["plan"]["text"].get<std::string>().starts_with("dense_persistent bitmap "));
  const std::string network = "predict --cell lstm --hidden 2560 --batch 16 --density 20%";
  const Json large = run_json(network);
  const auto text = large["plan"]["text"].get<std::string>();
  CHECK(text.starts_with("dense_persistent bitmap "));
  CHECK(large["plan"]["bank_words"] > 0);
  CHECK(text.find(" bank_words=" + std::to_string(large["plan"]["bank_words"].get<int>())) != std::string::npos);
  CHECK(run_json(network + " --plan '" + text + "'")["step_us"] == large["step_us"]);
  const std::string fit = "fit --density 10% --family dense_persistent";
  const Json largest = run_json(fit);
  CHECK(largest["plan"]["text"].get<std::string>().starts_with("dense_persistent bitmap "));
  CHECK(largest["network"]["hidden"] > run_json(fit + " --storage dense")["network"]["hidden"]);
}

TEST_CASE("an output file is written whole or not at all", "[fast]") {
  const Folder folder;
  const std::string file = (folder / "answer.json").string();
  CHECK(run("predict --hidden 512 -o " + file).status == 0);
  CHECK(Json::parse(read(file))["network"]["hidden"] == 512);  // the form follows from the extension
  CHECK(folder.entries() == 1);

  require_refusal("predict --hidden 512 -o " + (folder / "no/such/folder.json").string(), "cannot write");
  require_refusal("predict --hidden 512 -o " + (folder / "").string(), "cannot write");
  require_refusal("predict --hidden 0 -o " + (folder / "other.json").string(), "--hidden");
  require_refusal("measure --hidden 512 --density 7 -o " + (folder / "other.csv").string(), "");
  CHECK(folder.entries() == 1);
  CHECK(run("predict --hidden 512 -o /dev/null").status == 0);
  CHECK(std::filesystem::is_character_file("/dev/null"));
  require_refusal("predict --hidden 512 -o /dev/full", "cannot write");
}

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
  CHECK(json.at("history").size() == 5);
  // The same through the environment, as the shipped data is found.
  CHECK(run("validate", "ONCHIP_DATA=" + (folder / "").string()).status == 0);

  const std::string bad = measured_file(folder, 2);
  CHECK(run_json("validate " + bad, 1).at("coverage_percent") == 0);
  CHECK(run("validate --max-mape 60 " + bad).status == 0);
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
  CHECK(run(arguments).out.find("By chip:") != std::string::npos);
}

TEST_CASE("validate scores every family, and how often the pick is the measured best", "[fast]") {
  const Folder folder;
  const Json plans = run_json("predict --hidden 2304 --density 0.3 --plan all --exchange-warps 0").at("plans");
  std::string text = "cell,hidden,batch,steps,density,precision,mask,seed,nnz,family,plan,step_us,fingerprint,note\n";
  for (const Json& plan : plans) {
    const std::string family = plan.at("family");
    text += "relu,2304,4,256,0.3,fp16,uniform,1,1592000," + family + ",";
    if (family == "cusparse_graph") {
      text += ",,,not there\n";
      continue;
    }
    // The pick takes a tenth longer than the sparse plan.
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
  CHECK(said.find("measured best of 0 in 1 networks (0.0 %); at worst it takes 10.0 % longer") != std::string::npos);
  const Json simulated = run_json("validate --simulate " + (folder / "h200/families.csv").string(), 1);
  CHECK(simulated.at("points") == 1);
  CHECK(simulated.at("not_simulated") == 3);
  CHECK(simulated.at("left_out") == 1);
}

TEST_CASE("simulate takes every policy of the schedulers, and waits before the first look as long as it is told",
          "[fast]") {
  const std::string network = "simulate --hidden 320 --batch 4 --density 20% --family sparse_persistent ";
  const double step = run_json(network).at("step_us");
  REQUIRE(run_json(network + "--scheduling greedy_then_youngest").at("step_us") == step);
  for (const char* policy : {"greedy_then_oldest", "round_robin"}) {
    REQUIRE(run_json(network + "--scheduling " + policy).at("step_us") > 0.5 * step);
  }
  require_refusal(network + "--scheduling youngest", "scheduling");
  REQUIRE(run_json(network + "--first-look 3000").at("step_us") > 1.5);  // the H200's clock: 1980 MHz
  require_refusal(network + "--first-look -1", "first-look");
}

TEST_CASE("simulate answers in predict's form, the same for any number of threads", "[fast]") {
  const std::string network = "simulate --hidden 320 --density 20% --format json ";
  const Run one = run(network + "--threads 1");
  REQUIRE(one.status == 0);
  REQUIRE(one.err.empty());
  REQUIRE(run(network + "--threads 3").out == one.out);
  const Json simulated = Json::parse(one.out);
  const Json predicted =
      Json::parse(run("predict --family sparse_persistent --hidden 320 --density 20% --format json").out);
  for (const auto& [key, value] : predicted.items()) {
    CAPTURE(key);
    REQUIRE(simulated.contains(key));
  }
  REQUIRE(simulated["plan"] == predicted["plan"]);
  REQUIRE(simulated["shared_memory"]["heat"].size() == 32);
  REQUIRE(Json::parse(run(network + "--set shared_memory.banks=64").out)["shared_memory"]["heat"].size() == 64);
  REQUIRE(Json::parse(run(network + "--without exchange").out)["step_us"] < 0.8 * simulated["step_us"].get<double>());
  REQUIRE(run("simulate --hidden 20000 --density 100%").status == 1);
}

#ifdef ONCHIP_HAS_MPI
TEST_CASE("simulations over several processes write what one writes", "[fast]") {
  const Folder folder;
  const std::string header = "cell,hidden,batch,steps,density,precision,mask,seed\n";
  std::string rows;
  for (int i = 0; i < 5; ++i) {
    rows += "lstm," + std::to_string(64 + 32 * i) + ",2,16,0.2,fp16,uniform,1\n";
  }
  const std::string good = "simulate --threads 1 --configurations " + folder.write("good.csv", header + rows);
  const Run one = run(good);
  REQUIRE(one.status == 0);
  const std::string last = "gru,-64,2,16,0.2,fp16,uniform,1\n";
  const std::string bad = "simulate --configurations " + folder.write("bad.csv", header + rows + last);
  const Run refused = run(bad);
  REQUIRE(refused.status == 2);
  for (const char* processes : {"2", "3", "7"}) {
    // Open MPI leaves memory behind at its end, which the leak sanitizer would make an exit status.
    const std::string mpirun =
        "mpirun --allow-run-as-root --oversubscribe -x ASAN_OPTIONS=detect_leaks=0 -n " + std::string(processes);
    CAPTURE(processes);
    const Run several = run(good, mpirun);
    CHECK(several.status == 0);
    CHECK(several.out == one.out);
    const Run together = run(bad, mpirun);
    CHECK(together.status == 2);
    CHECK(together.out.empty());
    CHECK(together.err.find(refused.err) != std::string::npos);
    CHECK(together.err.find(refused.err) == together.err.rfind(refused.err));
    const Run nowhere = run(good + " --chip nowhere", mpirun);
    CHECK(nowhere.status == 2);
    CHECK(nowhere.err.find("nowhere") != std::string::npos);
  }
}
#endif

TEST_CASE("a recorded step is simulated from its file, and has the same wavefronts", "[fast]") {
  const Folder folder;
  const std::string trace = (folder / "step.trace").string(), timeline = (folder / "step.json").string();
  const std::string accesses = (folder / "accesses.csv").string();
  const Run recorded = run("simulate --hidden 256 --density 20% --format json --record " + trace + " --timeline " +
                           timeline + " --accesses " + accesses);
  REQUIRE(recorded.status == 0);
  const Run replayed = run("simulate --format json --trace " + trace);
  REQUIRE(replayed.status == 0);
  REQUIRE(Json::parse(replayed.out)["shared_memory"] == Json::parse(recorded.out)["shared_memory"]);
  REQUIRE(Json::parse(read(timeline))["traceEvents"].size() > 100);
  REQUIRE(read(accesses).starts_with("warp,instruction,operation,"));
  std::filesystem::resize_file(trace, std::filesystem::file_size(trace) - 1);
  REQUIRE((run("simulate --trace " + trace).err).find("the file ends") != std::string::npos);
  REQUIRE((run("simulate --hidden 256 --trace " + trace).err).find("--hidden contradicts --trace") !=
          std::string::npos);
}

TEST_CASE("weights in shared memory and in L2 are simulated, and take longer", "[fast]") {
  const auto answer = [](const std::string& tail) {
    return Json::parse(run("simulate --hidden 512 --density 40% --format json --plan "
                           "'sparse_persistent packed_pair bank_aware lamport sms=128 threads=128 lanes_per_row=32 "
                           "tile_rows=1 pass_planes=1 batch_padded=4 load_bytes=16 loads_in_flight=4 promote_every=8 " +
                           tail + "'")
                           .out);
  };
  const Json whole = answer("slots=8 tail_chunks=0 longest_tail=0 shared_chunks=0 chunks_in_flight=1 ring_chunks=0");
  const Json shared = answer("slots=2 tail_chunks=8 longest_tail=2 shared_chunks=8 chunks_in_flight=4 ring_chunks=0");
  const Json streamed = answer("slots=2 tail_chunks=8 longest_tail=2 shared_chunks=0 chunks_in_flight=4 ring_chunks=2");
  REQUIRE(shared["shared_memory"]["loads"]["instructions"] > whole["shared_memory"]["loads"]["instructions"]);
  REQUIRE(shared["step_us"] > whole["step_us"]);
  REQUIRE(streamed["step_us"] > shared["step_us"]);
}

TEST_CASE("many configurations are simulated in the order of their file", "[fast]") {
  const Folder folder;
  const std::string file = folder.write("c.csv",
                                        "cell,hidden,batch,steps,density,precision,mask,seed\n"
                                        "relu,256,4,64,0.2,fp16,uniform,1\nlstm,128,1,64,0.3,fp16,power-law,2\n");
  const Run rows = run("simulate --threads 2 --configurations " + file);
  REQUIRE(rows.status == 0);
  REQUIRE(std::count(rows.out.begin(), rows.out.end(), '\n') == 3);
  REQUIRE(rows.out.find("H200,relu,256") < rows.out.find("H200,lstm,128"));
  REQUIRE(run("simulate --threads 1 --configurations " + file).out == rows.out);
}

TEST_CASE("rows may name the weights that they are of, which lie beside them", "[fast]") {
  const Folder folder;
  const std::string weights = folder.write("rows/w/four.mtx",
                                           "%%MatrixMarket matrix coordinate pattern general\n4 4 5\n"
                                           "1 1\n1 2\n1 4\n2 3\n4 1\n");
  const std::string header = "cell,hidden,batch,steps,density,precision,mask,seed,weights,tensor\n";
  const auto rows = [&](const std::string& row) {
    return "simulate --configurations " + folder.write("rows/c.csv", header + row);
  };
  const Run named = run(rows("relu,4,1,64,0,fp16,file,1,w/four.mtx,\n"));
  REQUIRE(named.status == 0);
  REQUIRE(named.out.find("H200,relu,4,1,64,0.3125,fp16,file,1,w/four.mtx,") != std::string::npos);
  const Json alone = run_json("simulate --batch 1 --steps 64 --weights " + weights);
  REQUIRE(named.out.find(alone["plan"]["text"].get<std::string>()) != std::string::npos);
  require_refusal(rows("relu,8,1,64,0.3,fp16,file,1,w/four.mtx,\n"), "row 1");
  require_refusal(rows("relu,4,1,64,0.3,fp16,file,1,w/five.mtx,\n"), "five.mtx");
  require_refusal(rows("lstm,4,1,64,0.3,fp16,file,1,w/four.mtx,\n"), "lstm");
  require_refusal(rows("relu,4,1,64,0.3,fp16,file,1,,\n"), "mask");
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

TEST_CASE("measuring without a GPU is one clear line", "[fast]") {
  // An empty list of visible devices hides the GPU of a machine that has one.
  require_refusal("measure --hidden 512", "CUDA", "CUDA_VISIBLE_DEVICES=");
  require_refusal("calibrate", "CUDA", "CUDA_VISIBLE_DEVICES=");
}

#ifdef ONCHIP_HAS_CUDA
TEST_CASE("a plan compiles without a GPU", "[fast]") {
  const Json json = run_json("measure --hidden 1024 --density 10% --compile-only --arch sm_90");
  CHECK(json.at("spill_bytes") == 0);
  CHECK(json.at("registers") > 16);
  CHECK(json.at("weights_per_thread") > 0);
  CHECK(json.at("predicted_registers").is_number());
  require_refusal("measure --hidden 512 --compile-only --arch sm_900", "did you mean");
  require_refusal("measure --hidden 60000 --density 1 --tier registers --compile-only", "weights per thread");
  require_refusal("measure --hidden 512 --arch sm_90", "--compile-only");
}

// Of a chip with an eighth more registers than the compiler knows of.
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
  CHECK(said.out.find("Machine code: of 0 rows what ran") != std::string::npos);
}

TEST_CASE("what the compiler spills does not fit, if it has the last word", "[fast]") {
  const std::string question =
      "fit --set sm.count=8 --set registers.per_sm=73728 --set registers.per_block=73728 --batch 1 --density 10% "
      "--granule 64 --family sparse_persistent --storage packed_pair --tier registers --rows-per-group 4";
  const Json said = run_json(question), compiled = run_json(question + " --compile");
  const int largest = compiled["network"]["hidden"], next = compiled["next"]["network"]["hidden"];
  CHECK(largest < said["network"]["hidden"]);
  CHECK(next == largest + 64);
  CHECK(compiled["compiled"]["architecture"] == "sm_90");
  CHECK_FALSE(said.contains("compiled"));
  const Json registers = compiled["next"]["resources"][0];
  CHECK(registers["used"] > registers["available"]);
  CHECK(compiled["next"]["binding"] == "registers");

  const std::string size = " --hidden " + std::to_string(next);
  CHECK(run_json(question + size)["fits"] == true);
  CHECK(run_json(question + size + " --compile", 1)["fits"] == false);
  require_refusal("fit --compile --chip p100", "no compiler target");
}

TEST_CASE("a plan is checked without a GPU by executing its PTX", "[fast]") {
  const std::string small =
      "measure --hidden 127 --density 20% --batch 3 --cell gru --family sparse_persistent --interpret";
  const Json json = run_json(small);
  CHECK(json.at("correct") == true);
  CHECK(json.at("relative_error").get<double>() > 0);
  CHECK(json.at("relative_error") <= json.at("tolerance"));
  CHECK(json.at("thread_instructions").get<double>() > 1e5);
  const Run again = run(small);
  CHECK(again.status == 0);
  CHECK(again.out.find("correct    yes: relative error") != std::string::npos);
  CHECK(again.out == run(small).out);  // the same in every run
  const Folder folder;
  const Run captured = run(small + " --capture " + (folder / "step.trace").string());
  CHECK(captured.status == 0);
  CHECK(captured.out.find("as they are generated") != std::string::npos);
  for (const char* option : {"--opponents", "--floor", "--clocks", "--compile-only", "--repeats 3"}) {
    require_refusal(small + ' ' + option, "contradicts --interpret");
  }
  require_refusal("measure --hidden 512 --plan all --interpret", "'all'");
  require_refusal("measure --hidden 512 --family cudnn --interpret", "not a library's");
  require_refusal("measure --interpret --configurations nowhere.csv", "one configuration");
}
#else
TEST_CASE("without CUDA no compiler has the last word", "[fast]") {
  require_refusal("fit --hidden 512 --compile", "built without CUDA");
}
#endif
