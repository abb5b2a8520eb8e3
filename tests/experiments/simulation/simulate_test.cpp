// SPDX-License-Identifier: Apache-2.0
// onchip simulate.
#include "model/base/table.hpp"
#include "tests/experiments/command.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

using namespace onchip;

TEST_CASE("simulate takes every policy of the schedulers, and waits before the first poll as long as it is told",
          "[fast]") {
  const std::string network = "simulate --hidden 320 --batch 4 --density 20% --family sparse_persistent ";
  const double step = run_json(network).at("step_us");
  REQUIRE(run_json(network + "--scheduling greedy_then_youngest").at("step_us") == step);
  for (const char* policy : {"greedy_then_oldest", "round_robin"}) {
    REQUIRE(run_json(network + "--scheduling " + policy).at("step_us") > 0.5 * step);
  }
  require_refusal(network + "--scheduling youngest", "scheduling");
  REQUIRE(run_json(network + "--poll-delay 3000").at("step_us") > 1.5);  // the H200's clock: 1980 MHz
  require_refusal(network + "--poll-delay -1", "poll-delay");
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
    CHECK(says(together.err, refused.err));
    CHECK(together.err.find(refused.err) == together.err.rfind(refused.err));
    const Run nowhere = run(good + " --chip nowhere", mpirun);
    CHECK(nowhere.status == 2);
    CHECK(says(nowhere.err, "nowhere"));
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
  REQUIRE(says((run("simulate --trace " + trace).err), "the file ends"));
  REQUIRE(says((run("simulate --hidden 256 --trace " + trace).err), "--hidden contradicts --trace"));
}

TEST_CASE("the kernels of a list are simulated one after another, and each is reported", "[fast]") {
  const Folder folder;
  const std::string kernel =
      "-block dim = (32,1,1)\n-nregs = 32\n-shmem = 0\n#BEGIN_TB\nwarp = 0\ninsts = 2\n"
      "0000 ffffffff 1 R4 FFMA 2 R4 R5 0\n0010 ffffffff 1 R4 FFMA 2 R4 R5 0\n#END_TB\n";
  folder.write("kernel-1.traceg", kernel);
  folder.write("kernel-2.traceg", kernel);
  folder.write("kernelslist.g", "MemcpyHtoD,0x00007f2f1d000000,4096\nkernel-1.traceg\nkernel-2.traceg\n");
  const std::string list = "simulate --trace " + (folder / "kernelslist.g").string();
  const Json both = Json::parse(run(list + " --format json").out);
  const Json one = Json::parse(run("simulate --format json --trace " + (folder / "kernel-1.traceg").string()).out);
  REQUIRE(both["kernels"].size() == 2);
  CHECK(both["kernels"][1]["kernel"] == "kernel-2.traceg");
  CHECK(both["cycles"] == 2 * one["cycles"].get<double>());
  CHECK(one["blocks_on_an_sm"] == 32);
  CHECK(says(run(list).out, "2 kernels one after another: "));
  require_refusal(list + " --accesses a.csv", "--accesses is of one kernel, but the list has 2");
  require_refusal(list + " --sm 0", "--sm is of one kernel, but the list has 2");
  run("simulate --hidden 512 --density 10% --record " + (folder / "kernel-2.traceg").string());
  require_refusal(list, "kernel-2.traceg: a list of kernels has recorded steps alone, or none");
}

TEST_CASE("a step replayed from its own trace takes the same time, to the last digit", "[fast][long]") {
  const Folder folder;
  const std::string trace = (folder / "step.trace").string(), again = (folder / "again.trace").string();
  for (const char* network :
       {"--hidden 1024 --density 10%", "--cell lstm --hidden 512 --batch 4 --density 20%",
        "--cell lstm --hidden 512 --batch 16 --density 10% --producer-warps 4",
        "--cell lstm --hidden 512 --batch 16 --density 10% --producer-warps 4 --exchange bulk_copy",
        "--cell lstm --hidden 512 --batch 8 --density 100% --family dense_persistent --exchange lamport",
        "--hidden 2304 --batch 4 --density 50% --mask 2:4 --family dense_persistent --exchange lamport",
        "--cell gru --hidden 512 --density 60% --mask power-law --tier streamed"}) {
    CAPTURE(network);
    const Json step = run_json("simulate " + std::string(network) + " --record " + trace);
    const Json replayed = run_json("simulate --trace " + trace + " --record " + again);
    for (const char* key : {"step_us", "interval_us", "terms", "sms", "shared_memory"}) {
      CHECK(replayed.at(key) == step.at(key));
    }
    CHECK(replayed.at("blocks") == step.at("shared_memory").at("wavefronts_per_block").size());
    CHECK(read(again) == read(trace));
  }
  require_refusal("simulate --hidden 256 --density 100% --family dense_persistent --exchange cluster",
                  "--exchange lamport");
  require_refusal("simulate --hidden 256 --family cublas", "cublas");
  CHECK(says(run("simulate --trace " + trace + " --chip v100").err, "the V100 has 80"));
}

