#include "src/h5/file.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/h5/library.h"

namespace teller::h5 {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kStringChunkRows = 512;
constexpr hsize_t kMaxChildren = 1u << 20;
constexpr hssize_t kMaxAttributeItems = 1 << 20;

Handle FileAccess() {
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_file_locking(access.get(), 0, 1);
  H5Pset_fclose_degree(access.get(), H5F_CLOSE_SEMI);
  return access;
}

// The traced command must not inherit the descriptor.
void CloseOnExec(hid_t file) {
  void* descriptor = nullptr;
  if (H5Fget_vfd_handle(file, H5P_DEFAULT, &descriptor) >= 0 && descriptor != nullptr) {
    fcntl(*static_cast<int*>(descriptor), F_SETFD, FD_CLOEXEC);
  }
}

Group RootOf(hid_t file, const std::string& name) {
  Handle root(H5Gopen2(file, "/", H5P_DEFAULT), H5Gclose);
  if (!root.valid()) ThrowRead(name, "opening the root group");
  return {std::move(root), name + ":/"};
}

bool NumbersThenBytes(const std::string& a, const std::string& b) {
  auto number = [](const std::string& text) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(value)
                                                                    : std::nullopt;
  };
  const auto x = number(a), y = number(b);
  if (x && y && *x != *y) return *x < *y;
  if (x.has_value() != y.has_value()) return x.has_value();
  return a < b;
}

Handle Scalar() { return {H5Screate(H5S_SCALAR), H5Sclose}; }

void ReplaceAttribute(hid_t object, const std::string& where, std::string_view name, hid_t type,
                      hid_t space, const void* value) {
  const std::string key(name);
  if (H5Aexists(object, key.c_str()) > 0) H5Adelete(object, key.c_str());
  const Handle attribute(H5Acreate2(object, key.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT),
                         H5Aclose);
  if (!attribute.valid() || H5Awrite(attribute.get(), type, value) < 0) {
    ThrowWrite(where, "writing attribute '" + key + "'");
  }
}

// A scalar is rewritten in place, so that a killed writer leaves either the old or the new value.
bool RewriteInPlace(hid_t object, std::string_view name, hid_t type, const void* value) {
  const std::string key(name);
  if (H5Aexists(object, key.c_str()) <= 0) return false;
  const Handle attribute(H5Aopen(object, key.c_str(), H5P_DEFAULT), H5Aclose);
  return attribute.valid() && H5Awrite(attribute.get(), type, value) >= 0;
}

struct OpenAttribute {
  Handle id;
  Handle type;
  hssize_t items = 0;
};

OpenAttribute OpenAttributeOf(hid_t object, const std::string& where, std::string_view name,
                              H5T_class_t expected, const char* what) {
  const std::string key(name);
  OpenAttribute attribute{Handle(H5Aopen(object, key.c_str(), H5P_DEFAULT), H5Aclose), {}, 0};
  if (!attribute.id.valid()) {
    H5Eclear2(H5E_DEFAULT);
    throw DataError(fmt::format("{}: attribute '{}' is missing", where, name));
  }
  attribute.type = Handle(H5Aget_type(attribute.id.get()), H5Tclose);
  const Handle space(H5Aget_space(attribute.id.get()), H5Sclose);
  attribute.items = space.valid() ? H5Sget_simple_extent_npoints(space.get()) : -1;
  if (!attribute.type.valid() || H5Tget_class(attribute.type.get()) != expected) {
    throw DataError(fmt::format("{}: attribute '{}' is not {}", where, name, what));
  }
  if (attribute.items < 0 || attribute.items > kMaxAttributeItems) {
    throw DataError(
        fmt::format("{}: attribute '{}' claims {} items", where, name, attribute.items));
  }
  return attribute;
}

}  // namespace

std::string Group::Path(std::string_view name) const {
  return fmt::format("{}{}{}", where_, where_.ends_with('/') ? "" : "/", name);
}

bool Group::Has(std::string_view name) const {
  return H5Lexists(id_.get(), std::string(name).c_str(), H5P_DEFAULT) > 0;
}

bool Group::IsGroup(std::string_view name) const {
  H5O_info_t info{};
  if (H5Oget_info_by_name(id_.get(), std::string(name).c_str(), &info, H5P_DEFAULT) < 0) {
    ThrowRead(Path(name), "opening it");
  }
  return info.type == H5O_TYPE_GROUP;
}

