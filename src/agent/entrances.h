#pragma once

#include "src/abi/activity.h"

namespace teller::agent {

/// What each entrance offers to the background thread. `Follow...Switches` brings a source's own
/// on/off state in line with Switches(); cheap when nothing has changed.

/// Looks for torch in this process and registers the callbacks once it is there.
void PollTorch() noexcept;
/// True once torch is attached, or is known not to be captured.
bool TorchIsSettled() noexcept;
void FollowTorchSwitches() noexcept;
void FollowDeviceSwitches() noexcept;
void FollowCuptiSwitches() noexcept;

/// Asks CUPTI for the records of what has ended.
void FlushCupti() noexcept;

/// Marks a source as attached and notes what attaching cost since `begin_ns`.
void NoteAttached(int source, long begin_ns) noexcept;

/// Says that the tool of the user at `path` is not loaded, since `source` takes one; empty: there
/// is none.
void NoteToolNotLoaded(const char* source, const char* path) noexcept;

/// One line for the person who looks; further ones are joined to it while there is room.
void Note(const char* text) noexcept;

}  // namespace teller::agent
