#include "tests/integration/collect/collected.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/support/temporary_folder.h"

namespace teller::testing_support {

namespace {

std::string Slurp(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

Ran RunShell(const std::string& command_line) {
  const TemporaryFolder folder;
  const std::string out = (folder / "out").string(), err = (folder / "err").string();
  const int status = std::system(("{ " + command_line + "\n} >" + out + " 2>" + err).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), Slurp(out), Slurp(err)};
}

std::string CollectLine(const std::filesystem::path& file, const std::string& options,
                        const std::string& command) {
  return std::string(TELLER_BINARY_DIR) + "/bin/teller collect -o " + file.string() + " " +
         options + " -- " + command;
}

Collected::Collected(const std::filesystem::path& file) : reader(file) {
  for (std::size_t i = 0; i < reader.processes().size(); ++i)
    events.push_back(reader.ReadEvents(static_cast<int>(i)));
}

std::map<std::string, int> Collected::CountByName() const {
  std::map<std::string, int> counts;
  for (const trace::EventTable& table : events) {
    for (const StringId name : table.name) ++counts[std::string(Text(name))];
  }
  return counts;
}

std::vector<trace::Event> Collected::Named(const std::string& name) const {
  std::vector<trace::Event> found;
  for (const trace::EventTable& table : events) {
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (Text(table.name[i]) == name) found.push_back(table.At(i));
    }
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  return found;
}

int64_t Collected::Stat(const std::string& name) const {
  for (const trace::Stat& stat : reader.ReadStats()) {
    if (stat.name == name) return stat.count;
  }
  return -1;
}

}  // namespace teller::testing_support
