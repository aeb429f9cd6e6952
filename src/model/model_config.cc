#include "src/model/model_config.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/core/error.h"
#include "src/model/model_config_fields.h"

namespace teller::model {
namespace {

using Json = nlohmann::json;

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t swap = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, swap});
    }
  }
  return row.back();
}

/// Takes fields out of one JSON object and afterwards names what nobody took.
class Reader {
 public:
  Reader(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) throw ConfigError(where_ + ": expected an object");
  }

  void Integer(const char* name, int64_t& value, int64_t low, int64_t high) {
    const Json* found = Take(name);
    if (!found) return;
    if (!found->is_number_integer()) Fail(name, "expected a whole number");
    const auto number = found->is_number_unsigned() && found->get<uint64_t>() > INT64_MAX
                            ? INT64_MAX
                            : found->get<int64_t>();
    if (number < low || number > high) Range(name, std::to_string(low), std::to_string(high));
    value = number;
  }
  void Number(const char* name, double& value, double low, double high) {
    const Json* found = Take(name);
    if (!found) return;
    if (!found->is_number()) Fail(name, "expected a number");
    const double number = found->get<double>();
    if (!(number >= low && number <= high)) Range(name, Json(low).dump(), Json(high).dump());
    value = number;
  }
  void Switch(const char* name, bool& value) {
    const Json* found = Take(name);
    if (!found) return;
    if (!found->is_boolean()) Fail(name, "expected true or false");
    value = found->get<bool>();
  }
  void Select(const char* name, Selection& value) {
    const Json* found = Take(name);
    if (!found) return;
    if (*found == "residual") {
      value = Selection::kResidual;
    } else if (*found == "order") {
      value = Selection::kOrder;
    } else {
      Fail(name, "expected \"residual\" or \"order\"");
    }
  }
  template <typename Visit>
  void Group(const char* name, Visit&& visit) {
    const Json* found = Take(name);
    if (!found) return;
    Reader below(*found, Below(name));
    visit(below);
    below.RejectUnknown();
  }
  void RejectUnknown() const {
    for (const auto& [key, value] : object_.items()) {
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      const auto nearest = std::min_element(
          known_.begin(), known_.end(), [&key = key](const std::string& a, const std::string& b) {
            return EditDistance(a, key) < EditDistance(b, key);
          });
      throw ConfigError(where_ + ": unknown key '" + key + "'; did you mean '" + *nearest + "'?");
    }
  }

 private:
  const Json* Take(const char* name) {
    known_.emplace_back(name);
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }
  std::string Below(const char* name) const { return where_ + "." + name; }

  [[noreturn]] void Fail(const char* name, const std::string& message) const {
    throw ConfigError(Below(name) + ": " + message);
  }
  [[noreturn]] void Range(const char* name, const std::string& low, const std::string& high) const {
    Fail(name, "out of range, expected " + low + " to " + high);
  }

  const Json& object_;
  std::string where_;
  std::vector<std::string> known_;
};

struct Writer {
  Json object = Json::object();

  template <typename Visit>
  void Group(const char* name, Visit&& visit) {
    Writer below;
    visit(below);
    object[name] = std::move(below.object);
  }
  void Integer(const char* name, int64_t value, int64_t, int64_t) { object[name] = value; }
  void Number(const char* name, double value, double, double) { object[name] = value; }
  void Switch(const char* name, bool value) { object[name] = value; }
  void Select(const char* name, Selection value) {
    object[name] = value == Selection::kResidual ? "residual" : "order";
  }
};

}  // namespace

bool TokenAttributes::channel(Channel which) const {
  return which == Channel::kHost ? host : which == Channel::kDevice ? device : root;
}

void CheckModelConfig(const ModelConfig& config, std::string_view where_view) {
  const std::string where(where_view);
  if (config.d_model % config.heads != 0) {
    throw ConfigError(where + ": d_model " + std::to_string(config.d_model) +
                      " is no multiple of heads " + std::to_string(config.heads));
  }
  const Modalities& on = config.modalities;
  if (!on.tokens && !on.numbers && !on.logs && !on.localizer) {
    throw ConfigError(where + ".modalities: all four are off; nothing is left to learn from");
  }
}

ModelConfig ParseModelConfig(std::string_view text, std::string_view where_view) {
  const std::string where(where_view);
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) throw ConfigError(where + ": not valid JSON");
  ModelConfig config;
  Reader reader(json, where);
  VisitModelConfig(config, reader);
  reader.RejectUnknown();
  CheckModelConfig(config, where);
  return config;
}

std::string ModelConfigJson(const ModelConfig& config) {
  Writer writer;
  VisitModelConfig(config, writer);
  return writer.object.dump();
}

}  // namespace teller::model
