// Network kinds on an open TCP connection between two nodes: a ping-pong that logs its round trips
// from inside.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "fault_injection/injector.h"
#include "src/cluster/cluster.h"
#include "tests/integration/fault_injection/truth_lines.h"

namespace teller::fault_injection {
namespace {

constexpr int64_t kMs = 1'000'000;

constexpr char kServer[] =
    "import socket\ns=socket.create_server(('10.77.0.2',7001))\nc,a=s.accept()\n"
    "c.setsockopt(socket.IPPROTO_TCP,socket.TCP_NODELAY,1)\n"
    "while True:\n  d=c.recv(64)\n  if not d: break\n  c.sendall(d)";

constexpr char kClient[] =
    "import socket,time,sys\n"
    "for i in range(200):\n"
    "  try: s=socket.create_connection(('10.77.0.2',7001),5);break\n"
    "  except OSError: time.sleep(.05)\n"
    "s.setsockopt(socket.IPPROTO_TCP,socket.TCP_NODELAY,1)\ns.settimeout(20)\n"
    "while True:\n"
    "  t=time.clock_gettime_ns(time.CLOCK_MONOTONIC);s.sendall(b'x'*32);s.recv(64)\n"
    "  print(t,time.clock_gettime_ns(time.CLOCK_MONOTONIC)-t,flush=True);time.sleep(.002)";

class LinkFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/teller-test-link-XXXXXX";
    folder_ = mkdtemp(path);
    setenv("TELLER_STATE_DIR", (folder_ / "state").c_str(), 1);
    cluster_ = cluster::Cluster::Create({.run_id = "test-link-" + std::to_string(getpid()),
                                         .nodes = {{.name = "node0"}, {.name = "node1"}}});
    if (!cluster_->has_namespaces()) GTEST_SKIP() << cluster_->limits().front();
    if (!std::filesystem::exists("/dev/net/tun")) GTEST_SKIP() << "no /dev/net/tun here";
    processes_.push_back(cluster_->node(0).Spawn({.argv = {"python3", "-c", kClient},
                                                  .stdout_file = folder_ / "trips",
                                                  .stderr_file = folder_ / "err"}));
    processes_.push_back(cluster_->node(1).Spawn({.argv = {"python3", "-c", kServer}}));
    for (int i = 0; i < 2000 && Trips(0, INT64_MAX).size() < 10; ++i) usleep(10'000);
    ASSERT_GE(Trips(0, INT64_MAX).size(), 10u);
  }
  void TearDown() override {
    processes_.clear();
    cluster_.reset();
    unsetenv("TELLER_STATE_DIR");
    std::filesystem::remove_all(folder_);
  }

  /// Round trips that began in [from, to).
  std::vector<int64_t> Trips(int64_t from_ns, int64_t to_ns) const {
    std::vector<int64_t> trips;
    std::ifstream file(folder_ / "trips");
    for (int64_t at_ns, trip_ns; file >> at_ns >> trip_ns;) {
      if (at_ns >= from_ns && at_ns < to_ns) trips.push_back(trip_ns);
    }
    return trips;
  }

  static PlannedFault Fault(uint32_t id, const std::string& kind,
                            std::map<std::string, double> magnitude, bool placebo = false) {
    return {.plan_id = id,
            .stretch = static_cast<int32_t>(id),
            .kind = kind,
            .placebo = placebo,
            .level = 3,
            .magnitude = std::move(magnitude),
            .target = {.rank = RankId{1}},
            .begin_ns = static_cast<int64_t>(300 + 1200 * id) * kMs,
            .length_ns = 800 * kMs};
  }

  InjectionSummary Inject(std::vector<PlannedFault> faults) {
    std::vector<cluster::RankProcess> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.push_back({.rank = RankId{rank},
                       .node = "node" + std::to_string(rank),
                       .pid = processes_[static_cast<std::size_t>(rank)]->pid(),
                       .start_ticks = processes_[static_cast<std::size_t>(rank)]->start_ticks()});
    }
    const int64_t duration_ms = 300 + 1200 * static_cast<int64_t>(faults.size());
    Injector injector({.seed = 1,
                       .calibration_ns = 0,
                       .duration_ns = duration_ms * kMs,
                       .faults = std::move(faults)},
                      ranks,
                      {.run_id = cluster_->run_id(),
                       .truth_path = folder_ / "truth.jsonl",
                       .run_dir = cluster_->run_dir(),
                       .cluster = cluster_.get(),
                       .journal = &cluster_->journal()});
    return injector.Run();
  }