TEST_CASE("the banks of any SM are shown, whose extra wavefronts are those of its accesses", "[fast]") {
  const Folder folder;
  const std::string accesses = (folder / "accesses.csv").string();
  const std::string network = "simulate --hidden 512 --batch 2 --density 20% --order natural ";
  const Json json = run_json(network + "--sm 5 --accesses " + accesses);
  const Json banks = json.at("shared_memory").at("banks");
  CHECK(banks.at("sm") == 5);
  const CsvReader rows(accesses);
  double extra = 0, words = 0, worst = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const double more = rows.number(row, "wavefronts") - rows.number(row, "ideal_wavefronts");
    extra += more, words += rows.number(row, "words"), worst = std::max(worst, more);
  }
  const auto sum = [](const Json& list) {
    const auto values = list.get<std::vector<double>>();
    return std::accumulate(values.begin(), values.end(), 0.0);
  };
  CHECK(extra > 10);
  CHECK_THAT(sum(banks.at("extra_wavefronts")), Catch::Matchers::WithinRel(extra, 1e-4));
  CHECK(sum(banks.at("words")) == words);
  const Json first = banks.at("worst").at(0);
  CHECK(first.at("wavefronts").get<double>() - first.at("ideal_wavefronts").get<double>() == worst);
  // Of its addresses, those in its most loaded bank: of a 4-byte load as many as wavefronts.
  std::set<int> colliding;
  for (const int address : first.at("addresses")) {
    if (address / 4 % 32 == first.at("banks").at(0)) {
      colliding.insert(address);
    }
  }
  CHECK(static_cast<int>(colliding.size()) == first.at("wavefronts"));
  CHECK(run_json(network + "--sm 6").at("shared_memory").at("banks") != banks);
  CHECK(!run_json(network).at("shared_memory").contains("banks"));
  const Run text = run(network + "--sm 5");
  CHECK(says(text.out, "worst instructions\n  warp "));
  CHECK(says(text.out, "predict's term"));
  require_refusal(network + "--sm 64", "at most 63");
}

TEST_CASE("weights in shared memory and in L2 are simulated, and take longer", "[fast]") {
  const auto answer = [](const std::string& slots) {
    return Json::parse(run("simulate --hidden 512 --density 40% --format json --plan "
                           "'sparse_persistent packed_pair bank_aware lamport sms=128 threads=128 lanes_per_row=32 "
                           "loads_in_flight=4 promote_every=8 " +
                           slots + "'")
                           .out);
  };
  const Json whole = answer("slots=8");
  const Json shared = answer("slots=2 overflow_chunks=8 longest_overflow=2 shared_chunks=8 chunks_in_flight=4");
  const Json streamed = answer("slots=2 overflow_chunks=8 longest_overflow=2 chunks_in_flight=4 ring_chunks=2");
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
  REQUIRE(says(named.out, "H200,relu,4,1,64,0.3125,fp16,file,1,w/four.mtx,"));
  const Json alone = run_json("simulate --batch 1 --steps 64 --weights " + weights);
  REQUIRE(says(named.out, alone["plan"]["text"].get<std::string>()));
  require_refusal(rows("relu,8,1,64,0.3,fp16,file,1,w/four.mtx,\n"), "row 1");
  require_refusal(rows("relu,4,1,64,0.3,fp16,file,1,w/five.mtx,\n"), "five.mtx");
  require_refusal(rows("lstm,4,1,64,0.3,fp16,file,1,w/four.mtx,\n"), "lstm");
  require_refusal(rows("relu,4,1,64,0.3,fp16,file,1,,\n"), "mask");
}

TEST_CASE("simulate counts what layers of feed-forward networks ask for, by the planner's plan or another", "[fast]") {
  const std::string network = "simulate --chip h100_sxm --network spdnn:1024x12 ";
  const Run one = run(network + "--format json --threads 1");
  REQUIRE(one.status == 0);
  REQUIRE(run(network + "--format json --threads 3").out == one.out);
  const Json simulated = Json::parse(one.out);
  REQUIRE(simulated["conflicts"]["reads"] == 0);
  REQUIRE(simulated["plan"] ==
          Json::parse(run("predict --chip h100_sxm --network spdnn:1024x12 --format json").out)["plan"]);
  REQUIRE(simulated["chosen_for"] == "digits:60000");
  REQUIRE(simulated["phases"].size() > 1);
  for (const Json& phase : simulated["phases"]) {
    REQUIRE(phase["conflicts"] == 0);
    REQUIRE(!phase.contains("cycles"));
    REQUIRE(phase["l2_bytes"].get<double>() > 2 * 1024 * 32);  // of its weights
    const int groups = std::stoi(phase["tile"].get<std::string>());
    REQUIRE(phase["write_wavefronts"] == 64 * 2 * groups);
  }
  // The same plan, given; then another; then of so many images.
  const std::string plan = simulated["plan"]["text"];
  REQUIRE(Json::parse(run(network + "--format json --plan '" + plan + "'").out)["phases"] == simulated["phases"]);
  const Json two = Json::parse(
      run(network + "--format json --plan 'blocks warps=8 phases=12:1x2 lower=1x1 wide=1x2' --images digits:3000").out);
  REQUIRE(two["phases"].size() == 1);
  REQUIRE(two["phases"][0]["images"] == 3000);
  REQUIRE(two["phases"][0]["rounds"] == 3);  // of 132 SMs with 8 images each
  REQUIRE(says(run(network).out, "to layer"));
  const std::string csv = run(network + "--format csv").out;
  REQUIRE(std::count(csv.begin(), csv.end(), '\n') == 1 + std::ssize(simulated["phases"]));
  require_refusal(network + "--hidden 5", "--hidden contradicts --network");
  require_refusal(network + "--plan 'warps=16'", "expected the family first, 'blocks warps=16'");
  require_refusal(network + "--plan unstructured", "replays plans of blocks and of dense_layer");
  require_refusal(network + "--plan 'blocks warps=16 phases=12:8x2 lower=1x1 wide=1x2'", "KiB");
  require_refusal("simulate --chip h100_sxm --network spdnn:16384x2", "KiB");
  require_refusal("simulate --images digits:5", "--network");
  require_refusal(network + "--without banks", "--without changes times");
}
