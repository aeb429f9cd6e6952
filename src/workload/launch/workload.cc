#include "src/workload/launch/workload.h"

#include <array>
#include <string_view>

#include "src/workload/launch/ranked_workload.h"

namespace teller::launch {

std::unique_ptr<Workload> Workload::Read(const config::Node& part) {
  static constexpr std::array<std::string_view, 2> kKinds = {"reference", "command"};
  const std::string kind = part.Get("kind").AsChoice(kKinds);
  if (kind == "reference") return ReadReference(part);
  return ReadCommand(part);
}

}  // namespace teller::launch
