#include "src/core/error.h"

#include <cstdio>
#include <cstdlib>

namespace teller {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "teller: internal error at %s:%d: %s does not hold; please report it\n",
               file, line, condition);
  std::abort();
}

}  // namespace teller
