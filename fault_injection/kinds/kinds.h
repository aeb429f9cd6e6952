#pragma once

#include "fault_injection/fault_kind.h"

namespace teller::fault_injection {

const FaultKind& CollectiveDelayKind();   ///< collective_delay.cc
const FaultKind& ProcessPauseKind();      ///< process_pause.cc
const FaultKind& OperatorSlowdownKind();  ///< operator_slowdown.cc

const FaultKind& LaunchDelayKind();     ///< launch_delay.cc
const FaultKind& CopyDelayKind();       ///< copy_delay.cc
const FaultKind& SyncDelayKind();       ///< sync_delay.cc
const FaultKind& SchedulerStallKind();  ///< scheduler_stall.cc
const FaultKind& TokenizerStallKind();  ///< tokenizer_stall.cc
const FaultKind& CpuQuotaKind();        ///< cpu_quota.cc
const FaultKind& CpuHogKind();          ///< cpu_hog.cc

const FaultKind& LinkLatencyKind();    ///< link_latency.cc
const FaultKind& LinkJitterKind();     ///< link_jitter.cc
const FaultKind& LinkLossKind();       ///< link_loss.cc
const FaultKind& LinkBandwidthKind();  ///< link_bandwidth.cc

}  // namespace teller::fault_injection
