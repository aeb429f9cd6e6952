#pragma once

namespace teller {

/// '0.1.0'.
const char* Version();

/// The commit this program was built from, '-dirty' appended where the tree had changes; 'unknown'
/// outside git.
const char* Commit();

}  // namespace teller
