#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "src/h5/handle.h"

namespace teller::h5 {

/// Number types a column may have.
enum class Type : uint8_t {
  kInt8,
  kUint8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat32,
  kFloat64
};
/// 'int64', 'float32', ...
const char* TypeName(Type type);

/// The column type of T: a number, or an enum class over one.
template <typename T>
constexpr Type TypeOf() {
  if constexpr (std::is_enum_v<T>) {
    return TypeOf<std::underlying_type_t<T>>();
  } else if constexpr (std::is_floating_point_v<T>) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    return sizeof(T) == 4 ? Type::kFloat32 : Type::kFloat64;
  } else {
    static_assert(std::is_integral_v<T> && !std::is_same_v<T, bool>);
    constexpr int kWidth = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 2 : sizeof(T) == 4 ? 4 : 6;
    return static_cast<Type>(kWidth + (std::is_unsigned_v<T> ? 1 : 0));
  }
}

struct ColumnOptions {
  std::size_t chunk_rows = 8192;
  int deflate = 1;       ///< level, with shuffle before it; 0: stored as it is
  bool shuffle = false;  ///< without deflate: bytes of equal weight together, for whoever
                         ///< compresses the file
};

/// One open, extendable 1-D data set of numbers or of variable-length UTF-8 strings.
/// Durability: a deflated column whose appends are whole chunks never rewrites one; a column that
/// is not deflated may be appended to in any size, since its chunks are rewritten in place.
class Column {
 public:
  Column(Handle dataset, std::string where)
      : dataset_(std::move(dataset)), where_(std::move(where)) {}

  /// 'FILE:/group/name', for messages.
  const std::string& where() const { return where_; }
  uint64_t rows() const;
  std::string type_name() const;

  /// Throws DeviceError (no space left, for example).
  template <typename T>
  void Append(std::span<const T> values) {
    AppendRaw(TypeOf<T>(), values.data(), values.size());
  }
  void AppendStrings(std::span<const std::string> values);
  /// Makes it `rows` long; new rows are 0.
  void ExtendTo(uint64_t rows);

  /// Rows [first, first + count). Throws DataError where the type differs, the rows are not there,
  /// or the file claims more rows than its stored bytes can hold.
  template <typename T>
  std::vector<T> Read(uint64_t first, uint64_t count) const {
    CheckReadable(TypeOf<T>(), first, count);
    std::vector<T> values(count);
    ReadRaw(TypeOf<T>(), first, count, values.data());
    return values;
  }
  template <typename T>
  std::vector<T> ReadAll() const {
    return Read<T>(0, rows());
  }
  std::vector<std::string> ReadStrings(uint64_t first, uint64_t count) const;

 private:
  void AppendRaw(Type type, const void* values, std::size_t count);
  void CheckReadable(Type type, uint64_t first, uint64_t count) const;
  void CheckRows(uint64_t first, uint64_t count) const;
  void ReadRaw(Type type, uint64_t first, uint64_t count, void* values) const;

  Handle dataset_;
  std::string where_;
};

}  // namespace teller::h5
