// SPDX-License-Identifier: Apache-2.0
// `onchip report`: pages that say what the files say, ask nobody for anything, and are the same bytes again.
#include "tests/experiments/command.hpp"

using namespace onchip;

namespace {

constexpr const char* kHostile = "<script>alert(1)</script>\"'&--><img src=x onerror=alert(1)>";

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) {
    ++found;
  }
  return found;
}

// What a page without scripts and requests cannot have.
void require_inert(const std::string& page) {
  for (const char* word : {"<script", "src=\"h", "<link", "<iframe", "@import", "http-equiv=\"refresh\"", "http://",
                           "https://", "<form", "<object", "\x01"}) {
    CAPTURE(word);
    CHECK(!says(page, word));
  }
}

std::string between(const std::string& text, const std::string& from, const std::string& to) {
  const std::size_t begin = text.find(from);
  REQUIRE(begin != std::string::npos);
  return text.substr(begin + from.size(), text.find(to, begin) - begin - from.size());
}

std::string unescaped(std::string text) {
  for (const auto& [from, to] :
       {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}}) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + 1)) {
      text.replace(at, std::string(from).size(), to);
    }
  }
  return text;
}

Json embedded_data(const std::string& page) {
  return Json::parse(unescaped(between(page, "<pre class=\"data\">", "</pre>")));
}

}  // namespace

TEST_CASE("a report of every kind of answer has its sentence, its command and its data", "[fast]") {
  struct Asked {
    const char* question;
    const char* sentence;
  };
  for (const auto& [question, sentence] :
       {Asked{"predict --hidden 2304 --density 30%", "relu H=2304 B=4 30 % fp16 on H200 fits: a step takes"},
        Asked{"predict --hidden 2304 --density 30% --plan all", "Of 6 kinds of plan, dense_persistent is the fastest."},
        Asked{"fit --hidden 20000 --density 30% --batch 1", "does not fit: too little of"},
        Asked{"what-if --hidden 2304 --density 30% --set sm.clock=+10% --no-ranking", "changed: relu H=2304"},
        Asked{"predict --mode train --cell lstm --hidden 512 --batch 32", "fits: an iteration takes "},
        Asked{"fit --cell lstm --hidden 512 --layers 4", "fits: a sequence takes "},
        Asked{"predict --network spdnn:1024x120", "spdnn:1024x120 on H200 fits: all images take "},
        Asked{"predict --cell lstm --hidden 512 --layers 2", "; the whole sequence takes "}}) {
    CAPTURE(question);
    const Folder folder;
    const std::string answer = (folder / "answer.json").string(), out = (folder / "page.html").string();
    run(std::string(question) + " -o " + answer);
    REQUIRE(run("report " + answer + " --page onchip.html -o " + out).status == 0);
    const std::string page = read(out);
    CHECK(says(page, sentence));
    CHECK(says(page, "onchip " + std::string(question).substr(0, 7)));
    CHECK(embedded_data(page) == Json::parse(read(answer)));
    CHECK((count(page, "<svg class=\"bar\"") > 0) == says(page, " take"));  // of what its time is made
    CHECK(says(page, "<a href=\"onchip.html#"));
    require_inert(page);
  }
}

TEST_CASE("a report of a sweep and its front shows rows, figures and what the manifest says", "[fast]") {
  const Folder folder;
  const std::string sweep = (folder / "s.csv").string(), front = (folder / "front.json").string();
  REQUIRE(run("sweep --rows expected --axis density=5%,20% --axis hidden=1024,4096,8192 -o " + sweep).status == 0);
  REQUIRE(run("pareto " + sweep + " --objectives hidden:max,step_us -o " + front).status == 0);
  const Run made = run("report " + sweep + ' ' + front + " --command 'how the sweep was made'");
  REQUIRE(made.status == 0);
  CHECK(made.out == run("report " + sweep + ' ' + front + " --command 'how the sweep was made'").out);
  CHECK(says(made.out, "of 6 rows fit, up to "));
  CHECK(says(made.out, "of 6 rows are on the front"));
  CHECK(says(made.out, "chip: h200"));
  CHECK(says(made.out, "how the sweep was made\n"));
  CHECK(says(made.out, "--objectives hidden:max,step_us -o"));
  CHECK(says(made.out, "<td>density</td><td class=\"number\">2</td>"));  // of the manifest
  CHECK(embedded_data(made.out).size() == 6);
  CHECK(embedded_data(made.out)[1]["hidden"] == 4096);
  // Of the sweep a map of six cells and a front for each density; of the front its rows.
  CHECK(says(made.out, "What fits, by hidden size and density"));
  CHECK(count(between(made.out, "<table class=\"map\">", "</table>"), "<td") == 6);
  CHECK(count(made.out, "aria-label=\"What no other row beats\"") == 2);
  CHECK(says(made.out, ">density 0.05</text>"));
  require_inert(made.out);
}

