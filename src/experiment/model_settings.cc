#include "src/experiment/model_settings.h"

#include <string_view>

#include "src/model/model_config_fields.h"

namespace teller::experiment {
namespace {

constexpr std::string_view kSelections[] = {"residual", "order"};  // by model::Selection

/// Takes the fields that VisitModelConfig shows out of one mapping.
class NodeReader {
 public:
  explicit NodeReader(const config::Node& node) : node_(node) {}

  void Integer(const char* name, int64_t& value, int64_t low, int64_t high) {
    node_.Read(name, value, low, high);
  }
  void Number(const char* name, double& value, double low, double high) {
    node_.Read(name, value, low, high);
  }
  void Switch(const char* name, bool& value) { node_.Read(name, value); }
  void Select(const char* name, model::Selection& value) {
    const auto found = node_.Find(name);
    if (!found) return;
    value = found->AsChoice(kSelections) == kSelections[0] ? model::Selection::kResidual
                                                           : model::Selection::kOrder;
  }
  template <typename Visit>
  void Group(const char* name, Visit&& visit) {
    const auto found = node_.Find(name);
    if (!found) return;
    NodeReader below(*found);
    visit(below);
  }

 private:
  const config::Node& node_;
};

}  // namespace

model::ModelConfig ReadModelSettings(const config::Node& node) {
  model::ModelConfig config;
  NodeReader reader(node);
  model::VisitModelConfig(config, reader);
  node.RejectUnknownKeys();
  model::CheckModelConfig(config, node.Where());
  return config;
}

}  // namespace teller::experiment
