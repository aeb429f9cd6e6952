/* The shared-memory file of one traced process: header, name table, segments of records.
 * One writer process (the agent), one reader (the collector). The file outlives a killed writer.
 * Described in docs/schema/ring_record.md. All cross-process fields are read and written with
 * atomics. */
#pragma once

#include <stdint.h>

#include "src/abi/record.h"

#define TELLER_POOL_MAGIC 0x314c4f4f504c4c54ull /* "TLLPOOL1" */
#define TELLER_SEGMENT_BYTES 65536u
#define TELLER_SEGMENT_RECORDS 1023u /* the first 64 bytes are the segment's header */
#define TELLER_POOL_SEGMENTS 256u    /* 16 MiB */
#define TELLER_NAME_TABLE_BYTES (4u << 20)
#define TELLER_CLOCK_TRIPLES 128u /* a ring; the collector drains it twice a second at least */

#ifdef __cplusplus
extern "C" {
#endif

/* Why the agent could not keep something. Names in docs/schema/ring_record.md and /stats. */
enum TellerDropReason {
  TELLER_DROP_NO_SEGMENT = 0,      /* the collector is behind: the record was not written */
  TELLER_DROP_NAME_TABLE_FULL = 1, /* the record was kept under the name "(name table full)" */
  TELLER_DROP_UNBALANCED_POP = 2,
  TELLER_DROP_UNKNOWN_RANGE_END = 3,
  TELLER_DROP_STACK_OVERFLOW = 4,
  TELLER_DROP_IN_FORK = 5,
  TELLER_DROP_OTHER = 6,
  TELLER_DROP_CUPTI_RECORDS = 7, /* CUPTI had no buffer, or says that it dropped them */
  TELLER_DROP_CUPTI_BUFFER = 8,  /* a buffer that could not be walked to its end */
  TELLER_DROP_CUPTI_UNTIMED = 9, /* device work that had not ended when it was flushed */
  TELLER_DROP_SPOOL_FULL = 15,   /* counted by the collector: its disk is full */
  TELLER_DROP_COUNT = 16
};

/* One clock reading: (TSC, CLOCK_MONOTONIC, CLOCK_REALTIME) at one moment, uncertainty in ticks
 * between the two TSC reads around the clocks. */
typedef struct TellerClockTriple {
  uint64_t ticks;
  int64_t monotonic_ns;
  int64_t realtime_ns;
  uint64_t uncertainty_ticks;
} TellerClockTriple;

enum TellerSegmentState {
  TELLER_SEGMENT_FREE = 0,
  TELLER_SEGMENT_WRITING = 1, /* owned by one thread; the reader takes up to `count` */
  TELLER_SEGMENT_FULL = 2     /* the reader drains the rest and sets FREE */
};

typedef struct TellerSegmentHeader {
  uint32_t state;    /* TellerSegmentState; writer: release on FULL, reader: release on FREE */
  uint32_t count;    /* records complete; writer: release after each record */
  uint32_t consumed; /* reader only */
  uint32_t tid;
  uint64_t owner; /* the owning thread's start stamp, so that a dead thread's segment can be told
                     from a reused tid */
  uint8_t reserved[40];
} TellerSegmentHeader;

typedef struct TellerSegment {
  TellerSegmentHeader header;
  TellerRecord records[TELLER_SEGMENT_RECORDS];
} TellerSegment;

typedef struct TellerPoolHeader {
  uint64_t magic; /* written last, with release: before that the file is not ready */
  uint32_t abi_version;
  uint32_t pid; /* in the innermost pid namespace */
  uint32_t ppid;
  int32_t rank; /* from RANK, else the process's title; -1: none */
  uint64_t
      start_ticks; /* /proc/self/stat field 22, in clock ticks since boot: tells a reused pid */
  uint64_t ticks_per_second; /* by the process's own triples; 1: not measured yet; 0: no
                              invariant TSC, records are in ns */
  char comm[16];
  char node[64]; /* TELLER_NODE at load; empty: the host's name */
  char host[64];
  char command[512];      /* argv joined by spaces, cut, copied at load */
  uint32_t segment_count; /* segments that have memory; grows up to TELLER_POOL_SEGMENTS; writer:
                             release */
  uint32_t name_bytes;    /* used bytes of the name table; writer: release after each name */
  uint32_t name_count;
  uint32_t clock_head;       /* triples ever written; ring index is modulo TELLER_CLOCK_TRIPLES */
  uint32_t sources_attached; /* bit per TellerSource that attached successfully */
  uint32_t exited; /* 1 after an orderly exit was seen (hint only: _exit and kill skip it) */
  uint64_t attach_ns[TELLER_SOURCE_COUNT]; /* what attaching each source cost */
  uint64_t written; /* records ever written, approximate (per segment switch) */
  uint64_t dropped[TELLER_DROP_COUNT];
  uint32_t doorbell; /* futex word: the agent bumps and wakes it when a quarter of the segments is
                        full */
  uint32_t pid_namespace;     /* inode of /proc/self/ns/pid: a pid says something only within its
                                 namespace */
  uint64_t cupti_overhead_ns; /* time that CUPTI says it cost the process */
  uint32_t reserved[12];
  char note[192]; /* one line for the person who looks, for example why operators are not captured;
                     empty: nothing */
  TellerClockTriple clock[TELLER_CLOCK_TRIPLES];
} TellerPoolHeader;

/* File layout: TellerPoolHeader padded to TELLER_POOL_HEADER_BYTES; name table (entries: uint32
 * length, bytes, padded to 4); segments at TELLER_POOL_SEGMENTS_OFFSET. Names are numbered by order
 * of appearance. */
#define TELLER_POOL_HEADER_BYTES 8192u
#define TELLER_POOL_NAMES_OFFSET TELLER_POOL_HEADER_BYTES
#define TELLER_POOL_SEGMENTS_OFFSET (TELLER_POOL_NAMES_OFFSET + TELLER_NAME_TABLE_BYTES)
#define TELLER_POOL_FILE_BYTES \
  ((uint64_t)TELLER_POOL_SEGMENTS_OFFSET + (uint64_t)TELLER_POOL_SEGMENTS * TELLER_SEGMENT_BYTES)

#ifdef __cplusplus
}
#endif
