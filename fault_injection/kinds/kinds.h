#pragma once

#include <vector>

#include "fault_injection/fault_kind.h"

namespace teller::fault_injection {

std::vector<FaultKind> AgentDelayKinds();     ///< agent_delay.cc
std::vector<FaultKind> ConfigurationKinds();  ///< configuration.cc

FaultKind CpuHogKind();          ///< cpu_hog.cc
FaultKind CpuQuotaKind();        ///< cpu_quota.cc
FaultKind MemoryPressureKind();  ///< memory_pressure.cc
FaultKind ProcessPauseKind();    ///< process_pause.cc

FaultKind LinkBandwidthKind();  ///< link_bandwidth.cc
FaultKind LinkFlapKind();       ///< link_flap.cc
FaultKind LinkJitterKind();     ///< link_jitter.cc
FaultKind LinkLatencyKind();    ///< link_latency.cc
FaultKind LinkLossKind();       ///< link_loss.cc

}  // namespace teller::fault_injection
