// A process without torch and without CUDA: no operators, no CUPTI.
#include "src/agent/entrances.h"

namespace teller::agent {

void PollTorch() noexcept {}
bool TorchIsSettled() noexcept { return true; }
void FollowTorchSwitches() noexcept {}
void FollowCuptiSwitches() noexcept {}
void FlushCupti() noexcept {}

}  // namespace teller::agent
