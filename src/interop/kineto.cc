#include "src/interop/kineto.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <limits>
#include <utility>

#include "src/core/error.h"
#include "src/core/interrupt.h"
#include "src/interop/decimal.h"
#include "src/interop/json_records.h"

namespace teller::interop {
namespace {

namespace ondemand = simdjson::ondemand;

std::string_view TrimToken(std::string_view token) {
  while (!token.empty() && std::isspace(static_cast<unsigned char>(token.back())) != 0)
    token.remove_suffix(1);
  return token;
}

/// The raw text of a number or string; whatever else the value is, it is skipped.
simdjson::error_code Token(ondemand::value value, std::string_view& out) {
  ondemand::json_type type;
  if (const auto error = value.type().get(type)) return error;
  if (type == ondemand::json_type::array || type == ondemand::json_type::object)
    return simdjson::SUCCESS;
  out = TrimToken(value.raw_json_token());
  return simdjson::SUCCESS;
}

simdjson::error_code Text(ondemand::value value, std::string_view& out) {
  ondemand::json_type type;
  if (const auto error = value.type().get(type)) return error;
  if (type == ondemand::json_type::string) return value.get_string().get(out);
  return Token(value, out);
}

simdjson::error_code RawArray(ondemand::value value, std::string_view& out) {
  ondemand::array array;
  if (value.get_array().get(array) != simdjson::SUCCESS) return simdjson::SUCCESS;
  return array.raw_json().get(out);
}

bool Is(const char* key, std::string_view name) {
  return std::memcmp(key, name.data(), name.size()) == 0 && key[name.size()] == '"';
}

/// Members of 'args' that we use; the many others are skipped unread.
simdjson::error_code ReadArgument(const char* key, ondemand::value value, ChromeEvent& event) {
  switch (*key) {
    case 'c':
      if (Is(key, "correlation")) return Token(value, event.correlation);
      break;
    case 'd':
      if (Is(key, "device")) return Token(value, event.device);
      if (Is(key, "dtype")) return Text(value, event.element_type);
      break;
    case 's':
      if (Is(key, "stream")) return Token(value, event.stream);
      break;
    case 'b':
      if (Is(key, "bytes")) return Token(value, event.bytes);
      break;
    case 'n':
      if (Is(key, "name")) return Text(value, event.label);
      break;
    case 'g':
      if (Is(key, "graph node id")) return Token(value, event.graph_node);
      break;
    case 'C':
      if (Is(key, "Collective name")) return Text(value, event.collective);
      break;
    case 'P':
      if (Is(key, "Process Group Name")) return Text(value, event.group);
      break;
    case 'I':
      if (Is(key, "In msg nelems")) return Token(value, event.element_count);
      if (Is(key, "Input Dims") && !event.name.empty() &&
          event.name.find(':') != std::string_view::npos && event.category == "user_annotation") {
        return RawArray(value, event.input_dims);
      }
      if (Is(key, "Input type") && !event.input_dims.empty())
        return RawArray(value, event.input_types);
      break;
    case 'S':
      if (Is(key, "Seq")) return Token(value, event.sequence);
      if (Is(key, "Src Rank")) return Token(value, event.source_rank);
      break;
    case 'D':
      if (Is(key, "Dst Rank")) return Token(value, event.destination_rank);
      break;
    default:
      break;
  }
  return simdjson::SUCCESS;
}

simdjson::error_code ReadArguments(ondemand::value value, ChromeEvent& event) {
  ondemand::object arguments;
  if (value.get_object().get(arguments) != simdjson::SUCCESS) return simdjson::SUCCESS;
  for (auto field : arguments) {
    ondemand::raw_json_string key;
    if (const auto error = field.key().get(key)) return error;
    ondemand::value item;
    if (const auto error = field.value().get(item)) return error;
    if (const auto error = ReadArgument(key.raw(), item, event)) return error;
  }
  return simdjson::SUCCESS;
}

simdjson::error_code ReadField(const char* key, ondemand::value value, ChromeEvent& event) {
  switch (*key) {
    case 'p':
      if (Is(key, "ph")) return Text(value, event.phase);
      if (Is(key, "pid")) return Token(value, event.process);
      break;
    case 'c':
      if (Is(key, "cat")) return Text(value, event.category);
      break;
    case 'n':
      if (Is(key, "name")) return Text(value, event.name);
      break;
    case 't':
      if (Is(key, "tid")) return Token(value, event.thread);
      if (Is(key, "ts")) return Token(value, event.begin_us);
      break;
    case 'd':
      if (Is(key, "dur")) return Token(value, event.duration_us);
      break;
    case 'i':
      if (Is(key, "id")) return Token(value, event.id);
      break;
    case 'a':
      if (Is(key, "args")) return ReadArguments(value, event);
      break;
    default:
      break;
  }
  return simdjson::SUCCESS;
}

simdjson::error_code ReadEvent(ondemand::object object, ChromeEvent& event) {
  for (auto field : object) {
    ondemand::raw_json_string key;
    if (const auto error = field.key().get(key)) return error;
    ondemand::value value;
    if (const auto error = field.value().get(value)) return error;
    event.has_fields = true;
    if (const auto error = ReadField(key.raw(), value, event)) return error;
  }
  return simdjson::SUCCESS;
}

/// Control bytes become spaces and what is no UTF-8 becomes '?', so that the rest of a record
/// survives.
void RepairText(std::string& text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    std::size_t length = c < 0x80                ? 1
                         : c >= 0xf0 && c < 0xf8 ? 4
                         : c >= 0xe0 && c < 0xf0 ? 3
                         : c >= 0xc2 && c < 0xe0 ? 2
                                                 : 0;
    if (length == 1) {
      if (c < 0x20) text[i] = ' ';
    } else if (length == 0 || i + length > text.size() ||
               !simdjson::validate_utf8(&text[i], length)) {
      text[i] = '?';
      length = 1;
    }
    i += length;
  }
}

/// Reads records by simdjson: whole batches at once, one by one after something was wrong in a
/// batch.
class KinetoReader final : public JsonRecordHandler {
 public:
  KinetoReader(KinetoEvents& events, ImportLog& log) : events_(&events), log_(&log) {}

