#include "src/interop/output_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "src/core/error.h"

namespace teller::interop {

OutputFile::OutputFile(const std::filesystem::path& path)
    : path_(path), file_(std::fopen(path.c_str(), "wb")) {
  if (!file_) Fail();
  std::setvbuf(file_.get(), nullptr, _IOFBF, std::size_t{1} << 20);
}

void OutputFile::Fail() const {
  throw DeviceError(fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno)));
}

void OutputFile::Write(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) Fail();
}

void OutputFile::Close() {
  if (std::fflush(file_.get()) != 0) Fail();
  file_.reset();
}

}  // namespace teller::interop
