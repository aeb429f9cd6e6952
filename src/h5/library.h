#pragma once

#include <hdf5.h>

#include <string>
#include <string_view>

#include "src/h5/column.h"
#include "src/h5/handle.h"

namespace teller::h5 {

static_assert(sizeof(hid_t) == sizeof(int64_t) && sizeof(herr_t) == sizeof(int));

/// Silences HDF5's own stderr output and its exit handler. Called before anything else is.
void PrepareLibrary();

/// Throws DataError 'WHERE: ACTION failed: <innermost reason of HDF5's error stack>'.
[[noreturn]] void ThrowRead(std::string_view where, std::string_view action);
/// The same as DeviceError.
[[noreturn]] void ThrowWrite(std::string_view where, std::string_view action);

/// The native HDF5 type; never closed.
hid_t NativeType(Type type);
/// The little-endian type as stored.
hid_t StoredType(Type type);
/// Variable-length UTF-8.
Handle StringType();

}  // namespace teller::h5
