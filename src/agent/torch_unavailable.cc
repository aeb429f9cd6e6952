// A process without torch: no operators.
#include "src/agent/entrances.h"

namespace teller::agent {

void PollTorch() noexcept {}
void FollowTorchSwitches() noexcept {}

}  // namespace teller::agent
