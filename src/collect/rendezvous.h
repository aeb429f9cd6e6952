#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/trace/event.h"

namespace teller::collect {

struct RendezvousOptions {
  std::string address;                  ///< 'HOST:PORT', the same on every host
  std::string run_id;                   ///< of the run; empty: that of the host that has HOST
  std::string node;                     ///< name of this host in the trace
  int64_t timeout_ns = 60'000'000'000;  ///< to find the others
};

/// Where the collectors of several hosts meet: they share a run id and exchange clock probes, a
/// burst at the start, every second and at the end, so that their files can be merged on one time
/// base ('teller import A.h5 B.h5'). The one that can bind the address answers, the others ask; it
/// needs to be there first or come within the time given. Nothing else is sent. Anyone who reaches
/// the port can ask for the time and the run id: use an address of the cluster's own network.
class Rendezvous {
 public:
  /// Throws ConfigError (address, run id of another run, node name taken), DeviceError (nobody
  /// answers).
  static std::unique_ptr<Rendezvous> Meet(const RendezvousOptions& options);
  virtual ~Rendezvous() = default;

  virtual const std::string& run_id() const = 0;
  /// Exchanges a last burst and ends. Answers the probes that this host sent; the answering one has
  /// none.
  virtual std::vector<trace::ClockProbe> Finish() = 0;
};

/// $TELLER_NODE, else the host's name: what agents put into their pools.
std::string OwnNodeName();

}  // namespace teller::collect
