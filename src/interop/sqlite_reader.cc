#include "src/interop/sqlite_reader.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>

#include "src/core/error.h"
#include "src/core/interrupt.h"

namespace teller::interop {
namespace {

constexpr int kMaxValueBytes = 64 << 20;

/// 'file:' name with the characters that mean something in a URI escaped. Immutable: no journal is
/// looked for and no lock is taken.
std::string Uri(const std::filesystem::path& path) {
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(path).string()) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '/' || c == '.' || c == '-' || c == '_') {
      uri += c;
    } else {
      uri += fmt::format("%{:02x}", byte);
    }
  }
  return uri + "?mode=ro&immutable=1";
}

std::string Quoted(std::string_view name) {
  std::string quoted = "\"";
  for (const char c : name) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

int StopWhenInterrupted(void* /*unused*/) { return Interrupted() ? 1 : 0; }

}  // namespace

struct SqliteReader::State {
  std::string path;
  sqlite3* database = nullptr;
  std::map<std::string, std::set<std::string, std::less<>>, std::less<>> columns;

  ~State() { sqlite3_close(database); }
  SqliteRows Query(const std::string& sql) const;
  void ListTables();
};

void SqliteRows::Finalizer::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

bool SqliteRows::Next() {
  const int status = sqlite3_step(statement_.get());
  if (status == SQLITE_ROW) return true;
  if (status == SQLITE_DONE) return false;
  ThrowIfInterrupted();
  throw DataError(fmt::format("{}: {}; the database is damaged or was cut short", what_,
                              sqlite3_errmsg(database_)));
}

bool SqliteRows::IsNull(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

std::optional<int64_t> SqliteRows::Integer(int column) const {
  if (sqlite3_column_type(statement_.get(), column) != SQLITE_INTEGER) return std::nullopt;
  return sqlite3_column_int64(statement_.get(), column);
}

std::string_view SqliteRows::Text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  if (text == nullptr) return {};
  return {text, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

SqliteRows SqliteReader::State::Query(const std::string& sql) const {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database, sql.c_str(), static_cast<int>(sql.size()), &statement,
                         nullptr) != SQLITE_OK) {
    throw DataError(fmt::format("{}: {}; the database is damaged or was cut short", path,
                                sqlite3_errmsg(database)));
  }
  return {database, statement, path};
}

void SqliteReader::State::ListTables() {
  SqliteRows tables = Query("SELECT name, sql FROM sqlite_master WHERE type = 'table'");
  while (tables.Next()) {
    const std::string name(tables.Text(0));
    if (!tables.Text(1).starts_with("CREATE TABLE"))
      continue;  // virtual tables run code of their own
    SqliteRows info = Query(fmt::format("SELECT name FROM pragma_table_info({})", Quoted(name)));
    auto& names = columns[name];  // generated columns are not among them
    while (info.Next()) names.emplace(info.Text(0));
  }
}

SqliteReader::SqliteReader(const std::filesystem::path& path) : state_(std::make_unique<State>()) {
  state_->path = path.string();
  const int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
  if (sqlite3_open_v2(Uri(path).c_str(), &state_->database, flags, nullptr) != SQLITE_OK) {
    throw DataError(
        fmt::format("cannot read {}: {}", path.string(), sqlite3_errmsg(state_->database)));
  }
  sqlite3_limit(state_->database, SQLITE_LIMIT_LENGTH, kMaxValueBytes);
  sqlite3_db_config(state_->database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(state_->database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_progress_handler(state_->database, 100'000, StopWhenInterrupted, nullptr);
  state_->ListTables();
}

SqliteReader::~SqliteReader() = default;

bool SqliteReader::HasTable(std::string_view table) const {
  return state_->columns.contains(table);
}

bool SqliteReader::HasColumn(std::string_view table, std::string_view column) const {
  const auto found = state_->columns.find(table);
  return found != state_->columns.end() && found->second.contains(column);
}

std::vector<std::string> SqliteReader::Tables() const {
  std::vector<std::string> names;
  for (const auto& [name, columns] : state_->columns) names.push_back(name);
  return names;
}

int64_t SqliteReader::CountRows(std::string_view table) const {
  SqliteRows rows = state_->Query(fmt::format("SELECT count(*) FROM {}", Quoted(table)));
  return rows.Next() ? rows.Integer(0).value_or(0) : 0;
}

SqliteRows SqliteReader::Read(std::string_view table, const std::vector<std::string>& columns,
                              std::string_view filter) const {
  std::string list;
  for (const std::string& column : columns) {
    if (!list.empty()) list += ", ";
    list += HasColumn(table, column) ? Quoted(column) : "NULL";
  }
  const std::string where = filter.empty() ? std::string() : fmt::format(" WHERE {}", filter);
  return state_->Query(fmt::format("SELECT {} FROM {}{}", list, Quoted(table), where));
}

}  // namespace teller::interop
