// Built where TELLER_WITH_TORCH is off: no operators.
#include "src/agent/entrances.h"

namespace teller::agent {

void PollTorch() noexcept {}
void FollowTorchSwitches() noexcept {}

}  // namespace teller::agent
