// SPDX-License-Identifier: Apache-2.0
#include "sim/ptx/parser.hpp"

#include "model/base/error.hpp"
#include "model/base/input_file.hpp"

#include <charconv>
#include <cstring>

namespace onchip::ptx {

Module Parser::parse() {
  while (peek().kind != Token::Kind::end) {
    parse_top();
  }
  return std::move(module_);
}

const Token& Parser::take() {
  const Token& token = peek();
  next_ = std::min(next_ + 1, tokens_.size() - 1);
  return token;
}

bool Parser::accept(std::string_view text) {
  if (peek().text != text || peek().kind == Token::Kind::end) {
    return false;
  }
  take();
  return true;
}

void Parser::expect(std::string_view text) {
  if (!accept(text)) {
    fail(peek(), "found " + shown(peek()) + "; expected '" + std::string(text) + "'");
  }
}

std::string_view Parser::word(std::string_view what) {
  if (peek().kind != Token::Kind::word) {
    fail(peek(), "found " + shown(peek()) + "; expected " + std::string(what));
  }
  return take().text;
}

std::string Parser::shown(const Token& token) {
  return token.kind == Token::Kind::end ? "the end of the text" : in_quotes(token.text);
}

[[noreturn]] void Parser::fail(const Token& token, const std::string& what) const {
  throw InputError(module_.name, token.line, token.column, what);
}

u64 Parser::number() {
  const bool negative = accept("-");
  const Token& token = take();
  std::string_view text = token.text;
  u64 value = 0;
  int base = 10;
  if (token.kind == Token::Kind::number && text.size() > 2 && text[0] == '0') {
    const char kind = text[1];
    if (kind == 'x' || kind == 'X' || kind == 'f' || kind == 'F' || kind == 'd' || kind == 'D') {
      base = 16;
      text.remove_prefix(2);
    }
  }
  if (text.ends_with('U')) {
    text.remove_suffix(1);
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (token.kind != Token::Kind::number || error != std::errc() || end != text.data() + text.size()) {
    fail(token, "found " + shown(token) + "; expected a number");
  }
  return negative ? 0 - value : value;
}

int Parser::small_number() {
  const Token& token = peek();
  const u64 value = number();
  if (value > 0x7fffffff) {
    fail(token, "the number is out of range");
  }
  return static_cast<int>(value);
}

void Parser::parse_top() {
  const Token& token = peek();
  if (accept(".version")) {
    take();
  } else if (accept(".target")) {
    do {
      word("a target");
    } while (accept(","));
  } else if (accept(".address_size")) {
    if (number() != 64) {
      fail(token, "only addresses of 64 bits are known");
    }
  } else if (accept(".visible") || accept(".weak")) {
  } else if (peek().text == ".entry" || peek().text == ".func") {
    parse_function();
  } else if (peek().text == ".global" || peek().text == ".const" || peek().text == ".shared" ||
             peek().text == ".extern") {
    parse_variable(symbols_);
  } else {
    fail(token, "found " + shown(token) + "; expected a variable or a function");
  }
}

void Parser::parse_variable(std::unordered_map<std::string, Symbol>& symbols) {
  const bool is_extern = accept(".extern");
  const Token& storage = take();
  if (is_extern && storage.text != ".shared") {
    fail(storage, "found " + shown(storage) + "; expected '.shared': no other variable is outside");
  }
  std::size_t alignment = accept(".align") ? static_cast<std::size_t>(small_number()) : 0;
  const Token& type = peek();
  const int element = type_bytes(word("a type"));
  if (element <= 0) {
    fail(type, "found " + shown(type) + "; expected a type of known size");
  }
  alignment = std::max(alignment, static_cast<std::size_t>(element));
  const Token& name = peek();
  const std::string key(word("a name"));
  std::size_t bytes = static_cast<std::size_t>(element);
  while (accept("[")) {
    const std::size_t count = peek().text == "]" ? 0 : static_cast<std::size_t>(small_number());
    bytes *= count;
    expect("]");
    if (bytes > kMostVariableBytes) {
      fail(name, "the variable is too large");
    }
  }
  const auto place = [&](std::size_t& end) {
    const std::size_t begin = (end + alignment - 1) / alignment * alignment;
    end = begin + bytes;
    return begin;
  };
  if (alignment > 4096 || (alignment & (alignment - 1)) != 0) {
    fail(name, "no such alignment");
  }
  if (storage.text == ".shared") {
    if (is_extern) {
      dynamic_.push_back(key);
      symbols[key] = {Space::shared, 0};
    } else {
      symbols[key] = {Space::shared, kSharedBegin + place(shared_bytes_)};
      if (shared_bytes_ > kMostVariableBytes) {
        fail(name, "the variables are too large");
      }
    }
  } else if (storage.text == ".local") {
    symbols[key] = {Space::local, place(kernel_->local_bytes)};
    if (kernel_->local_bytes > kMostLocalBytes) {
      fail(name, "the variable is too large");
    }
  } else {
    std::size_t end = module_.variables.size();
    const std::size_t begin = place(end);
    if (end > kMostVariableBytes) {
      fail(name, "the variables are too large");
    }
    module_.variables.resize(end);
    symbols[key] = {Space::global, begin};
    if (accept("=")) {
      parse_values(begin, bytes, static_cast<std::size_t>(element));
    }
  }
  expect(";");
}

void Parser::parse_values(std::size_t at, std::size_t bytes, std::size_t element) {
  const std::size_t end = at + bytes;
  const bool many = accept("{");
  do {
    const Token& token = peek();
    const u64 value = number();
    if (end - at < element || element > sizeof value) {
      fail(token, "more values than the variable has room for");
    }
    std::memcpy(&module_.variables[at], &value, element);
    at += element;
  } while (many && accept(","));
  if (many) {
    expect("}");
  }
}

std::vector<Formal> Parser::parse_formals() {
  std::vector<Formal> formals;
  if (!accept("(")) {
    return formals;
  }
  while (!accept(")")) {
    expect(".param");
    const int alignment = accept(".align") ? small_number() : 1;
    const Token& type = peek();
    int bytes = type_bytes(word("a type"));
    if (bytes <= 0) {
      fail(type, "found " + shown(type) + "; expected a type of known size");
    }
    Formal formal{"", 0, std::max(alignment, bytes)};
    if (formal.alignment > 128 || (formal.alignment & (formal.alignment - 1)) != 0) {
      fail(type, "no such alignment");
    }
    formal.name = word("a name");
    if (accept("[")) {
      const int count = small_number();
      if (count > 4096) {
        fail(type, "a parameter of more than 4096 bytes");
      }
      bytes *= count;
      expect("]");
    }
    formal.bytes = bytes;
    formals.push_back(formal);
    if (peek().text != ")") {
      expect(",");
    }
  }
  return formals;
}

void Parser::parse_function() {
  const bool is_kernel = take().text == ".entry";
  Function function;
  if (!is_kernel && peek().text == "(") {
    function.results = parse_formals();
  }
  const Token& token = peek();
  const std::string name(word("a name"));
  function.formals = parse_formals();
  Kernel kernel;
  while (peek().text != "{" && peek().text != ";") {
    const Token& directive = peek();
    const std::string_view what = word("a directive or '{'");
    if (what == ".maxntid" || what == ".reqntid") {
      kernel.most_threads = small_number();
      while (accept(",")) {
        number();
      }
    } else if (what == ".reqnctapercluster") {
      kernel.cluster = small_number();
      while (accept(",")) {
        number();
      }
    } else if (what == ".minnctapersm" || what == ".maxnreg" || what == ".maxclusterrank") {
      number();
    } else if (what != ".explicitcluster" && what != ".noreturn") {
      fail(directive, "unknown directive " + shown(directive));
    }
  }
  if (accept(";")) {
    return;  // a declaration
  }
  if (kernel.cluster < 1 || kernel.cluster > 64) {
    fail(token, "no cluster has " + std::to_string(kernel.cluster) + " blocks");
  }
  function.body = next_;
  if (is_kernel) {
    decode_kernel(name, function, std::move(kernel));
  } else {
    skip_body();
    functions_[name] = std::move(function);
  }
}

void Parser::skip_body() {
  int depth = 0;
  do {
    const Token& token = take();
    depth += token.text == "{" ? 1 : token.text == "}" ? -1 : 0;
    if (token.kind == Token::Kind::end) {
      fail(token, "a function does not end");
    }
  } while (depth > 0);
}

void Parser::decode_kernel(const std::string& name, const Function& function, Kernel kernel) {
  kernel_ = &kernel;
  shared_bytes_ = module_shared_bytes_ = std::max(module_shared_bytes_, shared_bytes_);
  constants_.clear();
  specials_.clear();
  opcodes_.clear();
  statements_ = 0;
  true_at_ = new_register('p').at;
  kernel.fillings.push_back({true_at_, 0, Filling::What::value, 0xffffffffu});
  Frame frame;
  for (const Formal& formal : function.formals) {
    const auto alignment = static_cast<std::size_t>(formal.alignment);
    const std::size_t begin = (kernel.parameter_bytes + alignment - 1) / alignment * alignment;
    frame.symbols[formal.name] = {Space::param, begin};
    kernel.parameter_bytes = begin + static_cast<std::size_t>(formal.bytes);
  }
  decode_body(frame, 0);
  Instruction exit;
  exit.flow = Flow::exit;
  exit.guard = true_at_;
  exit.line = peek().line;
  exit.name = opcode_number("ret");
  for (const u32 jump : frame.returns) {
    kernel.code[jump].flow = Flow::exit;
  }
  kernel.code.push_back(exit);
  // Dynamic shared memory lies behind all that is static.
  kernel.shared_bytes = (shared_bytes_ + 127) / 128 * 128;
  for (const std::size_t use : dynamic_uses_) {
    kernel.fillings[use].value += kSharedBegin + kernel.shared_bytes;
  }
  dynamic_uses_.clear();
  module_.kernels[name] = std::move(kernel);
  kernel_ = nullptr;
}

void Parser::decode_body(Frame& frame, int depth) {
  if (depth > kDeepest) {
    fail(peek(), "calls go too deep: functions that call themselves cannot be expanded");
  }
  expect("{");
  frame.scopes.emplace_back();
  while (!frame.scopes.empty()) {
    parse_statement(frame, depth);
  }
  for (const auto& [jump, label] : frame.jumps) {
    const auto found = frame.labels.find(std::string(label.text));
    if (found == frame.labels.end()) {
      fail(label, "there is no label " + shown(label));
    }
    kernel_->code[jump].target = found->second;
  }
  for (const u32 jump : frame.returns) {  // a function's; the kernel makes them exits
    kernel_->code[jump].flow = Flow::branch;
    kernel_->code[jump].target = static_cast<u32>(kernel_->code.size());
  }
}

void Parser::parse_statement(Frame& frame, int depth) {
  const Token& token = peek();
  if (token.kind == Token::Kind::end) {
    fail(token, "a function does not end");
  }
  if (++statements_ > kMostStatements) {
    fail(token, "the kernel is too long");
  }
  if (accept("{")) {
    if (frame.scopes.size() > kDeepest) {
      fail(token, "braces go too deep");
    }
    frame.scopes.emplace_back();
  } else if (accept("}")) {
    frame.scopes.pop_back();
  } else if (accept(";")) {
  } else if (accept(".reg")) {
    parse_registers(frame);
  } else if (token.text == ".shared" || token.text == ".local") {
    parse_variable(frame.symbols);
  } else if (accept(".param")) {
    parse_argument(frame);
  } else if (accept(".pragma")) {
    take();
    expect(";");
  } else if (accept(".loc") || accept(".file")) {
    const unsigned line = token.line;
    while (peek().line == line && peek().kind != Token::Kind::end) {
      take();
    }
  } else if (token.kind == Token::Kind::word && peek(1).text == ":") {
    if (!frame.labels.emplace(std::string(token.text), static_cast<u32>(kernel_->code.size())).second) {
      fail(token, "there are two labels " + shown(token));
    }
    take();
    take();
  } else {
    parse_instruction(frame, depth);
  }
}

Module parse(std::string_view text, const std::string& name) {
  return Parser(text, name).parse();
}

}  // namespace onchip::ptx
