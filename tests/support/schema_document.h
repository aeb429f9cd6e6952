#pragma once

#include <string>
#include <vector>

namespace teller::testing_support {

/// A row of the column table of docs/schema/NAME.md.
struct DocumentedColumn {
  std::string path;
  std::string type;
  std::string unit;
  bool operator==(const DocumentedColumn&) const = default;
};

/// The rows of the table whose header begins '| path | dtype | unit |'. `document` is relative to
/// the repository.
std::vector<DocumentedColumn> DocumentedColumns(const std::string& document);

/// The rows of the first table whose header line is `header`, cells without blanks and back quotes
/// around them.
std::vector<std::vector<std::string>> TableRows(const std::string& document,
                                                const std::string& header);

/// The text of the document's first block of this language (empty: of none).
std::string CodeBlock(const std::string& document, const std::string& language);

/// The Python interpreter of the project's environment if it has these modules ('h5py, numpy');
/// empty else.
std::string PythonWith(const std::string& modules);

/// PythonWith what our files are read with.
std::string PythonWithH5py();

/// stdout of a shell command; throws DeviceError where it does not exit with 0.
std::string OutputOf(const std::string& command);

}  // namespace teller::testing_support
