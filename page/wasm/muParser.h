// SPDX-License-Identifier: Apache-2.0
// Found instead of the library's header: Debian has muParser for its own machines alone, so that the page has no
// expressions. Sweeps that need one are refused with this sentence.
#pragma once

#include "model/base/error.hpp"

#include <map>
#include <string>

namespace mu {

class Parser {
 public:
  struct exception_type {
    std::string GetMsg() const { return {}; }
    int GetPos() const { return -1; }
  };
  const std::map<std::string, double*>& GetVar() const { return variables_; }
  void DefineVar(const std::string& name, double* value) { variables_[name] = value; }
  void DefineNameChars(const char*) {}
  void SetExpr(const std::string&) {
    throw onchip::InputError("expressions are not computed in a page; 'onchip sweep' computes them");
  }
  double Eval() const { return 0; }

 private:
  std::map<std::string, double*> variables_;
};

}  // namespace mu
