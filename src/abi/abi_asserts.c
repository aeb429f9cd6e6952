/* The layouts that cross a process border, held in place. */
#include <assert.h>
#include <stddef.h>

#include "src/abi/activity.h"
#include "src/abi/control.h"
#include "src/abi/pool.h"
#include "src/abi/record.h"

static_assert(TELLER_ABI_VERSION == 1u, "docs/schema/ring_record.md describes version 1");
static_assert(TELLER_ACTIVITY_VERSION == 1u, "docs/schema/activity.md describes version 1");
static_assert(sizeof(TellerRecord) == 64, "a record is one cache line");
static_assert(offsetof(TellerRecord, name) == 32, "record layout");
static_assert(offsetof(TellerRecord, flags) == 56, "record layout");
static_assert(offsetof(TellerRecord, graph) == 61, "record layout");
static_assert(sizeof(TellerSegmentHeader) == 64, "a segment header takes the place of one record");
static_assert(sizeof(TellerSegment) == TELLER_SEGMENT_BYTES, "a segment is 64 KiB");
static_assert(sizeof(TellerClockTriple) == 32, "clock triple layout");
static_assert(sizeof(TellerPoolHeader) <= TELLER_POOL_HEADER_BYTES,
              "the header fits before the name table");
static_assert(offsetof(TellerPoolHeader, clock) % 8 == 0, "clock triples are aligned");
static_assert(sizeof(TellerPerturbation) == 256, "perturbation layout");
static_assert(offsetof(TellerControl, perturbations) == 128, "control layout");
static_assert(sizeof(TellerHit) == 56, "hit layout");
static_assert(offsetof(TellerHitRing, slots) == 128, "hit ring layout");
