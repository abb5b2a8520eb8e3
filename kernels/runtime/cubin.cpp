// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/cubin.hpp"

#include "kernels/runtime/device.hpp"

#include <elf.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace onchip {
namespace {

// Reads structures out of the file, each at any byte.
class ElfFile {
 public:
  explicit ElfFile(std::span<const char> bytes) : bytes_(bytes) {}

  template <typename T>
  T at(std::uint64_t offset) const {
    T value;
    require(offset <= bytes_.size() && sizeof(T) <= bytes_.size() - offset);
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  std::string_view bytes(std::uint64_t offset, std::uint64_t size) const {
    require(offset <= bytes_.size() && size <= bytes_.size() - offset);
    return {bytes_.data() + offset, size};
  }
  std::string_view text(std::uint64_t offset) const {
    require(offset < bytes_.size());
    const std::string_view rest(bytes_.data() + offset, bytes_.size() - offset);
    require(rest.find('\0') != std::string_view::npos);
    return rest.substr(0, rest.find('\0'));
  }
  static void require(bool whole) {
    if (!whole) {
      throw CudaError("the cubin is torn");
    }
  }

 private:
  std::span<const char> bytes_;
};

struct Section {
  Elf64_Shdr header;
  std::string_view name;
};

std::vector<Section> sections_of(const ElfFile& file) {
  const auto header = file.at<Elf64_Ehdr>(0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) {
    throw CudaError("the cubin is no 64-bit ELF file");
  }
  std::vector<Section> sections;
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    sections.push_back({file.at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr)), {}});
  }
  ElfFile::require(header.e_shstrndx < sections.size());
  const std::uint64_t names = sections[header.e_shstrndx].header.sh_offset;
  for (Section& section : sections) {
    section.name = file.text(names + section.header.sh_name);
  }
  return sections;
}

// ".text" of ".text.KERNEL", ".nv.constant2" of ".nv.constant2.KERNEL".
std::string_view kind_of(std::string_view name) {
  constexpr std::string_view kVendor = ".nv.";
  return name.substr(0, name.find('.', name.starts_with(kVendor) ? kVendor.size() : 1));
}

// From sm_100 on a cubin has all of it again for another of the compiler's stages.
bool is_loaded(const Section& section) {
  return (section.header.sh_flags & SHF_ALLOC) != 0 && !section.name.starts_with(".nv.merc.");
}

bool has_variables(const Section& section) {
  return kind_of(section.name).starts_with(".nv.global");
}

// NVRTC keeps each `constexpr` number of a source as a local variable, though the code has its value.
bool is_constant(const Elf64_Sym& symbol) {
  constexpr std::uint64_t kLargestNumber = 8;
  return ELF64_ST_BIND(symbol.st_info) == STB_LOCAL && symbol.st_size <= kLargestNumber;
}

// The variables of a section, in the order of their addresses, without those that are constants.
std::vector<Elf64_Sym> variables_of(const ElfFile& file, std::span<const Section> sections, std::size_t target) {
  std::vector<Elf64_Sym> variables;
  for (const Section& section : sections) {
    for (std::uint64_t i = 0; section.header.sh_type == SHT_SYMTAB && i < section.header.sh_size / sizeof(Elf64_Sym);
         ++i) {
      const auto symbol = file.at<Elf64_Sym>(section.header.sh_offset + i * sizeof(Elf64_Sym));
      if (symbol.st_shndx == target && ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT && !is_constant(symbol)) {
        variables.push_back(symbol);
      }
    }
  }
  std::ranges::sort(variables, {}, &Elf64_Sym::st_value);
  return variables;
}

// What an address is of: a section and the place in it, of a variable its number there; or a name that others define.
// Nothing for constants.
std::string target_of(const ElfFile& file, std::span<const Section> sections, const Elf64_Sym& symbol,
                      std::string_view name) {
  if (symbol.st_shndx >= sections.size() || symbol.st_shndx == SHN_UNDEF) {
    return std::string(name) + ' ' + std::to_string(symbol.st_value);
  }
  const Section& section = sections[symbol.st_shndx];
  std::uint64_t place = symbol.st_value;
  if (has_variables(section) && ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT) {
    if (is_constant(symbol)) {
      return {};
    }
    const std::vector<Elf64_Sym> variables = variables_of(file, sections, symbol.st_shndx);
    place = static_cast<std::uint64_t>(std::ranges::find(variables, symbol.st_value, &Elf64_Sym::st_value) -
                                       variables.begin());
  }
  return std::string(kind_of(section.name)) + ' ' + std::to_string(place);
}

