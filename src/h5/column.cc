#include "src/h5/column.h"

#include <fmt/format.h>

#include "src/core/error.h"
#include "src/h5/library.h"

namespace teller::h5 {
namespace {

// Deflate cannot shrink more than 1032:1; a file that claims more rows than that lies.
constexpr uint64_t kMaxDeflateRatio = 1100;
// A variable-length string is stored as length, heap address and index.
constexpr uint64_t kStringReferenceBytes = 16;

struct Found {
  H5T_class_t type_class = H5T_NO_CLASS;
  std::size_t bytes = 0;
  bool is_signed = false;
  bool variable = false;
};

Found TypeOfDataset(hid_t dataset) {
  const Handle type(H5Dget_type(dataset), H5Tclose);
  if (!type.valid()) return {};
  Found found{H5Tget_class(type.get()), H5Tget_size(type.get())};
  found.is_signed = found.type_class == H5T_INTEGER && H5Tget_sign(type.get()) == H5T_SGN_2;
  found.variable = found.type_class == H5T_STRING && H5Tis_variable_str(type.get()) > 0;
  return found;
}

std::string NameOf(const Found& found) {
  if (found.type_class == H5T_INTEGER) {
    return fmt::format("{}int{}", found.is_signed ? "" : "u", found.bytes * 8);
  }
  if (found.type_class == H5T_FLOAT) return fmt::format("float{}", found.bytes * 8);
  if (found.type_class == H5T_STRING) return found.variable ? "string" : "fixed-length string";
  return "another type";
}

// Selects rows [first, first + count) of the file space; both spaces are 1-D.
Handle SelectRows(const Column& column, hid_t dataset, uint64_t first, uint64_t count) {
  Handle space(H5Dget_space(dataset), H5Sclose);
  const hsize_t start = first, length = count;
  if (!space.valid() ||
      H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, &start, nullptr, &length, nullptr) < 0) {
    ThrowRead(column.where(), "selecting rows");
  }
  return space;
}

Handle MemorySpace(uint64_t count) {
  const hsize_t length = count;
  return {H5Screate_simple(1, &length, nullptr), H5Sclose};
}

}  // namespace

uint64_t Column::rows() const {
  const Handle space(H5Dget_space(dataset_.get()), H5Sclose);
  hsize_t length = 0;
  if (!space.valid() || H5Sget_simple_extent_ndims(space.get()) != 1 ||
      H5Sget_simple_extent_dims(space.get(), &length, nullptr) < 0) {
    throw DataError(where_ + ": expected a 1-D data set");
  }
  return length;
}

std::string Column::type_name() const { return NameOf(TypeOfDataset(dataset_.get())); }

void Column::ExtendTo(uint64_t rows) {
  const hsize_t length = rows;
  if (H5Dset_extent(dataset_.get(), &length) < 0) ThrowWrite(where_, "extending");
}

void Column::AppendRaw(Type type, const void* values, std::size_t count) {
  if (count == 0) return;
  const uint64_t first = rows();
  ExtendTo(first + count);
  const Handle file_space = SelectRows(*this, dataset_.get(), first, count);
  const Handle memory_space = MemorySpace(count);
  if (H5Dwrite(dataset_.get(), NativeType(type), memory_space.get(), file_space.get(), H5P_DEFAULT,
               values) < 0) {
    ThrowWrite(where_, "writing");
  }
}

void Column::AppendStrings(std::span<const std::string> values) {
  if (values.empty()) return;
  std::vector<const char*> pointers;
  pointers.reserve(values.size());
  for (const std::string& value : values) pointers.push_back(value.c_str());
  const uint64_t first = rows();
  ExtendTo(first + values.size());
  const Handle file_space = SelectRows(*this, dataset_.get(), first, values.size());
  const Handle memory_space = MemorySpace(values.size());
  const Handle type = StringType();
  if (H5Dwrite(dataset_.get(), type.get(), memory_space.get(), file_space.get(), H5P_DEFAULT,
               pointers.data()) < 0) {
    ThrowWrite(where_, "writing");
  }
}

void Column::CheckRows(uint64_t first, uint64_t count) const {
  const uint64_t length = rows();
  if (first > length || count > length - first) {
    throw DataError(fmt::format(
        "{}: rows {} to {} were asked for, but it has {}; the file is truncated or damaged", where_,
        first, first + count, length));
  }
}

void Column::CheckReadable(Type type, uint64_t first, uint64_t count) const {
  const Found found = TypeOfDataset(dataset_.get());
  if (NameOf(found) != TypeName(type)) {
    throw DataError(fmt::format(
        "{}: expected {}[N], found {}[N]; the file was not written by this format's writer", where_,
        TypeName(type), NameOf(found)));
  }
  CheckRows(first, count);
  const uint64_t stored = H5Dget_storage_size(dataset_.get());
  if (count / kMaxDeflateRatio > stored / found.bytes + 1) {
    throw DataError(fmt::format("{}: claims {} rows but stores {} bytes; the file is damaged",
                                where_, count, stored));
  }
}

void Column::ReadRaw(Type type, uint64_t first, uint64_t count, void* values) const {
  if (count == 0) return;
  const Handle file_space = SelectRows(*this, dataset_.get(), first, count);
  const Handle memory_space = MemorySpace(count);
  if (H5Dread(dataset_.get(), NativeType(type), memory_space.get(), file_space.get(), H5P_DEFAULT,
              values) < 0) {
    ThrowRead(where_, "reading");
  }
}

std::vector<std::string> Column::ReadStrings(uint64_t first, uint64_t count) const {
  if (!TypeOfDataset(dataset_.get()).variable) {
    throw DataError(fmt::format("{}: expected string[N], found {}[N]", where_, type_name()));
  }
  CheckRows(first, count);
  const uint64_t stored = H5Dget_storage_size(dataset_.get());
  if (count > stored / kStringReferenceBytes) {
    throw DataError(fmt::format("{}: claims {} rows but stores {} bytes; the file is damaged",
                                where_, count, stored));
  }
  if (count == 0) return {};
  std::vector<char*> pointers(count, nullptr);
  const Handle file_space = SelectRows(*this, dataset_.get(), first, count);
  const Handle memory_space = MemorySpace(count);
  const Handle type = StringType();
  if (H5Dread(dataset_.get(), type.get(), memory_space.get(), file_space.get(), H5P_DEFAULT,
              pointers.data()) < 0) {
    ThrowRead(where_, "reading");
  }
  std::vector<std::string> values;
  values.reserve(count);
  for (const char* pointer : pointers) values.emplace_back(pointer == nullptr ? "" : pointer);
  H5Dvlen_reclaim(type.get(), memory_space.get(), H5P_DEFAULT, pointers.data());
  return values;
}

}  // namespace teller::h5
