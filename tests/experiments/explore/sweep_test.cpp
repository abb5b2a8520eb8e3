// SPDX-License-Identifier: Apache-2.0
// Sweeps: rows that are predict's answers, and the same bytes however they come about.
#include "model/base/table.hpp"
#include "tests/experiments/explore/sweeps.hpp"

#include <sstream>
#include <string>
#include <vector>

using namespace onchip;

namespace {

// Lines of stdout under their names.
Table rows_of(const std::string& arguments) {
  const Run result = run(arguments);
  CAPTURE(arguments, result.err);
  REQUIRE(result.status == 0);
  return parse_csv(result.out, "stdout");
}
std::string cell(const Table& table, std::size_t row, const std::string& column) {
  const auto place = std::ranges::find(table.columns, column);
  REQUIRE(place != table.columns.end());
  return table.rows.at(row).at(static_cast<std::size_t>(place - table.columns.begin()));
}
std::vector<std::string> column(const Table& table, const std::string& name) {
  std::vector<std::string> cells;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    cells.push_back(cell(table, row, name));
  }
  return cells;
}
using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a row of a sweep is what predict answers", "[fast]") {
  const Table table = rows_of(
      "sweep --cell lstm --axis hidden=512,1111 --axis density=10%,0.3 --axis sm.count=100,+0% --axis "
      "'batch=1,64; precision=fp16,bf16' --column gather_us");
  REQUIRE(table.rows.size() == 16);
  for (std::size_t row = 0; row < table.rows.size(); row += 3) {
    CAPTURE(row);
    const Json one =
        run_json("predict --cell lstm --hidden " + cell(table, row, "hidden") + " --density " +
                     cell(table, row, "density") + " --set sm.count=" + cell(table, row, "sm.count") + " --batch " +
                     cell(table, row, "batch") + " --precision " + cell(table, row, "precision"),
                 cell(table, row, "fits") == "true" ? 0 : 1);
    CHECK(cell(table, row, "row") == std::to_string(row));
    CHECK(cell(table, row, "plan") == one["plan"]["text"].get<std::string>());
    CHECK(cell(table, row, "binding") == one["binding"].get<std::string>());
    CHECK(std::stod(cell(table, row, "step_us")) == one["step_us"].get<double>());
    CHECK(std::stod(cell(table, row, "low_us")) == one["interval_us"][0].get<double>());
    CHECK(cell(table, row, "problem").empty());
  }
}

TEST_CASE("what streams weights runs and does not fit, whoever says so", "[fast]") {
  const std::string network = " --cell lstm --hidden 6656 --batch 4 --density 10%";
  const auto check = [](const Json& json) {
    CHECK((json.at("fits") == false && json.at("runs") == true && json.at("tier") == "streamed"));
    CHECK(json.at("step_us") > 0);
  };
  check(run_json("predict" + network));
  check(run_json("fit --tier streamed" + network, 1));
  check(run_json("predict --plan all" + network, 1).at("plans").at(0));
  check(run_json("what-if --no-ranking" + network).at("base"));
  CHECK(run_json("fit" + network, 1).at("runs") == false);
  const Table rows = rows_of("sweep --axis hidden=1024,6656 --where 'tier == streamed || fits' --column t=tier" +
                             std::string(" --cell lstm --batch 4 --density 10%"));
  REQUIRE(rows.rows.size() == 2);
  CHECK((cell(rows, 0, "fits") == "true" && cell(rows, 0, "runs") == "true" && cell(rows, 0, "tier") != "streamed"));
  CHECK((cell(rows, 1, "fits") == "false" && cell(rows, 1, "runs") == "true" && cell(rows, 1, "tier") == "streamed"));
  CHECK(cell(rows, 1, "t") == "2");
}

