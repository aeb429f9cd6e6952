#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/interop/import_log.h"
#include "src/interop/input_files.h"

namespace teller::interop {

/// Bytes of one JSON value within the reader's buffer.
struct JsonRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Whole records of a JSON array, in place. `data` may be written between `records.front().begin -
/// 1` and `records.back().end + 1`; at least 64 readable bytes follow.
struct JsonBatch {
  char* data = nullptr;
  std::size_t capacity = 0;  ///< readable bytes from `data`
  std::span<const JsonRange> records;
};

/// Takes what a JsonRecordReader finds.
class JsonRecordHandler {
 public:
  virtual ~JsonRecordHandler() = default;
  /// A member of the outermost object that is not the record array. `json` is its raw text.
  virtual void OnMember(std::string_view key, std::string_view json) = 0;
  /// Answers how many records from the front were understood or counted; where fewer than all, the
  /// reader takes the next one for malformed and looks for the next border between records.
  virtual std::size_t OnRecords(const JsonBatch& batch) = 0;
};

/// Cuts a JSON text of any size into the records of one array ('{"traceEvents": [...]}' or a bare
/// '[...]') in bounded memory. Whole records survive whatever is wrong around them: a text that
/// stops in the middle, a record that is broken, a string of a gigabyte. What does not is counted
/// in `log`. Cost: one pass, about 1 GB/s; memory: the largest record, at most 32 MiB.
class JsonRecordReader {
 public:
  JsonRecordReader(ByteStream& in, std::string_view array_key, JsonRecordHandler& handler,
                   ImportLog& log);

  /// False where the text is not the beginning of a JSON object or array.
  bool Run();
  bool found_array() const { return found_array_; }
  bool cut_short() const { return cut_short_; }

 private:
  struct Scan {
    std::size_t at = 0;
    int64_t depth = 0;
    bool in_string = false;
    bool is_scalar = false;
  };
  enum class ScanResult { kWhole, kCut, kTooLong };

  bool Fill();                  // reads more behind tail_; false at the end
  bool SkipSpace(bool commas);  // to the next character that counts; false at the end
  char Current() const { return buffer_[head_]; }
  Scan StartScan() const;
  bool ContinueScan(Scan& scan) const;
  ScanResult ScanValue(Scan& scan);
  void RunObject();
  bool RunMember();
  void RunArray();
  void ScanRecord();
  void FlushRecords();
  void SkipToBorder(std::size_t from);
  std::size_t FindBorder(std::size_t from) const;
  void Stop(std::string_view reason);

  ByteStream* in_;
  std::string array_key_;
  JsonRecordHandler* handler_;
  ImportLog* log_;
  std::vector<char> buffer_;
  std::size_t head_ = 1;  // one byte in front of the first record stays free
  std::size_t tail_ = 1;
  std::vector<JsonRange> records_;
  int64_t rescanned_bytes_ = 0;
  bool found_array_ = false;
  bool cut_short_ = false;
  bool stopped_ = false;
};

}  // namespace teller::interop
