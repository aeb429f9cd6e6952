#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace teller::interop {

/// A new file that is written from begin to end. Throws DeviceError where it cannot be written.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  void Write(std::string_view bytes);
  /// Hands everything to the system; without it a full disk may go unnoticed.
  void Close();

 private:
  [[noreturn]] void Fail() const;

  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Closer> file_;
};

}  // namespace teller::interop
