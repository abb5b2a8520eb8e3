// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/accel_sim_trace.hpp"

#include "model/banks/bank_rule.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <charconv>
#include <utility>

namespace onchip {
namespace {

// ---- what the opcodes of machine code, such as "LDS.U.128", are to the simulator ------------------------------------

struct Opcode {
  std::string_view name;
  Operation operation;
};
// By the part before the first point; what is not here is Operation::other.
constexpr std::array kOpcodes{
    Opcode{"ATOM", Operation::global_load},    Opcode{"ATOMG", Operation::global_load},
    Opcode{"ATOMS", Operation::shared_atomic}, Opcode{"BAR", Operation::barrier},
    Opcode{"BMMA", Operation::tensor},         Opcode{"BRA", Operation::branch},
    Opcode{"BREV", Operation::special},        Opcode{"BSYNC", Operation::branch},
    Opcode{"DADD", Operation::fp32},           Opcode{"DFMA", Operation::fp32},
    Opcode{"DMMA", Operation::tensor},         Opcode{"DMUL", Operation::fp32},
    Opcode{"DSETP", Operation::fp32},          Opcode{"F2F", Operation::special},
    Opcode{"F2FP", Operation::conversion},     Opcode{"F2I", Operation::special},
    Opcode{"FADD", Operation::fp32},           Opcode{"FFMA", Operation::fp32},
    Opcode{"FLO", Operation::special},         Opcode{"FMNMX", Operation::integer},
    Opcode{"FMUL", Operation::fp32},           Opcode{"FRND", Operation::special},
    Opcode{"FSEL", Operation::integer},        Opcode{"FSET", Operation::integer},
    Opcode{"FSETP", Operation::integer},       Opcode{"HADD2", Operation::half2},
    Opcode{"HFMA2", Operation::half2},         Opcode{"HGMMA", Operation::tensor},
    Opcode{"HMMA", Operation::tensor},         Opcode{"HMNMX2", Operation::half2},
    Opcode{"HMUL2", Operation::half2},         Opcode{"HSET2", Operation::half2},
    Opcode{"HSETP2", Operation::half2},        Opcode{"I2F", Operation::special},
    Opcode{"IABS", Operation::integer},        Opcode{"IADD", Operation::integer},
    Opcode{"IADD3", Operation::integer},       Opcode{"IGMMA", Operation::tensor},
    Opcode{"IMAD", Operation::fp32},           Opcode{"IMMA", Operation::tensor},
    Opcode{"IMNMX", Operation::integer},       Opcode{"ISCADD", Operation::integer},
    Opcode{"ISETP", Operation::integer},       Opcode{"LD", Operation::global_load},
    Opcode{"LDG", Operation::global_load},     Opcode{"LDGSTS", Operation::async_copy},
    Opcode{"LDL", Operation::global_load},     Opcode{"LDS", Operation::shared_load},
    Opcode{"LDSM", Operation::matrix_load},    Opcode{"LEA", Operation::integer},
    Opcode{"LOP", Operation::integer},         Opcode{"LOP3", Operation::integer},
    Opcode{"MOV", Operation::integer},         Opcode{"MUFU", Operation::special},
    Opcode{"PLOP3", Operation::integer},       Opcode{"POPC", Operation::special},
    Opcode{"PRMT", Operation::integer},        Opcode{"QGMMA", Operation::tensor},
    Opcode{"RED", Operation::global_store},    Opcode{"SEL", Operation::integer},
    Opcode{"SHF", Operation::integer},         Opcode{"SHFL", Operation::shuffle},
    Opcode{"SHL", Operation::integer},         Opcode{"SHR", Operation::integer},
    Opcode{"ST", Operation::global_store},     Opcode{"STG", Operation::global_store},
    Opcode{"STL", Operation::global_store},    Opcode{"STS", Operation::shared_store},
    Opcode{"STSM", Operation::shared_store},   Opcode{"VIADD", Operation::integer},
    Opcode{"VOTE", Operation::integer},
};
static_assert(std::ranges::is_sorted(kOpcodes, {}, &Opcode::name), "looked up by bisection");

std::string_view first_part(std::string_view opcode) {
  return opcode.substr(0, opcode.find('.'));
}

bool is_matrix_access(std::string_view opcode) {
  return opcode.starts_with("LDSM") || opcode.starts_with("STSM");
}

Operation operation_of(std::string_view opcode) {
  if (opcode.starts_with("HADD2.F32")) {
    return Operation::conversion;
  }
  const std::string_view name = first_part(opcode);
  const auto found = std::ranges::lower_bound(kOpcodes, name, {}, &Opcode::name);
  return found != kOpcodes.end() && found->name == name ? found->operation : Operation::other;
}

// The same, where its addresses lie in shared memory: generic accesses are accesses to it.
Operation operation_in_shared_memory(std::string_view opcode) {
  const std::string_view name = first_part(opcode);
  return name == "LD"                      ? Operation::shared_load
         : name == "ST"                    ? Operation::shared_store
         : name == "ATOM" || name == "RED" ? Operation::shared_atomic
                                           : operation_of(opcode);
}

// The lanes that can access: of LDSM and STSM 8 for each of 1, 2 or 4 matrices ("LDSM.16.M88.4"), else all.
std::uint32_t accessing_lanes(std::string_view opcode) {
  return !is_matrix_access(opcode) || opcode.ends_with(".4") ? ~0u : opcode.ends_with(".2") ? 0xffffu : 0xffu;
}

// Bytes per lane: "128" in LDG.E.128, "U16" in LDS.U16; what the tracer reports is not always right. Of LDSM and STSM
// those of the rows that lanes point at.
int width_of(std::string_view opcode) {
  if (is_matrix_access(opcode)) {
    return 16;
  }
  while (!opcode.empty()) {
    std::string_view part = opcode.substr(0, opcode.find('.'));
    opcode.remove_prefix(std::min(opcode.size(), part.size() + 1));
    if (!part.empty() && (part.front() == 'U' || part.front() == 'S')) {
      part.remove_prefix(1);
    }
    for (const int bits : {8, 16, 32, 64, 128}) {
      if (part == std::to_string(bits)) {
        return bits / 8;
      }
    }
  }
  return 4;
}

// ---- reading --------------------------------------------------------------------------------------------------------

constexpr std::uint64_t kNowhere = ~std::uint64_t{0};
constexpr int kMostRegisters = 16;
constexpr std::uint64_t kSharedWindowBytes = std::uint64_t{1} << 24;  // where generic addresses mean shared memory

// The lines of a file and the words of a line, with the place of what is read.
class Lines {
 public:
  Lines(std::string_view text, std::string_view file_name, std::size_t at, long line)
      : text_(text), file_name_(file_name), next_(at), number_(line) {}

