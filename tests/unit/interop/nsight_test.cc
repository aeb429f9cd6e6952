#include "src/interop/nsight.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/error.h"
#include "tests/support/temporary_folder.h"

namespace teller::interop {
namespace {

using trace::Kind;
using trace::Layer;

/// (process << 24) | thread, as Nsight Systems writes a global thread id.
constexpr int64_t GlobalId(int64_t process, int64_t thread) { return (process << 24) | thread; }

struct Imported {
  MemoryTrace trace;
  ImportLog log;
  std::vector<ImportedProcess> ranked;

  /// The event of that name; the test fails where there is none.
  trace::Event Named(std::string_view name) const {
    for (const trace::EventTable& events : trace.events) {
      for (std::size_t i = 0; i < events.size(); ++i) {
        if (trace.Text(events.name[i]) == name) return events.At(i);
      }
    }
    ADD_FAILURE() << "no event " << name;
    return {};
  }
};

class NsightTest : public ::testing::Test {
 protected:
  /// Imports a database made by `sql`.
  Imported Import(const std::string& sql, const ImportOptions& options = {}) {
    const std::filesystem::path path = folder_.path() / "report.sqlite";
    std::filesystem::remove(path);
    sqlite3* database = nullptr;
    EXPECT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
    char* message = nullptr;
    EXPECT_EQ(sqlite3_exec(database, ("PRAGMA synchronous=OFF;" + sql).c_str(), nullptr, nullptr,
                           &message),
              SQLITE_OK)
        << message;
    sqlite3_close(database);
    Imported imported;
    imported.ranked = ImportNsight(path, options, imported.trace, imported.log);
    return imported;
  }

  testing_support::TemporaryFolder folder_;
};

constexpr std::string_view kStrings =
    "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
    "INSERT INTO StringIds VALUES "
    "(1,'cudaLaunchKernel_v7000'),(2,'gemm'),(3,'ncclDevKernel_SendRecv(x)'),(4,'ncclSend');";

std::string WithStrings(const std::string& sql) { return std::string(kStrings) + sql; }

TEST_F(NsightTest, JoinsLaunchesWithinTheirProcessOnly) {
  // Both processes have a call and a kernel of correlation 5: two pairs, not four.
  const int64_t a = GlobalId(10, 0);
  const int64_t b = GlobalId(11, 0);
  const Imported got = Import(WithStrings(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start,end,globalTid,correlationId,nameId);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL "
      "(start,end,deviceId,streamId,correlationId,globalPid,shortName);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1,2," +
      std::to_string(a + 10) + ",5,1),(3,4," + std::to_string(b + 11) +
      ",5,1);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (6,9,1,7,5," +
      std::to_string(a) + ",2),(7,8,0,7,5," + std::to_string(b) + ",2);"));
  ASSERT_EQ(got.trace.processes.size(), 2u);
  for (const trace::EventTable& events : got.trace.events) {
    EXPECT_EQ(events.correlation, (std::vector<uint64_t>{5, 5}));
    EXPECT_EQ(events.kind, (std::vector<Kind>{Kind::kLaunch, Kind::kKernel}));
  }
  // The order of their devices is the order of ranks.
  ASSERT_EQ(got.ranked.size(), 2u);
  EXPECT_EQ(got.ranked[0].info.pid, 11u);
  EXPECT_EQ(got.log.CountOf("no_session_start"), 1);
}

TEST_F(NsightTest, ReadsRangesWhoseTextIsARegisteredString) {
  const Imported got = Import(WithStrings(
      "CREATE TABLE NVTX_EVENTS (start,end,eventType,text,textId,globalTid);"
      "INSERT INTO NVTX_EVENTS VALUES (1,5,59,NULL,4,167772170),(2,3,59,'step 1',NULL,167772170),"
      "(4,9,59,'aten::mm, seq = 4, op_id = 7',NULL,167772170),(5,NULL,75,'NCCL',NULL,167772170),"
      "(6,NULL,59,'open',NULL,167772170),(7,NULL,34,'mark',NULL,167772170);"));
  EXPECT_EQ(got.Named("ncclSend").layer, Layer::kComm);
  EXPECT_EQ(got.Named("ncclSend").kind, Kind::kPointToPoint);
  EXPECT_EQ(got.Named("step 1").layer, Layer::kEngine);
  EXPECT_EQ(got.Named("aten::mm").layer, Layer::kBackend);
  EXPECT_EQ(got.Named("mark").kind, Kind::kMark);
  EXPECT_NE(got.Named("open").flags & trace::kFlagOpen, 0);
  EXPECT_EQ(got.Named("open").end_ns, 9);
  EXPECT_EQ(got.log.CountOf("skipped_nvtx_record"), 1);
}

TEST_F(NsightTest, CountsACollectiveOnceWhereItsKernelWasRecorded) {
  const Imported got =
      Import(WithStrings("CREATE TABLE NVTX_EVENTS (start,end,eventType,text,textId,globalTid);"
                         "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL "
                         "(start,end,deviceId,streamId,correlationId,globalPid,demangledName);"
                         "INSERT INTO NVTX_EVENTS VALUES (1,5,59,NULL,4,167772170);"
                         "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (2,9,0,7,5,167772160,3);"));
  EXPECT_NE(got.Named("ncclSend").flags & trace::kFlagJoined, 0);
  EXPECT_EQ(got.Named("ncclDevKernel_SendRecv(x)").layer, Layer::kComm);
}

TEST_F(NsightTest, PutsTimesOnRealtimeByTheSessionStart) {
  const std::string kernel =
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL "
      "(start,end,deviceId,streamId,correlationId,shortName);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1500,1600,0,7,5,2);";
  const Imported newer = Import(WithStrings(
      kernel +
      "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs,utcTime,systemClockNs);"
      "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1779782330176752435,'x',1000);"));
  EXPECT_EQ(newer.Named("gemm").begin_ns, 1779782330176752435 + 500);
  const Imported older =
      Import(WithStrings(
          kernel + "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs,utcTime);"
                   "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1779782330176752435,'x');"));
  EXPECT_EQ(older.Named("gemm").begin_ns, 1779782330176752435 + 1500);
}

TEST_F(NsightTest, KeepsRecordsWithoutTimingOrLaunchAndCountsThem) {
  const Imported got = Import(WithStrings(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start,end,deviceId,streamId,shortName);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start,end,deviceId,streamId,copyKind,bytes);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0,0,0,7,2),(9,4,0,7,99);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (5,'x',0,7,1,64),(5,6,0,7,1,64);"));
  EXPECT_NE(got.Named("gemm").flags & trace::kFlagNoTiming, 0);
  EXPECT_EQ(got.Named("Memcpy HtoD").bytes, 64);
  EXPECT_EQ(got.log.CountOf("no_timing"), 1);
  EXPECT_EQ(got.log.CountOf("negative_duration_as_zero"), 1);
  EXPECT_EQ(got.log.CountOf("missing_string"), 1);
  EXPECT_EQ(got.log.CountOf("bad_time"), 1);
}

