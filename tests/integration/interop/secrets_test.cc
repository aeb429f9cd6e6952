// Plants secrets in everything that is imported and searches everything that is written.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "src/interop/export.h"
#include "src/interop/import_file.h"
#include "tests/support/temporary_folder.h"

namespace teller::interop {
namespace {

namespace fs = std::filesystem;

/// Every planted secret holds this word.
constexpr std::string_view kPlanted = "PlantedSecret";
constexpr const char* kLog =
    "export HF_TOKEN=hf_PlantedSecret0123456789\n"
    "{\"api_key\": \"PlantedSecret-1\"}\n"
    "curl -H 'Authorization: Bearer PlantedSecret.abc-def' http://me:PlantedSecret@host/v1\n"
    "-----BEGIN PRIVATE KEY-----\nPlantedSecretBody\n-----END PRIVATE KEY-----\n"
    "(EngineCore pid=7) INFO 08-01 20:59:09 [core.py:3] aws_secret_access_key=PlantedSecret+/x\n";

class SecretsTest : public ::testing::Test {
 protected:
  fs::path Write(const std::string& name, const std::string& content) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }

  fs::path WriteNsight() {
    const fs::path path = folder_ / "in/report.sqlite";
    fs::create_directories(path.parent_path());
    sqlite3* database = nullptr;
    EXPECT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
    const std::string sql =
        "PRAGMA synchronous=OFF; CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
        "INSERT INTO StringIds VALUES (1,'stdout.log'),(2,'PASSWORD=PlantedSecret2'),(3,'gemm');"
        "CREATE TABLE ProcessStreams (globalPid,filenameId,contentId); INSERT INTO ProcessStreams "
        "VALUES (167772160,1,2);"
        "CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT); INSERT INTO META_DATA_CAPTURE "
        "VALUES"
        "('PROCESS_0:COMMAND','vllm'),('PROCESS_0:ARGUMENT_0','--api-key=PlantedSecret3'),"
        "('PROCESS_0:ENVIRONMENT_VARIABLE','PLAIN_NAME=PlantedSecret4');"
        "CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT);"
        "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('DeviceEnvironment','X=PlantedSecret5');"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start,end,deviceId,streamId,globalPid,shortName);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1,2,0,7,167772160,3);"
        "CREATE TABLE NVTX_EVENTS (start,end,eventType,text,globalTid);"
        "INSERT INTO NVTX_EVENTS VALUES (1,9,59,'token=PlantedSecret678',167772161);";
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(database);
    return path;
  }

  /// Imports, exports to every format, and answers which outputs hold a planted secret.
  std::vector<std::string> Leaks(const std::vector<fs::path>& inputs,
                                 const ImportOptions& options = {}) {
    const fs::path out = folder_ / "out";
    fs::remove_all(out);
    fs::create_directories(out);
    ImportToFile(inputs, out / "trace.h5", false, options);
    ExportPerfetto(out / "trace.h5", {}, out / "trace.pftrace");
    ExportPublished(out / "trace.h5", {}, out / "published");
    ExportCsv(out / "trace.h5", out / "trace.csv");
    std::vector<std::string> leaks;
    for (const auto& entry : fs::recursive_directory_iterator(out)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream in(entry.path(), std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(in)),
                              std::istreambuf_iterator<char>());
      if (bytes.find(kPlanted) != std::string::npos)
        leaks.push_back(entry.path().filename().string());
    }
    return leaks;
  }

  testing_support::TemporaryFolder folder_;
};

TEST_F(SecretsTest, NothingOfALogLeaks) {
  EXPECT_EQ(Leaks({Write("in/server.log", kLog)}), std::vector<std::string>{});
}

TEST_F(SecretsTest, NothingOfAProfilerTraceLeaks) {
  const auto path = Write("in/trace.json", R"({"env":{"X":"PlantedSecret"},"traceEvents":[
    {"ph":"X","cat":"user_annotation","name":"run --password PlantedSecret9","pid":7,"tid":8,"ts":1,"dur":9},
    {"ph":"X","cat":"cpu_op","name":"aten::mm","pid":7,"tid":8,"ts":2,"dur":3,"args":{"env":"PlantedSecret"}},
    {"ph":"M","name":"process_name","pid":7,"args":{"name":"HF_TOKEN=PlantedSecret10"}}]})");
  EXPECT_EQ(Leaks({path}), std::vector<std::string>{});
}

TEST_F(SecretsTest, NothingOfAnNsightReportLeaks) {
  EXPECT_EQ(Leaks({WriteNsight()}), std::vector<std::string>{});
}

TEST_F(SecretsTest, KeptTextIsKept) {
  EXPECT_FALSE(Leaks({Write("in/server.log", kLog)}, {.keep_text = true})
                   .empty());  // the search itself works
}

}  // namespace
}  // namespace teller::interop
