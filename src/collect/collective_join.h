#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/trace/event.h"

namespace teller::collect {

/// A comm event of one process, with what is needed to join host and device records of the same
/// collective.
struct CommRecord {
  uint64_t index;  ///< of the record in its process
  int64_t begin_ns;
  int64_t end_ns;
  std::string
      name;  ///< as recorded: 'gloo:all_reduce' on the host, the item's name on a device stream
  bool on_device;
  std::string comm;  ///< empty: not known
  int32_t sequence;  ///< -1: not known
};

/// What joining says of one record.
struct CommPatch {
  bool joined =
      false;  ///< a host record whose collective also has a device record: keep it, count it once
  std::string comm;
  int32_t sequence = -1;
};

/// A host record belongs to the device record of the same operation that encloses it in time: the
/// stream's thread calls the backend and waits. It takes communicator and sequence from there. Host
/// records without one are numbered by the order of their begins per name; their communicator is
/// the backend's name. Ties go by index. Cost O(n log n). The answer holds an entry for every
/// record whose communicator or sequence was not known.
std::map<uint64_t, CommPatch> JoinCollectives(std::vector<CommRecord> records);

/// The operation alone: 'gloo:all_reduce', 'allreduce' and 'c10d::allreduce_' are all 'allreduce'.
std::string CollectiveOperation(std::string_view name);

}  // namespace teller::collect
