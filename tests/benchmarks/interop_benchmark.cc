#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/core/random.h"
#include "src/interop/kineto.h"
#include "src/interop/nsight.h"

namespace teller::interop {
namespace {

/// Text in the proportions of a real trace (../shared/traces/hta/nccl_data.json.gz): a third
/// operators with shapes, a fifth calls, a tenth kernels with long names, the rest flow arrows; 240
/// bytes an event.
std::string SyntheticKineto(int64_t count) {
  Random random(7);
  std::string text =
      "{\"schemaVersion\": 1, \"distributedInfo\": {\"rank\": 0, \"world_size\": 2}, "
      "\"traceEvents\": [\n";
  for (int64_t i = 0; i < count; ++i) {
    const std::string begin =
        fmt::format("{}.{:03}", 4458676522690 + i * 7, random.UniformInt(0, 999));
    const int64_t variant = random.UniformInt(0, 200);
    if (i % 3 == 0) {
      text += fmt::format(
          "  {{\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::operator_{}\", \"pid\": "
          "2910249, \"tid\": 2919752,\n"
          "    \"ts\": {}, \"dur\": 156.777,\n    \"args\": {{\n      \"External id\": {},\"Record "
          "function id\": {}, "
          "\"Input Dims\": [[128, 1024], [1024, 1024], []], \"Input type\": [\"float\", \"float\", "
          "\"\"], \"Ev Idx\": {}\n    }}\n  }},\n",
          variant, begin, i, i, i);
    } else if (i % 5 == 1) {
      text += fmt::format(
          "  {{\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", "
          "\"pid\": 2910249, \"tid\": 2919752,\n"
          "    \"ts\": {}, \"dur\": 6.5,\n    \"args\": {{\n      \"External id\": {}, \"cbid\": "
          "211, \"correlation\": {}\n    }}\n  }},\n",
          begin, i, i);
    } else if (i % 5 == 2) {
      text += fmt::format(
          "  {{\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"void "
          "at::native::vectorized_elementwise_kernel<4, "
          "at::native::CUDAFunctor_add<float, {}>, at::detail::Array<char*, 3> >(int, "
          "at::native::CUDAFunctor_add<float>)\", "
          "\"pid\": 0, \"tid\": 7,\n    \"ts\": {}, \"dur\": 41.407,\n    \"args\": {{\n      "
          "\"External id\": {},\n      "
          "\"queued\": 0, \"device\": 0, \"context\": 1,\n      \"stream\": 7, \"correlation\": "
          "{},\n      \"registers per "
          "thread\": 40,\n      \"grid\": [512, 1, 1],\n      \"block\": [512, 1, 1]\n    }}\n  "
          "}},\n",
          variant, begin, i, i - 1);
    } else {
      text += fmt::format(
          "  {{\n    \"ph\": \"f\", \"id\": {}, \"pid\": 0, \"tid\": 7, \"ts\": {},\n    \"cat\": "
          "\"ac2g\", \"name\": \"ac2g\", "
          "\"bp\": \"e\"\n  }},\n",
          i, begin);
    }
  }
  return text + "{}]}";
}

void BM_KinetoImport(benchmark::State& state) {
  // A file of one's own instead of the synthetic text: scripts/peers/kineto_import.py sets it.
  const char* file = std::getenv("TELLER_KINETO_FILE");
  const std::string text =
      file != nullptr ? ReadFile(file, std::size_t{4} << 30) : SyntheticKineto(state.range(0));
  for (auto _ : state) {
    TextStream in(text);
    MemoryTrace trace;
    ImportLog log;
    benchmark::DoNotOptimize(ImportKineto(in, std::nullopt, {}, trace, log));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
}
BENCHMARK(BM_KinetoImport)->Arg(1 << 17)->Unit(benchmark::kMillisecond);

/// A report of calls, kernels and ranges in a file that goes away with the object.
class SyntheticReport {
 public:
  explicit SyntheticReport(int64_t rows)
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("teller-report-{}.sqlite", getpid())) {
    std::filesystem::remove(path_);
    TELLER_CHECK(sqlite3_open(path_.c_str(), &database_) == SQLITE_OK);
    Run("PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF; CREATE TABLE StringIds (id INTEGER "
        "PRIMARY KEY, value TEXT);"
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i<300) INSERT INTO "
        "StringIds SELECT i, 'name '||i FROM n;"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER,end INTEGER,globalTid "
        "INTEGER,correlationId INTEGER,nameId INTEGER);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER,end INTEGER,deviceId "
        "INTEGER,streamId INTEGER,correlationId INTEGER,globalPid INTEGER,demangledName "
        "INTEGER,shortName INTEGER);"
        "CREATE TABLE NVTX_EVENTS (start INTEGER,end INTEGER,eventType INTEGER,text TEXT,textId "
        "INTEGER,globalTid INTEGER);");
    const std::string numbers = fmt::format(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i<{}) ", rows / 3 - 1);
    Run(numbers +
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT i*100,i*100+50,167772170,i,i%300 FROM n;");
    Run(numbers +
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT "
        "i*100+60,i*100+90,0,7,i,167772160,i%300,i%300 FROM n;");
    Run(numbers +
        "INSERT INTO NVTX_EVENTS SELECT i*100,i*100+99,59,'aten::mm, op_id = '||i,NULL,167772170 "
        "FROM n;");
  }
  ~SyntheticReport() {
    sqlite3_close(database_);
    std::filesystem::remove(path_);
  }
  SyntheticReport(const SyntheticReport&) = delete;
  SyntheticReport& operator=(const SyntheticReport&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void Run(const std::string& sql) {
    TELLER_CHECK(sqlite3_exec(database_, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  }

  /// Reads every value of the columns that the importer reads; answers the number of rows.
  int64_t SelectAll() {
    int64_t rows = 0;
    for (const char* sql :
         {"SELECT start,end,globalTid,nameId,correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME",
          "SELECT start,end,deviceId,streamId,globalPid,correlationId,demangledName,shortName FROM "
          "CUPTI_ACTIVITY_KIND_KERNEL",
          "SELECT start,end,globalTid,eventType,text,textId FROM NVTX_EVENTS"}) {
      sqlite3_stmt* statement = nullptr;
      TELLER_CHECK(sqlite3_prepare_v2(database_, sql, -1, &statement, nullptr) == SQLITE_OK);
      const int columns = sqlite3_column_count(statement);
      while (sqlite3_step(statement) == SQLITE_ROW) {
        for (int column = 0; column < columns; ++column) {
          if (sqlite3_column_type(statement, column) == SQLITE_TEXT) {
            benchmark::DoNotOptimize(sqlite3_column_text(statement, column));
          } else {
            benchmark::DoNotOptimize(sqlite3_column_int64(statement, column));
          }
        }
        ++rows;
      }
      sqlite3_finalize(statement);
    }
    return rows;
  }

 private:
  std::filesystem::path path_;
  sqlite3* database_ = nullptr;
};

void BM_NsightImport(benchmark::State& state) {
  const SyntheticReport report(state.range(0));
  for (auto _ : state) {
    MemoryTrace trace;
    ImportLog log;
    benchmark::DoNotOptimize(ImportNsight(report.path(), {}, trace, log));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_NsightImport)->Arg(300000)->Unit(benchmark::kMillisecond);

/// The peer of BM_NsightImport: SQLite alone, the same rows.
void BM_SqliteSelect(benchmark::State& state) {
  SyntheticReport report(state.range(0));
  int64_t rows = 0;
  for (auto _ : state) rows += report.SelectAll();
  state.SetItemsProcessed(rows);
}
BENCHMARK(BM_SqliteSelect)->Arg(300000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace teller::interop
