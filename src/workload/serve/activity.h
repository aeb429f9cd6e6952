#pragma once

#include <cstdint>

#include "src/abi/activity.h"

namespace teller::serve {

/// What a call or an item tells a subscriber; the fields of TellerActivityInfo that it knows.
struct ActivityDetail {
  TellerActivityKind kind = TELLER_ACTIVITY_LAUNCH;
  uint32_t stream = 0;
  uint64_t correlation = 0;
  const char* name = nullptr;       ///< of the call: 'streamLaunch', ...
  const char* item_name = nullptr;  ///< kernel or collective; null: none
  const char* comm = nullptr;       ///< null: none
  int64_t bytes = -1;
  int32_t sequence = -1;
  int32_t peer = -1;
};

/// Opens the library that TELLER_CPU_STREAM_INJECTION64_PATH names and hands it the activity
/// interface. Without the variable nothing happens; a library that cannot be used is one line on
/// stderr. Call once, before any stream exists.
void LoadActivityInjection();

/// The interface that an injected library receives; tests subscribe through it.
const TellerActivityApi& ActivityApi();

/// Tells the subscriber of the begin and the end of a call (or of an item on a stream) around its
/// own lifetime. With no subscriber each costs one relaxed load.
class ActivityScope {
 public:
  enum class Place { kCall, kItem };
  ActivityScope(Place place, const ActivityDetail& detail);
  ~ActivityScope();
  ActivityScope(const ActivityScope&) = delete;
  ActivityScope& operator=(const ActivityScope&) = delete;

 private:
  Place place_;
  const ActivityDetail& detail_;
  uint64_t user_ = 0;
};

}  // namespace teller::serve