  // The next line that is not empty; false at the end.
  bool advance() {
    while (next_ < text_.size()) {
      begin_ = next_;
      const std::size_t end = std::min(text_.find('\n', next_), text_.size());
      line_ = text_.substr(next_, end - next_);
      next_ = std::min(end + 1, text_.size());
      ++number_;
      column_ = 0;
      if (!line_.empty() && line_.back() == '\r') {
        line_.remove_suffix(1);
      }
      if (line_.find_first_not_of(" \t") != std::string_view::npos) {
        return true;
      }
    }
    return false;
  }

  std::string_view line() const { return line_; }
  std::size_t begin() const { return begin_; }
  long number() const { return number_; }

  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(file_name_, number_, static_cast<long>(std::min(column_, line_.size())) + 1, message);
  }

  std::string_view word() {
    column_ = std::min(line_.find_first_not_of(" \t", column_), line_.size());
    const std::size_t end = std::min(line_.find_first_of(" \t", column_), line_.size());
    return line_.substr(column_, end - column_);
  }
  void skip(std::string_view word) { column_ += word.size(); }

  std::int64_t number(const char* what, std::int64_t least, std::int64_t most) {
    const std::string_view found = word();
    std::int64_t value = 0;
    const auto [end, problem] = std::from_chars(found.data(), found.data() + found.size(), value);
    if (problem != std::errc{} || end != found.data() + found.size() || value < least || value > most) {
      fail("found " + in_quotes(found) + ": expected " + what);
    }
    skip(found);
    return value;
  }
  std::uint64_t hexadecimal(const char* what) {
    const std::string_view found = word();
    const std::string_view digits = found.starts_with("0x") ? found.substr(2) : found;
    std::uint64_t value = 0;
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (problem != std::errc{} || end != digits.data() + digits.size()) {
      fail("found " + in_quotes(found) + ": expected " + what + " in hexadecimal");
    }
    skip(found);
    return value;
  }
  // The number behind "name =".
  std::int64_t value_of(std::string_view name, std::int64_t most) {
    column_ = line_.find(name) + name.size();
    const std::string_view equals = word();
    if (equals != "=") {
      fail("found " + in_quotes(equals) + ": expected '='");
    }
    skip(equals);
    return number("a whole number", 0, most);
  }

