#include "src/interop/input_files.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>

#include "src/core/error.h"

namespace teller::interop {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 18;
constexpr std::size_t kMaxFiles = 10'000;
// Real traces expand 10 to 30 times (../shared/traces), zeros about 1,000 times.
constexpr int64_t kMaxExpansion = 250;
constexpr int64_t kFreeExpansionBytes = int64_t{64} << 20;

/// Throws where `expanded_bytes` came out of too few bytes to be a trace.
void CheckExpansion(const std::string& file, int64_t read_bytes, int64_t expanded_bytes) {
  if (expanded_bytes <= kFreeExpansionBytes || expanded_bytes / kMaxExpansion <= read_bytes) return;
  throw DataError(
      fmt::format("{}: {} bytes expand to more than {}, over {} times as much; no trace does that: "
                  "unpack it yourself "
                  "if it is one",
                  file, read_bytes, expanded_bytes, kMaxExpansion));
}

class FileStream final : public ByteStream {
 public:
  FileStream(const std::filesystem::path& path, Progress* progress)
      : file_(std::fopen(path.c_str(), "rb")), progress_(progress) {
    if (!file_)
      throw DataError(fmt::format("cannot read {}: {}", path.string(), std::strerror(errno)));
  }
  std::size_t Read(char* out, std::size_t size) override {
    const std::size_t count = std::fread(out, 1, size, file_.get());
    if (progress_ != nullptr) progress_->Add(static_cast<int64_t>(count));
    return count;
  }

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Closer> file_;
  Progress* progress_;
};

/// Expands gzip, members behind one another included. Unlike libarchive it gives all that can be
/// had of a text that was cut short.
class GzipStream final : public ByteStream {
 public:
  GzipStream(ByteStream& in, std::string name)
      : in_(&in), name_(std::move(name)), input_(kBlockBytes, '\0') {
    constexpr int kGzipWindow = 15 + 16;
    if (inflateInit2(&inflate_, kGzipWindow) != Z_OK) throw DeviceError("zlib: out of memory");
  }
  ~GzipStream() override { inflateEnd(&inflate_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  std::size_t Read(char* out, std::size_t size) override;
  std::string cut_reason() const override { return cut_.empty() ? in_->cut_reason() : cut_; }

 private:
  bool FillInput();

  ByteStream* in_;
  std::string name_;
  std::string input_;
  std::string cut_;
  z_stream inflate_{};
  int64_t read_bytes_ = 0;
  int64_t expanded_bytes_ = 0;
  bool between_members_ = true;
  bool ended_ = false;
};

bool GzipStream::FillInput() {
  if (inflate_.avail_in > 0) return true;
  const std::size_t count = in_->Read(input_.data(), input_.size());
  read_bytes_ += static_cast<int64_t>(count);
  inflate_.next_in = reinterpret_cast<Bytef*>(input_.data());
  inflate_.avail_in = static_cast<uInt>(count);
  return count > 0;
}

std::size_t GzipStream::Read(char* out, std::size_t size) {
  inflate_.next_out = reinterpret_cast<Bytef*>(out);
  inflate_.avail_out = static_cast<uInt>(std::min(size, std::size_t{1} << 30));
  const std::size_t wanted = inflate_.avail_out;
  while (!ended_ && inflate_.avail_out == wanted) {
    if (!FillInput()) {
      ended_ = true;
      if (!between_members_) cut_ = "truncated gzip input";
      break;
    }
    between_members_ = false;
    const int status = inflate(&inflate_, Z_NO_FLUSH);
    if (status == Z_STREAM_END) {
      between_members_ = true;
      inflateReset(&inflate_);
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      ended_ = true;
      cut_ = fmt::format("damaged gzip input ({})",
                         inflate_.msg == nullptr ? "unknown" : inflate_.msg);
    }
  }
  const std::size_t count = wanted - inflate_.avail_out;
  expanded_bytes_ += static_cast<int64_t>(count);
  CheckExpansion(name_, read_bytes_, expanded_bytes_);
  return count;
}

struct ArchiveDeleter {
  void operator()(archive* handle) const { archive_read_free(handle); }
};
using ArchiveHandle = std::unique_ptr<archive, ArchiveDeleter>;

ArchiveHandle NewArchive() {
  ArchiveHandle handle(archive_read_new());
  archive_read_support_filter_xz(handle.get());
  archive_read_support_filter_zstd(handle.get());
  archive_read_support_format_tar(handle.get());
  archive_read_support_format_raw(handle.get());
  archive_read_support_format_empty(handle.get());
  return handle;
}

/// What libarchive reads from when the bytes come from a stream of ours.
struct StreamSource {
  ByteStream* in;
  std::exception_ptr
      error;  // a C library is above us: it is told of a failure, the reader throws it
  std::array<char, kBlockBytes> block;
};

la_ssize_t ReadBlock(archive* /*handle*/, void* client, const void** buffer) {
  auto* source = static_cast<StreamSource*>(client);
  *buffer = source->block.data();
  try {
    return static_cast<la_ssize_t>(source->in->Read(source->block.data(), source->block.size()));
  } catch (...) {
    source->error = std::current_exception();
    return -1;
  }
}

std::string ErrorText(archive* handle) {
  const char* text = archive_error_string(handle);
  std::string message = text == nullptr ? "unknown error" : text;
  while (!message.empty() && (message.back() == '\n' || message.back() == ' ')) message.pop_back();
  return message;
}

}  // namespace

std::size_t TextStream::Read(char* out, std::size_t size) {
  const std::size_t count = std::min(size, text_.size());
  std::memcpy(out, text_.data(), count);
  text_.remove_prefix(count);
  return count;
}

std::string_view PeekableStream::Peek(std::size_t size) {
  ahead_.erase(0, taken_);
  taken_ = 0;
  while (ahead_.size() < size) {
    const std::size_t had = ahead_.size();
    ahead_.resize(size);
    const std::size_t count = in_->Read(ahead_.data() + had, size - had);
    ahead_.resize(had + count);
    if (count == 0) break;
  }
  return ahead_;
}

std::size_t PeekableStream::Read(char* out, std::size_t size) {
  if (taken_ == ahead_.size()) return in_->Read(out, size);
  const std::size_t count = std::min(size, ahead_.size() - taken_);
  std::memcpy(out, ahead_.data() + taken_, count);
  taken_ += count;
  return count;
}

struct ArchiveReader::State final : public ByteStream {
  ArchiveHandle handle = NewArchive();
  // Each reads from the one before; the last feeds libarchive.
  std::unique_ptr<FileStream> file;
  std::unique_ptr<PeekableStream> head;
  std::unique_ptr<GzipStream> gzip;
  std::unique_ptr<StreamSource> source;
  std::string file_name;
  std::string member_name;
  std::string cut;
  const char* block = nullptr;  // of libarchive, what is left of it
  std::size_t block_bytes = 0;
  int64_t expanded_bytes = 0;

