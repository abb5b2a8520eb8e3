// SPDX-License-Identifier: Apache-2.0
// `onchip report`: pages that say what the files say, ask nobody for anything, and are the same bytes again.
#include "tests/experiments/command.hpp"

using namespace onchip;

namespace {

constexpr const char* kHostile = "<script>alert(1)</script>\"'&--><img src=x onerror=alert(1)>";

bool has_figures() {
  return std::system(ONCHIP_SOURCE_DIR "/plots/python 2>/dev/null") == 0;
}

// What a page without scripts and requests cannot have.
void require_inert(const std::string& page) {
  for (const char* word : {"<script", "<img", "<link", "<iframe", "@import", "http-equiv=\"refresh\"", "http://",
                           "https://", "<form", "<object"}) {
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
        Asked{"what-if --hidden 2304 --density 30% --set sm.clock=+10% --no-ranking", "Changed: "},
        Asked{"predict --cell lstm --hidden 512 --layers 2", "; the whole sequence takes "}}) {
    CAPTURE(question);
    const Folder folder;
    const std::string answer = (folder / "answer.json").string(), out = (folder / "page.html").string();
    run(std::string(question) + " -o " + answer);
    REQUIRE(run("report " + answer + " -o " + out, "ONCHIP_PLOTS=/nowhere").status == 0);
    const std::string page = read(out);
    CHECK(says(page, sentence));
    CHECK(says(page, "onchip " + std::string(question).substr(0, 7)));
    CHECK(embedded_data(page) == Json::parse(read(answer)));
    CHECK(says(page, "Tables only, no figures: the scripts of plots/ are not here."));
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
  CHECK((says(made.out, "<figure><svg role=\"img\"")) == has_figures());
  CHECK((!says(made.out, "Tables only, no figures: there is no python3 with matplotlib")) == has_figures());
  require_inert(made.out);
  // Names of parts of figures are nobody else's.
  std::vector<std::string> names;
  for (std::size_t at = made.out.find(" id=\""); at != std::string::npos; at = made.out.find(" id=\"", at + 1)) {
    names.push_back(made.out.substr(at, made.out.find('"', at + 5) - at));
  }
  std::ranges::sort(names);
  CHECK(std::ranges::adjacent_find(names) == names.end());
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
  CHECK(says(run("report " + rows, "ONCHIP_PLOTS=/nowhere").out,
             "3 of 4 rows fit; the shortest step takes 1 µs on a, 3 µs on b."));
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

TEST_CASE("a report without matplotlib, or with a figure that fails, has tables and says why", "[fast]") {
  const Folder folder;
  const std::string answer = (folder / "answer.json").string();
  run("predict --hidden 2304 --density 30% -o " + answer);
  folder.write("plots/step_parts.py", "");
  for (const auto& [program, said] :
       {std::pair{"exit 77", "Tables only, no figures: there is no python3 with matplotlib"},
        {"echo first; echo \"$2 $3: <b>\" >&2; exit 1", "Where the time of a step goes. --data data.csv: &lt;b&gt;"}}) {
    const std::string script = folder.write("plots/python", std::string("#!/bin/sh\n") + program + "\n");
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    const std::string plots = "ONCHIP_PLOTS=" + (folder / "plots").string();
    const Run made = run("report " + answer, plots);
    CHECK(says(made.out, said));
    CHECK(says(made.out, "<th>binding</th><td>exchange</td>"));
    CHECK(made.out == run("report " + answer, plots).out);
  }
}

TEST_CASE("a figure may stand in a report if it is no more than a drawing", "[fast]") {
  const Folder folder;
  const std::string good =
      "<?xml version=\"1.0\"?>\n<!DOCTYPE svg>\n<svg xmlns=\"http://www.w3.org/2000/svg\">"
      "<metadata>http://x</metadata><g id=\"a\"/><use href=\"#a\"/></svg>\n";
  const std::string page = run("report " + folder.write("good.svg", good)).out;
  CHECK(says(page, "<svg role=\"img\" aria-label=\"good.svg\"><g id=\"f1-a\"/><use href=\"#f1-a\"/></svg>"));
  require_inert(page);
  for (const char* bad : {"<svg><script>1</script></svg>", "<svg onload=\"x\"/>", "no figure"}) {
    require_refusal("report " + folder.write("bad.svg", bad), "expected an SVG file of plots/");
  }
}

TEST_CASE("a report refuses what it cannot read, and writes nothing then", "[fast]") {
  const Folder folder;
  require_refusal("report", "expected files, e.g. ");
  require_refusal("report " + (folder / "none.json").string(), "No such file");
  require_refusal("report " + folder.write("bad.json", "{") + " -o " + (folder / "page.html").string(),
                  "expected CSV, JSON Lines, an SVG figure, or the JSON of an answer");
  for (const char* json : {R"({"base": 3})", R"({"plans": [1]})", R"({"correct": true, "step_us": 3})"}) {
    require_refusal("report " + folder.write("bad.json", json), "expected what onchip writes");
  }
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
