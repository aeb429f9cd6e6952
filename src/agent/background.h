#pragma once

namespace teller::agent {

/// Attaches this process: pool, control block, first clock triple, switches. False: nothing to do
/// here (no run folder, or no memory in it).
bool AttachProcess() noexcept;

/// Starts the one background thread of this process, which follows the control block, looks for
/// torch, keeps segments in stock, calibrates the clock once a second and learns the rank from the
/// process's title.
void StartBackground() noexcept;

/// Held while the background thread is inside the dynamic loader, so that fork does not copy a held
/// loader lock.
void LockLoaderForFork() noexcept;
void UnlockLoaderAfterFork() noexcept;

}  // namespace teller::agent