  void OnMember(std::string_view key, std::string_view json) override;
  std::size_t OnRecords(const JsonBatch& batch) override;
  const KinetoFileInfo& info() const { return info_; }

 private:
  std::size_t ReadBatch(const JsonBatch& batch);
  bool ReadOne(char* text, std::size_t length, std::size_t readable);
  bool ReadRepaired(std::string_view text);
  void ReadDistributedInfo(std::string_view json);

  KinetoEvents* events_;
  ImportLog* log_;
  ondemand::parser parser_;
  KinetoFileInfo info_;
  std::size_t careful_records_ = 0;  ///< left of a batch in which something was wrong
};

void KinetoReader::OnMember(std::string_view key, std::string_view json) {
  if (key == "baseTimeNanoseconds") {
    info_.base_time_ns = ParseInteger(json).value_or(0);
  } else if (key == "distributedInfo") {
    ReadDistributedInfo(json);
  }
}

void KinetoReader::ReadDistributedInfo(std::string_view json) {
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  if (parser.parse(simdjson::padded_string(json)).get(object) != simdjson::SUCCESS) {
    log_->Count("malformed_distributed_info", 1, trace::Severity::kError);
    return;
  }
  int64_t number = 0;
  constexpr int64_t kMaxRank = std::numeric_limits<int32_t>::max();
  if (object["rank"].get(number) == simdjson::SUCCESS && number >= 0 && number <= kMaxRank)
    info_.rank = static_cast<int32_t>(number);
  if (object["world_size"].get(number) == simdjson::SUCCESS && number > 0 && number <= kMaxRank)
    info_.world_size = static_cast<int32_t>(number);
  std::string_view backend;
  if (object["backend"].get(backend) == simdjson::SUCCESS) info_.backend = std::string(backend);
}

std::size_t KinetoReader::OnRecords(const JsonBatch& batch) {
  ThrowIfInterrupted();
  std::size_t done = 0;
  if (careful_records_ == 0) {
    done = ReadBatch(batch);
    if (done < batch.records.size()) careful_records_ = batch.records.size() - done;
  }
  for (; done < batch.records.size(); ++done) {
    const JsonRange range = batch.records[done];
    --careful_records_;
    if (!ReadOne(batch.data + range.begin, range.end - range.begin, batch.capacity - range.begin))
      return done;
  }
  return done;
}

/// Reads a batch as one array; answers how many records went well.
std::size_t KinetoReader::ReadBatch(const JsonBatch& batch) {
  char* first = batch.data + batch.records.front().begin - 1;
  char* last = batch.data + batch.records.back().end;
  const char before = std::exchange(*first, '[');
  const char after = std::exchange(*last, ']');
  const auto length = static_cast<std::size_t>(last - first) + 1;
  const simdjson::padded_string_view text(first, length,
                                          batch.capacity - (batch.records.front().begin - 1));
  std::size_t done = 0;
  ondemand::document document;
  ondemand::array array;
  if (parser_.iterate(text).get(document) == simdjson::SUCCESS &&
      document.get_array().get(array) == simdjson::SUCCESS) {
    for (auto element : array) {
      ondemand::object object;
      ChromeEvent event;
      if (element.get_object().get(object) != simdjson::SUCCESS ||
          ReadEvent(object, event) != simdjson::SUCCESS)
        break;
      if (done >= batch.records.size()) break;
      events_->Add(event);
      ++done;
    }
  }
  *first = before;
  *last = after;
  return done;
}

bool KinetoReader::ReadOne(char* text, std::size_t length, std::size_t readable) {
  ondemand::document document;
  ondemand::object object;
  ChromeEvent event;
  auto error = parser_.iterate(simdjson::padded_string_view(text, length, readable)).get(document);
  if (error == simdjson::UTF8_ERROR || error == simdjson::UNESCAPED_CHARS)
    return ReadRepaired({text, length});
  if (error != simdjson::SUCCESS || document.get_object().get(object) != simdjson::SUCCESS)
    return false;
  if (ReadEvent(object, event) != simdjson::SUCCESS) return false;
  events_->Add(event);
  return true;
}

bool KinetoReader::ReadRepaired(std::string_view text) {
  std::string repaired(text);
  RepairText(repaired);
  const simdjson::padded_string padded(repaired);
  ondemand::document document;
  ondemand::object object;
  ChromeEvent event;
  if (parser_.iterate(padded).get(document) != simdjson::SUCCESS) return false;
  if (document.get_object().get(object) != simdjson::SUCCESS ||
      ReadEvent(object, event) != simdjson::SUCCESS)
    return false;
  log_->Count("repaired_text");
  events_->Add(event);
  return true;
}

}  // namespace

