// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/accel_sim_trace.hpp"

#include "model/banks/bank_rule.hpp"
#include "model/base/error.hpp"
#include "model/base/number.hpp"
#include "model/base/units.hpp"
#include "model/workload/files/text_reader.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <charconv>
#include <functional>
#include <map>
#include <sstream>
#include <vector>

namespace onchip {
namespace {

// ---- what the opcodes of machine code, such as "LDS.U.128", are to the simulator ------------------------------------

struct Opcodes {
  Operation operation;
  std::string_view names;  // of opcodes before the first point, with spaces in between; others are Operation::other
};
constexpr std::array<Opcodes, 16> kOpcodes{{
    {Operation::integer,
     "FMNMX FSEL FSET FSETP IABS IADD IADD3 IMNMX ISCADD ISETP LEA LOP LOP3 "
     "MOV PLOP3 PRMT SEL SHF SHL SHR VIADD VOTE"},
    {Operation::fp32, "DADD DFMA DMUL DSETP FADD FFMA FMUL IMAD"},
    {Operation::half2, "HADD2 HFMA2 HMNMX2 HMUL2 HSET2 HSETP2"},
    {Operation::conversion, "F2FP"},
    {Operation::special, "BREV F2F F2I FLO FRND I2F MUFU POPC"},
    {Operation::tensor, "BMMA DMMA HGMMA HMMA IGMMA IMMA QGMMA"},
    {Operation::shuffle, "SHFL"},
    {Operation::shared_load, "LDS"},
    {Operation::shared_store, "STS STSM"},
    {Operation::shared_atomic, "ATOMS"},
    {Operation::matrix_load, "LDSM"},
    {Operation::global_load, "ATOM ATOMG LD LDG LDL"},
    {Operation::global_store, "RED ST STG STL"},
    {Operation::async_copy, "LDGSTS"},
    {Operation::barrier, "BAR"},
    {Operation::branch, "BRA BSYNC"},
}};

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
  static const auto by_name = [] {
    std::map<std::string, Operation, std::less<>> all;
    for (const Opcodes& row : kOpcodes) {
      std::istringstream names{std::string(row.names)};
      for (std::string name; names >> name;) {
        all[name] = row.operation;
      }
    }
    return all;
  }();
  const auto found = by_name.find(first_part(opcode));
  return found == by_name.end() ? Operation::other : found->second;
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
  Lines(std::string_view text, std::string_view file_name, std::size_t at = 0) : reader_(text, file_name), next_(at) {}

  // The next line that is not empty; false at the end.
  bool advance() {
    const std::string_view text = reader_.text();
    do {
      begin_ = std::min(next_, text.size());
      next_ = std::min(text.find('\n', begin_), text.size()) + 1;
      reader_.go_to(begin_);
      line_ = text.substr(begin_, next_ - 1 - begin_);
      line_ = without_blanks(line_.substr(0, line_.size() - line_.ends_with('\r')));
    } while (line_.empty() && begin_ < text.size());
    return begin_ < text.size();
  }

  std::string_view line() const { return line_; }
  std::size_t begin() const { return begin_; }

  [[noreturn]] void fail(const std::string& message) const { reader_.fail(reader_.at(), message); }
  [[noreturn]] void fail_at_word(std::string_view found, const std::string& expected) const {
    reader_.fail(reader_.word_at(), "found " + in_quotes(found) + ": expected " + expected);
  }

  std::string_view word() { return reader_.word(); }
  std::int64_t number(const char* what, std::int64_t least, std::int64_t most) {
    const std::string_view found = word();
    const auto value = number_in<std::int64_t>(found);
    if (!value || *value < least || *value > most) {
      fail_at_word(found, what);
    }
    return *value;
  }
  std::uint64_t hexadecimal(const char* what) {
    const std::string_view found = word();
    const std::string_view digits = found.starts_with("0x") ? found.substr(2) : found;
    std::uint64_t value = 0;
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (problem != std::errc{} || end != digits.data() + digits.size()) {
      fail_at_word(found, std::string(what) + " in hexadecimal");
    }
    return value;
  }
  void go_behind_equals(std::string_view name) {
    reader_.go_to(reader_.text().find(name, begin_) + name.size());
    if (const std::string_view equals = word(); equals != "=") {
      fail_at_word(equals, "'='");
    }
  }
  // The number behind "name =".
  std::int64_t value_of(std::string_view name, std::int64_t most) {
    go_behind_equals(name);
    return number("a whole number", 0, most);
  }

 private:
  TextReader reader_;
  std::size_t next_, begin_ = 0;
  std::string_view line_;
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
  const auto number = number_in<int>(found.substr(found.starts_with('R')));
  if (!found.starts_with('R') || !number || *number < 0 || *number >= kRegisters) {
    lines.fail_at_word(found, "a register from R0 to R" + std::to_string(kRegisters - 1));
  }
  return static_cast<Register>(*number);  // R255 reads as zero: none
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
    Lines lines(text_, file_name_);
    bool any = false;
    while (lines.advance()) {
      if (lines.line().starts_with("#BEGIN_TB")) {
        if (begins_.size() == kMostBlocks) {
          lines.fail("more than " + std::to_string(kMostBlocks) + " blocks");
        }
        begins_.push_back(lines.begin());
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
    Lines lines(text_, file_name_, begins_[static_cast<std::size_t>(index)]);
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
      lines.go_behind_equals("base_addr");
      header_.shared_base = lines.hexadecimal("an address");
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
  std::vector<std::size_t> begins_;  // byte of each block
};

}  // namespace

std::unique_ptr<TraceSource> parse_accel_sim_trace(std::string_view text, std::string_view file_name) {
  return std::make_unique<AccelSimTrace>(text, file_name);
}

}  // namespace onchip
