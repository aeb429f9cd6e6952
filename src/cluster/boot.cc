#include "src/cluster/boot.h"

#include <fstream>

namespace teller::cluster {

std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace teller::cluster
