#include "src/interop/protobuf_writer.h"

namespace teller::interop {
namespace {

constexpr uint32_t kVarintType = 0;
constexpr uint32_t kFixed64Type = 1;
constexpr uint32_t kBytesType = 2;

constexpr uint64_t Tag(uint32_t field, uint32_t type) { return uint64_t{field} << 3 | type; }

}  // namespace

void ProtobufWriter::AppendVarint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) data_.push_back(static_cast<char>(value | 0x80));
  data_.push_back(static_cast<char>(value));
}

ProtobufWriter& ProtobufWriter::Varint(uint32_t field, uint64_t value) {
  AppendVarint(Tag(field, kVarintType));
  AppendVarint(value);
  return *this;
}

ProtobufWriter& ProtobufWriter::Fixed64(uint32_t field, uint64_t value) {
  AppendVarint(Tag(field, kFixed64Type));
  for (int byte = 0; byte < 8; ++byte) data_.push_back(static_cast<char>(value >> (8 * byte)));
  return *this;
}

ProtobufWriter& ProtobufWriter::Bytes(uint32_t field, std::string_view value) {
  AppendVarint(Tag(field, kBytesType));
  AppendVarint(value.size());
  data_.append(value);
  return *this;
}

}  // namespace teller::interop