// Where the linker puts which address, but those of constants: offsets; type, addend, target.
std::vector<std::pair<std::uint64_t, std::string>> relocations_of(const ElfFile& file,
                                                                  std::span<const Section> sections,
                                                                  std::size_t target) {
  std::vector<std::pair<std::uint64_t, std::string>> relocations;
  for (const Section& section : sections) {
    const bool has_addend = section.header.sh_type == SHT_RELA;
    if ((!has_addend && section.header.sh_type != SHT_REL) || section.header.sh_info != target) {
      continue;
    }
    ElfFile::require(section.header.sh_link < sections.size());
    const Elf64_Shdr& symbols = sections[section.header.sh_link].header;
    ElfFile::require(symbols.sh_link < sections.size());
    const std::uint64_t size = has_addend ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
    for (std::uint64_t i = 0; i < section.header.sh_size / size; ++i) {
      const std::uint64_t place = section.header.sh_offset + i * size;
      const auto plain = file.at<Elf64_Rel>(place);
      const std::int64_t addend = has_addend ? file.at<Elf64_Rela>(place).r_addend : 0;
      const auto symbol = file.at<Elf64_Sym>(symbols.sh_offset + ELF64_R_SYM(plain.r_info) * sizeof(Elf64_Sym));
      const std::string of =
          target_of(file, sections, symbol, file.text(sections[symbols.sh_link].header.sh_offset + symbol.st_name));
      if (!of.empty()) {
        relocations.push_back(
            {plain.r_offset, std::to_string(ELF64_R_TYPE(plain.r_info)) + ' ' + std::to_string(addend) + ' ' + of});
      }
    }
  }
  std::ranges::sort(relocations);
  return relocations;
}

}  // namespace

std::int64_t code_bytes(std::span<const char> cubin, std::string_view kernel) {
  const std::string wanted = ".text." + std::string(kernel);
  for (const Section& section : sections_of(ElfFile(cubin))) {
    if (section.name == wanted) {
      return static_cast<std::int64_t>(section.header.sh_size);
    }
  }
  throw CudaError("the cubin has no kernel '" + std::string(kernel) + "'");
}

std::string significant_code(std::span<const char> cubin) {
  const ElfFile file(cubin);
  const std::vector<Section> sections = sections_of(file);
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const Elf64_Shdr& header = sections[i].header;
    if (!is_loaded(sections[i])) {
      continue;
    }
    std::string part;
    const auto add_bytes = [&](std::uint64_t begin, std::uint64_t size) {
      part += ' ' + std::to_string(size) + '\n';
      if (header.sh_type != SHT_NOBITS) {
        ElfFile::require(begin <= header.sh_size && size <= header.sh_size - begin);
        part += file.bytes(header.sh_offset + begin, size);
      }
    };
    const bool has_addresses = sections[i].name == ".nv.constant4";  // of all variables, constants among them
    if (has_variables(sections[i])) {
      for (const Elf64_Sym& variable : variables_of(file, sections, i)) {
        add_bytes(variable.st_value, variable.st_size);
      }
    } else if (!has_addresses) {
      add_bytes(0, header.sh_size);
    }
    std::uint64_t number = 0;
    for (const auto& [offset, what] : relocations_of(file, sections, i)) {
      part += std::to_string(has_addresses ? number++ : offset) + ' ' + what + '\n';
    }
    if (!part.empty()) {
      parts.push_back(std::string(kind_of(sections[i].name)) + ' ' + std::to_string(header.sh_type) + part);
    }
  }
  std::ranges::sort(parts);
  std::string code;
  for (const std::string& part : parts) {
    code += part;
  }
  return code;
}

}  // namespace onchip
