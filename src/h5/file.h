#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/h5/column.h"
#include "src/h5/handle.h"

namespace teller::h5 {

/// A group of an open file. Reading throws DataError, writing DeviceError, each one line that names
/// file and path.
class Group {
 public:
  Group(Handle id, std::string where) : id_(std::move(id)), where_(std::move(where)) {}

  /// 'FILE:/path', for messages.
  const std::string& where() const { return where_; }
  bool Has(std::string_view name) const;
  bool IsGroup(std::string_view name) const;
  /// Names of groups and data sets inside, numbers in numeric order, else by bytes.
  std::vector<std::string> Children() const;
  Group CreateGroup(std::string_view name);
  Group OpenGroup(std::string_view name) const;

  Column CreateColumn(std::string_view name, Type type, const ColumnOptions& options = {});
  Column CreateStringColumn(std::string_view name);
  Column OpenColumn(std::string_view name) const;

  /// A whole column at once.
  template <typename T>
  void Write(std::string_view name, std::span<const T> values, const ColumnOptions& options = {}) {
    CreateColumn(name, TypeOf<T>(), options).template Append<T>(values);
  }
  template <typename T>
  void Write(std::string_view name, const std::vector<T>& values,
             const ColumnOptions& options = {}) {
    Write<T>(name, std::span<const T>(values), options);
  }
  void WriteStrings(std::string_view name, std::span<const std::string> values) {
    CreateStringColumn(name).AppendStrings(values);
  }
  /// Throws DataError where `rows` is given and the column has another length.
  template <typename T>
  std::vector<T> Read(std::string_view name, std::optional<uint64_t> rows = {}) const {
    return OpenSized(name, rows).template ReadAll<T>();
  }
  std::vector<std::string> ReadStrings(std::string_view name,
                                       std::optional<uint64_t> rows = {}) const;

  bool HasAttribute(std::string_view name) const;
  /// Sets or replaces.
  void SetAttribute(std::string_view name, int64_t value);
  void SetAttribute(std::string_view name, double value);
  void SetAttribute(std::string_view name, std::string_view value);
  void SetAttribute(std::string_view name, std::span<const std::string> values);
  int64_t GetInt(std::string_view name) const;
  double GetDouble(std::string_view name) const;
  std::string GetString(std::string_view name) const;
  std::vector<std::string> GetStrings(std::string_view name) const;

 protected:
  Column OpenSized(std::string_view name, std::optional<uint64_t> rows) const;
  std::string Path(std::string_view name) const;

  Handle id_;
  std::string where_;
};

/// An HDF5 file. Not locked (a killed writer's children would hold the lock) and closed on exec.
class File {
 public:
  /// Makes a new file with H5F_FSPACE_STRATEGY_NONE: space is never reused, so nothing flushed is
  /// ever moved. Throws DeviceError, also where it exists.
  static File Create(const std::filesystem::path& path);
  /// Opens for reading. Throws DataError where it is missing, empty, truncated or no HDF5 file.
  static File Open(const std::filesystem::path& path);

  Group& root() { return root_; }
  const Group& root() const { return root_; }
  /// All that was written so far can be read by others, also after this process is killed.
  void Flush();
  /// Throws DeviceError where the last bytes could not be written. Groups and columns must be gone.
  void Close();

 private:
  File(Handle id, Group root, std::string name)
      : id_(std::move(id)), root_(std::move(root)), name_(std::move(name)) {}

  Handle id_;
  Group root_;  // after id_: closed first
  std::string name_;
};

}  // namespace teller::h5
