#pragma once

#include <cstdint>

namespace teller::collect {

/// What a relay writes beside the copy of a stream, one for each piece that came: the bytes of the
/// stream before `end` were there at this moment. Written before the piece itself.
struct LogStamp {
  uint64_t end;
  int64_t monotonic_ns;
  int64_t realtime_ns;
};

}  // namespace teller::collect