 private:
  std::string_view text_, file_name_, line_;
  std::size_t next_, begin_ = 0, column_ = 0;
  long number_;
};

struct Header {
  bool has_lines = false;  // of the source, before every instruction
  std::uint64_t shared_base = 0;
  int version = 3;
  BlockResources block;

  bool in_shared_window(std::uint64_t address) const {
    return shared_base > 0 && address - shared_base < kSharedWindowBytes;
  }
};

Register read_register(Lines& lines) {
  const std::string_view found = lines.word();
  int number = 0;
  const auto [end, problem] = std::from_chars(found.data() + !found.empty(), found.data() + found.size(), number);
  if (!found.starts_with('R') || problem != std::errc{} || end != found.data() + found.size() || number < 0 ||
      number >= kRegisters) {
    lines.fail("found " + in_quotes(found) + ": expected a register from R0 to R" + std::to_string(kRegisters - 1));
  }
  lines.skip(found);
  return static_cast<Register>(number);  // R255 reads as zero: none
}

// Addresses of the active lanes.
std::size_t read_addresses(Lines& lines, std::uint32_t mask, std::array<std::uint64_t, kWarpLanes>& addresses) {
  constexpr std::int64_t kAny = std::int64_t{1} << 62;
  const auto active = static_cast<std::size_t>(std::popcount(mask));
  const std::int64_t form = lines.number("a form of addresses: 0, 1 or 2", 0, 2);
  if (active == 0) {
    return 0;
  }
  addresses[0] = lines.hexadecimal("an address");
  const auto stride = form == 1 ? static_cast<std::uint64_t>(lines.number("a stride", -kAny, kAny)) : 0;
  for (std::size_t i = 1; i < active; ++i) {
    addresses[i] = form == 0 ? lines.hexadecimal("an address")
                   : form == 1
                       ? addresses[i - 1] + stride
                       : addresses[i - 1] + static_cast<std::uint64_t>(lines.number("a difference", -kAny, kAny));
  }
  return active;
}

// `copying_at`: the program counter of the LDGSTS whose other line may come next, or kNowhere.
void read_instruction(Lines& lines, const Header& header, WarpTrace& to, bool keep, std::uint64_t& copying_at) {
  Instruction instruction;
  if (header.has_lines) {
    lines.number("a line of the source", 0, std::int64_t{1} << 32);
  }
  const std::uint64_t counter = lines.hexadecimal("a program counter");
  const std::uint64_t mask = lines.hexadecimal("a mask of lanes");
  if (mask > ~0u) {
    lines.fail("a mask of lanes has 32 bits");
  }
  instruction.mask = static_cast<std::uint32_t>(mask);
  for (std::int64_t i = 0, count = lines.number("a number of registers", 0, kMostRegisters); i < count; ++i) {
    const Register written = read_register(lines);
    instruction.destination = i == 0 ? written : instruction.destination;
  }
  const std::string_view opcode = lines.word();
  if (opcode.empty()) {
    lines.fail("the line ends: expected an opcode");
  }
  lines.skip(opcode);
  instruction.operation = operation_of(opcode);
  std::size_t source = 0;
  for (std::int64_t i = 0, count = lines.number("a number of registers", 0, kMostRegisters); i < count; ++i) {
    const Register read = read_register(lines);
    if (read != kNoRegister && source < instruction.sources.size()) {
      instruction.sources[source++] = read;
    }
  }
  const std::int64_t width = lines.number("a width in bytes", 0, 1 << 20);
  std::array<std::uint64_t, kWarpLanes> addresses;
  std::size_t active = 0;
  if (has_addresses(instruction.operation)) {
    instruction.width = static_cast<std::uint8_t>(width_of(opcode));
    if (width == 0) {
      instruction.mask = 0;  // predicated off in all lanes
    } else {
      active = read_addresses(lines, instruction.mask, addresses);
    }
  }
  if (active > 0 && header.in_shared_window(addresses[0])) {
    instruction.operation = operation_in_shared_memory(opcode);
  } else if (active > 0 && instruction.operation == Operation::async_copy) {
    instruction.operation = Operation::global_load;  // of a tracer that does not tell where to
  }
  instruction.mask &= accessing_lanes(opcode);
  active = std::min(active, static_cast<std::size_t>(std::popcount(instruction.mask)));
  for (std::size_t i = 0; i < active && is_shared_access(instruction.operation); ++i) {
    addresses[i] -= addresses[i] >= header.shared_base ? header.shared_base : 0;
    addresses[i] -= addresses[i] % instruction.width;  // atomics of odd places touch the word around them
    if (addresses[i] >= kMostSharedBytes) {
      lines.fail("an address in shared memory lies beyond " + std::to_string(kMostSharedBytes) + " bytes");
    }
  }
  const bool is_other_line = opcode.starts_with("LDGSTS") && counter == copying_at;
  copying_at = instruction.operation == Operation::async_copy && !is_other_line ? counter : kNowhere;
  if (keep && !is_other_line) {
    to.add(instruction, {addresses.data(), active});
  }
}

class AccelSimTrace : public TraceSource {
 public:
  AccelSimTrace(std::string_view text, std::string_view file_name) : text_(text), file_name_(file_name) {
    Lines lines(text_, file_name_, 0, 0);
    bool any = false;
    while (lines.advance()) {
      if (lines.line().starts_with("#BEGIN_TB")) {
        if (begins_.size() == kMostBlocks) {
          lines.fail("more than " + std::to_string(kMostBlocks) + " blocks");
        }
        begins_.emplace_back(lines.begin(), lines.number() - 1);
        read_block(lines, nullptr);
      } else if (lines.line().starts_with('-')) {
        read_header(lines);
        any = true;
      } else if (any && begins_.empty() && std::isdigit(static_cast<unsigned char>(lines.line().front()))) {
        lines.fail(
            "a trace as the tracer writes it, warps mixed: have Accel-Sim's post-traces-processing sort it, "
            "which writes a .traceg file");
      } else if (!lines.line().starts_with('#')) {
        lines.fail("found " + in_quotes(lines.line()) + ": expected '-name = value' or '#BEGIN_TB'");
      }
    }
    if (!any || begins_.empty()) {
      throw InputError(file_name_ + ": expected a trace with a header and at least one '#BEGIN_TB'");
    }
  }