TEST_CASE("a row of a sweep over feed-forward networks is what predict answers", "[fast]") {
  const std::string same = " --images 60000 --alive 3% --chip h100_sxm";
  const Table table = rows_of(
      "sweep --axis network=spdnn:1024x6,shuffle=yes,spdnn:16384x2 --axis gpus=1,2 --axis "
      "'shared_memory.per_sm=+0%,1 MiB' --column tera_edges_per_s --column barriers_ms --where 'ms > 0'" +
      same);
  REQUIRE(table.rows.size() == 8);
  CHECK(cell(table, 0, "network") == "spdnn:1024x6,shuffle=yes");
  CHECK(cell(table, 4, "fits") == "false");  // and runs through L2
  CHECK(cell(table, 5, "fits") == "true");
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    CAPTURE(row);
    const Json one =
        run_json("predict --network " + cell(table, row, "network") + " --gpus " + cell(table, row, "gpus") +
                     " --set shared_memory.per_sm=" + cell(table, row, "shared_memory.per_sm") + "B" + same,
                 cell(table, row, "fits") == "true" ? 0 : 1);
    CHECK(cell(table, row, "plan") == one["plan"]["text"].get<std::string>());
    CHECK(std::stod(cell(table, row, "ms")) == one["ms"].get<double>());
    CHECK(std::stod(cell(table, row, "tera_edges_per_s")) ==
          Approx(one["tera_edges_per_s"].get<double>()).epsilon(1e-4));
    CHECK(std::stod(cell(table, row, "barriers_ms")) ==
          Approx(one["terms_ms"]["barriers"].get<double>()).epsilon(1e-4));
  }
  for (const char* wrong : {"hidden=3,4", "network=spdnn:1000x3", "network=none.bin", "alive=2", "gpus=0"}) {
    CHECK(run("sweep --network spdnn:1024x6 --axis " + std::string(wrong)).status == 2);
  }
  CHECK(says(run("sweep --axis gpus=1,2").err, "'gpus' needs 'network'"));
}

TEST_CASE("values are lists, ranges, columns of a file, and quantities", "[fast]") {
  const Folder folder;
  const auto values = [](const std::string& axis, const std::string& key) {
    return column(rows_of("sweep --hidden 64 --axis '" + axis + "'"), key);
  };
  CHECK(values("batch=1:9:4,2", "batch") == Texts{"1", "5", "9", "2"});
  CHECK(values("batch=1:50:x3", "batch") == Texts{"1", "3", "9", "27"});
  CHECK(values("density=0.01:1:log3", "density") == Texts{"0.01", "0.1", "1"});
  CHECK(values("density=0.1:0.3:0.1", "density") == Texts{"0.1", "0.2", "0.3"});
  CHECK(values("density=30%:10%:-10%", "density") == Texts{"0.3", "0.2", "0.1"});
  CHECK(values("batch=1:4:log4", "batch") == Texts{"1", "2", "3", "4"});
  CHECK(values("shared_memory.per_sm=128KiB:256KiB:64KiB", "shared_memory.per_sm") ==
        Texts{"131072", "196608", "262144"});
  CHECK(values("sm.count=+0%,-50%,7", "sm.count") == Texts{"132", "66", "7"});
  CHECK(values("sm.count=-50%:+50%:50%,+0%:50%:x1.5", "sm.count") == Texts{"66", "132", "198", "132", "198"});
  CHECK(values("chip=h200,a100; l2.size=-50%:+0%:50%", "chip") == Texts{"h200", "a100"});
  CHECK(values("cost.split_round=+0%:+10%:10%", "cost.split_round") == Texts{"6.5", "7.15"});
  CHECK(values("chip=h200,a100; sm.count=+0%,+0%", "sm.count") == Texts{"132", "108"});
  CHECK(values("cost.split_round=0,1", "cost.split_round") == Texts{"0", "1"});
  CHECK(values("sms=8,4", "sms") == Texts{"8", "4"});
  const std::string file = folder.write("nets.csv", "name,units,batch\na,5,1\nb,6,2\n");
  CHECK(values("batch=@" + file, "batch") == Texts{"1", "2"});
  CHECK(values("steps=@" + file + ":units; batch=@" + file, "steps") == Texts{"5", "6"});
}

TEST_CASE("a row says what it is of, whatever is fixed, varied or left out", "[fast]") {
  for (const char* axis : {"chip=h200,a100", "cell=lstm,relu", "batch=4,8", "density=0.1,0.3", "precision=fp16,bf16"}) {
    const Table rows = rows_of("sweep --hidden 256 --set steps=7 --axis " + std::string(axis));
    for (const char* key : {"chip", "cell", "hidden", "batch", "density", "precision", "steps"}) {
      CHECK(!cell(rows, 1, key).empty());
    }
  }
  CHECK(cell(rows_of("sweep --mode train --axis hidden=64"), 0, "density") == "1");
}

