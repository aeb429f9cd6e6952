#pragma once

#include "src/h5/schema.h"

namespace teller::dataset {

/// docs/schema/slices.md in constants; a test compares the two.
inline constexpr h5::Schema kSlicesSchema{"slices", 1, 1};

inline constexpr h5::ColumnSpec kSlicesColumns[] = {
    {"/symbols", "string", "-"},
    {"/strings", "string", "-"},
    {"/steps/engine_step", "int64", "-"},
    {"/steps/score", "float32", "standard deviations"},
    {"/steps/p_value", "float32", "-"},
    {"/steps/wait_z", "float32", "standard deviations"},
    {"/steps/undecided", "uint8", "-"},
    {"/steps/node_count", "uint32", "-"},
    {"/steps/edge_count", "uint32", "-"},
    {"/steps/log_count", "uint32", "-"},
    {"/steps/candidate_count", "uint32", "-"},
    {"/nodes/node", "int32", "node of forest"},
    {"/nodes/parent", "int32", "node of slice"},
    {"/nodes/depth", "uint16", "-"},
    {"/nodes/elided", "uint8", "-"},
    {"/nodes/suspect", "uint8", "-"},
    {"/nodes/elided_host_ns", "int64", "ns"},
    {"/nodes/elided_device_ns", "int64", "ns"},
    {"/nodes/symbol", "uint32", "symbol"},
    {"/nodes/track", "uint16", "track"},
    {"/nodes/layer", "uint8", "-"},
    {"/nodes/residual", "float32", "standard deviations"},
    {"/edges/from", "int32", "node of slice"},
    {"/edges/to", "int32", "node of slice"},
    {"/edges/type", "uint8", "-"},
    {"/logs/line", "uint32", "log line of step"},
    {"/candidates/node", "int32", "node of forest"},
    {"/candidates/rank", "int32", "rank"},
    {"/candidates/peer", "int32", "rank"},
    {"/candidates/measure", "uint8", "-"},
    {"/candidates/observed_ns", "int64", "ns"},
    {"/candidates/expected_ns", "int64", "ns"},
    {"/candidates/z", "float32", "standard deviations"},
    {"/candidates/p_value", "float32", "-"},
    {"/inputs/name", "uint32", "string"},
    {"/inputs/hash", "uint32", "string"},
};

}  // namespace teller::dataset
