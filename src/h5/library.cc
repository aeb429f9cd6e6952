#include "src/h5/library.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "src/core/error.h"

namespace teller::h5 {
namespace {

// HDF5 lists errors from the outermost call inwards; the last is the reason.
herr_t KeepInnermost(unsigned, const H5E_error2_t* error, void* reason) {
  if (error->desc != nullptr) *static_cast<std::string*>(reason) = error->desc;
  return 0;
}

/// HDF5 writes 'time = ..., errno = 28, error message = 'No space left on device', buf = 0x...': of
/// that a person needs the message.
std::string MessageIn(const std::string& reason) {
  constexpr std::string_view kBefore = "error message = '";
  const std::size_t begin = reason.find(kBefore);
  if (begin == std::string::npos) return reason;
  const std::size_t from = begin + kBefore.size();
  return reason.substr(from, reason.find('\'', from) - from);
}

std::string Reason() {
  std::string reason = "no reason given";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, KeepInnermost, &reason);
  H5Eclear2(H5E_DEFAULT);
  reason = MessageIn(reason);
  if (reason == std::strerror(ENOSPC)) reason += "; free some and run the same command again";
  for (char& c : reason) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return reason;
}

}  // namespace

void PrepareLibrary() {
  static const bool ready = [] {
    H5dont_atexit();
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    return true;
  }();
  (void)ready;
}

void ThrowRead(std::string_view where, std::string_view action) {
  throw DataError(fmt::format("{}: {} failed: {}", where, action, Reason()));
}

void ThrowWrite(std::string_view where, std::string_view action) {
  throw DeviceError(fmt::format("{}: {} failed: {}", where, action, Reason()));
}

hid_t NativeType(Type type) {
  switch (type) {
    case Type::kInt8:
      return H5T_NATIVE_INT8;
    case Type::kUint8:
      return H5T_NATIVE_UINT8;
    case Type::kInt16:
      return H5T_NATIVE_INT16;
    case Type::kUint16:
      return H5T_NATIVE_UINT16;
    case Type::kInt32:
      return H5T_NATIVE_INT32;
    case Type::kUint32:
      return H5T_NATIVE_UINT32;
    case Type::kInt64:
      return H5T_NATIVE_INT64;
    case Type::kUint64:
      return H5T_NATIVE_UINT64;
    case Type::kFloat32:
      return H5T_NATIVE_FLOAT;
    case Type::kFloat64:
      return H5T_NATIVE_DOUBLE;
  }
  TELLER_CHECK(false);
}

hid_t StoredType(Type type) {
  switch (type) {
    case Type::kInt8:
      return H5T_STD_I8LE;
    case Type::kUint8:
      return H5T_STD_U8LE;
    case Type::kInt16:
      return H5T_STD_I16LE;
    case Type::kUint16:
      return H5T_STD_U16LE;
    case Type::kInt32:
      return H5T_STD_I32LE;
    case Type::kUint32:
      return H5T_STD_U32LE;
    case Type::kInt64:
      return H5T_STD_I64LE;
    case Type::kUint64:
      return H5T_STD_U64LE;
    case Type::kFloat32:
      return H5T_IEEE_F32LE;
    case Type::kFloat64:
      return H5T_IEEE_F64LE;
  }
  TELLER_CHECK(false);
}

Handle StringType() {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), H5T_VARIABLE);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  return type;
}

const char* TypeName(Type type) {
  static constexpr const char* kNames[] = {"int8",   "uint8", "int16",  "uint16",  "int32",
                                           "uint32", "int64", "uint64", "float32", "float64"};
  return kNames[static_cast<int>(type)];
}

}  // namespace teller::h5