  int blocks() const override { return static_cast<int>(begins_.size()); }

  std::optional<BlockResources> resources() const override {
    return header_.block.threads > 0 ? std::optional(header_.block) : std::nullopt;
  }

  BlockTrace block(int index) const override {
    const auto& [begin, line] = begins_[static_cast<std::size_t>(index)];
    Lines lines(text_, file_name_, begin, line);
    lines.advance();
    BlockTrace block;
    read_block(lines, &block);
    return block;
  }

 private:
  void read_header(Lines& lines) {
    const std::string_view line = lines.line();
    if (line.starts_with("-enable lineinfo")) {
      header_.has_lines = lines.value_of("lineinfo", 1) == 1;
    } else if (line.starts_with("-accelsim tracer version")) {
      header_.version = static_cast<int>(lines.value_of("version", 1000));
      if (header_.version < 3) {
        lines.fail("tracer version " + std::to_string(header_.version) + ": expected 3 or later");
      }
    } else if (line.starts_with("-block dim")) {
      header_.block.threads = read_threads(lines);
    } else if (line.starts_with("-nregs")) {
      header_.block.registers_per_thread = static_cast<int>(lines.value_of("-nregs", kRegisters));
    } else if (line.starts_with("-shmem =")) {
      header_.block.smem_bytes = static_cast<long>(lines.value_of("-shmem", kMostSharedBytes));
    } else if (line.starts_with("-shmem base_addr")) {
      Lines value(line.substr(std::min(line.find('='), line.size() - 1) + 1), file_name_, 0, lines.number() - 1);
      value.advance();
      header_.shared_base = value.hexadecimal("an address");
    }
  }

