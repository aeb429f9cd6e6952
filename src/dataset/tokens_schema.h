#pragma once

#include "src/h5/schema.h"

namespace teller::dataset {

/// docs/schema/tokens.md in constants; a test compares the two.
inline constexpr h5::Schema kTokensSchema{"tokens", 1, 0};

inline constexpr h5::ColumnSpec kTokensColumns[] = {
    {"/symbols", "string", "-"},
    {"/strings", "string", "-"},
    {"/ranks", "int32", "rank"},
    {"/steps/engine_step", "int64", "-"},
    {"/steps/forest_nodes", "uint32", "nodes"},
    {"/steps/forest_atoms", "uint32", "atoms"},
    {"/steps/forest_tokens", "uint32", "tokens"},
    {"/steps/slice_nodes", "uint32", "nodes"},
    {"/steps/unknown_symbols", "uint32", "nodes"},
    {"/steps/token_count", "uint32", "-"},
    {"/steps/node_count", "uint32", "-"},
    {"/steps/log_count", "uint32", "-"},
    {"/tokens/id", "uint32", "entry"},
    {"/tokens/rank", "uint16", "rank position"},
    {"/tokens/track", "uint16", "track"},
    {"/tokens/layer", "uint8", "-"},
    {"/tokens/depth", "uint16", "-"},
    {"/tokens/parent_token", "int32", "token"},
    {"/tokens/parent_node", "uint16", "node of token"},
    {"/tokens/first_node", "uint32", "node of step"},
    {"/tokens/node_count", "uint32", "-"},
    {"/tokens/host_ns", "int64", "ns"},
    {"/tokens/device_ns", "int64", "ns"},
    {"/tokens/root_ns", "int64", "ns"},
    {"/tokens/residual", "float32", "standard deviations"},
    {"/tokens/residual_node", "uint32", "node of token"},
    {"/nodes/node", "int32", "node of forest"},
    {"/nodes/symbol", "uint32", "symbol"},
    {"/nodes/rank", "uint16", "rank position"},
    {"/nodes/residual", "float32", "standard deviations"},
    {"/nodes/log_duration", "float32", "ln(1 + ns)"},
    {"/nodes/suspect", "uint8", "-"},
    {"/logs/text", "uint32", "string"},
    {"/logs/rank", "uint16", "rank position"},
    {"/labels/status", "uint8", "-"},
    {"/labels/reasons", "uint32", "bits"},
    {"/labels/stretch", "int32", "-"},
    {"/labels/plan_id", "int32", "-"},
    {"/labels/kind", "uint32", "string"},
    {"/labels/family", "uint32", "string"},
    {"/labels/view", "uint8", "-"},
    {"/labels/level", "int32", "-"},
    {"/labels/culprit_rank", "int32", "rank"},
    {"/labels/culprit_layer", "uint32", "string"},
    {"/labels/culprit_symbol", "uint32", "string"},
    {"/labels/recorded_count", "uint32", "-"},
    {"/labels/hit_count", "uint32", "-"},
    {"/recorded/recorded_ns", "int64", "ns"},
    {"/hits/node", "int32", "node of forest"},
    {"/number_names", "string", "-"},
    {"/numbers/NAME", "float32", "by name"},
    {"/localizer_names", "string", "-"},
    {"/localizers/NAME", "float32", "by name"},
    {"/inputs/name", "uint32", "string"},
    {"/inputs/hash", "uint32", "string"},
};

}  // namespace teller::dataset
