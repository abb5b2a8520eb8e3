// SPDX-License-Identifier: Apache-2.0
// The reader of PTX: a module from its text.
#include "model/base/error.hpp"
#include "sim/ptx/instructions.hpp"
#include "sim/ptx/module.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace onchip::ptx {
namespace {

// ---- words ----------------------------------------------------------------------------------------------------------

struct Token {
  enum class Kind : unsigned char { word, number, mark, end };
  Kind kind = Kind::end;
  std::string_view text;  // marks: one character
  unsigned line = 0, column = 0;
};

bool is_in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%' || c == '.';
}

// Words are of letters, digits, '_', '$', '%', '.' and "::"; numbers begin with a digit. Comments are left out; the
// last token is the end. Throws InputError for any other character and for a comment that does not end.
std::vector<Token> split_tokens(std::string_view text, const std::string& name) {
  std::vector<Token> tokens;
  unsigned line = 1;
  std::size_t line_begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const auto column = static_cast<unsigned>(i - line_begin + 1);
    if (c == '\n') {
      ++line;
      line_begin = ++i;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++i;
    } else if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size());
    } else if (text.substr(i, 2) == "/*") {
      const std::size_t end = text.find("*/", i + 2);
      if (end == std::string_view::npos) {
        throw InputError(name, line, column, "a comment does not end");
      }
      for (; i < end + 2; ++i) {
        if (text[i] == '\n') {
          ++line;
          line_begin = i + 1;
        }
      }
    } else if (c == '"') {  // of a pragma: nothing that changes results
      const std::size_t end = text.find_first_of("\"\n", i + 1);
      if (end == std::string_view::npos || text[end] != '"') {
        throw InputError(name, line, column, "a string does not end");
      }
      tokens.push_back({Token::Kind::word, text.substr(i, end + 1 - i), line, column});
      i = end + 1;
    } else if (is_in_word(c)) {
      const std::size_t begin = i;
      while (i < text.size() && (is_in_word(text[i]) || (text.substr(i, 2) == "::"))) {
        i += text[i] == ':' ? 2 : 1;
      }
      const bool is_number = std::isdigit(static_cast<unsigned char>(c)) != 0;
      tokens.push_back(
          {is_number ? Token::Kind::number : Token::Kind::word, text.substr(begin, i - begin), line, column});
    } else if (std::string_view("{}[](),;@!|+-=<>:").find(c) != std::string_view::npos) {
      tokens.push_back({Token::Kind::mark, text.substr(i, 1), line, column});
      ++i;
    } else {
      throw InputError(name, line, column, "unexpected " + in_quotes(text.substr(i, 1)));
    }
  }
  tokens.push_back({Token::Kind::end, "", line, static_cast<unsigned>(text.size() - line_begin + 1)});
  return tokens;
}

// ---- types ----------------------------------------------------------------------------------------------------------

// Of ".b32" and its like; 0: no type. A predicate has kPredicate.
constexpr int kPredicate = -1;
int bytes_of_type(std::string_view type) {
  return type == ".pred" ? kPredicate : type.starts_with('.') ? type_bytes(type.substr(1)) : 0;
}
char letter_of(std::int64_t bytes) {
  return bytes == kPredicate ? 'p' : bytes <= 2 ? 'h' : bytes == 4 ? 'w' : bytes == 8 ? 'q' : 'x';
}
int bytes_of(char letter) {
  return letter == 'p' ? 0 : letter == 'h' ? 2 : letter == 'w' ? 4 : letter == 'q' ? 8 : 16;
}

// Beyond these, the text is a mistake.
constexpr std::size_t kMostRegisterBytes = std::size_t{64} << 20;  // of a warp
constexpr std::size_t kMostVariableBytes = std::size_t{64} << 20;
constexpr std::size_t kMostLocalBytes = std::size_t{512} << 10;  // of a thread, as PTX says
constexpr std::size_t kMostParameterBytes = 4096;
constexpr int kMostStatements = 1 << 20;  // of a kernel, calls expanded
constexpr int kDeepest = 16;              // calls and braces

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

