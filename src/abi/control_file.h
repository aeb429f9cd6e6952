/* The control block and the hit rings as files: create, map, change, unmap. Plain C; used by the
 * agent, the collector and the injector. Every call answers 0 or an errno value and prints nothing.
 */
#pragma once

#include <stdint.h>

#include "src/abi/control.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Creates FOLDER/control: level off, every source allowed, no perturbation. EEXIST when there is
 * one already (map it then), ENOSPC when the tmpfs is full. The mapping is writable. */
int teller_control_create(const char* folder, TellerControl** control);

/* Maps FOLDER/control. ENOENT: none; EAGAIN: being created, try again; EPROTO: not ours or another
 * abi version. */
int teller_control_map(const char* folder, int writable, TellerControl** control);

/* Makes the calling process the run's owner: when it is gone, agents switch themselves off. */
void teller_control_own(TellerControl* control);

/* True (1) where the owner is certainly gone: same pid namespace, and no such pid. */
int teller_control_owner_is_gone(const TellerControl* control);

/* NULL is allowed. */
void teller_control_unmap(TellerControl* control);

/* Changes the level and bumps the generation. */
void teller_control_set_level(TellerControl* control, uint32_t level);

/* Allows agents to perturb (1) or not (0) and bumps the generation. Agents create their hit ring
 * when they first see 1. */
void teller_control_set_perturb(TellerControl* control, uint32_t perturb);

/* Switches entry `slot` (below TELLER_PERTURBATIONS) on with these values; `values->active` is
 * ignored. An entry that is on is switched off first. */
void teller_control_set_perturbation(TellerControl* control, uint32_t slot,
                                     const TellerPerturbation* values);

/* Switches entry `slot` off. A call that is already being delayed ends its delay. */
void teller_control_clear_perturbation(TellerControl* control, uint32_t slot);

/* Maps a 'PID-START.hits' file, writable for the consumer's `tail`. Errors as teller_control_map.
 */
int teller_hits_map(const char* path, TellerHitRing** hits);
void teller_hits_unmap(TellerHitRing* hits);

/* Takes the next complete hit in order of tickets; 0 where there is none yet. One consumer per
 * ring. */
int teller_hits_take(TellerHitRing* hits, TellerHit* hit);

#ifdef __cplusplus
}
#endif
