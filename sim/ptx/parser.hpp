// SPDX-License-Identifier: Apache-2.0
// The reader of PTX: a module from its text. parse.cpp has modules and functions, parse_operands.cpp registers and what
// instructions read, parse_instructions.cpp the instructions.
#pragma once

#include "sim/ptx/instructions.hpp"
#include "sim/ptx/module.hpp"
#include "sim/ptx/tokens.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace onchip::ptx {

// Of ".b32" and its like; 0: no type. A predicate has kPredicate.
inline constexpr int kPredicate = -1;
inline int type_bytes(std::string_view type) {
  if (type == ".pred") {
    return kPredicate;
  }
  if (type.size() < 3 || type[0] != '.' || std::string_view("busf").find(type[1]) == std::string_view::npos) {
    return 0;
  }
  const std::string_view bits = type.substr(2);
  return bits == "8" ? 1 : bits == "16" ? 2 : bits == "32" ? 4 : bits == "64" ? 8 : bits == "128" ? 16 : 0;
}
inline char letter_of(int bytes) {
  return bytes == kPredicate ? 'p' : bytes <= 2 ? 'h' : bytes == 4 ? 'w' : bytes == 8 ? 'q' : 'x';
}
inline int bytes_of(char letter) {
  return letter == 'p' ? 0 : letter == 'h' ? 2 : letter == 'w' ? 4 : letter == 'q' ? 8 : 16;
}

// Beyond these, the text is a mistake.
inline constexpr std::size_t kMostRegisterBytes = std::size_t{64} << 20;  // of a warp
inline constexpr std::size_t kMostVariableBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMostLocalBytes = std::size_t{512} << 10;  // of a thread, as PTX says
inline constexpr int kMostStatements = 1 << 20;                         // of a kernel, calls expanded
inline constexpr int kDeepest = 16;                                     // calls and braces

struct Register {
  char letter = 'w';
  u32 at = 0;
  bool is_parameter = false;  // of a function
};

// A variable of the module, or a kernel's parameter.
struct Symbol {
  Space space = Space::global;
  u64 offset = 0;
};

struct Formal {
  std::string name;
  int bytes = 0, alignment = 1;
};

struct Function {
  std::size_t body = 0;  // token of its brace
  std::vector<Formal> results, formals;
};

struct Operand {
  char letter = '#';  // as in Meaning::form
  Register reg;       // of a register; of an address: its base, if is_register
  bool is_register = false;
  std::optional<Symbol> symbol;  // of a number or an address: added to
  u64 number = 0;
  std::string_view label;
};

class Parser {
 public:
  Parser(std::string_view text, const std::string& name) : tokens_(split_tokens(text, name)) { module_.name = name; }

  Module parse();

 private:
  const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(next_ + ahead, tokens_.size() - 1)]; }
  const Token& take();
  bool accept(std::string_view text);
  void expect(std::string_view text);
  std::string_view word(std::string_view what);
  static std::string shown(const Token& token);
  [[noreturn]] void fail(const Token& token, const std::string& what) const;

  u64 number();
  int small_number();

  void parse_top();

  // ".global .align 4 .u32 name[2] = {1, 2};" after the storage, which is at hand.
  void parse_variable(std::unordered_map<std::string, Symbol>& symbols);

  void parse_values(std::size_t at, std::size_t bytes, std::size_t element);

  // "(.param .b32 a, .param .align 8 .b8 b[120])"
  std::vector<Formal> parse_formals();

  void parse_function();

  void skip_body();

  struct Frame {  // of a function that is being expanded
    std::unordered_map<std::string, u32> labels;
    std::vector<std::pair<u32, Token>> jumps;  // instructions, and the labels that they go to
    std::vector<u32> returns;
    std::unordered_map<std::string, Symbol> symbols;      // variables and kernel parameters
    std::unordered_map<std::string, Register> arguments;  // parameters of functions
    std::vector<std::unordered_map<std::string, Register>> scopes;
  };

  void decode_kernel(const std::string& name, const Function& function, Kernel kernel);

  // From the brace at hand to its end.
  void decode_body(Frame& frame, int depth);

  void parse_statement(Frame& frame, int depth);

  Register new_register(char letter);

  // ".b32 %r<282>;" or ".b64 low, high;"
  void parse_registers(Frame& frame);

  // ".b32 param0;": what a call hands over.
  void parse_argument(Frame& frame);

  const Register* find_register(const Frame& frame, std::string_view name) const;

  const Symbol* find_symbol(const Frame& frame, std::string_view name) const;

  bool is_dynamic(std::string_view name) const { return std::ranges::find(dynamic_, name) != dynamic_.end(); }

  // A register that is filled with the number, in the width of the letter.
  Register constant(char letter, u64 value);
  // One that is filled with a variable's address.
  Register address_of(const Symbol& symbol, bool dynamic, u64 added);

  std::optional<Register> special(std::string_view name);

  u32 opcode_number(std::string_view opcode);

  // One operand; what it is says its letter.
  Operand parse_operand(const Frame& frame, bool is_address = false);

  void parse_instruction(Frame& frame, int depth);

  void apply(const Meaning& meaning, const std::vector<Operand>& operands, Instruction& i, Frame& frame,
             const Token& token);

  void set_address(const Operand& operand, Instruction& i, std::size_t at, std::size_t which, const Token& token);

  // ld.param and st.param of a function's parameters, which are registers.
  bool copies_parameter(std::string_view opcode, const std::vector<Operand>& operands, Instruction i,
                        const Token& token);

  // "call.uni (result), name, (a, b);": the function's body, with these as its parameters.
  void parse_call(Frame& frame, int depth);

  std::vector<Token> tokens_;
  std::size_t next_ = 0;
  Module module_;
  std::unordered_map<std::string, Symbol> symbols_;
  std::unordered_map<std::string, Function> functions_;
  std::vector<std::string> dynamic_;
  std::size_t shared_bytes_ = 0, module_shared_bytes_ = 0;

  // Of the kernel that is being decoded.
  Kernel* kernel_ = nullptr;
  std::map<std::pair<char, u64>, Register> constants_;
  std::map<Special, Register> specials_;
  std::unordered_map<std::string, u32> opcodes_;
  std::vector<std::size_t> dynamic_uses_;  // fillings with an address in dynamic shared memory
  u32 true_at_ = 0;
  int statements_ = 0;
};

}  // namespace onchip::ptx
