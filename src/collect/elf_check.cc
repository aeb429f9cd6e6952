#include "src/collect/elf_check.h"

#include <elf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "src/core/error.h"

namespace teller::collect {

namespace {

constexpr int kMaxProgramHeaders = 256;

std::string MachineName(int machine) {
  switch (machine) {
    case EM_386:
      return "i386";
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "aarch64";
    case EM_RISCV:
      return "RISC-V";
    case EM_PPC64:
      return "ppc64";
    default:
      return fmt::format("machine {}", machine);
  }
}

template <typename Header, typename ProgramHeader>
std::optional<ElfFacts> ReadFacts(std::istream& file, int bits) {
  Header header;
  file.seekg(0);
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header)) return std::nullopt;
  ElfFacts facts{.bits = bits, .machine = header.e_machine};
  for (int i = 0; i < std::min<int>(header.e_phnum, kMaxProgramHeaders); ++i) {
    ProgramHeader segment;
    file.seekg(static_cast<std::streamoff>(header.e_phoff +
                                           static_cast<uint64_t>(i) * header.e_phentsize));
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof segment)) break;
    facts.has_interpreter = facts.has_interpreter || segment.p_type == PT_INTERP;
  }
  return facts;
}

}  // namespace

std::string ElfFacts::Describe() const {
  return fmt::format("{}-bit {}", bits, MachineName(machine));
}

std::optional<ElfFacts> ReadElf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  unsigned char ident[EI_NIDENT];
  if (!file.read(reinterpret_cast<char*>(ident), sizeof ident) ||
      memcmp(ident, ELFMAG, SELFMAG) != 0)
    return std::nullopt;
  return ident[EI_CLASS] == ELFCLASS64 ? ReadFacts<Elf64_Ehdr, Elf64_Phdr>(file, 64)
                                       : ReadFacts<Elf32_Ehdr, Elf32_Phdr>(file, 32);
}

std::optional<std::filesystem::path> FindInPath(const std::string& command) {
  if (command.find('/') != std::string::npos) return command;
  const char* held = getenv("PATH");
  const std::string folders = held != nullptr ? held : "/bin:/usr/bin";
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    const std::filesystem::path path =
        std::filesystem::path(end == begin ? "." : folders.substr(begin, end - begin)) / command;
    if (access(path.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(path)) return path;
    begin = end + 1;
  }
  return std::nullopt;
}

std::optional<std::string> CheckAgentFits(const std::filesystem::path& agent_library,
                                          const std::string& command) {
  const std::optional<ElfFacts> agent = ReadElf(agent_library);
  if (!agent) {
    throw UnavailableError(
        fmt::format("{}: not a library; build the target teller_agent or set "
                    "TELLER_AGENT_LIBRARY to it",
                    agent_library.string()));
  }
  const auto path = FindInPath(command);
  const std::optional<ElfFacts> program = path ? ReadElf(*path) : std::nullopt;
  if (!program) return std::nullopt;
  if (program->bits != agent->bits || program->machine != agent->machine) {
    throw UnavailableError(fmt::format(
        "'{}' is {}, the agent library {} is {}: set TELLER_AGENT_LIBRARY to one built for it",
        path->string(), program->Describe(), agent_library.string(), agent->Describe()));
  }
  if (program->has_interpreter) return std::nullopt;
  return fmt::format("'{}' is statically linked: only its output is recorded", path->string());
}

}  // namespace teller::collect
