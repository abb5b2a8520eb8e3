// SPDX-License-Identifier: Apache-2.0
// What all verbs have in common: help, chips, weights from files, bad input, output files.
#include "tests/experiments/command.hpp"

#include <string>

using namespace onchip;

TEST_CASE("every verb explains itself", "[fast]") {
  for (const char* verb :
       {"chips", "fit", "predict", "what-if", "sweep", "pareto", "measure", "calibrate", "validate", "stamp"}) {
    const Run result = run(std::string(verb) + " --help");
    CAPTURE(verb, result.out);
    CHECK(result.status == 0);
    CHECK(result.err.empty());
    CHECK(says(result.out, "Example:\n  onchip " + std::string(verb)));
  }
  CHECK(run("--help").status == 0);
  CHECK(run("--version").out.starts_with("onchip "));
  CHECK(run("").status == 2);
}

TEST_CASE("the shipped chips are listed and shown with their sources", "[fast]") {
  const Json chips = run_json("chips").at("chips");
  CHECK(chips.size() >= 9);
  for (const Json& chip : chips) {
    CHECK(chip.at("sm_count") > 0);
  }
  const std::string file = read(ONCHIP_CHIPS_DIR "/h200.toml");
  const Json numbers = run_json("chips H200").at("numbers");
  CHECK(numbers.size() >= 20);
  for (const Json& number : numbers) {
    const std::string source = number.at("source");
    CHECK(says(file, "source = \"" + source + '"'));
    CHECK(number.at("unit").is_string());
  }
  CHECK(says(run("chips h200 --set sm.count=7 --format csv").out, "sm.count,7,1,,,set by user"));
}

TEST_CASE("a chip file that is written, or comes through a pipe, is taken", "[fast]") {
  const Folder folder;
  const std::string file = (folder / "mine.toml").string();
  REQUIRE(run("chips h200 --set sm.count=x0.5 -o " + file).status == 0);
  Json mine = run_json("chips " + file);
  CHECK(mine == run_json("chips h200 --set sm.count=66"));
  CHECK(run_json("chips - <" + file) == mine);
  CHECK(run_json("predict --hidden 512 --chip - <" + file) == run_json("predict --hidden 512 --chip " + file));
  CHECK(run("what-if --no-ranking --hidden 512 --set sm.count=+10% --chip - <" + file).status == 0);
  CHECK(run("chips h200 --format toml").out.starts_with("name = \"H200\"\n"));
  require_refusal("chips -o " + (folder / "all.toml").string(), "a chip file is of one chip");
  require_refusal("chips - </dev/null", "standard input:1:1: missing key 'name'");
}

TEST_CASE("chips are shown side by side, in the units of the first", "[fast]") {
  const Run run_of_two = run("chips h200 h100_pcie --format csv");
  CHECK(run_of_two.out.starts_with("key,unit,H200,H100 PCIe\n"));
  CHECK(says(run_of_two.out, "\nsm.clock,MHz,1980,1755\n"));
  CHECK(run_json("chips h200 h100_pcie").at("chips")[1].at("chip") == "H100 PCIe");
}

TEST_CASE("JSON of every verb begins with the number of its form and the version", "[fast]") {
  const std::string version = run("--version").out.substr(7);
  for (const char* question : {"chips", "chips h200", "chips h200 a100", "chips --cost-terms", "chips --register-costs",
                               "predict --hidden 64", "fit --hidden 64", "predict --hidden 64 --plan all",
                               "what-if --hidden 64 --no-ranking", "simulate --hidden 64"}) {
    const Json json = run_json(question);
    CAPTURE(question);
    CHECK(json.at("schema") == 3);
    CHECK(json.at("version").get<std::string>() + "\n" == version);
  }
}

