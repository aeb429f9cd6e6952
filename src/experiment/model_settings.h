#pragma once

#include "src/config/config.h"
#include "src/model/model_config.h"

namespace teller::experiment {

/// Reads a model's configuration from YAML, over the defaults. Throws ConfigError with file, line
/// and column.
model::ModelConfig ReadModelSettings(const config::Node& node);

}  // namespace teller::experiment
