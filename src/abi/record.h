/* What the agent writes for one thing it saw: 64 bytes, plain C, the same in every process and
 * language. Described in docs/schema/ring_record.md; sizes and offsets are asserted in
 * abi_asserts.c. */
#pragma once

#include <stdint.h>

#define TELLER_ABI_VERSION 1u

#ifdef __cplusplus
extern "C" {
#endif

/* Layers, top to bottom (docs/design.md, section 4). */
enum TellerLayer {
  TELLER_LAYER_ENGINE = 0,   /* request, step, scheduler phase, user range */
  TELLER_LAYER_BACKEND = 1,  /* operator, module */
  TELLER_LAYER_HOST_API = 2, /* runtime or driver call */
  TELLER_LAYER_DEVICE = 3,   /* kernel, copy, memset, graph node, on a stream */
  TELLER_LAYER_COMM = 4      /* collective or point-to-point, on host or device */
};

enum TellerKind {
  TELLER_KIND_RANGE = 0,       /* engine: NVTX push/pop or a user scope of torch */
  TELLER_KIND_START_END = 1,   /* engine: NVTX start/end, may cross threads */
  TELLER_KIND_MARK = 2,        /* engine: a point, begin == end */
  TELLER_KIND_OPERATOR = 3,    /* backend */
  TELLER_KIND_LAUNCH = 4,      /* host_api: starts a kernel */
  TELLER_KIND_COPY_CALL = 5,   /* host_api */
  TELLER_KIND_SYNC_CALL = 6,   /* host_api: stream, event or device synchronisation */
  TELLER_KIND_API_OTHER = 7,   /* host_api: event record, stream create, ... */
  TELLER_KIND_KERNEL = 8,      /* device */
  TELLER_KIND_MEMCPY = 9,      /* device */
  TELLER_KIND_MEMSET = 10,     /* device */
  TELLER_KIND_GRAPH = 11,      /* device: a whole graph launch */
  TELLER_KIND_SYNC = 12,       /* device: what a stream waited for */
  TELLER_KIND_COLLECTIVE = 13, /* comm */
  TELLER_KIND_P2P = 14         /* comm */
};

enum TellerSource {
  TELLER_SOURCE_NVTX = 0,
  TELLER_SOURCE_TORCH = 1, /* RecordFunction */
  TELLER_SOURCE_CUPTI = 2,
  TELLER_SOURCE_CPU_STREAM = 3, /* the CPU device runtime's activity interface */
  TELLER_SOURCE_IMPORT = 4,     /* somebody else's file */
  TELLER_SOURCE_COUNT = 5
};

enum TellerRecordFlags {
  TELLER_RECORD_TICKS = 1u << 0, /* begin and end are TSC ticks, else ns of CLOCK_MONOTONIC */
  TELLER_RECORD_OPEN = 1u << 1,  /* never ended: end is when the process was last seen */
  TELLER_RECORD_OTHER_THREAD_END = 1u << 2, /* ended on another thread than it began on */
  TELLER_RECORD_ON_DEVICE = 1u << 3,        /* `track` is a device stream, not a thread id */
  TELLER_RECORD_PERTURBED = 1u << 4         /* never stored in a trace: see TellerHit; reserved */
};

typedef struct TellerRecord {
  uint64_t begin; /* TSC ticks or ns, by flags */
  uint64_t end;
  uint64_t correlation; /* joins launch and device record within one process; 0: none */
  int64_t bytes;        /* copies and comm; -1: unknown */
  uint32_t name;        /* entry of the process's name table */
  uint32_t track;       /* thread id, or device stream with TELLER_RECORD_ON_DEVICE */
  uint32_t graph_node;  /* bits 0 to 31 of the node of a device graph; 0: none */
  uint32_t comm;        /* name-table entry of the communicator; UINT32_MAX: none */
  int32_t sequence;     /* of the collective within its communicator; of an operator within its
                           thread, and of the calls that it made there; -1: unknown */
  int32_t peer;         /* rank of a point-to-point peer; -1: none */
  uint16_t flags;
  uint8_t layer;
  uint8_t kind;
  uint8_t source;
  uint8_t graph[3]; /* bits 32 to 55 of the node, lowest first */
} TellerRecord;

#ifdef __cplusplus
}
#endif