  std::filesystem::path folder_;
  std::unique_ptr<cluster::Cluster> cluster_;
  std::vector<std::unique_ptr<cluster::Process>> processes_;
};

TEST_F(LinkFaultsTest, LatencyIsSeenFromInsideAndTheConnectionSurvives) {
  const auto summary = Inject({Fault(0, "link_latency", {{"delay_ns", 5e6}}),
                               Fault(1, "link_latency", {{"delay_ns", 5e6}}, /*placebo=*/true)});
  EXPECT_EQ(summary.ineffective, 0);
  EXPECT_TRUE(summary.notes.empty());
  const auto truth = testing_support::ReadTruth(folder_ / "truth.jsonl");
  testing_support::ExpectTruthSchema(truth);
  const auto actions = testing_support::OfType(truth, "action");
  ASSERT_GE(actions.size(), 5u);
  for (const auto& action : actions) {
    EXPECT_EQ(action.at("plan_id"), 0);
    EXPECT_EQ(action.at("what"), "hold");
    EXPECT_GE(action.at("end_ns").get<int64_t>() - action.at("begin_ns").get<int64_t>(), 5 * kMs);
  }
  // Only what left after the route was moved is held: between the first and the last recorded
  // action all of it is.
  const int64_t first_ns = actions.front().at("begin_ns"), last_ns = actions.back().at("begin_ns");
  const auto held = Trips(first_ns, last_ns);
  ASSERT_FALSE(held.empty());
  EXPECT_GE(*std::min_element(held.begin(), held.end()), 5 * kMs);
  const auto ends = testing_support::OfType(truth, "stretch_end");
  const int64_t end_ns = ends[1].at("time_ns");
  for (int i = 0; i < 1000 && Trips(end_ns, INT64_MAX).size() < 20; ++i) usleep(10'000);
  const auto after = Trips(end_ns, INT64_MAX);
  ASSERT_FALSE(after.empty());
  EXPECT_LT(*std::min_element(after.begin(), after.end()), 5 * kMs);
  std::map<std::string, double> measured;  // NAME and plan -> value
  for (const auto& measure : testing_support::OfType(truth, "measure")) {
    measured[measure.at("name").get<std::string>() +
             std::to_string(measure.at("plan_id").get<int>())] = measure.at("value");
    if (measure.at("name") != "packets") continue;
    EXPECT_GT(measure.at("value"), 0)
        << measure;  // also the placebo's traffic went through the switch
  }
  // The kernel's own view: the smoothed round trip has gone from well under the delay to above it.
  ASSERT_TRUE(measured.contains("round_trip_before0") && measured.contains("round_trip0"));
  EXPECT_LT(measured.at("round_trip_before0"), 5000);
  EXPECT_GT(measured.at("round_trip0"), 2500);
  EXPECT_GT(measured.at("throughput0"), 0);
}

TEST_F(LinkFaultsTest, LossAndRateActAndLeaveTheConnectionOpen) {
  const auto summary = Inject({Fault(0, "link_loss", {{"loss_probability", 0.3}}),
                               Fault(1, "link_bandwidth", {{"bytes_per_second", 20'000}})});
  const auto truth = testing_support::ReadTruth(folder_ / "truth.jsonl");
  testing_support::ExpectTruthSchema(truth);
  EXPECT_TRUE(summary.notes.empty());
  std::map<std::string, double> measured;  // NAME and plan -> value
  for (const auto& measure : testing_support::OfType(truth, "measure")) {
    measured[measure.at("name").get<std::string>() +
             std::to_string(measure.at("plan_id").get<int>())] = measure.at("value");
  }
  // On a busy machine few packets may have passed.
  if (measured.at("packets0") > 60) {
    EXPECT_GT(measured.at("packets_dropped0"), 0);
  }
  if (measured.at("packets1") > 4) {
    EXPECT_GT(measured.at("packets_held1"), 0);
  }
  const auto ends = testing_support::OfType(truth, "stretch_end");
  const int64_t end_ns = ends[1].at("time_ns");
  for (int i = 0; i < 1500 && Trips(end_ns, INT64_MAX).empty(); ++i) usleep(10'000);
  EXPECT_FALSE(Trips(end_ns, INT64_MAX).empty());
}

}  // namespace
}  // namespace teller::fault_injection