TEST_CASE("the page on output has every column of CSV", "[fast]") {
  const std::string page = read(ONCHIP_SOURCE_DIR "/docs/output.md");
  for (const char* question :
       {"chips", "chips h200", "chips --cost-terms", "chips --register-costs", "predict --hidden 64 --plan all",
        "fit --hidden 64", "what-if --hidden 64 --no-ranking", "simulate --hidden 64", "validate --without squash"}) {
    std::string header = run(std::string(question) + " --format csv").out;
    header = header.substr(0, header.find('\n')) + ",";
    for (std::size_t at = 0, end; (end = header.find(',', at)) != std::string::npos; at = end + 1) {
      CAPTURE(question, header.substr(at, end - at));
      CHECK(says(page, "`" + header.substr(at, end - at) + "`"));
    }
  }
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

TEST_CASE("a matrix of another shape is refused with what it seems to be", "[fast]") {
  const Folder folder;
  const auto matrix = [&](const std::string& rows, const std::string& columns) {
    return "--weights " + folder.write("w.mtx", "%%MatrixMarket matrix coordinate real general\n" + rows + " " +
                                                    columns + " 2\n1 1 1\n1 2 1\n");
  };
  require_refusal("predict " + matrix("256", "64"), "; --cell lstm has this shape");
  require_refusal("predict --cell lstm " + matrix("192", "64"), "; --cell gru has this shape");
  require_refusal("predict --cell lstm " + matrix("256", "32"), "64 units with a projection to 32");
  require_refusal("predict " + matrix("64", "192"), "transposed, as Keras saves weights: --transpose reads it with");
  CHECK(run_json("predict --transpose --cell gru " + matrix("64", "192"))["network"]["hidden"] == 64);
  require_refusal("predict --hidden 64 --transpose", "--transpose needs --weights");
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
  require_refusal("predict --hidden 64 --batch 65", "sparse_persistent takes at most 64 samples");
  for (const char* density : {"0", "1.5", "-0.1", "150%", "nan", "inf", "abc", "''", "%"}) {
    require_refusal(std::string("predict --hidden 64 --density=") + density, "--density");
  }
  require_refusal("predict --hidden 64 --cell rleu", "did you mean 'relu'?");
  require_refusal("predict --hidden 64 --precision fp18", "fp16");
  require_refusal("predict --hidden 64 --format xml", "table, csv or json");
  require_refusal("predict --hidden 64 --chip h2000", "did you mean 'H200'?");
  require_refusal("predict --hidden 64 --set sm.cuont=5", "did you mean 'sm.count'?");
  require_refusal("predict --hidden 64 --set shared_memory.per_sm=512", "KiB");
  require_refusal("predict --hidden 64 --family dense", "dense_persistent or dense_pipelined");
  require_refusal("predict --hidden 64 --family dense_persistent --precision fp32", "fp16 or bf16");
  require_refusal("simulate --hidden 64 --family dense_persistent", "no exchange inside a cluster");
  require_refusal("predict --hidden 64 --skip 1", "unknown option");
  require_refusal("predict --hidden 64 --tensor x", "--weights");
  require_refusal("fit --mask power-law", "--hidden");
  require_refusal("predict --hidden 64 --mask random", "uniform, power-law or 2:4");
  require_refusal("predict --hidden 64 --mask 2:4 --density 60%", "at most half of all weights");
  require_refusal("predict --hidden 64 --storage dens", "structured_2_4");
  require_refusal("predict --hidden 64 --storage structured_2_4 --density 60%", "non-zeros in columns");
  require_refusal("predict --hidden 60000 --storage structured_2_4", "a mask of another kind");

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

TEST_CASE("plans that there are none of get one clear line", "[fast]") {
  const auto refused = [](const std::string& plan, const std::string& expected) {
    require_refusal("predict --hidden 64 --plan '" + plan + "'", expected);
  };
  refused("sms=2", "unknown family 'sms=2'");
  refused("sparse_persistant sms=2", "did you mean 'sparse_persistent'?");
  refused("sparse_persistent sms=0 threads=32 slots=1", "sms to be a whole number from 1 to 4096");
  refused("sparse_persistent sms=1 threads=32 slots=1", "room");
  refused("sparse_persistent sms=2 threads=1024 slots=1 ring_chunks=2", "ring_chunks");
  refused("sparse_persistent sms=2 threads=64 slots=1 tail_chunks=2", "it is called overflow_chunks now");
  refused("sparse_persistent sms=2 threads=64 slots=1 batch_padded=4", "unknown key 'batch_padded'");
  refused("sparse_persistent structured_2_4 sms=1 threads=32 slots=9", "does not know 'structured_2_4'");
  refused("sparse_persistent bitmap sms=1 threads=32 slots=9", "does not know 'bitmap'");
  refused("dense_persistent sms=2 threads=64 loads_in_flight=3", "loads_in_flight in multiples of 2");
  refused("dense_persistent sms=2 threads=64 shared_tiles=99", "shared_tiles");
  refused("dense_persistent structured_2_4 sms=2 threads=64", "non-zeros in columns");
  refused("dense_persistent packed_pair sms=2 threads=64", "does not know 'packed_pair'");
  refused("dense_persistent natural sms=2 threads=64", "does not know 'natural'");
  refused("dense_persistent bitmap sms=2 threads=64 shared_tiles=4 bank_words=3", "the plan has room for 3");
  refused("dense_persistent bitmap sms=2 threads=64 shared_tiles=4 bank_words=33", "bank_words from 0 to 32");
  refused("dense_persistent sms=2 threads=64 bank_words=3", "bank_words from 0 to 0");
  refused("cudnn sms=2", "unknown key 'sms'");
}

TEST_CASE("what is asked of a plan in old words is refused with the new ones", "[fast]") {
  require_refusal("predict --hidden 64 --pieces 1", "it is called '--row-splits' now");
  require_refusal("predict --hidden 64 --first-look 100", "it is called '--poll-delay' now");
  require_refusal("simulate --hidden 64 --exchange-warps 4", "it is called '--producer-warps' now");
  require_refusal("fit --teams 2", "it is called '--batch-groups' now");
  require_refusal("measure --hidden 64 --opponents", "it is called '--baselines' now");
}

TEST_CASE("what no family's plan can have is refused, and what the family that is asked for cannot", "[fast]") {
  require_refusal("predict --hidden 64 --lanes-per-row 3", "a power of two from 1 to 32");
  require_refusal("predict --hidden 64 --lanes-per-row many", "'many'");
  require_refusal("predict --hidden 64 --sms 5000", "--sms: found '5000'");
  require_refusal("predict --hidden 64 --loads-in-flight 300", "dense_persistent: a whole number from 1 to 256");
  require_refusal("predict --hidden 64 --batch 2 --producer-warps 1", "producer_warps");
  require_refusal("predict --hidden 64 --family dense_persistent --lanes-per-row 8",
                  "dense_persistent has no lanes_per_row");
  require_refusal("predict --hidden 64 --family sparse_persistent --batch-groups 2",
                  "sparse_persistent has no batch_groups");
  require_refusal("predict --hidden 64 --storage bitmap --family sparse_persistent",
                  "sparse_persistent knows no storage bitmap");
  require_refusal("predict --hidden 64 --storage structured_2_4 --family sparse_persistent",
                  "sparse_persistent knows no storage structured_2_4");
  require_refusal("predict --hidden 64 --lanes-per-row 8 --batch-groups 2", "no plan computes");
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
