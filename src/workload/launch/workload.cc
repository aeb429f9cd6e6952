#include "src/workload/launch/workload.h"

#include <array>
#include <string_view>

#include "src/workload/launch/ranked_workload.h"

namespace teller::launch {

std::unique_ptr<Workload> Workload::Read(const config::Node& part) {
  static constexpr std::array<std::string_view, 3> kKinds = {"reference", "vllm", "command"};
  const std::string kind = part.Get("kind").AsChoice(kKinds);
  if (kind == "reference") return ReadReference(part);
  if (kind == "vllm") return ReadVllm(part);
  return ReadCommand(part);
}

}  // namespace teller::launch
