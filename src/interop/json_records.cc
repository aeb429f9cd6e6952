#include "src/interop/json_records.h"

#include <array>
#include <cstring>

namespace teller::interop {
namespace {

constexpr std::size_t kPaddingBytes = 64;  // simdjson reads past the end
constexpr std::size_t kFirstBufferBytes = std::size_t{2} << 20;
constexpr std::size_t kMaxRecordBytes = std::size_t{32} << 20;
constexpr std::size_t kBatchBytes = std::size_t{256}
                                    << 10;  // stays in the cache between cut and parse
// A broken text is cut again from the next border; past this much it is not worth more time.
constexpr int64_t kMaxRescannedBytes = int64_t{1} << 30;
constexpr std::size_t kNone = static_cast<std::size_t>(-1);

constexpr std::array<bool, 256> Characters(std::string_view set) {
  std::array<bool, 256> table{};
  for (const char c : set) table[static_cast<unsigned char>(c)] = true;
  return table;
}

constexpr auto kBrackets = Characters("{}[]\"");
constexpr auto kStringStops = Characters("\"\\");
constexpr auto kSpaces = Characters(" \t\r\n");
constexpr auto kScalarStops = Characters(",]} \t\r\n");

bool In(const std::array<bool, 256>& table, char c) { return table[static_cast<unsigned char>(c)]; }

}  // namespace

JsonRecordReader::JsonRecordReader(ByteStream& in, std::string_view array_key,
                                   JsonRecordHandler& handler, ImportLog& log)
    : in_(&in),
      array_key_(array_key),
      handler_(&handler),
      log_(&log),
      buffer_(kFirstBufferBytes + kPaddingBytes, '\0') {}

bool JsonRecordReader::Run() {
  if (!SkipSpace(false)) return false;
  if (tail_ - head_ >= 3 && std::memcmp(&buffer_[head_], "\xef\xbb\xbf", 3) == 0) {
    head_ += 3;
    if (!SkipSpace(false)) return false;
  }
  if (Current() == '{') {
    RunObject();
  } else if (Current() == '[') {
    RunArray();
  } else {
    return false;
  }
  return true;
}

bool JsonRecordReader::Fill() {
  if (head_ > 1) {
    std::memmove(&buffer_[1], &buffer_[head_], tail_ - head_);
    tail_ -= head_ - 1;
    head_ = 1;
  }
  if (tail_ + kPaddingBytes == buffer_.size()) {
    if (buffer_.size() > kMaxRecordBytes) return false;
    buffer_.resize((buffer_.size() - kPaddingBytes) * 2 + kPaddingBytes);
  }
  const std::size_t count = in_->Read(&buffer_[tail_], buffer_.size() - kPaddingBytes - tail_);
  tail_ += count;
  return count > 0;
}

bool JsonRecordReader::SkipSpace(bool commas) {
  while (!stopped_) {
    while (head_ < tail_ && (In(kSpaces, buffer_[head_]) || (commas && buffer_[head_] == ',')))
      ++head_;
    if (head_ < tail_) return true;
    if (!records_.empty()) {
      FlushRecords();
    } else if (!Fill()) {
      return false;
    }
  }
  return false;
}

JsonRecordReader::Scan JsonRecordReader::StartScan() const {
  Scan scan{.at = head_};
  const char first = buffer_[head_];
  scan.is_scalar = first != '{' && first != '[' && first != '"';
  if (scan.is_scalar) ++scan.at;  // a stray bracket is a value of one character
  return scan;
}

bool JsonRecordReader::ContinueScan(Scan& scan) const {
  const char* data = buffer_.data();
  std::size_t i = scan.at;
  if (scan.is_scalar) {
    while (i < tail_ && !In(kScalarStops, data[i])) ++i;
    scan.at = i;
    return i < tail_;
  }
  while (true) {
    if (scan.in_string) {
      while (i < tail_ && !In(kStringStops, data[i])) ++i;
      if (i >= tail_ || (data[i] == '\\' && i + 1 >= tail_)) break;
      if (data[i] == '\\') {
        i += 2;
        continue;
      }
      scan.in_string = false;
      ++i;
    } else {
      while (i < tail_ && !In(kBrackets, data[i])) ++i;
      if (i >= tail_) break;
      const char c = data[i++];
      if (c == '"') {
        scan.in_string = true;
        continue;
      }
      scan.depth += c == '{' || c == '[' ? 1 : -1;
    }
    if (scan.depth <= 0) {
      scan.at = i;
      return true;
    }
  }
  scan.at = i;
  return false;
}

JsonRecordReader::ScanResult JsonRecordReader::ScanValue(Scan& scan) {
  while (!ContinueScan(scan)) {
    const std::size_t old_head = head_;
    const bool full =
        head_ == 1 && tail_ + kPaddingBytes == buffer_.size() && buffer_.size() > kMaxRecordBytes;
    if (full) return ScanResult::kTooLong;
    if (!Fill()) {
      scan.at -= old_head - head_;
      return scan.is_scalar ? ScanResult::kWhole : ScanResult::kCut;
    }
    scan.at -= old_head - head_;
  }
  return ScanResult::kWhole;
}

void JsonRecordReader::Stop(std::string_view reason) {
  log_->Count(reason, 1, trace::Severity::kDataLoss);
  stopped_ = true;
  cut_short_ = true;
}

void JsonRecordReader::RunObject() {
  ++head_;
  while (SkipSpace(true)) {
    if (Current() == '}') return;
    if (!RunMember()) return;
  }
  if (!stopped_) Stop("json_cut_short");
}

/// One 'key: value' of the outermost object; false where nothing more can be read.
bool JsonRecordReader::RunMember() {
  if (Current() != '"') {
    Stop("json_malformed_member");
    return false;
  }
  Scan scan = StartScan();
  if (ScanValue(scan) != ScanResult::kWhole) {
    Stop("json_cut_short");
    return false;
  }
  const std::string key(&buffer_[head_ + 1], scan.at - head_ - 2);
  head_ = scan.at;
  const bool has_more = SkipSpace(false);
  if (has_more && Current() != ':') {
    Stop("json_malformed_member");
    return false;
  }
  if (has_more) ++head_;
  if (!has_more || !SkipSpace(false)) {
    Stop("json_cut_short");
    return false;
  }
  if (key == array_key_ && Current() == '[') {
    RunArray();
    return !stopped_;
  }
  scan = StartScan();
  if (ScanValue(scan) != ScanResult::kWhole) {
    Stop("json_cut_short");
    return false;
  }
  handler_->OnMember(key, std::string_view(&buffer_[head_], scan.at - head_));
  head_ = scan.at;
  return true;
}

void JsonRecordReader::RunArray() {
  found_array_ = true;
  ++head_;
  while (SkipSpace(true)) {
    if (Current() != ']') {
      ScanRecord();
    } else if (records_.empty()) {
      ++head_;
      return;
    } else {
      FlushRecords();  // may move back, when a record swallowed what followed it
    }
  }
  if (!stopped_) Stop("json_cut_short");
}

void JsonRecordReader::ScanRecord() {
  Scan scan = StartScan();
  if (!ContinueScan(scan)) {
    if (!records_.empty()) {
      FlushRecords();
      return;  // the partial record is scanned again from its begin
    }
    const ScanResult result = ScanValue(scan);
    if (result != ScanResult::kWhole) {
      const bool too_long = result == ScanResult::kTooLong;
      if (!too_long && FindBorder(head_ + 1) == kNone) {
        head_ = tail_;
        return;  // the caller finds the end and says so
      }
      log_->Count(too_long ? "record_too_long" : "malformed_record", 1, trace::Severity::kDataLoss);
      SkipToBorder(head_ + 1);
      return;
    }
  }
  records_.push_back({head_, scan.at});
  head_ = scan.at;
  if (head_ - records_.front().begin >= kBatchBytes) FlushRecords();
}

void JsonRecordReader::FlushRecords() {
  std::span<const JsonRange> rest(records_);
  while (!rest.empty()) {
    const std::size_t done =
        handler_->OnRecords({.data = buffer_.data(), .capacity = buffer_.size(), .records = rest});
    if (done >= rest.size()) break;
    log_->Count("malformed_record", 1, trace::Severity::kError);
    const JsonRange bad = rest[done];
    rest = rest.subspan(done + 1);
    const std::size_t border = FindBorder(bad.begin + 1);
    if (border >= bad.end) continue;  // nothing was swallowed
    rescanned_bytes_ += static_cast<int64_t>(head_ - border);
    head_ = border;
    if (rescanned_bytes_ > kMaxRescannedBytes) Stop("json_too_broken");
    break;
  }
  records_.clear();
}

/// Where the next record begins or the array ends after a '}' at or behind `from`, or kNone.
std::size_t JsonRecordReader::FindBorder(std::size_t from) const {
  const auto skip_space = [&](std::size_t i) {
    while (i < tail_ && In(kSpaces, buffer_[i])) ++i;
    return i;
  };
  std::size_t i = from;
  while (i < tail_) {
    const void* found = std::memchr(&buffer_[i], '}', tail_ - i);
    if (found == nullptr) return kNone;
    i = static_cast<std::size_t>(static_cast<const char*>(found) - buffer_.data()) + 1;
    std::size_t next = skip_space(i);
    if (next < tail_ && buffer_[next] == ']') {
      const std::size_t after = skip_space(next + 1);
      if (after < tail_ && (buffer_[after] == ',' || buffer_[after] == '}')) return next;
    }
    if (next >= tail_ || buffer_[next] != ',') continue;
    next = skip_space(next + 1);
    if (next >= tail_ || buffer_[next] != '{') continue;
    const std::size_t key = skip_space(next + 1);
    if (key < tail_ && buffer_[key] == '"') return next;
  }
  return kNone;
}

void JsonRecordReader::SkipToBorder(std::size_t from) {
  constexpr std::size_t kBorderBytes = 256;  // longest border looked for across a refill
  while (true) {
    const std::size_t border = FindBorder(from);
    if (border != kNone) {
      head_ = border;
      return;
    }
    head_ = tail_ - from > kBorderBytes ? tail_ - kBorderBytes : from;
    if (!Fill()) {
      head_ = tail_;
      return;
    }
    from = head_;
  }
}

}  // namespace teller::interop