std::vector<std::string> Group::Children() const {
  H5G_info_t info{};
  if (H5Gget_info(id_.get(), &info) < 0) ThrowRead(where_, "listing the group");
  if (info.nlinks > kMaxChildren)
    throw DataError(fmt::format("{}: claims {} members", where_, info.nlinks));
  std::vector<std::string> names;
  auto keep = [](hid_t, const char* name, const H5L_info_t*, void* out) -> herr_t {
    static_cast<std::vector<std::string>*>(out)->emplace_back(name);
    return 0;
  };
  if (H5Literate(id_.get(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, keep, &names) < 0) {
    ThrowRead(where_, "listing the group");
  }
  std::ranges::sort(names, NumbersThenBytes);
  return names;
}

Group Group::CreateGroup(std::string_view name) {
  Handle group(
      H5Gcreate2(id_.get(), std::string(name).c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
      H5Gclose);
  if (!group.valid()) ThrowWrite(Path(name), "creating the group");
  return {std::move(group), Path(name)};
}

Group Group::OpenGroup(std::string_view name) const {
  if (!Has(name)) throw DataError(fmt::format("{}: the group is missing", Path(name)));
  Handle group(H5Gopen2(id_.get(), std::string(name).c_str(), H5P_DEFAULT), H5Gclose);
  if (!group.valid()) ThrowRead(Path(name), "opening the group");
  return {std::move(group), Path(name)};
}

namespace {

Column CreateDataset(hid_t group, std::string path, std::string_view name, hid_t type,
                     const ColumnOptions& options) {
  const hsize_t none = 0, unlimited = H5S_UNLIMITED, chunk = options.chunk_rows;
  const Handle space(H5Screate_simple(1, &none, &unlimited), H5Sclose);
  const Handle layout(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_chunk(layout.get(), 1, &chunk);
  if (options.deflate > 0 || options.shuffle) H5Pset_shuffle(layout.get());
  if (options.deflate > 0) {
    H5Pset_deflate(layout.get(), static_cast<unsigned>(options.deflate));
  }
  Handle dataset(H5Dcreate2(group, std::string(name).c_str(), type, space.get(), H5P_DEFAULT,
                            layout.get(), H5P_DEFAULT),
                 H5Dclose);
  if (!dataset.valid()) ThrowWrite(path, "creating the data set");
  return {std::move(dataset), std::move(path)};
}

}  // namespace

Column Group::CreateColumn(std::string_view name, Type type, const ColumnOptions& options) {
  return CreateDataset(id_.get(), Path(name), name, StoredType(type), options);
}

Column Group::CreateStringColumn(std::string_view name) {
  return CreateDataset(id_.get(), Path(name), name, StringType().get(), {kStringChunkRows, 0});
}

Column Group::OpenColumn(std::string_view name) const {
  if (!Has(name)) throw DataError(fmt::format("{}: the data set is missing", Path(name)));
  Handle dataset(H5Dopen2(id_.get(), std::string(name).c_str(), H5P_DEFAULT), H5Dclose);
  if (!dataset.valid()) ThrowRead(Path(name), "opening the data set");
  return {std::move(dataset), Path(name)};
}

Column Group::OpenSized(std::string_view name, std::optional<uint64_t> rows) const {
  Column column = OpenColumn(name);
  if (rows && column.rows() != *rows) {
    throw DataError(
        fmt::format("{}: expected {} rows, found {}; columns of a group must have one length",
                    column.where(), *rows, column.rows()));
  }
  return column;
}

std::vector<std::string> Group::ReadStrings(std::string_view name,
                                            std::optional<uint64_t> rows) const {
  const Column column = OpenSized(name, rows);
  return column.ReadStrings(0, column.rows());
}

bool Group::HasAttribute(std::string_view name) const {
  return H5Aexists(id_.get(), std::string(name).c_str()) > 0;
}

void Group::SetAttribute(std::string_view name, int64_t value) {
  if (RewriteInPlace(id_.get(), name, H5T_NATIVE_INT64, &value)) return;
  ReplaceAttribute(id_.get(), where_, name, H5T_NATIVE_INT64, Scalar().get(), &value);
}

void Group::SetAttribute(std::string_view name, double value) {
  ReplaceAttribute(id_.get(), where_, name, H5T_NATIVE_DOUBLE, Scalar().get(), &value);
}

void Group::SetAttribute(std::string_view name, std::string_view value) {
  const std::string text(value);
  const char* pointer = text.c_str();
  const Handle type = StringType();
  if (RewriteInPlace(id_.get(), name, type.get(), &pointer)) return;
  ReplaceAttribute(id_.get(), where_, name, type.get(), Scalar().get(), &pointer);
}

void Group::SetAttribute(std::string_view name, std::span<const std::string> values) {
  std::vector<const char*> pointers;
  for (const std::string& value : values) pointers.push_back(value.c_str());
  pointers.push_back(nullptr);  // HDF5 wants an address even for no values
  const hsize_t count = values.size();
  const Handle space(values.empty() ? H5Screate(H5S_NULL) : H5Screate_simple(1, &count, nullptr),
                     H5Sclose);
  ReplaceAttribute(id_.get(), where_, name, StringType().get(), space.get(), pointers.data());
}

int64_t Group::GetInt(std::string_view name) const {
  const OpenAttribute attribute =
      OpenAttributeOf(id_.get(), where_, name, H5T_INTEGER, "an integer");
  int64_t value = 0;
  if (attribute.items != 1 || H5Aread(attribute.id.get(), H5T_NATIVE_INT64, &value) < 0) {
    ThrowRead(where_, fmt::format("reading attribute '{}'", name));
  }
  return value;
}

double Group::GetDouble(std::string_view name) const {
  const OpenAttribute attribute =
      OpenAttributeOf(id_.get(), where_, name, H5T_FLOAT, "a floating-point number");
  double value = 0;
  if (attribute.items != 1 || H5Aread(attribute.id.get(), H5T_NATIVE_DOUBLE, &value) < 0) {
    ThrowRead(where_, fmt::format("reading attribute '{}'", name));
  }
  return value;
}

std::string Group::GetString(std::string_view name) const {
  std::vector<std::string> values = GetStrings(name);
  if (values.size() != 1)
    throw DataError(fmt::format("{}: attribute '{}' is not one string", where_, name));
  return std::move(values.front());
}

std::vector<std::string> Group::GetStrings(std::string_view name) const {
  const OpenAttribute attribute = OpenAttributeOf(id_.get(), where_, name, H5T_STRING, "a string");
  if (H5Tis_variable_str(attribute.type.get()) <= 0) {
    throw DataError(
        fmt::format("{}: attribute '{}' is not a variable-length string", where_, name));
  }
  std::vector<char*> pointers(static_cast<std::size_t>(attribute.items), nullptr);
  const Handle type = StringType();
  if (!pointers.empty() && H5Aread(attribute.id.get(), type.get(), pointers.data()) < 0) {
    ThrowRead(where_, fmt::format("reading attribute '{}'", name));
  }
  std::vector<std::string> values;
  for (const char* pointer : pointers) values.emplace_back(pointer == nullptr ? "" : pointer);
  for (char* pointer : pointers) H5free_memory(pointer);
  return values;
}

File File::Create(const fs::path& path) {
  PrepareLibrary();
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  H5Pset_file_space_strategy(creation.get(), H5F_FSPACE_STRATEGY_NONE, 0, 1);
  const Handle access = FileAccess();  // closing it would clear HDF5's error stack
  Handle file(H5Fcreate(path.c_str(), H5F_ACC_EXCL, creation.get(), access.get()), H5Fclose);
  if (!file.valid()) ThrowWrite(path.string(), "creating the file");
  CloseOnExec(file.get());
  Group root = RootOf(file.get(), path.string());
  return {std::move(file), std::move(root), path.string()};
}

File File::Open(const fs::path& path) {
  PrepareLibrary();
  RequireRegularFile(path);
  std::error_code error;
  if (fs::file_size(path, error) == 0) throw DataError(fmt::format("'{}' is empty", path.string()));
  if (H5Fis_hdf5(path.c_str()) == 0) {
    throw DataError(fmt::format(
        "'{}' is not an HDF5 file; a trace of another tool is read with 'teller import'",
        path.string()));
  }
  const Handle access = FileAccess();  // closing it would clear HDF5's error stack
  Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
  if (!file.valid()) ThrowRead(path.string() + ": cut short or damaged", "opening the file");
  CloseOnExec(file.get());
  Group root = RootOf(file.get(), path.string());
  return {std::move(file), std::move(root), path.string()};
}

void File::Flush() {
  if (H5Fflush(id_.get(), H5F_SCOPE_LOCAL) < 0) ThrowWrite(name_, "flushing");
}

void File::Close() {
  Flush();
  root_ = Group({}, name_);
  if (!id_.Reset()) ThrowWrite(name_, "closing");
}

}  // namespace teller::h5
