#pragma once

#include <cupti.h>

#include <cstdint>

#include "src/abi/record.h"

namespace teller::agent {

/// What the decoder needs of a libcupti, which is opened at run time.
struct CuptiFunctions {
  CUptiResult (*next_record)(uint8_t* buffer, size_t valid_bytes, CUpti_Activity** record);
  CUptiResult (*callback_name)(CUpti_CallbackDomain domain, uint32_t cbid, const char** name);
};

/// One activity record as we keep it. `record.name` is left to the receiver, who interns `name`.
struct CuptiEvent {
  TellerRecord record;
  const char* name;
};

/// Takes the events of a buffer, in order.
class CuptiReceiver {
 public:
  virtual void Take(const CuptiEvent& event) noexcept = 0;

 protected:
  ~CuptiReceiver() = default;
};

struct CuptiCounts {
  uint64_t events = 0;
  uint64_t ignored = 0;      ///< records of kinds that were not asked for
  uint64_t untimed = 0;      ///< device work without begin or end: not finished when it was flushed
  uint64_t overhead_ns = 0;  ///< what CUPTI says it cost
  bool damaged = false;      ///< the buffer could not be walked to its end
};

/// The kind under which the agent tells CUPTI of operators; their number comes back as the
/// `sequence` of the calls that they make.
inline constexpr CUpti_ExternalCorrelationKind kOperatorCorrelation =
    CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2;

/// Decodes one activity buffer of CUPTI 12 or 13, whose records differ behind the fields that are
/// read here only. Times are taken as CUPTI gives them: nanoseconds of CLOCK_MONOTONIC, by the
/// timestamp callback. Device work has `bytes`, stream and graph node, calls have their thread, and
/// the number of the operator that made them where CUPTI was told of it.
CuptiCounts DecodeCuptiBuffer(const CuptiFunctions& cupti, uint8_t* buffer, size_t valid_bytes,
                              CuptiReceiver& receiver) noexcept;

}  // namespace teller::agent