TEST_CASE("a report of no rows says so, and a stray quote has one place", "[fast]") {
  const Folder folder;
  for (const std::string name : {"none.csv", "nothing.jsonl"}) {
    const std::string none = (folder / name).string();
    REQUIRE(run("sweep --axis hidden=64,128 --axis batch=1,2 --where 'hidden > 999' -o " + none).status == 0);
    const Run made = run("report " + none);
    CAPTURE(made.err);
    CHECK(made.status == 0);
    CHECK(says(made.out, "There are no rows."));
  }
  // Wherever a quote stands inside a field, it is named there.
  const std::string text = "row,hidden,step_us\n0,512,1.5\n1,1024,2.5\n2,2048,3.5\n";
  std::size_t line = 1, begin = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool is_inside = at > begin && text[at - 1] != ',' && text[at] != '\n';
    if (is_inside) {
      const std::string place = ":" + std::to_string(line) + ":" + std::to_string(at - begin + 1) + ": ";
      const std::string file = folder.write("quote.csv", text.substr(0, at) + '"' + text.substr(at));
      require_refusal("report " + file, file + place + "a field has a quote inside");
    }
    if (text[at] == '\n') {
      ++line;
      begin = at + 1;
    }
  }
}

TEST_CASE("a report says of each chip how short its shortest step is", "[fast]") {
  const Folder folder;
  const std::string rows = folder.write("chips.csv", "row,chip,fits,step_us\n0,a,1,2\n1,b,1,3\n2,a,1,1\n3,b,0,\n");
  CHECK(says(run("report " + rows).out, "3 of 4 rows fit; the shortest step takes 1 µs on a, 3 µs on b."));
}

TEST_CASE("hostile names stand in a report as text", "[fast]") {
  const Folder folder;
  const std::string name = kHostile;
  const Json json{
      {"claims", {{{"name", name}, {name, name}, {"verdict", name}}, {{"name", "b"}, {"verdict", "differs"}}}},
      {"command", name},
      {name, {{"deep", name}, {"list", {name, 1}}}}};
  folder.write("<b>'.json", json.dump());
  folder.write("rows.csv", "name,\"" + std::string("<i>,x") + "\"\n<script>,</table>\n");
  const Run made =
      run("report \"" + (folder / "<b>'.json").string() + "\" " + (folder / "rows.csv").string() + " --command '<u>'");
  CAPTURE(made.err);
  REQUIRE(made.status == 0);
  require_inert(made.out);
  for (const char* word : {"<b>", "<i>", "<u>", "onerror=alert(1)>\n", "</table>\n<"}) {
    CHECK(!says(made.out, word));
  }
  CHECK(says(made.out, "2 claims: 1 &lt;script&gt;"));
  CHECK(embedded_data(made.out) == json);
}

TEST_CASE("a report of claims counts verdicts, and any rows are a table", "[fast]") {
  const Folder folder;
  const std::string rows = folder.write(
      "claims.csv",
      "claim,published,model,verdict\na,1,2,differs\nb,3,3,replicated\nb,2,2,replicated\nc,3,3,replicated\n");
  CHECK(says(run("report " + rows).out, "3 claims: 1 differs, 2 replicated."));
  std::string many = "key,same,number\n";
  for (int i = 0; i < 101; ++i) {
    many += "k" + std::to_string(i) + ",constant,0.123456789\n";
  }
  many += "last,constant,2\n";
  const std::string page = run("report " + folder.write("many.csv", many)).out;
  CHECK(says(page, "In all rows: same: constant."));
  CHECK(says(page, "The first 100 of 102 rows"));
  CHECK(says(page, "<td class=\"number\">0.1235</td>"));
  CHECK(embedded_data(page).size() == 102);
  CHECK(embedded_data(page)[0]["number"] == 0.123456789);
}

