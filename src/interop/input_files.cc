#include "src/interop/input_files.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <system_error>

#include "src/core/error.h"

namespace teller::interop {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 18;
constexpr std::size_t kMaxFiles = 10'000;
// Real traces expand 10 to 30 times (../shared/traces), zeros about 1,000 times.
constexpr int64_t kMaxExpansion = 250;
constexpr int64_t kFreeExpansionBytes = int64_t{64} << 20;

struct ArchiveDeleter {
  void operator()(archive* handle) const { archive_read_free(handle); }
};
using ArchiveHandle = std::unique_ptr<archive, ArchiveDeleter>;

ArchiveHandle NewArchive() {
  ArchiveHandle handle(archive_read_new());
  archive_read_support_filter_gzip(handle.get());
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
  std::array<char, kBlockBytes> block;
};

la_ssize_t ReadBlock(archive* /*handle*/, void* client, const void** buffer) {
  auto* source = static_cast<StreamSource*>(client);
  *buffer = source->block.data();
  try {
    return static_cast<la_ssize_t>(source->in->Read(source->block.data(), source->block.size()));
  } catch (const Error&) {
    return -1;  // a C library is above us; the reader reports the input as cut
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
  std::unique_ptr<StreamSource> source;
  std::string file_name;
  std::string member_name;
  std::string cut;
  int64_t expanded_bytes = 0;
  bool open = false;

  std::size_t Read(char* out, std::size_t size) override;
  std::string cut_reason() const override { return cut; }
  void CheckExpansion() const;
};

std::size_t ArchiveReader::State::Read(char* out, std::size_t size) {
  if (!cut.empty()) return 0;
  const la_ssize_t count = archive_read_data(handle.get(), out, size);
  if (count < 0) {
    cut = ErrorText(handle.get());
    return 0;
  }
  expanded_bytes += count;
  CheckExpansion();
  return static_cast<std::size_t>(count);
}

void ArchiveReader::State::CheckExpansion() const {
  const int64_t read_bytes = archive_filter_bytes(handle.get(), -1);
  if (expanded_bytes <= kFreeExpansionBytes || expanded_bytes / kMaxExpansion <= read_bytes) return;
  throw DataError(
      fmt::format("{}: {} bytes expand to more than {}: more than {} times, no trace does that; "
                  "unpack it yourself if it is one",
                  file_name, read_bytes, expanded_bytes, kMaxExpansion));
}

ArchiveReader::ArchiveReader(const std::filesystem::path& path)
    : state_(std::make_unique<State>()) {
  state_->file_name = path.string();
  if (archive_read_open_filename(state_->handle.get(), path.c_str(), kBlockBytes) != ARCHIVE_OK) {
    throw DataError(
        fmt::format("cannot read {}: {}", path.string(), ErrorText(state_->handle.get())));
  }
}

ArchiveReader::ArchiveReader(ByteStream& in, std::string name) : state_(std::make_unique<State>()) {
  state_->file_name = std::move(name);
  state_->source = std::make_unique<StreamSource>();
  state_->source->in = &in;
  if (archive_read_open(state_->handle.get(), state_->source.get(), nullptr, ReadBlock, nullptr) !=
      ARCHIVE_OK) {
    throw DataError(
        fmt::format("cannot read {}: {}", state_->file_name, ErrorText(state_->handle.get())));
  }
}

ArchiveReader::~ArchiveReader() = default;

bool ArchiveReader::Next() {
  archive_entry* entry = nullptr;
  while (state_->cut.empty()) {
    const int status = archive_read_next_header(state_->handle.get(), &entry);
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

bool ArchiveReader::is_compressed() const { return archive_filter_count(state_->handle.get()) > 1; }

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
