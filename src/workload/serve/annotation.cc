#include "src/workload/serve/annotation.h"

#include <nvtx3/nvToolsExt.h>

namespace teller::serve {

AnnotatedRange::AnnotatedRange(const char* name) { nvtxRangePushA(name); }
AnnotatedRange::~AnnotatedRange() { nvtxRangePop(); }

void MarkRequest(const char* event, const std::string& id) {
  nvtxMarkA(("request " + std::string(event) + " " + id).c_str());
}

}  // namespace teller::serve