// A variable or a parameter, as it is written.
struct Declaration {
  std::string name;
  std::size_t element = 0, bytes = 0, alignment = 1;  // bytes: of one element, of all
};

struct Function {
  std::size_t body = 0;  // token of its brace
  std::vector<Declaration> results, formals;
};

struct Operand {
  char letter = '#';             // as in Meaning::form
  std::optional<Register> reg;   // of an address: its base
  std::optional<Symbol> symbol;  // of a number or an address: added to
  u64 number = 0;
  std::string_view label;
};

class Parser {
 public:
  Parser(std::string_view text, const std::string& name) : tokens_(split_tokens(text, name)) { module_.name = name; }

  Module parse() {
    while (peek().kind != Token::Kind::end) {
      parse_top();
    }
    return std::move(module_);
  }

 private:
  const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(next_ + ahead, tokens_.size() - 1)]; }
  const Token& take() {
    const Token& token = peek();
    next_ = std::min(next_ + 1, tokens_.size() - 1);
    return token;
  }

  bool accept(std::string_view text) {
    if (peek().text != text || peek().kind == Token::Kind::end) {
      return false;
    }
    take();
    return true;
  }

  void expect(std::string_view text) {
    if (!accept(text)) {
      fail(peek(), "found " + shown(peek()) + "; expected '" + std::string(text) + "'");
    }
  }

  std::string_view word(std::string_view what) {
    if (peek().kind != Token::Kind::word) {
      fail(peek(), "found " + shown(peek()) + "; expected " + std::string(what));
    }
    return take().text;
  }

  static std::string shown(const Token& token) {
    return token.kind == Token::Kind::end ? "the end of the text" : in_quotes(token.text);
  }

  [[noreturn]] void fail(const Token& token, const std::string& what) const {
    throw InputError(module_.name, token.line, token.column, what);
  }

  u64 number() {
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

  int small_number() {
    const Token& token = peek();
    const u64 value = number();
    if (value > 0x7fffffff) {
      fail(token, "the number is out of range");
    }
    return static_cast<int>(value);
  }

  void parse_top() {
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

  // ".align 4 .u32 name[2]"
  Declaration parse_declaration(std::size_t most_bytes, std::size_t most_alignment) {
    const std::size_t asked = accept(".align") ? static_cast<std::size_t>(small_number()) : 1;
    const Token& type = peek();
    const int element = bytes_of_type(word("a type"));
    if (element <= 0) {
      fail(type, "found " + shown(type) + "; expected a type of known size");
    }
    const auto bytes = static_cast<std::size_t>(element);
    const Token& name = peek();
    Declaration found{std::string(word("a name")), bytes, bytes, std::max(asked, bytes)};
    if (found.alignment > most_alignment || (found.alignment & (found.alignment - 1)) != 0) {
      fail(name, "no such alignment");
    }
    while (accept("[")) {
      found.bytes *= peek().text == "]" ? 0 : static_cast<std::size_t>(small_number());
      expect("]");
      if (found.bytes > most_bytes) {
        fail(name, "it is too large: of more than " + std::to_string(most_bytes) + " bytes");
      }
    }
    return found;
  }

  // ".global .align 4 .u32 name[2] = {1, 2};" after the storage, which is at hand.
  void parse_variable(std::unordered_map<std::string, Symbol>& symbols) {
    const bool is_extern = accept(".extern");
    const Token& storage = take();
    if (is_extern && storage.text != ".shared") {
      fail(storage, "found " + shown(storage) + "; expected '.shared': no other variable is outside");
    }
    const Token& token = peek();
    const auto [key, element, bytes, alignment] = parse_declaration(kMostVariableBytes, 4096);
    const auto place = [&, bytes = bytes, alignment = alignment](std::size_t& end) {
      const std::size_t begin = (end + alignment - 1) / alignment * alignment;
      end = begin + bytes;
      return begin;
    };
    if (storage.text == ".shared") {
      if (is_extern) {
        dynamic_.push_back(key);
        symbols[key] = {Space::shared, 0};
      } else {
        symbols[key] = {Space::shared, kSharedBegin + place(shared_bytes_)};
        if (shared_bytes_ > kMostVariableBytes) {
          fail(token, "the variables are too large");
        }
      }
    } else if (storage.text == ".local") {
      symbols[key] = {Space::local, place(kernel_->local_bytes)};
      if (kernel_->local_bytes > kMostLocalBytes) {
        fail(token, "the variable is too large");
      }
    } else {
      std::size_t end = module_.variables.size();
      const std::size_t begin = place(end);
      if (end > kMostVariableBytes) {
        fail(token, "the variables are too large");
      }
      module_.variables.resize(end);
      symbols[key] = {Space::global, begin};
      if (accept("=")) {
        parse_values(begin, bytes, element);
      }
    }
    expect(";");
  }

  void parse_values(std::size_t at, std::size_t bytes, std::size_t element) {
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

  // "(.param .b32 a, .param .align 8 .b8 b[120])"
  std::vector<Declaration> parse_formals() {
    std::vector<Declaration> formals;
    if (!accept("(")) {
      return formals;
    }
    while (!accept(")")) {
      expect(".param");
      formals.push_back(parse_declaration(kMostParameterBytes, 128));
      if (peek().text != ")") {
        expect(",");
      }
    }
    return formals;
  }

  void parse_function() {
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
      if (what == ".maxntid" || what == ".reqntid" || what == ".reqnctapercluster") {
        (what == ".reqnctapercluster" ? kernel.cluster : kernel.most_threads) = small_number();
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

  void skip_body() {
    int depth = 0;
    do {
      const Token& token = take();
      depth += token.text == "{" ? 1 : token.text == "}" ? -1 : 0;
      if (token.kind == Token::Kind::end) {
        fail(token, "a function does not end");
      }
    } while (depth > 0);
  }

  struct Frame {  // of a function that is being expanded
    std::unordered_map<std::string, u32> labels;
    std::vector<std::pair<u32, Token>> jumps;  // instructions, and the labels that they go to
    std::vector<u32> returns;
    std::unordered_map<std::string, Symbol> symbols;      // variables and kernel parameters
    std::unordered_map<std::string, Register> arguments;  // parameters of functions
    std::vector<std::unordered_map<std::string, Register>> scopes;
  };

  void decode_kernel(const std::string& name, const Function& function, Kernel kernel) {
    kernel_ = &kernel;
    shared_bytes_ = module_shared_bytes_ = std::max(module_shared_bytes_, shared_bytes_);
    constants_.clear();
    specials_.clear();
    opcodes_.clear();
    statements_ = 0;
    true_at_ = new_register('p').at;
    kernel.fillings.push_back({true_at_, 0, Filling::What::value, 0xffffffffu});
    Frame frame;
    for (const Declaration& formal : function.formals) {
      const std::size_t begin = (kernel.parameter_bytes + formal.alignment - 1) / formal.alignment * formal.alignment;
      frame.symbols[formal.name] = {Space::param, begin};
      kernel.parameter_bytes = begin + formal.bytes;
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

  // From the brace at hand to its end.
  void decode_body(Frame& frame, int depth) {
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

  void parse_statement(Frame& frame, int depth) {
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

  Register new_register(char letter) {
    const std::size_t bytes = letter == 'p' ? 4 : kLanes * static_cast<std::size_t>(bytes_of(letter));
    const std::size_t alignment = letter == 'p' ? 4 : 64;
    const std::size_t begin = (kernel_->register_bytes + alignment - 1) / alignment * alignment;
    if (begin + bytes > kMostRegisterBytes) {
      fail(peek(), "there are too many registers");
    }
    kernel_->register_bytes = begin + bytes;
    return {letter, static_cast<u32>(begin), false};
  }

  // ".b32 %r<282>;" or ".b64 low, high;"
  void parse_registers(Frame& frame) {
    const Token& type = peek();
    const int bytes = bytes_of_type(word("a type"));
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

  // ".b32 param0;": what a call hands over.
  void parse_argument(Frame& frame) {
    const Token& token = peek();
    const Declaration declared = parse_declaration(kMostParameterBytes, 128);
    if (declared.element > 8 || declared.bytes != declared.element) {
      fail(token, "parameters of functions have one element of at most 8 bytes");
    }
    Register& parameter = frame.scopes.back()[declared.name] = new_register(letter_of(declared.bytes));
    parameter.is_parameter = true;
    expect(";");
  }

  static std::optional<Register> find_register(const Frame& frame, std::string_view name) {
    const std::string key(name);
    for (auto scope = frame.scopes.rbegin(); scope != frame.scopes.rend(); ++scope) {
      if (const auto found = scope->find(key); found != scope->end()) {
        return found->second;
      }
    }
    const auto argument = frame.arguments.find(key);
    return argument == frame.arguments.end() ? std::nullopt : std::optional(argument->second);
  }

  const Symbol* find_symbol(const Frame& frame, std::string_view name) const {
    const std::string key(name);
    if (const auto found = frame.symbols.find(key); found != frame.symbols.end()) {
      return &found->second;
    }
    const auto found = symbols_.find(key);
    return found == symbols_.end() ? nullptr : &found->second;
  }

  bool is_dynamic(std::string_view name) const { return std::ranges::find(dynamic_, name) != dynamic_.end(); }

  // A register that is filled with the number, in the width of the letter.
  Register constant(char letter, u64 value) {
    const auto key = std::make_pair(letter, letter == 'w'   ? value & 0xffffffffu
                                            : letter == 'h' ? value & 0xffff
                                                            : value);
    const auto [entry, is_new] = constants_.try_emplace(key);
    if (is_new) {
      entry->second = new_register(letter);
      kernel_->fillings.push_back(
          {entry->second.at, static_cast<std::uint8_t>(bytes_of(letter)), Filling::What::value, key.second});
    }
    return entry->second;
  }

  // One that is filled with a variable's address.
  Register address_of(const Symbol& symbol, bool dynamic, u64 added) {
    const Register reg = new_register('q');
    if (dynamic) {
      dynamic_uses_.push_back(kernel_->fillings.size());
    }
    kernel_->fillings.push_back({reg.at, 8,
                                 symbol.space == Space::global ? Filling::What::global_address : Filling::What::value,
                                 symbol.offset + added});
    return reg;
  }

  std::optional<Register> special(std::string_view name) {
    const auto which = static_cast<std::size_t>(std::ranges::find(kSpecials, name) - kSpecials.begin());
    if (which == kSpecials.size()) {
      return std::nullopt;
    }
    const auto [entry, is_new] = specials_.try_emplace(which);
    if (is_new) {
      entry->second = new_register('w');
      kernel_->fillings.push_back({entry->second.at, 4, Filling::What::special, which});
    }
    return entry->second;
  }

  u32 opcode_number(std::string_view opcode) {
    const auto [entry, is_new] = opcodes_.try_emplace(std::string(opcode), static_cast<u32>(kernel_->names.size()));
    if (is_new) {
      kernel_->names.emplace_back(opcode);
    }
    return entry->second;
  }

  // One operand; what it is says its letter.
  Operand parse_operand(const Frame& frame, bool is_address = false) {
    Operand operand;
    const Token& token = peek();
    if (!is_address && accept("[")) {
      operand = parse_operand(frame, /*is_address=*/true);
      if (operand.reg && operand.letter != 'w' && operand.letter != 'q') {
        fail(token, "an address has 32 or 64 bits");
      }
      operand.letter = '[';
      if (accept("+") || peek().text == "-") {
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
    } else if (name == "%clock" || name == "%clock64" || name == "%globaltimer") {
      operand.letter = 'c';
    } else if (const auto own = find_register(frame, name), reg = own ? own : special(name); reg) {
      operand.reg = reg;
      operand.letter = reg->letter;
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

  void parse_instruction(Frame& frame, int depth) {
    Instruction i;
    i.guard = true_at_;
    if (accept("@")) {
      i.guard_flip = accept("!") ? ~0u : 0;
      const Token& token = peek();
      const std::optional<Register> guard = find_register(frame, word("a predicate"));
      if (!guard || guard->letter != 'p') {
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

  void apply(const Meaning& meaning, const std::vector<Operand>& operands, Instruction& i, Frame& frame,
             const Token& token) {
    static_cast<Effect&>(i) = meaning;
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
      } else if (operand.reg) {
        i.at[at] = operand.reg->at;
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

  void set_address(const Operand& operand, Instruction& i, std::size_t at, std::size_t which, const Token& token) {
    i.offset[which] = static_cast<std::int64_t>(operand.number);
    if (operand.reg) {
      i.at[at] = operand.reg->at;
      i.wide[which] = operand.reg->letter == 'q';
    } else {
      i.wide[which] = true;
      if (!operand.symbol) {
        fail(token, "an address without a register or a variable is not known");
      }
      i.at[at] = address_of(*operand.symbol, is_dynamic(operand.label), 0).at;
    }
  }

  // ld.param and st.param of a function's parameters, which are registers.
  bool copies_parameter(std::string_view opcode, const std::vector<Operand>& operands, Instruction i,
                        const Token& token) {
    const bool loads = opcode.starts_with("ld.param");
    if ((!loads && !opcode.starts_with("st.param")) || operands.size() != 2) {
      return false;
    }
    const Operand& address = operands[loads ? 1 : 0];
    if (!address.reg || !address.reg->is_parameter) {
      return false;
    }
    const Operand& other = operands[loads ? 0 : 1];
    const std::string_view type = opcode.substr(std::min(opcode.rfind('.'), opcode.size()));
    const int bytes = bytes_of_type(type);
    const int parameter = bytes_of(address.reg->letter);
    if (bytes < 1 || bytes > 8 || bytes > std::max(parameter, 1) || address.number != 0 ||
        opcode.size() != 8 + type.size() || (loads && !other.reg) ||
        (other.reg && (other.letter == 'p' || other.letter == 'x'))) {
      fail(token, "operands of this form do not fit " + shown(token));
    }
    const Register from = loads ? *address.reg : other.reg ? *other.reg : constant(letter_of(bytes), other.number);
    const Register to = loads ? *other.reg : *address.reg;
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

  // "call.uni (result), name, (a, b);": the function's body, with these as its parameters.
  void parse_call(Frame& frame, int depth) {
    const auto parse_list = [&] {
      std::vector<Register> list;
      expect("(");
      while (!accept(")")) {
        const Token& token = peek();
        const std::optional<Register> reg = find_register(frame, word("a parameter"));
        if (!reg) {
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
    const auto bind = [&](const std::vector<Declaration>& formals, const std::vector<Register>& given) {
      if (formals.size() != given.size()) {
        fail(token, "the call has " + std::to_string(given.size()) + " parameters; expected " +
                        std::to_string(formals.size()));
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
  std::map<std::size_t, Register> specials_;
  std::unordered_map<std::string, u32> opcodes_;
  std::vector<std::size_t> dynamic_uses_;  // fillings with an address in dynamic shared memory
  u32 true_at_ = 0;
  int statements_ = 0;
};

}  // namespace

Module parse(std::string_view text, const std::string& name) {
  return Parser(text, name).parse();
}

}  // namespace onchip::ptx
