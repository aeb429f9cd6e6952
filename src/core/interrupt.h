#pragma once

namespace teller {

/// Ctrl-C, SIGTERM and SIGHUP set a flag and interrupt blocking calls; whoever runs long asks the
/// flag and unwinds, so that the machine is restored by destructors. A second signal, half a second
/// or more later, ends the process at once (the journal then serves 'teller restore'). Call once,
/// from main.
void InstallInterruptHandlers();

/// True since the first signal.
bool Interrupted();

/// The signal that came first, or 0.
int InterruptSignal();

/// Throws Error (exit code 1) when a signal has come.
void ThrowIfInterrupted();

}  // namespace teller
