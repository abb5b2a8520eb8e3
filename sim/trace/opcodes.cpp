// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/opcodes.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace onchip {
namespace {

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

}  // namespace

Operation operation_of(std::string_view opcode) {
  if (opcode.starts_with("HADD2.F32")) {
    return Operation::conversion;
  }
  const std::string_view name = first_part(opcode);
  const auto found = std::ranges::lower_bound(kOpcodes, name, {}, &Opcode::name);
  return found != kOpcodes.end() && found->name == name ? found->operation : Operation::other;
}

Operation operation_in_shared_memory(std::string_view opcode) {
  const std::string_view name = first_part(opcode);
  return name == "LD"                      ? Operation::shared_load
         : name == "ST"                    ? Operation::shared_store
         : name == "ATOM" || name == "RED" ? Operation::shared_atomic
                                           : operation_of(opcode);
}

std::uint32_t accessing_lanes(std::string_view opcode) {
  return !is_matrix_access(opcode) || opcode.ends_with(".4") ? ~0u : opcode.ends_with(".2") ? 0xffffu : 0xffu;
}

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

}  // namespace onchip