TEST_CASE("charts of a report have a mark for each row, and bars the parts that make up the time", "[fast]") {
  const Folder folder;
  const std::string scores = folder.write("scores.csv",
                                          "chip,hidden,precision,measured_us,predicted_us\nA,1,fp16,1,1.1\n"
                                          "A,2,fp32,20,19\nA,3,fp16,300,310\nA,4,fp16,,5\n");
  const std::string page = run("report " + scores).out;
  CHECK(says(page, "Predicted against measured step times"));
  CHECK(count(page, "<circle") == 2 * 3);  // and the line of what is measured as predicted
  for (const char* tick : {">1</text>", ">10</text>", ">100</text>"}) {  // logarithmic
    CHECK(count(page, tick) == 2);
  }
  const std::string parts =
      folder.write("parts.csv", "plan,step_us,low_us,high_us,gather_us,launch_us\na,4,3,8,1,3\nb,4,3,5,1,1\n");
  const std::string bars = run("report " + parts).out;
  CHECK(count(bars, "<svg class=\"bar\"") == 1);  // b's parts are not all of its time
  CHECK(says(bars, "<rect class=\"blue\" x=\"0.0\" y=\"1\" width=\"30.0\""));
  CHECK(says(bars, "<rect class=\"vermilion\" x=\"30.0\" y=\"1\" width=\"90.0\""));
}

TEST_CASE("rows of a report lead to the page in their state", "[fast]") {
  const Folder folder;
  const std::string rows =
      folder.write("rows.csv", "chip,cell,hidden,batch,density,sm.clock\nTITAN X Maxwell,lstm,512,4,0.1,1e9\n,,,,,\n");
  CHECK(says(
      run("report " + rows + " --page 'https://a/?b&c'").out,
      "<a href=\"https://a/?b&amp;c#chip=titan_x_maxwell&amp;cell=lstm&amp;hidden=512&amp;batch=4&amp;density=0.1&amp;"
      "set=sm.clock=1000000000%20Hz\">open</a>"));
}

TEST_CASE("a figure stands in a report as a picture, in which nothing runs", "[fast]") {
  const Folder folder;
  const std::string page =
      run("report " + folder.write("good.svg", "<svg onload=\"x\"><script>1</script>'\"</svg>\n")).out;
  CHECK(says(page, "<figure><img alt=\"good.svg\" src=\"data:image/svg+xml,%3Csvg%20onload=%22x%22%3E%3Cscript%3E"));
  require_inert(page);
}

TEST_CASE("a report refuses what it cannot read, and writes nothing then", "[fast]") {
  const Folder folder;
  require_refusal("report", "expected files, e.g. ");
  require_refusal("report " + (folder / "none.json").string(), "No such file");
  require_refusal("report " + folder.write("bad.json", "{") + " -o " + (folder / "page.html").string(),
                  "expected CSV, JSON Lines, an SVG figure, or the JSON of an answer");
  require_refusal("report " + folder.write("bad.json", R"({"network": 1, "plan": 2, "sequence": 3})"),
                  "expected what onchip writes");
  CHECK(run("report " + folder.write("any.json", R"([[{"a": 1}], 2])")).status == 0);
  require_refusal("report " + folder.write("bad.csv", "a,b\n1\n"), "bad.csv");
  const std::string deep = std::string(100000, '[') + std::string(100000, ']') + "\n",
                    rows = folder.write("a.csv", "a\n1\n");
  folder.write("a.manifest.json", deep);
  for (const std::string& file :
       {folder.write("deep.json", deep), folder.write("deep.jsonl", "{\"a\":" + deep), rows}) {
    require_refusal("report " + file, "more than 100 brackets within each other");
  }
  require_refusal("pareto " + rows + " --objectives a:min", "more than 100 brackets within each other");
  CHECK(!std::filesystem::exists(folder / "page.html"));
}
