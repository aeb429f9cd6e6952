#pragma once

#include <string>

#include "src/cluster/cluster.h"

namespace teller::launch {

/// Posts an empty body to `url` from inside the node, by a Python of its own, since nothing outside
/// reaches the service. Throws DeviceError where it does not answer with success within a minute.
void PostFrom(cluster::Node& node, const std::string& url);

}  // namespace teller::launch
