#pragma once

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

#include <cstdint>

namespace teller::agent {

/// What a payload says that we keep: NCCL describes its calls so.
struct PayloadFacts {
  bool has_communicator = false;
  uint64_t communicator = 0;
  int64_t bytes = -1;
  int32_t peer = -1;
  bool has_reduction = false;
  int64_t reduction_number = 0;
  const char* reduction =
      nullptr;  ///< its name, where an enumeration gives one; lives as long as the process
};

/// Keeps the layout of a payload: where the fields of PayloadFacts are, by the names that NCCL
/// gives them. Answers the schema's id, static or a new one; 0 where it cannot be kept.
/// Thread-safe.
uint64_t RegisterPayloadSchema(uint32_t domain, const nvtxPayloadSchemaAttr_t* attributes) noexcept;

/// Keeps the texts of an enumeration. Answers its id, static or a new one; 0 where it cannot be
/// kept. Thread-safe.
uint64_t RegisterPayloadEnum(uint32_t domain, const nvtxPayloadEnumAttr_t* attributes) noexcept;

/// Reads the facts out of an event's payloads; those of unknown layout are passed over.
PayloadFacts ReadPayload(uint32_t domain, const nvtxPayloadData_t* payloads,
                         std::size_t count) noexcept;

/// The payload extension's part of an event's attributes; false: the event has none.
bool HasPayload(const nvtxEventAttributes_t& attributes) noexcept;
PayloadFacts ReadPayload(uint32_t domain, const nvtxEventAttributes_t& attributes) noexcept;

}  // namespace teller::agent
