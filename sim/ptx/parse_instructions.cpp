// SPDX-License-Identifier: Apache-2.0
#include "sim/ptx/parser.hpp"

#include "model/base/error.hpp"

#include <cstring>

namespace onchip::ptx {

void Parser::parse_instruction(Frame& frame, int depth) {
  Instruction i;
  i.guard = true_at_;
  if (accept("@")) {
    i.guard_flip = accept("!") ? ~0u : 0;
    const Token& token = peek();
    const Register* const guard = find_register(frame, word("a predicate"));
    if (guard == nullptr || guard->letter != 'p') {
      fail(token, "found " + shown(token) + "; expected a predicate");
    }
    i.guard = guard->at;
  }
  const Token& token = peek();
  const std::string_view opcode = word("an instruction");
  i.line = token.line;
  if (opcode == "call" || opcode == "call.uni") {
    if (i.guard != true_at_) {
      fail(token, "a call under a predicate is not known");
    }
    parse_call(frame, depth);
    return;
  }
  i.name = opcode_number(opcode);
  std::vector<Operand> operands;
  std::string form;
  while (!accept(";")) {
    if (accept("{")) {
      form += '{';
      while (!accept("}")) {
        operands.push_back(parse_operand(frame));
        form += operands.back().letter;
        accept(",");
      }
      form += '}';
    } else {
      operands.push_back(parse_operand(frame));
      form += operands.back().letter;
    }
    if (accept("|")) {
      form += '|';
    } else if (peek().text != ";") {
      expect(",");
    }
  }
  if (copies_parameter(opcode, operands, i, token)) {
    return;
  }
  bool known = false;
  const std::optional<Meaning> meaning = find_meaning(opcode, form, known);
  if (!meaning) {
    fail(token, known ? "operands of this form do not fit " + shown(token) : "unknown instruction " + shown(token));
  }
  apply(*meaning, operands, i, frame, token);
}

void Parser::apply(const Meaning& meaning, const std::vector<Operand>& operands, Instruction& i, Frame& frame,
                   const Token& token) {
  i.execute = meaning.execute;
  i.flow = meaning.flow;
  i.space = meaning.space;
  i.bytes = meaning.bytes;
  i.count = meaning.count;
  i.register_bytes = meaning.register_bytes;
  i.is_signed = meaning.is_signed;
  i.polls = meaning.polls;
  i.needs_warp = meaning.needs_warp;
  i.access = meaning.access;
  std::size_t at = 0, addresses = 0;
  for (const char letter : meaning.form) {
    if (letter == '{' || letter == '}' || letter == '|') {
      continue;
    }
    const Operand& operand = operands[at];
    if (at >= i.at.size()) {
      fail(token, "too many operands");
    }
    if (letter == '[') {
      i.address = addresses == 0 ? static_cast<std::uint8_t>(at) : i.address;
      set_address(operand, i, at, addresses++, token);
    } else if (operand.letter == '_') {
      i.at[at] = letter == '_' ? true_at_ : new_register(static_cast<char>(letter - 'A' + 'a')).at;
    } else if (operand.is_register) {
      i.at[at] = operand.reg.at;
    } else if (operand.symbol) {
      if (letter != 'q') {
        fail(token, "an address has 64 bits");
      }
      i.at[at] = address_of(*operand.symbol, is_dynamic(operand.label), operand.number).at;
    } else if (letter != 'l' && letter != 'c') {
      i.at[at] = constant(letter == '#' ? 'w' : letter, operand.number).at;
    }
    ++at;
  }
  i.operands = static_cast<std::uint8_t>(at);
  const auto number = static_cast<u32>(kernel_->code.size());
  if (i.flow == Flow::branch) {
    Token label = token;
    label.text = operands[0].label;
    frame.jumps.emplace_back(number, label);
  } else if (i.flow == Flow::exit && kernel_->names[i.name] != "exit") {
    frame.returns.push_back(number);
  }
  kernel_->code.push_back(i);
}

void Parser::set_address(const Operand& operand, Instruction& i, std::size_t at, std::size_t which,
                         const Token& token) {
  i.offset[which] = static_cast<std::int64_t>(operand.number);
  if (operand.is_register) {
    i.at[at] = operand.reg.at;
    i.wide[which] = operand.reg.letter == 'q';
  } else {
    i.wide[which] = true;
    if (!operand.symbol) {
      fail(token, "an address without a register or a variable is not known");
    }
    i.at[at] = address_of(*operand.symbol, is_dynamic(operand.label), 0).at;
  }
}

bool Parser::copies_parameter(std::string_view opcode, const std::vector<Operand>& operands, Instruction i,
                              const Token& token) {
  const bool loads = opcode.starts_with("ld.param");
  if ((!loads && !opcode.starts_with("st.param")) || operands.size() != 2) {
    return false;
  }
  const Operand& address = operands[loads ? 1 : 0];
  if (!address.is_register || !address.reg.is_parameter) {
    return false;
  }
  const Operand& other = operands[loads ? 0 : 1];
  const std::string_view type = opcode.substr(std::min(opcode.rfind('.'), opcode.size()));
  const int bytes = type_bytes(type);
  const int parameter = bytes_of(address.reg.letter);
  if (bytes < 1 || bytes > 8 || bytes > std::max(parameter, 1) || address.number != 0 ||
      opcode.size() != 8 + type.size() || (loads && !other.is_register) ||
      (other.is_register && (other.letter == 'p' || other.letter == 'x'))) {
    fail(token, "operands of this form do not fit " + shown(token));
  }
  const Register from = loads ? address.reg : other.is_register ? other.reg : constant(letter_of(bytes), other.number);
  const Register to = loads ? other.reg : address.reg;
  i.execute = copy_parameter;
  i.at[0] = to.at;
  i.at[1] = from.at;
  i.bytes = static_cast<std::uint8_t>(bytes);
  i.count = static_cast<std::uint8_t>(bytes_of(from.letter));
  i.register_bytes = static_cast<std::uint8_t>(bytes_of(to.letter));
  i.is_signed = type.size() > 1 && type[1] == 's';
  i.operands = 2;
  kernel_->code.push_back(i);
  return true;
}

void Parser::parse_call(Frame& frame, int depth) {
  const auto parse_list = [&] {
    std::vector<Register> list;
    expect("(");
    while (!accept(")")) {
      const Token& token = peek();
      const Register* const reg = find_register(frame, word("a parameter"));
      if (reg == nullptr) {
        fail(token, "unknown parameter " + shown(token));
      }
      list.push_back(*reg);
      accept(",");
    }
    return list;
  };
  std::vector<Register> results, arguments;
  if (peek().text == "(") {
    results = parse_list();
    expect(",");
  }
  const Token& token = peek();
  const auto function = functions_.find(std::string(word("a function")));
  if (function == functions_.end()) {
    fail(token, "there is no function " + shown(token));
  }
  if (accept(",")) {
    arguments = parse_list();
  }
  expect(";");
  Frame inner;
  const auto bind = [&](const std::vector<Formal>& formals, const std::vector<Register>& given) {
    if (formals.size() != given.size()) {
      fail(token,
           "the call has " + std::to_string(given.size()) + " parameters; expected " + std::to_string(formals.size()));
    }
    for (std::size_t k = 0; k < given.size(); ++k) {
      if (letter_of(formals[k].bytes) != given[k].letter) {
        fail(token, "parameters of other sizes than the function has");
      }
      inner.arguments[formals[k].name] = given[k];
    }
  };
  bind(function->second.results, results);
  bind(function->second.formals, arguments);
  const std::size_t back = next_;
  next_ = function->second.body;
  decode_body(inner, depth + 1);
  next_ = back;
}

}  // namespace onchip::ptx
