#include "tests/support/schema_document.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "src/core/atomic_file.h"
#include "src/core/error.h"

namespace teller::testing_support {
namespace {

std::string ReadDocument(const std::string& document) {
  return ReadFile(std::string(TELLER_SOURCE_DIR) + "/" + document);
}

std::vector<std::string> Cells(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream in(line.substr(1));
  for (std::string cell; std::getline(in, cell, '|');) {
    const std::size_t first = cell.find_first_not_of(" `"), last = cell.find_last_not_of(" `");
    cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
  }
  return cells;
}

}  // namespace

std::vector<std::vector<std::string>> TableRows(const std::string& document,
                                                const std::string& header) {
  std::istringstream in(ReadDocument(document));
  std::vector<std::vector<std::string>> rows;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(header)) {
      inside = true;
    } else if (!line.starts_with("|")) {
      inside = false;
    } else if (inside && !line.starts_with("|---")) {
      rows.push_back(Cells(line));
    }
  }
  return rows;
}

std::vector<DocumentedColumn> DocumentedColumns(const std::string& document) {
  std::vector<DocumentedColumn> columns;
  for (const auto& cells : TableRows(document, "| path | dtype | unit |")) {
    TELLER_CHECK(cells.size() >= 3);
    columns.push_back({cells[0], cells[1], cells[2]});
  }
  return columns;
}

std::string CodeBlock(const std::string& document, const std::string& language) {
  const std::string text = ReadDocument(document), fence = "```" + language + "\n";
  const std::size_t begin = text.find(fence);
  TELLER_CHECK(begin != std::string::npos);
  const std::size_t first = begin + fence.size();
  return text.substr(first, text.find("```", first) - first);
}

std::string PythonWith(const std::string& modules) {
  const char* venv = std::getenv("TELLER_VENV");
  const std::string python = venv != nullptr ? std::string(venv) + "/bin/python"
                                             : std::string(TELLER_VENV_DIR) + "/bin/python";
  const std::string command = python + " -c 'import " + modules + "' >/dev/null 2>&1";
  return std::system(command.c_str()) == 0 ? python : std::string();
}

std::string PythonWithH5py() { return PythonWith("h5py, numpy"); }

std::string OutputOf(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  TELLER_CHECK(pipe != nullptr);
  std::string text;
  char buffer[4096];
  for (std::size_t got; (got = fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    text.append(buffer, got);
  const int status = pclose(pipe);
  if (status != 0)
    throw DeviceError("'" + command + "' ended with status " + std::to_string(status));
  return text;
}

}  // namespace teller::testing_support
