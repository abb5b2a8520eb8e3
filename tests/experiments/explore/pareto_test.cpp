// SPDX-License-Identifier: Apache-2.0
// Fronts: equal to trying every pair, thinned, and told step by step.
#include "experiments/explore/result_reader.hpp"
#include "model/explore/front.hpp"
#include "tests/experiments/command.hpp"

#include <filesystem>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace onchip;

TEST_CASE("a file of rows that cannot be read is closed again", "[fast]") {
  const Folder folder;
  const auto open_files = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
  const auto before = open_files();
  for (const auto& [name, text] : {std::pair{"r.jsonl", "1\n"}, {"r.jsonl", "{"}, {"r.csv", ""}, {"r.csv", "\"a\n"}}) {
    CAPTURE(name, text);
    CHECK_THROWS_AS(ResultReader(folder.write(name, text)), InputError);
    CHECK(open_files() == before);
  }
}

TEST_CASE("a front is what no pair of rows denies, of 2 to 5 objectives with ties", "[fast][long]") {
  const Folder folder;
  std::mt19937 draw(1);
  for (int i = 0; i < 200; ++i) {
    const std::size_t objectives = 2 + static_cast<std::size_t>(i) % 4;
    const int rows = 1 + static_cast<int>(draw() % 150), values = 2 + static_cast<int>(draw() % 40);
    std::string text = "row,fits", list;
    std::vector<bool> is_largest;
    for (std::size_t o = 0; o < objectives; ++o) {
      is_largest.push_back(draw() % 2 == 0);
      text += ",o" + std::to_string(o);
      list += (o ? ",o" : "o") + std::to_string(o) + (is_largest[o] ? ":max" : ":min");
    }
    text += '\n';
    std::vector<std::vector<double>> points;
    std::vector<bool> counts;
    for (int row = 0; row < rows; ++row) {
      std::vector<double>& point = points.emplace_back();
      counts.push_back(draw() % 10 != 0);
      const bool is_empty = draw() % 10 == 0;
      text += std::to_string(row) + (counts.back() ? ",1" : ",0");
      for (std::size_t o = 0; o < objectives; ++o) {
        point.push_back(static_cast<int>(draw() % static_cast<unsigned>(values)) - values / 2);
        text += "," + (is_empty && o == 1 ? std::string() : std::to_string(point.back()));
        point.back() *= is_largest[o] ? -1 : 1;
      }
      counts.back() = counts.back() && !is_empty;
      text += '\n';
    }
    std::vector<int> expected;
    for (int a = 0; a < rows; ++a) {
      bool is_dominated = false;
      for (int b = 0; b < rows; ++b) {
        bool is_nowhere_larger = counts[b], is_smaller = false;
        for (std::size_t o = 0; o < objectives; ++o) {
          is_nowhere_larger = is_nowhere_larger && points[b][o] <= points[a][o];
          is_smaller = is_smaller || points[b][o] < points[a][o];
        }
        is_dominated = is_dominated || (is_nowhere_larger && is_smaller);
      }
      if (counts[a] && !is_dominated) {
        expected.push_back(a);
      }
    }
    const Json json =
        run_json("pareto " + folder.write("rows.csv", text) + " --objectives " + list, expected.empty() ? 1 : 0);
    std::vector<int> found;
    for (const Json& row : json["front"]) {
      found.push_back(std::stoi(row["row"]["row"].get<std::string>()));
    }
    std::ranges::sort(found);
    CAPTURE(i, text, list);
    REQUIRE(found == expected);
    CHECK(json["not_counted"] == std::ranges::count(counts, false));
    CHECK(json["dominated"] == rows - std::ranges::count(counts, false) - static_cast<long>(expected.size()));
  }
}

TEST_CASE("a thinned front stands within the share for every point", "[fast]") {
  std::mt19937 draw(2);
  for (const double share : {0.0, 0.02, 0.3}) {
    for (const std::size_t objectives : {2, 3}) {
      Front front(objectives);
      for (std::uint64_t i = 0; i < 3000; ++i) {
        Point point{};
        double sum = 0;
        for (std::size_t o = 0; o < objectives; ++o) {
          point[o] = 1 + static_cast<double>(draw() % 10000) / 100;
          sum += point[o] * point[o];
        }
        for (std::size_t o = 0; o < objectives; ++o) {
          point[o] *= -100 / std::sqrt(sum);  // on a sphere none dominates another, but for what rounding makes equal
        }
        front.add(point, i);
      }
      std::vector<Point> points;
      for (const auto& [point, ids] : front.points()) {
        points.push_back(point);
      }
      const std::vector<std::size_t> kept = thinned(points, share);
      CHECK(kept.front() == 0);
      CHECK(kept.back() == points.size() - 1);
      CHECK((share * static_cast<double>(4 - objectives) > 0.03 ? kept.size() < points.size() / 2
                                                                : kept.size() > points.size() / 2));
      for (const Point& point : points) {
        CHECK(std::ranges::any_of(kept, [&](std::size_t k) {
          bool is_near = true;
          for (std::size_t o = 0; o < objectives; ++o) {
            const double least = std::min(std::abs(point[o]), std::abs(points[k][o]));
            is_near = is_near && std::abs(point[o] - points[k][o]) <= share * least;
          }
          return is_near;
        }));
      }
    }
  }
}

