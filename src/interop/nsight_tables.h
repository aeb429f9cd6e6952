#pragma once

#include "src/interop/nsight_report.h"

namespace teller::interop {

/// Calls of the runtime, the driver, cuBLAS and cuDNN.
void ReadNsightRuntime(NsightReport& report);
void ReadNsightLibraries(NsightReport& report);
/// Kernels, copies, sets, synchronisations and graphs; after the runtime, which says who launched.
void ReadNsightDevice(NsightReport& report);
/// Ranges and marks; after the device records, which say whether collectives are there already.
void ReadNsightNvtx(NsightReport& report);

}  // namespace teller::interop
