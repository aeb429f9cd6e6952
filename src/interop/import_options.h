#pragma once

namespace teller::interop {

struct ImportOptions {
  bool keep_text =
      false;  ///< leave keys and tokens in log lines, command lines and names as they are
};

}  // namespace teller::interop
