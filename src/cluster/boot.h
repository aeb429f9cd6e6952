#pragma once

#include <string>

namespace teller::cluster {

/// The kernel's id of this boot: pids and inodes of another boot mean nothing. Empty where it
/// cannot be read.
std::string BootId();

}  // namespace teller::cluster
