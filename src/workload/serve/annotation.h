#pragma once

#include <string>

namespace teller::serve {

/// An NVTX range on this thread for the object's lifetime. Without a tool it costs a few
/// nanoseconds.
class AnnotatedRange {
 public:
  explicit AnnotatedRange(const char* name);
  explicit AnnotatedRange(const std::string& name) : AnnotatedRange(name.c_str()) {}
  ~AnnotatedRange();
  AnnotatedRange(const AnnotatedRange&) = delete;
  AnnotatedRange& operator=(const AnnotatedRange&) = delete;
};

/// An NVTX mark: 'request EVENT ID'. Events: add, run, preempt, finish, abort.
void MarkRequest(const char* event, const std::string& id);

}  // namespace teller::serve