  // Of "(x,y,z)" behind the equals sign.
  static int read_threads(Lines& lines) {
    std::int64_t threads = 1;
    std::string_view left = lines.line().substr(std::min(lines.line().find('('), lines.line().size()));
    for (const char before : {'(', ',', ','}) {
      std::int64_t size = 0;
      const bool begins = left.starts_with(before);
      const auto [end, problem] = std::from_chars(left.data() + begins, left.data() + left.size(), size);
      const std::int64_t most = kMostWarps * kWarpLanes / threads;
      if (!begins || problem != std::errc{} || size < 1 || size > most) {
        lines.fail("found " + in_quotes(lines.line()) + ": expected '-block dim = (x,y,z)' of at most " +
                   std::to_string(kMostWarps * kWarpLanes) + " threads");
      }
      threads *= size;
      left.remove_prefix(static_cast<std::size_t>(end - left.data()));
    }
    return static_cast<int>(threads);
  }

  // From #BEGIN_TB to #END_TB; what is read is thrown away unless there is a place for it.
  void read_block(Lines& lines, BlockTrace* to) const {
    WarpTrace unwanted;
    WarpTrace* warp = nullptr;
    std::int64_t warps = 0, left = 0;
    std::uint64_t copying_at = kNowhere;
    while (lines.advance()) {
      const std::string_view line = lines.line();
      if (line.starts_with("#END_TB")) {
        if (left > 0) {
          lines.fail("the block ends, but " + std::to_string(left) + " instructions of its last warp are missing");
        }
        return;
      }
      if (line.starts_with("thread block") || line.starts_with("cluster ")) {
        continue;
      }
      if (line.starts_with("warp")) {
        if (left > 0) {
          lines.fail("a warp begins, but " + std::to_string(left) + " instructions of the one before are missing");
        }
        lines.value_of("warp", kMostWarps - 1);
        if (++warps > kMostWarps) {
          lines.fail("more than " + std::to_string(kMostWarps) + " warps in a block");
        }
        warp = to ? &to->warps.emplace_back() : &unwanted;
        copying_at = kNowhere;
      } else if (line.starts_with("insts")) {
        left = lines.value_of("insts", std::int64_t{1} << 40);
      } else if (left == 0 || !warp) {
        lines.fail("found " + in_quotes(line) + ": expected 'warp = N', 'insts = N' or '#END_TB'");
      } else {
        read_instruction(lines, header_, *warp, to != nullptr, copying_at);
        --left;
      }
    }
    lines.fail("the file ends within a block: expected '#END_TB'");
  }

  std::string_view text_;
  std::string file_name_;
  Header header_;
  std::vector<std::pair<std::size_t, long>> begins_;  // of each block: byte, lines before it
};

}  // namespace

std::unique_ptr<TraceSource> parse_accel_sim_trace(std::string_view text, std::string_view file_name) {
  return std::make_unique<AccelSimTrace>(text, file_name);
}

}  // namespace onchip
