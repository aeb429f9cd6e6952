#include "fault_injection/kinds/link_fault.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "src/cluster/cluster.h"
#include "src/cluster/network.h"
#include "src/core/clock.h"
#include "src/core/error.h"
#include "src/core/log.h"

namespace teller::fault_injection {
namespace {

constexpr char kStep[] = "step_us";
constexpr std::string_view kLinkResource = "link";

class LinkFault : public Fault {
 public:
  LinkFault(const PlannedFault& plan, FaultContext context, LinkPolicy policy)
      : plan_(plan), context_(context), target_(TargetOf(plan, context)), policy_(policy) {}
  ~LinkFault() override { Undo(); }

  void Apply() override {
    cluster::Cluster& cluster = *context_.cluster;
    self_ = static_cast<std::size_t>(cluster.node(target_.node).index());
    trip_before_us_ = cluster::RoundTripUs(cluster, self_);
    retransmitted_ = -cluster::RetransmittedSegments(cluster.node(self_));
    begin_ns_ = MonotonicNs();
    std::vector<PacketSwitch::Direction> directions;
    for (std::size_t peer = 0; peer < cluster.size(); ++peer) {
      if (peer != self_) Connect(peer, directions);
    }
    switch_ =
        std::make_unique<PacketSwitch>(std::move(directions), plan_.seed,
                                       [this](int64_t begin_ns, int64_t end_ns, const char* what) {
                                         Record(begin_ns, end_ns, what);
                                       });
    moved_ = true;  // from the first of them on
    MoveRoutes(/*to_switch=*/true);
  }

  void Undo() noexcept override {
    if (switch_ == nullptr) return;
    length_ns_ = MonotonicNs() - begin_ns_;
    try {
      trip_us_ = cluster::RoundTripUs(*context_.cluster, self_);
      retransmitted_ += cluster::RetransmittedSegments(context_.cluster->node(self_));
      if (moved_) MoveRoutes(/*to_switch=*/false);
    } catch (const Error& error) {
      LogWarning(fmt::format("{}: {}", plan_.kind,
                             error.what()));  // its nodes are going, and the link with them
    }
    moved_ = false;
    switch_->Finish();
    counts_ = switch_->counts();
    switch_.reset();  // and with its descriptors the devices
  }

  std::vector<Measure> Measures() const override {
    const double held = static_cast<double>(counts_.held);
    std::vector<Measure> measures = {
        {.name = "packets", .unit = "count", .value = static_cast<double>(counts_.packets)},
        {.name = "packets_held", .unit = "count", .value = held},
        {.name = "hold_mean",
         .unit = "ns",
         .value = held > 0 ? static_cast<double>(counts_.held_ns) / held : 0},
        {.name = "packets_dropped", .unit = "count", .value = static_cast<double>(counts_.dropped)},
        {.name = "throughput",
         .unit = "bytes/s",
         .value = static_cast<double>(counts_.bytes) * 1e9 /
                  static_cast<double>(std::max<int64_t>(1, length_ns_))},
        {.name = "retransmits", .unit = "count", .value = static_cast<double>(retransmitted_)}};
    if (trip_before_us_) measures.push_back({"round_trip_before", "us", *trip_before_us_});
    if (trip_us_) measures.push_back({"round_trip", "us", *trip_us_});
    return measures;
  }

 private:
  static void Configure(cluster::Cluster& cluster, std::size_t node,
                        const std::vector<std::string>& commands) {
    const std::string problem = cluster::ConfigureNode(cluster, node, commands);
    if (!problem.empty()) throw DeviceError(fmt::format("link of node {}: {}", node, problem));
  }

  /// A TAP on either side, up, with the node's own address.
  int MakeTap(std::size_t node, std::size_t peer) {
    cluster::Cluster& cluster = *context_.cluster;
    const std::string name = cluster::TapName(cluster.run_id(), static_cast<int>(peer));
    const int tap = cluster.node(node).OpenTap(name);
    Configure(cluster, node,
              {fmt::format("addr add {}/32 dev {}", cluster.node(node).address(), name),
               fmt::format("link set {} up", name)});
    return tap;
  }

  void Connect(std::size_t peer, std::vector<PacketSwitch::Direction>& directions) {
    const int near = MakeTap(self_, peer), far = MakeTap(peer, self_);
    directions.push_back(
        {.from = near, .to = far, .policy = plan_.placebo ? LinkPolicy{} : policy_});
    directions.push_back({.from = far, .to = near, .policy = {}});
  }

  void MoveRoute(std::size_t node, std::size_t peer, bool to_switch) {
    cluster::Cluster& cluster = *context_.cluster;
    const int number = static_cast<int>(peer);
    const std::string link = to_switch ? cluster::TapName(cluster.run_id(), number)
                                       : cluster::LinkName(cluster.run_id(), number);
    Configure(cluster, node,
              {fmt::format("route replace {}/32 dev {} src {}", cluster.node(peer).address(), link,
                           cluster.node(node).address())});
  }

  void MoveRoutes(bool to_switch) {
    for (std::size_t peer = 0; peer < context_.cluster->size(); ++peer) {
      if (peer == self_) continue;
      MoveRoute(self_, peer, to_switch);
      MoveRoute(peer, self_, to_switch);
    }
  }

  void Record(int64_t begin_ns, int64_t end_ns, const char* what) {
    if (plan_.placebo) return;
    RecordInterval(plan_, target_, begin_ns, end_ns, what, context_.truth);
  }

  const PlannedFault plan_;
  FaultContext context_;
  const cluster::RankProcess target_;
  const LinkPolicy policy_;
  std::size_t self_ = 0;
  bool moved_ = false;
  // As the node's kernel sees its connections.
  std::optional<double> trip_before_us_, trip_us_;
  int64_t retransmitted_ = 0;
  int64_t begin_ns_ = 0, length_ns_ = 0;
  std::unique_ptr<PacketSwitch> switch_;
  LinkCounts counts_;
};

}  // namespace

FaultKind LinkFaultKind(std::string_view name, std::vector<KindParameter> settings,
                        LinkMagnitude magnitude_of, LinkPolicyOf policy_of) {
  return {.description = {.name = name,
                          .family = "communication",
                          .view = "horizontal",
                          .where = "interval",
                          .needs_links = true,
                          .resource = kLinkResource,
                          .parameters = std::move(settings)},
          .magnitude =
              [magnitude_of](double step_us, const ScheduledKind& settings, const FaultTarget&) {
                Magnitudes magnitude = magnitude_of(step_us, settings.parameters);
                magnitude[kStep] = step_us;
                return magnitude;
              },
          .dilation = [](const Magnitudes& magnitude, const FaultTarget&,
                         double step_ms) { return 1.0 + magnitude.at(kStep) / (step_ms * 1000); },
          .make =
              [policy_of](const PlannedFault& plan, FaultContext context) {
                return std::make_unique<LinkFault>(plan, context, policy_of(plan.magnitude));
              }};
}

}  // namespace teller::fault_injection
