#define _GNU_SOURCE
#include "src/abi/control_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int control_path(const char* folder, char* path, size_t size) {
  int length = snprintf(path, size, "%s/%s", folder, TELLER_CONTROL_FILE);
  return length < 0 || (size_t)length >= size ? ENAMETOOLONG : 0;
}

/* Maps `bytes` of an open file; closes it in any case. */
static int map_file(int file, size_t bytes, int writable, void** address) {
  int error = 0;
  *address = mmap(NULL, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file, 0);
  if (*address == MAP_FAILED) {
    error = errno;
    *address = NULL;
  }
  close(file);
  return error;
}

/* A file that is shorter than its structure would end a reader by SIGBUS, so the size is looked at
 * first. */
static int map_existing(const char* path, size_t bytes, int writable, uint64_t magic,
                        void** address) {
  int file = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return errno;
  struct stat status;
  int error = fstat(file, &status) != 0 ? errno : 0;
  if (error == 0 && (size_t)status.st_size < bytes) error = status.st_size == 0 ? EAGAIN : EPROTO;
  if (error != 0) {
    close(file);
    return error;
  }
  error = map_file(file, bytes, writable, address);
  if (error != 0) return error;
  uint64_t found = __atomic_load_n((const uint64_t*)*address, __ATOMIC_ACQUIRE);
  uint32_t version = *(const uint32_t*)((const char*)*address + sizeof(uint64_t));
  if (found == magic && version == TELLER_ABI_VERSION) return 0;
  munmap(*address, bytes);
  *address = NULL;
  return found == 0 ? EAGAIN : EPROTO;
}

int teller_control_create(const char* folder, TellerControl** control) {
  char path[PATH_MAX];
  *control = NULL;
  int error = control_path(folder, path, sizeof path);
  if (error != 0) return error;
  int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return errno;
  error = posix_fallocate(file, 0, sizeof(TellerControl));
  void* address = NULL;
  if (error != 0) {
    close(file);
  } else {
    error = map_file(file, sizeof(TellerControl), 1, &address);
  }
  if (error != 0) {
    unlink(path);
    return error;
  }
  TellerControl* created = address;
  created->abi_version = TELLER_ABI_VERSION;
  created->sources = (1u << TELLER_SOURCE_COUNT) - 1;
  teller_control_own(created);
  __atomic_store_n(&created->magic, TELLER_CONTROL_MAGIC, __ATOMIC_RELEASE);
  *control = created;
  return 0;
}

int teller_control_map(const char* folder, int writable, TellerControl** control) {
  char path[PATH_MAX];
  *control = NULL;
  int error = control_path(folder, path, sizeof path);
  if (error != 0) return error;
  void* address = NULL;
  error = map_existing(path, sizeof(TellerControl), writable, TELLER_CONTROL_MAGIC, &address);
  *control = address;
  return error;
}

static uint32_t pid_namespace(void) {
  struct stat status;
  return stat("/proc/self/ns/pid", &status) == 0 ? (uint32_t)status.st_ino : 0;
}

void teller_control_own(TellerControl* control) {
  control->owner_pid_namespace = pid_namespace();
  __atomic_store_n(&control->owner_pid, (uint32_t)getpid(), __ATOMIC_RELEASE);
}

int teller_control_owner_is_gone(const TellerControl* control) {
  uint32_t owner = __atomic_load_n(&control->owner_pid, __ATOMIC_ACQUIRE);
  if (owner == 0 || control->owner_pid_namespace == 0 ||
      control->owner_pid_namespace != pid_namespace()) {
    return 0;
  }
  return kill((pid_t)owner, 0) != 0 && errno == ESRCH;
}

void teller_control_unmap(TellerControl* control) {
  if (control != NULL) munmap(control, sizeof(TellerControl));
}

/* Agents sleep on the generation, so that a change reaches them at once and costs them nothing in
 * between. */
static void bump(TellerControl* control) {
  __atomic_fetch_add(&control->generation, 1, __ATOMIC_RELEASE);
  syscall(SYS_futex, &control->generation, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void teller_control_set_level(TellerControl* control, uint32_t level) {
  __atomic_store_n(&control->level, level, __ATOMIC_RELEASE);
  bump(control);
}

void teller_control_set_perturb(TellerControl* control, uint32_t perturb) {
  __atomic_store_n(&control->perturb, perturb, __ATOMIC_RELEASE);
  bump(control);
}

void teller_control_set_perturbation(TellerControl* control, uint32_t slot,
                                     const TellerPerturbation* values) {
  TellerPerturbation* entry = &control->perturbations[slot];
  __atomic_store_n(&entry->active, 0, __ATOMIC_SEQ_CST);
  memcpy((char*)entry + sizeof entry->active, (const char*)values + sizeof entry->active,
         sizeof *entry - sizeof entry->active);
  __atomic_store_n(&entry->active, 1, __ATOMIC_RELEASE);
  bump(control);
}

void teller_control_clear_perturbation(TellerControl* control, uint32_t slot) {
  __atomic_store_n(&control->perturbations[slot].active, 0, __ATOMIC_RELEASE);
  bump(control);
}

int teller_hits_map(const char* path, TellerHitRing** hits) {
  void* address = NULL;
  int error = map_existing(path, sizeof(TellerHitRing), 1, TELLER_HITS_MAGIC, &address);
  *hits = address;
  return error;
}

void teller_hits_unmap(TellerHitRing* hits) {
  if (hits != NULL) munmap(hits, sizeof(TellerHitRing));
}

int teller_hits_take(TellerHitRing* hits, TellerHit* hit) {
  uint64_t tail = __atomic_load_n(&hits->tail, __ATOMIC_RELAXED);
  const TellerHit* slot = &hits->slots[tail % TELLER_HIT_SLOTS];
  if (__atomic_load_n(&slot->ticket, __ATOMIC_ACQUIRE) != tail + 1) return 0;
  *hit = *slot;
  __atomic_store_n(&hits->tail, tail + 1, __ATOMIC_RELEASE);
  return 1;
}