KinetoFile ImportKineto(ByteStream& in, std::optional<int32_t> file_rank,
                        const ImportOptions& options, TraceSink& sink, ImportLog& log) {
  KinetoEvents events(options, log);
  KinetoReader handler(events, log);
  JsonRecordReader reader(in, "traceEvents", handler, log);
  KinetoFile file;
  if (!reader.Run()) throw DataError("expected a JSON object or array");
  file.info = handler.info();
  file.found_events = reader.found_array();
  file.cut_short = reader.cut_short() || !in.cut_reason().empty();
  const auto rank = file.info.rank ? file.info.rank : file_rank;
  file.processes = events.Finish(file.info, rank, sink);
  return file;
}

std::optional<int32_t> RankFromFileName(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  std::string name(slash == std::string_view::npos ? path : path.substr(slash + 1));
  // A folder a rank: 'rank_3/trace.json'.
  if (slash != std::string_view::npos && slash > 0) {
    const std::size_t parent = path.rfind('/', slash - 1);
    name = std::string(path.substr(parent == std::string_view::npos ? 0 : parent + 1));
  }
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::optional<int32_t> rank;
  for (const std::string_view word : {"rank", "worker", "tp"}) {
    for (std::size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
      if (at > 0 && std::isalpha(static_cast<unsigned char>(name[at - 1])) != 0) continue;
      std::size_t digit = at + word.size();
      if (digit < name.size() && (name[digit] == '-' || name[digit] == '_' || name[digit] == '='))
        ++digit;
      std::size_t end = digit;
      while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
      if (end == digit || end - digit > 6) continue;
      rank = static_cast<int32_t>(std::stoi(name.substr(digit, end - digit)));
    }
    if (rank) return rank;
  }
  return std::nullopt;
}

}  // namespace teller::interop
