// SPDX-License-Identifier: Apache-2.0
#include "sim/ptx/parser.hpp"

#include "model/base/error.hpp"

#include <charconv>
#include <cstring>

namespace onchip::ptx {

Register Parser::new_register(char letter) {
  const std::size_t bytes = letter == 'p' ? 4 : kLanes * static_cast<std::size_t>(bytes_of(letter));
  const std::size_t alignment = letter == 'p' ? 4 : 64;
  const std::size_t begin = (kernel_->register_bytes + alignment - 1) / alignment * alignment;
  if (begin + bytes > kMostRegisterBytes) {
    fail(peek(), "there are too many registers");
  }
  kernel_->register_bytes = begin + bytes;
  return {letter, static_cast<u32>(begin), false};
}

void Parser::parse_registers(Frame& frame) {
  const Token& type = peek();
  const int bytes = type_bytes(word("a type"));
  if (bytes == 0) {
    fail(type, "found " + shown(type) + "; expected a type");
  }
  const char letter = letter_of(bytes);
  do {
    const Token& token = peek();
    const std::string name(word("a register"));
    if (accept("<")) {
      const int count = small_number();
      expect(">");
      if (count > 1 << 20) {
        fail(token, "there are too many registers");
      }
      for (int i = 0; i < count; ++i) {
        frame.scopes.back()[name + std::to_string(i)] = new_register(letter);
      }
    } else {
      frame.scopes.back()[name] = new_register(letter);
    }
  } while (accept(","));
  expect(";");
}

void Parser::parse_argument(Frame& frame) {
  if (accept(".align")) {
    number();
  }
  const Token& type = peek();
  const int bytes = type_bytes(word("a type"));
  if (bytes < 1 || bytes > 8) {
    fail(type, "found " + shown(type) + "; expected a type of at most 8 bytes");
  }
  const std::string name(word("a name"));
  if (peek().text == "[") {
    fail(peek(), "arrays as parameters of functions are not known");
  }
  Register& parameter = frame.scopes.back()[name] = new_register(letter_of(bytes));
  parameter.is_parameter = true;
  expect(";");
}

const Register* Parser::find_register(const Frame& frame, std::string_view name) const {
  const std::string key(name);
  for (auto scope = frame.scopes.rbegin(); scope != frame.scopes.rend(); ++scope) {
    if (const auto found = scope->find(key); found != scope->end()) {
      return &found->second;
    }
  }
  const auto argument = frame.arguments.find(key);
  return argument == frame.arguments.end() ? nullptr : &argument->second;
}

const Symbol* Parser::find_symbol(const Frame& frame, std::string_view name) const {
  const std::string key(name);
  if (const auto found = frame.symbols.find(key); found != frame.symbols.end()) {
    return &found->second;
  }
  const auto found = symbols_.find(key);
  return found == symbols_.end() ? nullptr : &found->second;
}

Register Parser::constant(char letter, u64 value) {
  const auto key = std::make_pair(letter, letter == 'w' ? value & 0xffffffffu : letter == 'h' ? value & 0xffff : value);
  const auto [entry, is_new] = constants_.try_emplace(key);
  if (is_new) {
    entry->second = new_register(letter);
    kernel_->fillings.push_back(
        {entry->second.at, static_cast<std::uint8_t>(bytes_of(letter)), Filling::What::value, key.second});
  }
  return entry->second;
}

Register Parser::address_of(const Symbol& symbol, bool dynamic, u64 added) {
  const Register reg = new_register('q');
  if (dynamic) {
    dynamic_uses_.push_back(kernel_->fillings.size());
  }
  kernel_->fillings.push_back({reg.at, 8,
                               symbol.space == Space::global ? Filling::What::global_address : Filling::What::value,
                               symbol.offset + added});
  return reg;
}

std::optional<Register> Parser::special(std::string_view name) {
  struct Row {
    std::string_view name;
    Special special;
  };
  static constexpr Row kRows[] = {
      {"%tid.x", Special::tid},
      {"%ntid.x", Special::ntid},
      {"%ctaid.x", Special::ctaid},
      {"%nctaid.x", Special::nctaid},
      {"%laneid", Special::laneid},
      {"%warpid", Special::warpid},
      {"%cluster_ctarank", Special::cluster_ctarank},
      {"%cluster_ctaid.x", Special::cluster_ctarank},
      {"%cluster_nctarank", Special::cluster_nctarank},
      {"%cluster_nctaid.x", Special::cluster_nctarank},
      {"%clusterid.x", Special::clusterid},
      {"%lanemask_eq", Special::lanemask_eq},
      {"%lanemask_lt", Special::lanemask_lt},
      {"%lanemask_le", Special::lanemask_le},
      {"%lanemask_gt", Special::lanemask_gt},
      {"%lanemask_ge", Special::lanemask_ge},
  };
  for (const std::string_view flat : {"%tid.y", "%tid.z", "%ctaid.y", "%ctaid.z"}) {
    if (name == flat) {
      return constant('w', 0);
    }
  }
  for (const std::string_view flat : {"%ntid.y", "%ntid.z", "%nctaid.y", "%nctaid.z"}) {
    if (name == flat) {
      return constant('w', 1);
    }
  }
  for (const Row& row : kRows) {
    if (row.name == name) {
      const auto [entry, is_new] = specials_.try_emplace(row.special);
      if (is_new) {
        entry->second = new_register('w');
        kernel_->fillings.push_back({entry->second.at, 4, Filling::What::special, static_cast<u64>(row.special)});
      }
      return entry->second;
    }
  }
  return std::nullopt;
}

u32 Parser::opcode_number(std::string_view opcode) {
  const auto [entry, is_new] = opcodes_.try_emplace(std::string(opcode), static_cast<u32>(kernel_->names.size()));
  if (is_new) {
    kernel_->names.emplace_back(opcode);
  }
  return entry->second;
}

Operand Parser::parse_operand(const Frame& frame, bool is_address) {
  Operand operand;
  const Token& token = peek();
  if (!is_address && accept("[")) {
    operand = parse_operand(frame, /*is_address=*/true);
    if (operand.is_register && operand.letter != 'w' && operand.letter != 'q') {
      fail(token, "an address has 32 or 64 bits");
    }
    operand.letter = '[';
    if (accept("+")) {
      operand.number += number();
    } else if (peek().text == "-") {
      operand.number += number();
    }
    expect("]");
    return operand;
  }
  if (token.kind == Token::Kind::number || token.text == "-") {
    operand.number = number();
    return operand;
  }
  const std::string_view name = word("an operand");
  if (name == "_") {
    operand.letter = '_';
  } else if (name == "%clock" || name == "%clock64") {
    operand.letter = 'c';
  } else if (const Register* const reg = find_register(frame, name)) {
    operand.is_register = true;
    operand.reg = *reg;
    operand.letter = reg->letter;
  } else if (const auto value = name.starts_with('%') ? special(name) : std::nullopt) {
    operand.is_register = true;
    operand.reg = *value;
    operand.letter = value->letter;
  } else if (const Symbol* const symbol = find_symbol(frame, name)) {
    operand.symbol = *symbol;
    operand.label = name;
  } else if (name.starts_with('%')) {
    fail(token, "unknown register " + shown(token));
  } else {
    operand.letter = 'l';
    operand.label = name;
  }
  return operand;
}

}  // namespace onchip::ptx
