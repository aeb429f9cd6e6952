#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace teller::interop {

/// Rows of one query. Columns count from 0 in the order they were asked for.
class SqliteRows {
 public:
  /// Moves to the next row; false at the end. Throws DataError on a damaged file.
  bool Next();
  bool IsNull(int column) const;
  /// The value as an integer; none where it is NULL or something else.
  std::optional<int64_t> Integer(int column) const;
  /// The value as text, valid until Next; empty where it is NULL.
  std::string_view Text(int column) const;

 private:
  friend class SqliteReader;
  struct Finalizer {
    void operator()(sqlite3_stmt* statement) const;
  };
  SqliteRows(sqlite3* database, sqlite3_stmt* statement, std::string what)
      : database_(database), statement_(statement), what_(std::move(what)) {}

  sqlite3* database_;
  std::unique_ptr<sqlite3_stmt, Finalizer> statement_;
  std::string what_;
};

/// A SQLite file that we do not trust, opened read-only: only plain tables are read (no views,
/// virtual tables or generated columns), values are limited to 64 MiB, and nothing is written
/// beside the file.
class SqliteReader {
 public:
  /// Throws DataError where the file is no database or is damaged.
  explicit SqliteReader(const std::filesystem::path& path);
  ~SqliteReader();

  bool HasTable(std::string_view table) const;
  bool HasColumn(std::string_view table, std::string_view column) const;
  /// Names of the plain tables.
  std::vector<std::string> Tables() const;
  int64_t CountRows(std::string_view table) const;
  /// Rows of a table with the wanted columns; a column that the table lacks reads as NULL.
  /// @param filter  a condition over columns that exist, or empty
  SqliteRows Read(std::string_view table, const std::vector<std::string>& columns,
                  std::string_view filter = {}) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace teller::interop
