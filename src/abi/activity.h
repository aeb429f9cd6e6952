/* The activity interface of the CPU device runtime ("cpu-stream"): how a tool from outside sees,
 * and may delay, what the runtime does. Shaped after CUPTI callbacks. Described in
 * docs/schema/activity.md.
 *
 * At start the runtime opens the library named by TELLER_CPU_STREAM_INJECTION64_PATH and calls its
 * `int InitializeInjectionCpuStream(const TellerActivityApi*)`; 1 means attached. Nothing else
 * couples them. */
#pragma once

#include <stdint.h>

#define TELLER_ACTIVITY_VERSION 1u
#define TELLER_ACTIVITY_VARIABLE "TELLER_CPU_STREAM_INJECTION64_PATH"
#define TELLER_ACTIVITY_INIT_SYMBOL "InitializeInjectionCpuStream"

#ifdef __cplusplus
extern "C" {
#endif

enum TellerActivitySite {
  TELLER_ACTIVITY_API_ENTER = 0, /* on the calling thread, before the call does anything */
  TELLER_ACTIVITY_API_EXIT = 1,
  TELLER_ACTIVITY_ITEM_BEGIN = 2, /* on the stream's thread, before the item runs */
  TELLER_ACTIVITY_ITEM_END = 3
};

enum TellerActivityKind {
  TELLER_ACTIVITY_LAUNCH = 0, /* API: launch; item: kernel */
  TELLER_ACTIVITY_COPY = 1,   /* API: copy; item: memcpy */
  TELLER_ACTIVITY_MEMSET = 2,
  TELLER_ACTIVITY_COLLECTIVE =
      3,                    /* API: enqueue of a collective; item: the collective on the stream */
  TELLER_ACTIVITY_SYNC = 4, /* API only: stream, event or device synchronisation */
  TELLER_ACTIVITY_EVENT = 5 /* API: record or wait; item: the stream's wait for an event */
};

/* Valid during the callback only. `user` is one word per call or item that the tool may set at
 * ENTER/BEGIN and finds again at EXIT/END. */
typedef struct TellerActivityInfo {
  uint32_t size; /* sizeof of what the runtime knows, for later growth */
  uint32_t site; /* TellerActivitySite */
  uint32_t kind; /* TellerActivityKind */
  uint32_t stream;
  uint64_t correlation;  /* the same in the API call and the item it enqueued */
  const char* name;      /* API sites: 'streamLaunch', ...; see `item_name` */
  const char* item_name; /* kernel or collective name; may be NULL for SYNC */
  const char* comm;      /* communicator name; NULL: none */
  int64_t bytes;         /* -1: unknown */
  int32_t sequence;      /* of the collective in its communicator; -1: none */
  int32_t peer;          /* -1: none */
  uint64_t* user;
} TellerActivityInfo;

/* noexcept, reentrant, called from any thread. */
typedef void (*TellerActivityCallback)(void* context, const TellerActivityInfo* info);

typedef struct TellerActivityApi {
  uint32_t version;
  uint32_t size;
  /* One subscriber; 0 when there is one already. Passing NULL unsubscribes. */
  int (*subscribe)(TellerActivityCallback callback, void* context);
  /* Switches the callbacks without unsubscribing; the runtime then pays one relaxed load per site.
   */
  void (*enable)(int enabled);
} TellerActivityApi;

typedef int (*TellerActivityInit)(const TellerActivityApi* api);

#ifdef __cplusplus
}
#endif
