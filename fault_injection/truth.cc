#include "fault_injection/truth.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "fault_injection/fault_kind.h"
#include "src/core/error.h"

namespace teller::fault_injection {
namespace {

using json =
    nlohmann::ordered_json;  // 'type' first: a reader of the text sees at once what a line is

int32_t Number(RankId rank) { return static_cast<int32_t>(rank); }

/// An errno value.
int WriteAll(int fd, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    done += static_cast<std::size_t>(written);
  }
  return 0;
}

json OrNull(const std::string& text) { return text.empty() ? json(nullptr) : json(text); }

}  // namespace

TruthWriter::TruthWriter(const std::filesystem::path& path) : path_(path) {
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ >= 0) {
    writer_ = std::thread([this] { WriteWaiting(); });
    return;
  }
  const std::string message = fmt::format("truth {}: {}", path.string(), std::strerror(errno));
  if (errno == EEXIST) throw ConfigError(message + "; choose another output");
  throw DeviceError(message);
}

TruthWriter::~TruthWriter() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  writer_.join();
  close(fd_);
}

void TruthWriter::Append(const nlohmann::ordered_json& line) {
  const std::string text = line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  {
    const std::lock_guard lock(mutex_);
    if (error_ != 0) return;
    waiting_ += text;
  }
  changed_.notify_all();
}

void TruthWriter::WriteWaiting() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !waiting_.empty() || closing_; });
    if (waiting_.empty()) return;
    const std::string text = std::exchange(waiting_, {});
    writing_ = true;
    lock.unlock();
    const int error = WriteAll(fd_, text);
    lock.lock();
    writing_ = false;
    if (error != 0) {
      error_ = error;
      waiting_.clear();
    }
    changed_.notify_all();
  }
}

void TruthWriter::CheckWritten() {
  const std::lock_guard lock(mutex_);
  if (error_ == 0) return;
  throw DeviceError(fmt::format("write truth {}: {}; the faults were undone, the run is void",
                                path_.string(), std::strerror(error_)));
}

int64_t TruthWriter::actions() const {
  const std::lock_guard lock(mutex_);
  return actions_;
}

int64_t TruthWriter::actions(uint32_t plan_id) const {
  const std::lock_guard lock(mutex_);
  const auto found = plan_actions_.find(plan_id);
  return found == plan_actions_.end() ? 0 : found->second;
}

void TruthWriter::Header(const std::string& run_id, uint64_t seed,
                         std::span<const cluster::RankProcess> ranks) {
  json nodes = json::array();
  for (const auto& process : ranks) {
    nodes.push_back({{"name", process.node},
                     {"rank", Number(process.rank)},
                     {"clock_offset_ns", process.clock_offset_ns}});
  }
  Append({{"type", "header"},
          {"schema_name", "truth"},
          {"schema_version", "1.1"},
          {"run_id", run_id},
          {"seed", seed},
          {"nodes", nodes}});
}

void TruthWriter::Calibration(const std::string& node, int64_t begin_ns, int64_t end_ns) {
  Append({{"type", "calibration"}, {"node", node}, {"begin_ns", begin_ns}, {"end_ns", end_ns}});
}

void TruthWriter::PlanLine(const PlannedFault& fault, const KindDescription& kind,
                           const std::string& node) {
  const FaultTarget& target = fault.target;
  Append({{"type", "plan"},
          {"plan_id", fault.plan_id},
          {"stretch", fault.stretch},
          {"kind", fault.kind},
          {"family", kind.family},
          {"view", kind.view},
          {"placebo", fault.placebo},
          {"level", fault.level},
          {"step_us", fault.step_us},
          {"magnitude", fault.magnitude},
          {"target",
           {{"rank", Number(target.rank)},
            {"node", node},
            {"layer", OrNull(target.layer)},
            {"symbol", OrNull(target.symbol)}}},
          {"culprit",
           {{"rank", Number(target.rank)},
            {"layer", OrNull(target.layer)},
            {"symbol", OrNull(target.culprit_symbol)}}},
          {"where", kind.where}});
}

void TruthWriter::Stretch(bool begin, const PlannedFault& fault, const std::string& node,
                          int64_t time_ns) {
  Append({{"type", begin ? "stretch_begin" : "stretch_end"},
          {"plan_id", fault.plan_id},
          {"stretch", fault.stretch},
          {"node", node},
          {"time_ns", time_ns}});
}

void TruthWriter::Action(const TruthAction& action) {
  {
    const std::lock_guard lock(mutex_);
    ++actions_;
    ++plan_actions_[action.plan_id];
  }
  Append({{"type", "action"},
          {"plan_id", action.plan_id},
          {"node", action.node},
          {"rank", Number(action.rank)},
          {"begin_ns", action.begin_ns},
          {"end_ns", action.end_ns},
          {"what", action.what},
          {"where", action.where}});
}

void TruthWriter::Measured(uint32_t plan_id, const std::string& node, const std::string& name,
                           const std::string& unit, double value) {
  Append({{"type", "measure"},
          {"plan_id", plan_id},
          {"node", node},
          {"name", name},
          {"unit", unit},
          {"value", value}});
}

void TruthWriter::Lost(std::optional<uint32_t> plan_id, const std::string& node, int64_t count,
                       const std::string& reason) {
  Append({{"type", "lost"},
          {"plan_id", plan_id ? json(*plan_id) : json(nullptr)},
          {"node", node},
          {"count", count},
          {"reason", reason}});
}

void TruthWriter::Footer() {
  Append({{"type", "footer"}, {"complete", true}, {"actions", actions()}});
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_.empty() && !writing_; });
}

}  // namespace teller::fault_injection
