#pragma once

#include <cupti.h>

#include "src/agent/cupti_decoder.h"

namespace teller::agent {

/// What the agent uses of a libcupti, which is opened at run time. Signatures hold for CUPTI 12 and
/// 13.
struct CuptiLibrary {
  CuptiFunctions decode;
  CUptiResult (*get_version)(uint32_t* version);
  CUptiResult (*result_string)(CUptiResult result, const char** text);
  CUptiResult (*subscribe)(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                           void* user);
  CUptiResult (*unsubscribe)(CUpti_SubscriberHandle subscriber);
  CUptiResult (*set_thread_id_type)(CUpti_ActivityThreadIdType type);
  CUptiResult (*set_attribute)(CUpti_ActivityAttribute attribute, size_t* size, void* value);
  CUptiResult (*register_timestamp)(CUpti_TimestampCallbackFunc timestamp);
  CUptiResult (*register_buffers)(CUpti_BuffersCallbackRequestFunc requested,
                                  CUpti_BuffersCallbackCompleteFunc completed);
  CUptiResult (*enable)(CUpti_ActivityKind kind);
  CUptiResult (*disable)(CUpti_ActivityKind kind);
  CUptiResult (*flush_all)(uint32_t flag);
  CUptiResult (*dropped)(CUcontext context, uint32_t stream, size_t* count);
  CUptiResult (*push_operator)(CUpti_ExternalCorrelationKind kind, uint64_t id);
  CUptiResult (*pop_operator)(CUpti_ExternalCorrelationKind kind, uint64_t* id);
};

/// Opens the libcupti that TELLER_CUPTI_LIBRARY names, else the one that the process has loaded,
/// else the one that the loader finds and whose major version is the driver's. NULL on success,
/// else one line that says what is missing. Nothing in libcupti is called where the process has no
/// CUDA driver: the wheel's libcupti overflows the stack then.
const char* OpenCupti(CuptiLibrary& library) noexcept;

}  // namespace teller::agent
