#include "src/model/checkpoint.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/core/hash.h"

namespace teller::model {
namespace {

using Json = nlohmann::json;

constexpr const char* kName = "checkpoint.json";

std::string StateName(std::size_t updates) { return "state_" + std::to_string(updates) + ".pt"; }

}  // namespace

Checkpoint::Checkpoint(std::filesystem::path output, std::string identity)
    : folder_(std::move(output) += ".checkpoint"), identity_(std::move(identity)) {}

std::vector<double> Checkpoint::Restore(Network& network, bool force) {
  const auto path = folder_ / kName;
  if (!std::filesystem::exists(path)) return {};
  const Json json = Json::parse(ReadFile(path), nullptr, false);
  if (!json.is_object() || json.value("identity", "") != identity_) {
    if (!force) {
      throw DataError(path.string() +
                      ": left by another training; remove the folder or use --force");
    }
    Remove();
    return {};
  }
  try {
    auto losses = json.at("losses").get<std::vector<double>>();
    const auto state = folder_ / StateName(losses.size());
    if (HashFileHex(state) != json.at("state_hash").get<std::string>()) {
      throw DataError(state.string() +
                      ": changed since it was written; remove the checkpoint's folder");
    }
    network.parameters().LoadState(state);
    updates_ = static_cast<int64_t>(losses.size());
    return losses;
  } catch (const Json::exception&) {
    throw DataError(path.string() + ": damaged; remove the folder");
  }
}

void Checkpoint::Save(const Network& network, const std::vector<double>& losses) {
  std::filesystem::create_directories(folder_);
  const auto state = folder_ / StateName(losses.size());
  network.parameters().SaveState(state);
  const Json json = {
      {"identity", identity_}, {"losses", losses}, {"state_hash", HashFileHex(state)}};
  WriteFileAtomically(folder_ / kName, json.dump() + "\n", true);
  if (updates_ > 0 && updates_ != static_cast<int64_t>(losses.size())) {
    std::filesystem::remove(folder_ / StateName(static_cast<std::size_t>(updates_)));
  }
  updates_ = static_cast<int64_t>(losses.size());
}

void Checkpoint::Remove() {
  std::filesystem::remove_all(folder_);
  updates_ = 0;
}

}  // namespace teller::model
