#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace teller::interop {

/// Builds one protobuf message in its wire format; fields stand in the order of the calls.
/// Source: protobuf.dev, "Encoding".
class ProtobufWriter {
 public:
  ProtobufWriter& Varint(uint32_t field, uint64_t value);
  ProtobufWriter& Fixed64(uint32_t field, uint64_t value);
  ProtobufWriter& Bytes(uint32_t field, std::string_view value);
  ProtobufWriter& Message(uint32_t field, const ProtobufWriter& message) {
    return Bytes(field, message.data());
  }

  const std::string& data() const { return data_; }

 private:
  void AppendVarint(uint64_t value);

  std::string data_;
};

}  // namespace teller::interop
