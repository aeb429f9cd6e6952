#pragma once

#include <vector>

#include "src/localize/readings.h"
#include "src/reconstruct/step_forest.h"

namespace teller::diagnose {

/// Takes off launch delays the time in which another stream of the rank was busy: an item that
/// waits for what runs there is no late launch. O(nodes log nodes).
void DropBusyLaunchDelays(const reconstruct::StepForest& step,
                          std::vector<localize::Reading>& readings);

}  // namespace teller::diagnose
