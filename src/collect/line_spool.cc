#include "src/collect/line_spool.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "src/collect/write_all.h"

namespace teller::collect {

namespace {

constexpr std::size_t kBlockLines = 4096;

struct Head {
  int64_t read_ns, realtime_ns;
  uint64_t offset;
  uint32_t node_bytes, file_bytes, text_bytes, reserved;
};

void AppendTo(std::string& buffer, const SpooledLine& line) {
  const Head head{line.read_ns,
                  line.realtime_ns,
                  line.offset,
                  static_cast<uint32_t>(line.node.size()),
                  static_cast<uint32_t>(line.file.size()),
                  static_cast<uint32_t>(line.text.size()),
                  0};
  buffer.append(reinterpret_cast<const char*>(&head), sizeof head);
  buffer += line.node;
  buffer += line.file;
  buffer += line.text;
}

bool ReadText(std::istream& in, uint32_t bytes, std::string& text) {
  text.resize(bytes);
  return static_cast<bool>(in.read(text.data(), bytes));
}

bool ReadLine(std::istream& in, uint64_t left, SpooledLine& line) {
  Head head;
  if (!in.read(reinterpret_cast<char*>(&head), sizeof head)) return false;
  if (uint64_t{head.node_bytes} + head.file_bytes + head.text_bytes + sizeof head > left)
    return false;
  line.read_ns = head.read_ns;
  line.realtime_ns = head.realtime_ns;
  line.offset = head.offset;
  return ReadText(in, head.node_bytes, line.node) && ReadText(in, head.file_bytes, line.file) &&
         ReadText(in, head.text_bytes, line.text);
}

}  // namespace

LineSpool::LineSpool(std::filesystem::path path) : path_(std::move(path)) {
  file_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const off_t end = file_ < 0 ? 0 : lseek(file_, 0, SEEK_END);
  bytes_ = end > 0 ? static_cast<uint64_t>(end) : 0;
}

LineSpool::~LineSpool() {
  if (file_ >= 0) close(file_);
}

void LineSpool::Append(const std::vector<SpooledLine>& lines) {
  std::string buffer;
  for (const SpooledLine& line : lines) {
    buffer.clear();
    AppendTo(buffer, line);
    const bool ready = file_ >= 0 && lseek(file_, static_cast<off_t>(bytes_), SEEK_SET) >= 0 &&
                       WriteAll(file_, buffer.data(), buffer.size()) == buffer.size();
    ready ? bytes_ += buffer.size() : ++lost_;  // a part of a line is overwritten by the next
  }
}

void LineSpool::ForEachBlock(
    const std::function<void(const std::vector<SpooledLine>&)>& visit) const {
  std::ifstream in(path_, std::ios::binary);
  std::vector<SpooledLine> block;
  SpooledLine line;
  for (uint64_t left = bytes_; ReadLine(in, left, line);) {
    left -= sizeof(Head) + line.node.size() + line.file.size() + line.text.size();
    block.push_back(std::move(line));
    if (block.size() < kBlockLines) continue;
    visit(block);
    block.clear();
  }
  if (!block.empty()) visit(block);
}

}  // namespace teller::collect