  void Open(ByteStream& in, std::string name);
  std::size_t Read(char* out, std::size_t size) override;
  bool NextBlock();
  void RethrowError();
  std::string cut_reason() const override { return cut.empty() ? source->in->cut_reason() : cut; }
};

void ArchiveReader::State::Open(ByteStream& in, std::string name) {
  file_name = std::move(name);
  head = std::make_unique<PeekableStream>(in);
  source = std::make_unique<StreamSource>();
  source->in = head.get();
  if (head->Peek(2).starts_with("\x1f\x8b")) {
    gzip = std::make_unique<GzipStream>(*head, file_name);
    source->in = gzip.get();
  }
  if (archive_read_open(handle.get(), source.get(), nullptr, ReadBlock, nullptr) == ARCHIVE_OK)
    return;
  RethrowError();
  throw DataError(fmt::format("cannot read {}: {}", file_name, ErrorText(handle.get())));
}

/// What went wrong in a stream of ours below libarchive.
void ArchiveReader::State::RethrowError() {
  if (source->error) std::rethrow_exception(std::exchange(source->error, nullptr));
}

bool ArchiveReader::State::NextBlock() {
  const void* data = nullptr;
  la_int64_t offset = 0;
  const int status = archive_read_data_block(handle.get(), &data, &block_bytes, &offset);
  RethrowError();
  if (status == ARCHIVE_EOF) return false;
  if (status < ARCHIVE_WARN) {
    cut = ErrorText(handle.get());
    block_bytes = 0;
    return false;
  }
  block = static_cast<const char*>(data);
  expanded_bytes += static_cast<int64_t>(block_bytes);
  CheckExpansion(file_name, archive_filter_bytes(handle.get(), -1), expanded_bytes);
  return true;
}

std::size_t ArchiveReader::State::Read(char* out, std::size_t size) {
  while (block_bytes == 0) {
    if (!cut.empty() || !NextBlock()) return 0;
  }
  const std::size_t count = std::min(size, block_bytes);
  std::memcpy(out, block, count);
  block += count;
  block_bytes -= count;
  return count;
}

ArchiveReader::ArchiveReader(const std::filesystem::path& path, Progress* progress)
    : state_(std::make_unique<State>()) {
  state_->file = std::make_unique<FileStream>(path, progress);
  state_->Open(*state_->file, path.string());
}

ArchiveReader::ArchiveReader(ByteStream& in, std::string name) : state_(std::make_unique<State>()) {
  state_->Open(in, std::move(name));
}

ArchiveReader::~ArchiveReader() = default;

bool ArchiveReader::Next() {
  archive_entry* entry = nullptr;
  while (state_->cut.empty()) {
    state_->block_bytes = 0;
    const int status = archive_read_next_header(state_->handle.get(), &entry);
    state_->RethrowError();
    if (status == ARCHIVE_EOF) return false;
    if (status < ARCHIVE_WARN) {
      state_->cut = ErrorText(state_->handle.get());
      return false;
    }
    if (!is_archive()) {
      state_->member_name = state_->file_name;
      return true;
    }
    if (archive_entry_filetype(entry) != AE_IFREG) continue;
    const char* name = archive_entry_pathname(entry);
    state_->member_name = name == nullptr ? "" : name;
    return true;
  }
  return false;
}

const std::string& ArchiveReader::name() const { return state_->member_name; }

ByteStream& ArchiveReader::stream() { return *state_; }

bool ArchiveReader::is_archive() const {
  return (archive_format(state_->handle.get()) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_TAR;
}

bool ArchiveReader::is_compressed() const {
  return state_->gzip != nullptr || archive_filter_count(state_->handle.get()) > 1;
}

bool NaturalLess(std::string_view left, std::string_view right) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  const auto number_end = [&](std::string_view text, std::size_t at) {
    while (at < text.size() && is_digit(text[at])) ++at;
    return at;
  };
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < left.size() && j < right.size()) {
    if (is_digit(left[i]) && is_digit(right[j])) {
      while (i + 1 < left.size() && left[i] == '0' && is_digit(left[i + 1])) ++i;
      while (j + 1 < right.size() && right[j] == '0' && is_digit(right[j + 1])) ++j;
      const std::size_t left_end = number_end(left, i);
      const std::size_t right_end = number_end(right, j);
      if (left_end - i != right_end - j) return left_end - i < right_end - j;
      const int order = left.substr(i, left_end - i).compare(right.substr(j, right_end - j));
      if (order != 0) return order < 0;
      i = left_end;
      j = right_end;
    } else if (left[i] != right[j]) {
      return left[i] < right[j];
    } else {
      ++i;
      ++j;
    }
  }
  if (left.size() - i != right.size() - j) return left.size() - i < right.size() - j;
  return left < right;
}

std::vector<std::filesystem::path> ListInputFiles(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status))
    throw DataError(fmt::format("cannot read {}: it does not exist", path.string()));
  if (!fs::is_directory(status)) {
    if (!fs::is_regular_file(status))
      throw DataError(fmt::format("cannot read {}: it is no regular file", path.string()));
    return {path};
  }
  std::vector<fs::path> files;
  fs::recursive_directory_iterator walk(path, error);
  for (; !error && walk != fs::recursive_directory_iterator(); walk.increment(error)) {
    const bool hidden = walk->path().filename().string().starts_with(".");
    if (hidden && walk->is_directory()) walk.disable_recursion_pending();
    if (hidden || walk->is_symlink() || !walk->is_regular_file()) continue;
    files.push_back(walk->path());
    if (files.size() > kMaxFiles)
      throw DataError(
          fmt::format("{}: more than {} files; name the traces", path.string(), kMaxFiles));
  }
  if (error) throw DataError(fmt::format("cannot list {}: {}", path.string(), error.message()));
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) {
    return NaturalLess(a.string(), b.string());
  });
  return files;
}

}  // namespace teller::interop
