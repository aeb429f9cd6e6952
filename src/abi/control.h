/* The control block: one shared file per run that every agent of the run maps read-only, and one
 * hit ring per process that the perturb module writes. Described in docs/schema/control_block.md.
 *
 * Environment of a target:
 *   TELLER_RUN_DIR   folder (tmpfs) that holds 'control', and where each process creates
 * 'PID-START.pool' and, when the control block asks for perturbation, 'PID-START.hits'. Unset: the
 * agent does nothing. TELLER_NODE      name of the node the process runs on. The record and perturb
 * modules switch independently. */
#pragma once

#include <stdint.h>

#include "src/abi/record.h"

#define TELLER_CONTROL_MAGIC 0x314c5254434c4c54ull /* "TLLCTRL1" */
#define TELLER_HITS_MAGIC 0x31535449484c4c54ull    /* "TLLHITS1" */
#define TELLER_CONTROL_FILE "control"
#define TELLER_PERTURBATIONS 32u
#define TELLER_HIT_SLOTS 65536u

#ifdef __cplusplus
extern "C" {
#endif

enum TellerLevel { TELLER_LEVEL_OFF = 0, TELLER_LEVEL_RANGES = 1, TELLER_LEVEL_FULL = 2 };

/* What a perturbation waits for. */
enum TellerTarget {
  TELLER_TARGET_OPERATOR = 0,   /* torch operator by name */
  TELLER_TARGET_COLLECTIVE = 1, /* device-runtime or gloo:/nccl: collective by name, counted once */
  TELLER_TARGET_LAUNCH = 2,     /* device-runtime or CUDA launch call, by kernel name */
  TELLER_TARGET_COPY = 3,       /* copy call */
  TELLER_TARGET_SYNC = 4,       /* synchronisation call */
  TELLER_TARGET_KERNEL =
      5, /* on the stream thread of the CPU device runtime, inside the kernel's record */
  TELLER_TARGET_RANGE = 6 /* NVTX range or user scope by name */
};

enum TellerDelayMode {
  TELLER_DELAY_FIXED = 0,        /* delay_ns */
  TELLER_DELAY_PROPORTIONAL = 1, /* factor times the call's own time, delayed at its end */
  TELLER_DELAY_RANDOM = 2        /* exponential with mean delay_ns, cut at 10 means */
};

typedef struct TellerPerturbation {
  uint32_t active;   /* written last (release) when switched on, first when switched off */
  uint32_t plan_id;  /* echoed in every hit; UINT32_MAX is never used */
  uint32_t target;   /* TellerTarget */
  uint32_t mode;     /* TellerDelayMode */
  uint64_t delay_ns; /* 0 is legal: a placebo that counts its hits */
  double factor;
  double probability; /* 1: every matching call */
  uint32_t every_n;   /* 1: every matching call */
  uint32_t seed;
  uint64_t rank_mask; /* bit r: processes of rank r (r < 64); all ones: any process, also those
                         without a rank */
  char node[32];      /* empty: any */
  char pattern[128];  /* exact name, or a prefix ended by '*' */
  uint8_t reserved[40];
} TellerPerturbation;

typedef struct TellerControl {
  uint64_t magic;
  uint32_t abi_version;
  uint32_t generation; /* bumped after every change: agents look at it once per event or per poll
                          (50 ms) */
  uint32_t level;      /* TellerLevel */
  uint32_t sources;    /* bit per TellerSource that may record */
  uint32_t shapes;     /* 1: operators keep their input shapes */
  uint32_t perturb;    /* 1: agents create their hit ring at load and look at the table */
  uint32_t owner_pid;  /* who keeps the run; agents fall silent when it is gone */
  uint32_t
      owner_pid_namespace; /* inode of its /proc/self/ns/pid; 0: unknown, it is not looked for */
  uint32_t whole_graphs;   /* 1: a launch of a CUDA graph is one record, not one a node */
  uint32_t reserved[21];
  TellerPerturbation perturbations[TELLER_PERTURBATIONS];
} TellerControl;

/* One delay that was really made. Written by the agent, drained by the injector into truth.jsonl.
 */
typedef struct TellerHit {
  uint64_t ticket;  /* position + 1, written last (release): the slot is complete */
  int64_t begin_ns; /* CLOCK_MONOTONIC of the process, around the delay alone */
  int64_t end_ns;
  uint32_t plan_id;
  uint32_t tid;
  uint32_t target;
  int32_t rank;
  uint64_t correlation;
  uint8_t inside; /* 1: the delay lies inside the record of the perturbed call; 0: in the gap before
                     it */
  uint8_t reserved[7];
} TellerHit;

typedef struct TellerHitRing {
  uint64_t magic;
  uint32_t abi_version;
  uint32_t pid;
  int32_t rank;
  uint32_t reserved0;
  char node[64];
  uint64_t head; /* tickets taken by writers (fetch_add) */
  uint64_t tail; /* consumed by the injector; a writer that finds head - tail >= slots counts a loss
                    instead */
  uint64_t lost;
  uint8_t reserved[16];
  TellerHit slots[TELLER_HIT_SLOTS];
} TellerHitRing;

#ifdef __cplusplus
}
#endif
