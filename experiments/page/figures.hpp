// SPDX-License-Identifier: Apache-2.0
// Figures of a table's rows as SVG to stand inside a page: whichever scripts of plots/ draw what its columns hold.
#pragma once

#include "model/answer/json.hpp"
#include "model/base/table.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

struct Figure {
  std::string title;
  std::string svg;      // "" where it could not be drawn
  std::string problem;  // why not
};

class Figures {
 public:
  Figures();
  ~Figures();
  Figures(const Figures&) = delete;
  Figures& operator=(const Figures&) = delete;

  // `objectives`: of a front, else "".
  std::vector<Figure> draw(const Table& rows, const std::string& objectives);
  std::vector<Figure> draw(const Json& answer);            // that need more than its rows
  const std::string& missing() const { return missing_; }  // why nothing can be drawn; "" if it can, or was not tried

  // An SVG of matplotlib as it may stand in a page: names of its parts differ from those of the figures before it, and
  // nothing in it asks anybody. Throws InputError for what is no such file.
  std::string embedded(std::string_view svg, const std::string& title, const std::string& name);

 private:
  // Of the bytes of a file, by a script of plots/.
  void draw_by(const std::string& script, const std::string& title, const std::string& extension,
               const std::string& bytes, const std::vector<std::string>& options, std::vector<Figure>& figures);

  std::filesystem::path scripts_, folder_;
  std::string missing_;
  int count_ = 0;
};

}  // namespace onchip
