// SPDX-License-Identifier: Apache-2.0
// The command as a user runs it: a process with arguments, exit status, and what it writes where.
#pragma once

#include "model/base/json.hpp"
#include "tests/catch.hpp"
#include "tests/folder.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace onchip {

struct Run {
  int status = -1;
  std::string out, err;
};

// `arguments` as in a shell; environment assignments may stand in `environment`.
inline Run run(const std::string& arguments, const std::string& environment = "") {
  const Folder folder;
  const std::string out = (folder / "out").string(), err = (folder / "err").string();
  const std::string command = "env " + environment + " '" ONCHIP_COMMAND "' " + arguments + " >" + out + " 2>" + err;
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(out), read(err)};
}

inline Json run_json(const std::string& arguments, int status = 0) {
  const Run result = run(arguments + " --format json");
  CAPTURE(arguments, result.err);
  REQUIRE(result.status == status);
  return Json::parse(result.out);
}

// One line on stderr, nothing on stdout, exit status 2.
inline void require_refusal(const std::string& arguments, const std::string& expected,
                            const std::string& environment = "") {
  const Run result = run(arguments, environment);
  CAPTURE(arguments, result.out, result.err);
  CHECK(result.status == 2);
  CHECK(result.out.empty());
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  CHECK(result.err.size() < 600);
  CHECK(says(result.err, expected));
}

inline void require_prediction(const Json& json) {
  CHECK(json.at("chip").is_string());
  CHECK(json.at("network").at("hidden").is_number_integer());
  CHECK(json.at("plan").at("family").get<std::string>().ends_with("_persistent"));
  CHECK(json.at("fits").is_boolean());
  CHECK((json.at("fits") == false || json.at("tier") != "streamed"));
  CHECK(json.at("binding").is_string());
  REQUIRE(json.at("resources").size() >= 3);
  for (const Json& resource : json.at("resources")) {
    CHECK(resource.at("name").is_string());
    CHECK(resource.at("used").is_number());
    CHECK(resource.at("available").is_number());
    CHECK(resource.at("unit").is_string());
  }
  REQUIRE(json.at("interval_us").size() == 2);
  REQUIRE(json.at("terms").size() >= 3);
  if (json.at("runs") == false) {
    CHECK(json.at("fits") == false);
    CHECK(json.at("step_us").is_null());
    return;
  }
  const double step = json.at("step_us");
  CHECK(json.at("interval_us")[0] <= step);
  CHECK(step <= json.at("interval_us")[1]);
  CHECK(json.at("floor_us") <= step);
  double sum = 0;
  for (const Json& term : json.at("terms")) {
    CHECK(term.at("name").is_string());
    sum += term.at("us").get<double>();
  }
  CHECK_THAT(sum, Catch::Matchers::WithinRel(step, 1e-4));
}

inline constexpr const char* kMeasured =
    "cell,hidden,batch,steps,density,precision,mask,seed,nnz,plan,step_us,fingerprint\n"
    "relu,2304,4,256,0.3,fp16,uniform,1,1592000,PLAN,MEASURED,0123456789abcdef\n";

// A measured file on a chip whose only row differs from the prediction by `factor`.
inline std::string measured_file(const Folder& folder, double factor, const std::string& chip = "h200") {
  const Json predicted = run_json("predict --hidden 2304 --density 0.3 --chip " + chip);
  std::string text = kMeasured;
  text.replace(text.find("PLAN"), 4, predicted["plan"]["text"].get<std::string>());
  text.replace(text.find("MEASURED"), 8, std::to_string(predicted["step_us"].get<double>() * factor));
  return folder.write(chip + "/validation.csv", text);
}

}  // namespace onchip