TEST_F(NsightTest, NeverReadsEnvironmentsAndMasksTheCommandLine) {
  const Imported got = Import(
      WithStrings("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start,end,deviceId,streamId,shortName);"
                  "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1,2,0,7,2);"
                  "CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);"
                  "INSERT INTO META_DATA_CAPTURE VALUES "
                  "('PROCESS_0:COMMAND','vllm'),('PROCESS_0:ARGUMENT_0','--api-key'),"
                  "('PROCESS_0:ARGUMENT_1','sekret123'),('PROCESS_0:ENVIRONMENT_VARIABLE','WANDB_"
                  "API_KEY=sekret456');"
                  "CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT);"
                  "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES "
                  "('Hostname','gpu7'),('DeviceEnvironment','HF_TOKEN=sekret789');"));
  ASSERT_EQ(got.trace.processes.size(), 1u);
  EXPECT_EQ(got.trace.processes[0].command, "vllm --api-key <masked>");
  EXPECT_EQ(got.trace.processes[0].host, "gpu7");
  for (const std::string& text : got.trace.strings.Strings())
    EXPECT_EQ(text.find("sekret"), std::string::npos);
}

TEST_F(NsightTest, GivesDeviceRecordsWithoutAProcessToTheOneThatLaunchedThem) {
  const Imported got = Import(WithStrings(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start,end,globalTid,correlationId,nameId);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL "
      "(start,end,deviceId,streamId,correlationId,shortName);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES "
      "(1,2,167772170,5,1),(1,2,184549386,6,1),(1,2,167772170,7,1),(1,2,184549386,7,1);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (3,4,0,7,6,2),(3,4,0,7,7,2);"));
  EXPECT_EQ(got.log.CountOf("device_record_without_process"),
            1);  // correlation 7 is both processes'
  ASSERT_EQ(got.trace.processes.size(), 3u);
  EXPECT_EQ(got.trace.events[1].kind,
            (std::vector<Kind>{Kind::kLaunch, Kind::kLaunch, Kind::kKernel}));
}

TEST_F(NsightTest, IgnoresViewsThatPretendToBeTables) {
  const std::string endless =
      "CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE r(start) AS (SELECT 1 UNION ALL SELECT start+1 "
      "FROM r) SELECT start FROM r;";
  EXPECT_THROW(Import(endless), DataError);
}

TEST_F(NsightTest, RefusesADatabaseWithoutEventTables) {
  EXPECT_THROW(Import("CREATE TABLE t (a);"), DataError);
}

}  // namespace
}  // namespace teller::interop
