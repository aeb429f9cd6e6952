#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace teller {

/// 64-bit content hash (XXH3) for tables and seeds.
uint64_t Hash64(std::string_view bytes);

/// 128-bit content hash (XXH3) as 32 hexadecimal digits: names stages, inputs and runs. Not
/// cryptographic.
std::string HashHex(std::string_view bytes);

/// HashHex of a file's bytes, read in pieces. Throws DataError when it cannot be read.
std::string HashFileHex(const std::filesystem::path& path);

}  // namespace teller
