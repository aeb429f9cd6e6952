#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "src/trace/event.h"

namespace teller::interop {

/// What a CUDA or HIP call does, by its name (a '_v7000' ending does not matter): launch, copy or
/// set, wait, or anything else.
trace::Kind ApiKind(std::string_view name);

/// Whether a device kernel moves data between ranks: NCCL, RCCL and the custom all-reduces of
/// vLLM, SGLang and TensorRT-LLM, renamed or not.
bool IsCommKernel(std::string_view name);

/// Whether a host range is a communication call: 'nccl:all_reduce', 'gloo:broadcast', 'ncclSend'.
/// The operators around such a range (c10d::allreduce_, record_param_comms) are not: one call
/// counts once.
bool IsCommRange(std::string_view name);

/// Point-to-point where the name says send or receive and nothing of a collective.
trace::Kind CommKind(std::string_view name);

/// Bytes of one element of a torch or NCCL type ('float', 'c10::BFloat16', 'Long'); none: unknown.
std::optional<int> ElementBytes(std::string_view type);

}  // namespace teller::interop
