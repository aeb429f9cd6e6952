#include "src/collect/collective_join.h"

#include <algorithm>
#include <tuple>

namespace teller::collect {

namespace {

bool BeginsBefore(const CommRecord& a, const CommRecord& b) {
  return std::tie(a.begin_ns, a.index) < std::tie(b.begin_ns, b.index);
}

/// 'gloo' of 'gloo:all_reduce'; empty where the name has no backend.
std::string Backend(const std::string& name) {
  const std::size_t colon = name.find(':');
  return colon == std::string::npos ? std::string() : name.substr(0, colon);
}

/// Device records of one operation, in order of begins; each is given away once.
class DeviceRecords {
 public:
  void Add(const CommRecord* record) { records_.push_back(record); }

  /// The device record that encloses `host`, or null.
  const CommRecord* Take(const CommRecord& host) {
    while (next_ < records_.size() && records_[next_]->end_ns < host.begin_ns) ++next_;
    for (std::size_t i = next_; i < records_.size() && records_[i]->begin_ns <= host.begin_ns;
         ++i) {
      const CommRecord* device = records_[i];
      if (device == nullptr || device->end_ns < host.end_ns) continue;
      records_.erase(records_.begin() + static_cast<std::ptrdiff_t>(i));
      return device;
    }
    return nullptr;
  }

 private:
  std::vector<const CommRecord*> records_;
  std::size_t next_ = 0;
};

}  // namespace

std::string CollectiveOperation(std::string_view name) {
  if (const std::size_t colon = name.rfind(':'); colon != std::string_view::npos)
    name.remove_prefix(colon + 1);
  std::string operation;
  for (const char c : name) {
    if (c != '_') operation.push_back(c);
  }
  return operation;
}

std::map<uint64_t, CommPatch> JoinCollectives(std::vector<CommRecord> records) {
  std::sort(records.begin(), records.end(), BeginsBefore);
  std::map<std::string, DeviceRecords> device;
  for (const CommRecord& record : records) {
    if (record.on_device) device[CollectiveOperation(record.name)].Add(&record);
  }
  std::map<uint64_t, CommPatch> patches;
  std::map<std::string, int32_t> next_of_name;
  for (const CommRecord& record : records) {
    if (record.on_device) continue;
    const int32_t order = next_of_name[record.name]++;
    const auto peers = device.find(CollectiveOperation(record.name));
    const CommRecord* peer = peers == device.end() ? nullptr : peers->second.Take(record);
    CommPatch patch;
    patch.joined = peer != nullptr;
    patch.comm = peer != nullptr        ? peer->comm
                 : !record.comm.empty() ? record.comm
                                        : Backend(record.name);
    patch.sequence = peer != nullptr        ? peer->sequence
                     : record.sequence >= 0 ? record.sequence
                                            : order;
    patches.emplace(record.index, std::move(patch));
  }
  return patches;
}

}  // namespace teller::collect
