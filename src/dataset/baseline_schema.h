#pragma once

#include "src/h5/schema.h"

namespace teller::dataset {

/// docs/schema/baseline.md in constants; a test compares the two.
inline constexpr h5::Schema kBaselineSchema{"baseline", 2, 0};

inline constexpr h5::ColumnSpec kBaselineColumns[] = {
    {"/strings", "string", "-"},
    {"/operators/symbol", "uint32", "string"},
    {"/operators/layer", "uint8", "-"},
    {"/rows/op", "int32", "operator"},
    {"/rows/measure", "uint8", "-"},
    {"/rows/occurrence", "int32", "-"},
    {"/rows/phase", "int32", "-"},
    {"/rows/bucket", "int32", "-"},
    {"/rows/median", "float32", "ln(ns + 1000)"},
    {"/rows/spread", "float32", "ln(ns + 1000)"},
    {"/rows/count", "uint32", "readings"},
    {"/operator_rows/op", "int32", "operator"},
    {"/operator_rows/measure", "uint8", "-"},
    {"/operator_rows/ratio_median", "float32", "ln ratio"},
    {"/operator_rows/ratio_spread", "float32", "ln ratio"},
    {"/operator_rows/ratio_tail", "float32", "standard deviations"},
    {"/operator_rows/ratio_count", "uint32", "steps"},
    {"/operator_rows/typical_median", "float32", "ln ratio"},
    {"/operator_rows/typical_spread", "float32", "ln ratio"},
    {"/operator_rows/typical_tail", "float32", "standard deviations"},
    {"/operator_rows/typical_count", "uint32", "steps"},
    {"/operator_rows/lower_median", "float32", "ln ratio"},
    {"/operator_rows/lower_spread", "float32", "ln ratio"},
    {"/operator_rows/lower_tail", "float32", "standard deviations"},
    {"/operator_rows/lower_count", "uint32", "steps"},
    {"/operator_rows/contrast_median", "float32", "ln ratio"},
    {"/operator_rows/contrast_spread", "float32", "ln ratio"},
    {"/operator_rows/contrast_tail", "float32", "standard deviations"},
    {"/operator_rows/contrast_count", "uint32", "steps"},
    {"/operator_rows/node_tail", "float32", "standard deviations"},
    {"/channel_scale", "float32", "-"},
    {"/healthy_maxima", "float32", "standard deviations"},
    {"/inputs/name", "uint32", "string"},
    {"/inputs/hash", "uint32", "string"},
};

}  // namespace teller::dataset
