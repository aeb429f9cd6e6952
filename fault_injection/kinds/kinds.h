#pragma once

#include "fault_injection/fault_kind.h"

namespace teller::fault_injection {

const FaultKind& CollectiveDelayKind();   ///< collective_delay.cc
const FaultKind& ProcessPauseKind();      ///< process_pause.cc
const FaultKind& OperatorSlowdownKind();  ///< operator_slowdown.cc

}  // namespace teller::fault_injection
