// What a target wrote is not trusted: pools made by hand, with wrong sizes, counts and indices.
#include "src/collect/pool_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "src/core/error.h"
#include "tests/support/temporary_folder.h"

namespace teller::collect {
namespace {

using testing_support::TemporaryFolder;

/// A pool file that a test fills.
class HandMadePool {
 public:
  explicit HandMadePool(const std::filesystem::path& path) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT, 0600);
    TELLER_CHECK(ftruncate(file, static_cast<off_t>(TELLER_POOL_FILE_BYTES)) == 0);
    memory_ = static_cast<char*>(
        mmap(nullptr, TELLER_POOL_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    close(file);
    header().magic = TELLER_POOL_MAGIC;
    header().abi_version = TELLER_ABI_VERSION;
    header().segment_count = 1;
  }
  ~HandMadePool() { munmap(memory_, TELLER_POOL_FILE_BYTES); }

  TellerPoolHeader& header() { return *reinterpret_cast<TellerPoolHeader*>(memory_); }
  TellerSegment& segment() {
    return *reinterpret_cast<TellerSegment*>(memory_ + TELLER_POOL_SEGMENTS_OFFSET);
  }
  char* names() { return memory_ + TELLER_POOL_NAMES_OFFSET; }

 private:
  char* memory_;
};

class CountingSink : public RecordSink {
 public:
  void Take(std::span<const TellerRecord> records) override { count += records.size(); }
  std::size_t count = 0;
};

TEST(PoolReaderTest, RefusesForeignFiles) {
  const TemporaryFolder folder;
  std::ofstream(folder / "a.pool") << "not a pool";
  EXPECT_FALSE(PoolReader::IsReady(folder / "a.pool"));
  EXPECT_THROW(PoolReader(folder / "a.pool"), DataError);
  HandMadePool pool(folder / "b.pool");
  pool.header().abi_version = 99;
  EXPECT_THROW(PoolReader(folder / "b.pool"), DataError);
}

TEST(PoolReaderTest, NeverReadsPastWhatThereCanBe) {
  const TemporaryFolder folder;
  HandMadePool pool(folder / "a.pool");
  pool.header().segment_count = UINT32_MAX;
  pool.segment().header.state = TELLER_SEGMENT_FULL;
  pool.segment().header.count = UINT32_MAX;
  pool.segment().header.consumed = UINT32_MAX;
  pool.header().name_bytes = UINT32_MAX;
  const uint32_t absurd = UINT32_MAX;
  std::memcpy(pool.names(), &absurd, sizeof absurd);
  pool.header().clock_head = UINT32_MAX;
  PoolReader reader(folder / "a.pool");
  CountingSink sink;
  reader.Drain(PoolReader::Depth::kEverything, sink);
  EXPECT_LE(sink.count, TELLER_SEGMENT_RECORDS);
  EXPECT_TRUE(reader.names().empty());
  EXPECT_EQ(reader.clock().size(), TELLER_CLOCK_TRIPLES);
  EXPECT_EQ(reader.clock_lost(), UINT32_MAX - TELLER_CLOCK_TRIPLES);
}

TEST(PoolReaderTest, LeavesSegmentsAloneThatAreBeingWritten) {
  const TemporaryFolder folder;
  HandMadePool pool(folder / "a.pool");
  pool.segment().header.state = TELLER_SEGMENT_WRITING;
  pool.segment().header.count = 10;
  PoolReader reader(folder / "a.pool");
  CountingSink sink;
  EXPECT_EQ(reader.Drain(PoolReader::Depth::kFullSegments, sink), 0u);
  EXPECT_EQ(reader.Drain(PoolReader::Depth::kEverything, sink), 10u);
  EXPECT_EQ(reader.Drain(PoolReader::Depth::kEverything, sink), 0u);
  EXPECT_EQ(pool.segment().header.state, TELLER_SEGMENT_WRITING);
  pool.segment().header.count = 12;
  pool.segment().header.state = TELLER_SEGMENT_FULL;
  EXPECT_EQ(reader.Drain(PoolReader::Depth::kFullSegments, sink), 2u);
  EXPECT_EQ(pool.segment().header.state, TELLER_SEGMENT_FREE);
  EXPECT_EQ(pool.segment().header.count, 0u);
}

TEST(PoolReaderTest, StaysReadableWhenRetired) {
  const TemporaryFolder folder;
  HandMadePool pool(folder / "a.pool");
  std::strcpy(pool.header().comm, "worker");
  pool.header().dropped[TELLER_DROP_NO_SEGMENT] = 5;
  PoolReader reader(folder / "a.pool");
  reader.Retire();
  EXPECT_FALSE(std::filesystem::exists(folder / "a.pool"));
  EXPECT_EQ(reader.Info().comm, "worker");
  EXPECT_EQ(reader.dropped(TELLER_DROP_NO_SEGMENT), 5u);
  CountingSink sink;
  EXPECT_EQ(reader.Drain(PoolReader::Depth::kEverything, sink), 0u);
}

TEST(PoolReaderTest, MasksSecretsOfTheCommandLine) {
  const TemporaryFolder folder;
  HandMadePool pool(folder / "a.pool");
  std::strcpy(pool.header().command, "serve --api-key abcdefgh12345678");
  EXPECT_EQ(PoolReader(folder / "a.pool").Info().command.find("abcdefgh"), std::string::npos);
}

}  // namespace
}  // namespace teller::collect