TEST_CASE("a plan that is given is priced, and its fields may vary", "[fast]") {
  const Table table = rows_of("sweep --hidden 2304 --density 10% --plan '" + kPlan +
                              "' --axis loads_in_flight=1,4 --axis threads=288,96 --axis batch=1,65");
  CHECK(cell(table, 0, "step_us") != cell(table, 4, "step_us"));
  CHECK(says(cell(table, 1, "problem"), "at most 64 samples"));
  CHECK(says(cell(table, 2, "problem"), "room for 2304 units"));
  const Json one = run_json("predict --hidden 2304 --density 10% --batch 1 --plan '" + kPlan + "'");
  CHECK(std::stod(cell(table, 4, "step_us")) == one["step_us"].get<double>());
  // Rows as they are expected are a little shorter or longer than a mask's.
  CHECK(cell(rows_of("sweep --rows expected --density 10% --plan '" + kPlan + "' --axis hidden=2304"), 0, "fits") ==
        "true");
}

TEST_CASE("without a hidden size a row has the largest that fits", "[fast][long]") {
  const Table table = rows_of("sweep --axis density=0.1 --batch 1 --granule 512 --tier shared_memory");
  const Json fit = run_json("fit --density 0.1 --batch 1 --granule 512 --tier shared_memory");
  CHECK(cell(table, 0, "hidden") == std::to_string(fit["network"]["hidden"].get<int>()));
}

TEST_CASE("rows are chosen and columns are computed by expressions", "[fast]") {
  const Table all = rows_of(
      "sweep --axis hidden=256:1024:256 --axis batch=1,4 --column 'us=step_us / batch' --column "
      "share=registers_used/registers_available");
  CHECK(all.rows.size() == 8);
  CHECK(std::abs(std::stod(cell(all, 1, "us")) * 4 - std::stod(cell(all, 1, "step_us"))) < 1e-5);
  const Table some = rows_of("sweep --axis hidden=256:1024:256 --axis batch=1,4 --where 'hidden*batch>1024 && fits'");
  CHECK(column(some, "row") == Texts{"3", "5", "7"});
  // What does not fit has no time: nothing can be said of it.
  const Table none = rows_of("sweep --axis hidden=65000 --density 1 --tier registers --column 'x=1/step_us'");
  CHECK(cell(none, 0, "x").empty());
}

TEST_CASE("a spec in TOML says what options say", "[fast]") {
  const Folder folder;
  const std::string spec =
      folder.write("spec.toml",
                   "cell = \"gru\"\nsm.clock = \"+10%\"\nwhere = \"fits\"\n"
                   "column.per_sample = \"step_us/batch\"\nkeep_front = \"step_us:min,hidden:max\"\n"
                   "[[axis]]\nhidden = \"128:512:128\"\n[[axis]]\nbatch = [1, 2]\nsm.count = [100, 132]\n");
  const std::string options =
      "sweep --cell gru --set sm.clock=+10% --where fits --column per_sample=step_us/batch --keep-front "
      "step_us,hidden:max --axis hidden=128:512:128 --axis 'batch=1,2;sm.count=100,132'";
  CHECK(run("sweep " + spec).out == run(options).out);
  CHECK(run("sweep " + spec + " -o " + (folder / "a.csv").string()).status == 0);
  CHECK(run(options + " -o " + (folder / "b.csv").string()).status == 0);
  CHECK(read(folder / "a.manifest.json") == read(folder / "b.manifest.json"));
  CHECK(run("sweep " + spec + " --cell tanh").out ==
        run(options.substr(0, 6) + "--cell tanh" + options.substr(16)).out);
}

TEST_CASE("the rows are the same in JSON Lines", "[fast]") {
  const std::string arguments = "sweep --axis hidden=64,65000 --axis cell=relu,lstm --density 1 --tier registers";
  const Table table = rows_of(arguments);
  const Run lines = run(arguments + " --format jsonl");
  std::istringstream stream(lines.out);
  std::string line;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    REQUIRE(std::getline(stream, line));
    const Json json = Json::parse(line);
    CHECK(json["row"] == row);
    CHECK(json["hidden"].get<int>() == std::stoi(cell(table, row, "hidden")));
    CHECK(json["cell"] == cell(table, row, "cell"));
    CHECK(json["fits"].get<bool>() == (cell(table, row, "fits") == "true"));
    CHECK(json["step_us"].is_null() == cell(table, row, "step_us").empty());
    CHECK(json.size() == table.columns.size());
  }
}