TEST_CASE("each step along a front says what changed, and what it cost and gained", "[fast]") {
  const Folder folder;
  const std::string file =
      folder.write("rows.csv",
                   "row,hidden,density,fits,step_us,plan,problem\n0,512,0.1,1,1,a,\n"
                   "1,1024,0.1,1,1.5,\"b, c\",\n2,1024,0.2,1,1.5,\"b, c\",\n3,256,0.1,1,1.2,a,\n4,9,9,0,,,no\n");
  const Run text = run("pareto " + file + " --objectives step_us,hidden:max");
  CAPTURE(text.out);
  CHECK(text.out.starts_with("5 rows: 3 on the front, which dominate 1; 1 do not fit"));
  CHECK(says(text.out, "1.5  +50.0 %    1024  +100.0 %      0.1     2  plan a -> b,\n"));
  const Json json = run_json("pareto " + file + " --objectives step_us,hidden:max");
  CHECK(json["front"][1]["percent"] == Json{{"step_us", 50.0}, {"hidden", 100.0}});
  CHECK(json["front"][2]["changed"] == Json{{"density", {"0.1", "0.2"}}});
  // CSV is the rows as they are, which pareto reads again; JSON Lines say the same.
  const Run csv = run("pareto " + file + " --objectives step_us,hidden:max --format csv");
  CHECK(says(csv.out, "2,1024,0.2,1,1.5,\"b, c\",\n"));
  const std::string again = folder.write("front.csv", csv.out);
  CHECK(run("pareto " + again + " --objectives step_us,hidden:max --format csv").out == csv.out);
  CHECK(run_json("pareto " + again + " " + file + " --objectives step_us,hidden:max")["on_front"] == 6);
  const std::string lines = folder.write("rows.jsonl",
                                         "{\"row\": 0, \"hidden\": 512, \"fits\": true, \"step_us\": 1}\n"
                                         "{\"row\": 1, \"hidden\": 1024, \"fits\": true, \"step_us\": 1.5}\n"
                                         "{\"row\": 2, \"hidden\": 2048, \"fits\": false, \"step_us\": null}\n");
  CHECK(run_json("pareto " + lines + " --objectives step_us,hidden:max")["on_front"] == 2);
}

TEST_CASE("a front by a column is the fronts of its values, as of the rows that an expression leaves", "[fast]") {
  const Folder folder;
  std::mt19937 draw(44);
  std::string all = "chip,a,b,c\n";
  for (int row = 0; row < 300; ++row) {
    all += std::to_string(draw() % 3);
    for (int i = 0; i < 3; ++i) {
      all += ',' + std::to_string(draw() % 20);
    }
    all += '\n';
  }
  const std::string pareto = "pareto " + folder.write("all.csv", all) + " --objectives a,b:max,c ";
  const Json by = run_json(pareto + "--by chip");
  CHECK(by["rows"] == 300);
  std::size_t on_front = 0;
  for (const char* chip : {"0", "1", "2"}) {
    const Json alone = run_json(pareto + "--where 'chip == " + chip + "'");
    Json of_chip = Json::array();
    std::ranges::copy_if(by["front"], std::back_inserter(of_chip),
                         [&](const Json& row) { return row["row"]["chip"] == chip; });
    CHECK(of_chip.size() == alone["on_front"]);
    for (std::size_t i = 0; i < of_chip.size(); ++i) {
      CHECK(of_chip[i]["row"] == alone["front"][i]["row"]);
      CHECK(of_chip[i]["percent"] == alone["front"][i]["percent"]);
    }
    on_front += of_chip.size();
  }
  CHECK(by["on_front"] == on_front);
  CHECK(run(pareto + "--where 'a > 99'").status == 1);
  require_refusal(pareto + "--by chipp", "did you mean 'chip'?");
  require_refusal(pareto + "--where 'chp > 1'", "did you mean 'chip'?");
}

TEST_CASE("what is no front's file or objective gets one clear line", "[fast]") {
  const Folder folder;
  const std::string file = folder.write("rows.csv", "row,hidden,step_us\n0,512,x\n");
  require_refusal("pareto", "expected files and --objectives");
  require_refusal("pareto " + file, "--objectives");
  require_refusal("pareto " + file + " --objectives hiden", "did you mean 'hidden'?");
  require_refusal("pareto " + file + " --objectives hidden:most", "COLUMN:min or COLUMN:max");
  require_refusal("pareto " + file + " --objectives step_us", "rows.csv:2:1: column 'step_us': found 'x'");
  require_refusal("pareto " + file + " --objectives hidden --within 200%", "a share such as 2%");
  require_refusal("pareto " + folder.write("short.csv", "a,b\n1\n") + " --objectives a", "short.csv:2:1");
  require_refusal("pareto " + folder.write("none.csv", "") + " --objectives a", "none.csv:1:1: the file is empty");
  require_refusal("pareto nowhere.csv --objectives a", "nowhere.csv");
  require_refusal("pareto " + file + " " + folder.write("other.csv", "hidden\n1\n") + " --objectives hidden",
                  "other columns");
}
