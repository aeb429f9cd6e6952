#include "src/diagnose/page_nodes.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace teller::diagnose {

std::vector<NodeId> ChoosePageNodes(const reconstruct::StepForest& step,
                                    std::span<const NodeId> wanted, std::size_t limit) {
  const std::size_t count = step.nodes.size();
  std::vector<uint8_t> shown(count, count <= limit ? 1 : 0);
  const auto show = [&](NodeId node) {
    for (; node != kNoNode && !shown[Index(node)]; node = step.nodes[Index(node)].parent)
      shown[Index(node)] = 1;
  };
  for (const NodeId node : wanted) show(node);
  if (count > limit) {
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    // A parent is no shorter than its children and stands before them.
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return step.nodes[a].duration_ns > step.nodes[b].duration_ns;
    });
    for (std::size_t i = 0; i < limit; ++i) show(NodeId{static_cast<int32_t>(order[i])});
  }
  std::vector<NodeId> chosen;
  for (std::size_t i = 0; i < count; ++i) {
    if (shown[i]) chosen.push_back(NodeId{static_cast<int32_t>(i)});
  }
  return chosen;
}

}  // namespace teller::diagnose