TEST_CASE("bad specs get one clear line, and nothing is written", "[fast]") {
  const Folder folder;
  const auto refused = [&](const std::string& arguments, const std::string& expected) {
    require_refusal("sweep -o " + (folder / "out.csv").string() + " " + arguments, expected);
    CHECK(!std::filesystem::exists(folder / "out.csv"));
    CHECK(!std::filesystem::exists(folder / "out.manifest.json"));
  };
  refused("", "nothing varies");
  refused("--axis hiden=1,2", "did you mean 'hidden'?");
  refused("--axis hidden", "expected KEY=VALUES");
  refused("--axis hidden=64:128", "'64:128'");
  refused("--axis hidden=64:128:0", "FROM:TO:STEP");
  refused("--axis hidden=64:128:-1", "FROM:TO:STEP");
  refused("--axis hidden=0:128:x2", "FROM:TO:xFACTOR");
  refused("--axis hidden=64:128:log1", "FROM:TO:logN");
  refused("--axis hidden=1.5", "a whole number");
  refused("--axis hidden=1:262144:1 --axis batch=1:4096:1 --axis steps=1:100000:1 --axis seed=1:100000:1",
          "1.07e+19 rows");
  refused("--axis seed=1:1e15:1", "at most 1000000");
  refused("--axis hidden=64 --axis hidden=65", "two axes");
  refused("--axis hidden=64 --hidden 65", "fixed and an axis");
  refused("--axis 'hidden=64,65; batch=1'", "'hidden' has 2 values, 'batch' 1");
  refused("--axis hidden=64 --axis cell=gur", "did you mean 'gru'?");
  refused("--axis hidden=64 --axis chip=h2000", "did you mean 'H200'?");
  refused("--axis hidden=64 --axis sm.count=0", "expected 1 to 4096");
  refused("--axis hidden=64 --axis shared_memory.per_sm=512", "KiB");
  refused("--axis hidden=64 --axis density=1.5", "up to 1");
  refused("--axis hidden=64 --axis sms=0", "sms: found '0'");
  refused("--axis hidden=64 --set sm.cuont=5", "did you mean 'sm.count'?");
  refused("--axis weights=nowhere.mtx", "nowhere.mtx");
  refused("--axis hidden=@nowhere.csv", "nowhere.csv");
  refused("--axis batch=1,2 --plan '" + kPlan + "'", "'hidden' is neither fixed nor an axis");
  refused("--axis hidden=64 --family sparse_persistent --plan '" + kPlan + "'", "'family' contradicts 'plan'");
  refused("--axis hidden=64 --axis threads=32", "'threads' needs 'plan'");
  refused("--axis hidden=64 --engine modle", "expected model");
  refused("--axis hidden=64 --keep-front step:min", "did you mean 'steps'?");
  refused("--axis hidden=64 --keep-front step_us:least", "COLUMN:min or COLUMN:max");
  refused("--axis hidden=64 --column 7/x", "NAME=EXPRESSION");
  refused("--axis hidden=64 --column hidden=1", "there is such a column");
  refused("--axis hidden=64 --where 'hiden > 3'", "--where: column 1 of 'hiden > 3': unknown name 'hiden'");
  refused("--axis hidden=64 --where 'hidden > '", "--where: column 10");
  refused("--axis hidden=64 --where '1 + foo(3)'", "--where: column 5");
  refused("--axis hidden=64 --where 'hidden = 3'", "'=='");
  refused("--axis hidden=64 --where 'hidden/0'", "divides by zero");
  refused("--axis batch=1:64:1 --hidden 64 --column 'x=1/(batch-60)'", "(row 59: batch=60)");
  refused((folder / "spec.toml").string(), "spec.toml");
  refused(folder.write("typo.toml", "cell = \"lstm\"\n[[axis]]\nhiden = \"1:2:1\"\n"),
          "typo.toml:3:1: unknown key 'hiden'");
  refused(folder.write("value.toml", "[[axis]]\nhidden = 64\n[[axis]]\nbatch = [1, 0]\n"), "value.toml:3:1: batch");
  refused(folder.write("fixed.toml", "\nsm.clock = \"fast\"\n"), "fixed.toml:2:");
  refused(folder.write("toml.toml", "x = [\n"), "toml.toml:1:");
  refused(folder.write("text.toml", "# \xc3\xa9\ncell = \"\xc3\xa9\"\n"), "text.toml:2:9: found byte");
  require_refusal("sweep --axis hidden=64 -o " + (folder / "none/x.csv").string(), "cannot write the file");
  require_refusal("sweep --axis hidden=64 -o " + (folder / "x.txt").string(), ".csv or .jsonl");
  require_refusal("sweep --axis hidden=64 --format csv -o /dev/full", "not a regular file");
  CHECK(folder.entries() == 5);
}

