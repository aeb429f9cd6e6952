#pragma once

#include "src/abi/control.h"

namespace teller::agent {

/// Creates this process's hit ring once; false where the folder has no room: then nothing is
/// perturbed, since a delay without evidence must not happen.
bool OpenHitLog() noexcept;

/// Adds a hit; `ticket`, `tid` and `rank` are filled in here. A full ring counts a loss.
void LogHit(TellerHit hit) noexcept;

}  // namespace teller::agent
