#pragma once

#include "src/agent/recorder.h"

namespace teller::agent {

/// Tells CUPTI that the calling thread is inside its operator of this number, until
/// LeaveTiedOperator: calls made meanwhile get the number. Call where kTieCalls is set.
void EnterTiedOperator(uint32_t number) noexcept;
void LeaveTiedOperator() noexcept;

}  // namespace teller::agent
