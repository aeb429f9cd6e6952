#include "src/core/hash.h"

#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "src/core/atomic_file.h"
#include "src/core/error.h"

namespace teller {
namespace {

std::string Hex(XXH128_hash_t hash) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (uint64_t half : {hash.high64, hash.low64}) {
    for (int shift = 60; shift >= 0; shift -= 4) text.push_back(kDigits[(half >> shift) & 15]);
  }
  return text;
}

}  // namespace

uint64_t Hash64(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::string HashHex(std::string_view bytes) {
  return Hex(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string HashFileHex(const std::filesystem::path& path) {
  RequireRegularFile(path);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw DataError("cannot open '" + path.string() + "': " + std::strerror(errno));
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                 XXH3_freeState);
  XXH3_128bits_reset(state.get());
  std::vector<char> buffer(1 << 20);
  while (file) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    XXH3_128bits_update(state.get(), buffer.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof()) throw DataError("reading '" + path.string() + "' failed midway");
  return Hex(XXH3_128bits_digest(state.get()));
}

}  // namespace teller