TEST_CASE("an expression that divides by zero late leaves no file behind", "[fast]") {
  const Folder folder;
  // Not among the rows that are looked at before the file is there.
  const Run result = run("sweep --hidden 2304 --density 10% --plan '" + kPlan +
                         "' --axis steps=1:1000000:1 --column 'x=1/(steps-70000)' -o " + (folder / "out.csv").string());
  CHECK(result.status == 2);
  CHECK(says(result.err, "(row 69999: steps=70000)"));
  CHECK(folder.entries() == 0);
}

TEST_CASE("threads and ranks do not change a byte", "[fast]") {
  const Folder folder;
  const auto bytes = [&](const std::string& name, const std::string& options, const std::string& mpirun = "") {
    const std::string file = (folder / name).string();
    const Run result =
        run("sweep --axis hidden=64:640:64 --axis density=0.01,0.1,1 --axis batch=1:32:x2 --where "
            "'step_us<2' " +
                options + " -o " + file,
            mpirun);
    CAPTURE(options, mpirun, result.err);
    REQUIRE(result.status == 0);
    return read(file) + read((folder / name).replace_extension(".manifest.json"));
  };
  const std::string one = bytes("1.csv", "--threads 1");
  CHECK(says(one, "\n179,"));
  CHECK(bytes("2.csv", "--threads 2") == one);
  CHECK(bytes("7.csv", "--threads 7") == one);
  const std::string front = bytes("f1.csv", "--threads 1 --keep-front step_us,hidden:max,density:max");
  CHECK(bytes("f3.csv", "--threads 3 --keep-front step_us,hidden:max,density:max") == front);
#ifdef ONCHIP_HAS_MPI
  CHECK(bytes("m.csv", "--threads 2", kMpirun) == one);
  CHECK(bytes("fm.csv", "--threads 2 --keep-front step_us,hidden:max,density:max", kMpirun) == front);
  const Run refused = run("sweep --axis hiden=1 -o " + (folder / "x.csv").string(), kMpirun);
  CHECK(refused.status == 2);
  CHECK(says(refused.err, "did you mean 'hidden'?"));
#endif
}

TEST_CASE("only the front is kept, as pareto finds it", "[fast]") {
  const Folder folder;
  const std::string axes = "sweep --cell lstm --axis hidden=128:1024:128 --axis batch=1:16:x2 --axis density=0.05,0.2 ";
  const std::string all = (folder / "all.csv").string(), front = (folder / "front.csv").string();
  REQUIRE(run(axes + "--column 'per=step_us/batch' -o " + all).status == 0);
  REQUIRE(run(axes + "--column 'per=step_us/batch' --keep-front per,hidden:max,density:max -o " + front).status == 0);
  const Json json = run_json("pareto " + all + " --objectives per,hidden:max,density:max");
  Texts rows;
  for (const Json& row : json["front"]) {
    rows.push_back(row["row"]["row"]);
  }
  std::ranges::sort(rows, {}, [](const std::string& row) { return std::stoi(row); });
  CHECK(column(read_csv(front), "row") == rows);
  CHECK(rows.size() < 80);
  CHECK(json["dominated"] == 80 - rows.size());
}

TEST_CASE("the simulator answers, too", "[fast]") {
  const Table table = rows_of("sweep --engine simulator --axis hidden=128,256 --axis batch=1 --column skew_us");
  const Json one = run_json("simulate --hidden 256 --batch 1");
  CHECK(std::stod(cell(table, 1, "step_us")) == one["step_us"].get<double>());
  CHECK(cell(table, 1, "plan") == one["plan"]["text"].get<std::string>());
}
