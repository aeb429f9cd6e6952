#include "tests/support/forest_generator.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "src/core/random.h"

namespace teller::testing_support {
namespace {

using reconstruct::EdgeType;
using reconstruct::Phase;
using reconstruct::StepForest;
using reconstruct::StepNode;
using trace::Kind;
using trace::Layer;

/// What one operator of the synthetic engine does; durations in ns at batch 1, decode.
struct OperatorSpec {
  const char* symbol;
  const char* kernel;
  int64_t host_ns;
  int64_t device_ns;
  bool collective;
};

constexpr OperatorSpec kLayerOperators[] = {
    {"rms_norm", "rms_norm_kernel", 9'000, 6'000, false},
    {"linear", "gemm_kernel", 14'000, 60'000, false},
    {"rotary_embedding", "rope_kernel", 8'000, 5'000, false},
    {"paged_attention", "attention_kernel", 16'000, 45'000, false},
    {"linear", "gemm_kernel", 14'000, 50'000, false},
    {"all_reduce", "all_reduce", 12'000, 40'000, true},
    {"rms_norm", "rms_norm_kernel", 9'000, 6'000, false},
    {"silu_and_mul", "silu_kernel", 9'000, 9'000, false},
    {"linear", "gemm_kernel", 14'000, 90'000, false},
    {"all_reduce", "all_reduce", 12'000, 40'000, true},
};
constexpr OperatorSpec kHeadOperator{"linear", "gemm_kernel", 14'000, 120'000, false};
constexpr int64_t kLaunchNs = 3'000;
constexpr int64_t kEntryNs = 15'000;
constexpr const char* kDeviceCollective = "c10d::all_reduce";

struct LocalNode {
  StepNode node;
  int parent = -1;  // within its track
  int64_t end_ns = 0;
};

struct TrackBuilder {
  bool device = false;
  int rank = 0;
  std::vector<LocalNode> nodes;
};

struct LocalEdge {
  int from_track, from_node, to_track, to_node;
  EdgeType type;
};

/// Simulates one step of all ranks, operator by operator, and assembles its forest.
class StepSimulator {
 public:
  StepSimulator(const ForestOptions& options, int step, StringInterner& symbols, Random& random,
                std::vector<int64_t>& previous_end_ns)
      : options_(options),
        step_(step),
        symbols_(symbols),
        random_(random),
        previous_end_ns_(previous_end_ns) {
    for (const InjectedDelay& delay : options.delays) {
      if (step >= delay.first_step && step < delay.last_step) active_.push_back(&delay);
    }
    instances_.assign(static_cast<std::size_t>(options.ranks), std::vector<int>(active_.size(), 0));
    recorded_ns_.assign(static_cast<std::size_t>(options.ranks), 0);
  }

  StepForest Simulate(int64_t begin_ns, dataset::StepLabel& label) {
    forest_.engine_step = step_;
    forest_.begin_ns = begin_ns;
    forest_.phase = step_ % 16 == 0 ? Phase::kPrefill : Phase::kDecode;
    forest_.batch_size = 1 + (step_ / 8) % 8;
    forest_.context_tokens = forest_.phase == Phase::kPrefill ? 64 * forest_.batch_size : 0;
    work_ = (forest_.phase == Phase::kPrefill ? 4.0 : 1.0) * std::pow(forest_.batch_size, 0.3) *
            options_.run_scale * (1 + options_.drift * step_ / std::max(1, options_.steps));
    BeginRanks();
    for (int layer = 0; layer < options_.layers; ++layer) {
      for (const OperatorSpec& spec : kLayerOperators) RunOperator(spec);
    }
    RunOperator(kHeadOperator);
    EndRanks();
    Assemble();
    AddLogs();
    FillLabel(label);
    return std::move(forest_);
  }

 private:
  struct RankState {
    int host_track, worker_track, device_track = -1;
    int root, forward;
    int64_t host_ns;    // now, on the host thread
    int64_t stream_ns;  // the stream is busy until then
  };

  int Tracks() const { return static_cast<int>(tracks_.size()); }

  int Open(int track, std::string_view symbol, Layer layer, Kind kind, int parent,
           int64_t begin_ns) {
    LocalNode local;
    local.node.symbol = SymbolId{static_cast<uint32_t>(Index(symbols_.Intern(symbol)))};
    local.node.layer = layer;
    local.node.kind = kind;
    local.node.begin_ns = begin_ns;
    local.parent = parent;
    tracks_[static_cast<std::size_t>(track)].nodes.push_back(local);
    return static_cast<int>(tracks_[static_cast<std::size_t>(track)].nodes.size()) - 1;
  }
  LocalNode& At(int track, int node) {
    return tracks_[static_cast<std::size_t>(track)].nodes[static_cast<std::size_t>(node)];
  }
  void Close(int track, int node, int64_t end_ns) { At(track, node).end_ns = end_ns; }
  void Edge(int from_track, int from_node, int to_track, int to_node, EdgeType type) {
    local_edges_.push_back({from_track, from_node, to_track, to_node, type});
  }

  /// A healthy duration: log-normal noise, now and then an outlier of a busy host.
  int64_t Draw(int64_t base_ns, bool scales) {
    double ns = static_cast<double>(base_ns) * (scales ? work_ : options_.run_scale);
    ns *= std::exp(options_.noise * random_.Normal());
    if (random_.Bernoulli(options_.outliers)) ns *= random_.LogUniform(2, 20);
    return std::max<int64_t>(1, static_cast<int64_t>(ns));
  }

  /// Injected time for this instance of `symbol` at `place`; counted once per call and rank.
  int64_t Injected(int rank, std::string_view symbol, DelayPlace place) {
    int64_t total = 0;
    for (std::size_t i = 0; i < active_.size(); ++i) {
      const InjectedDelay& delay = *active_[i];
      if (delay.symbol != symbol || delay.place != place) continue;
      if (place != DelayPlace::kTransfer && static_cast<int>(delay.rank) != rank) continue;
      if (instances_[static_cast<std::size_t>(rank)][i]++ % delay.every != 0) continue;
      total += delay.delay_ns;
    }
    recorded_ns_[static_cast<std::size_t>(rank)] += total;
    return total;
  }
  void Hit(int track, int node) { hits_.push_back({track, node}); }

  void BeginRanks() {
    for (int rank = 0; rank < options_.ranks; ++rank) {
      const int64_t begin = rank == 0 ? 0 : random_.UniformInt(0, options_.begin_spread_ns);
      RankState state{};
      state.host_track = Tracks();
      tracks_.push_back({false, rank, {}});
      state.worker_track = Tracks();
      tracks_.push_back({false, rank, {}});
      if (options_.device) {
        state.device_track = Tracks();
        tracks_.push_back({true, rank, {}});
        Open(state.device_track, "(stream)", Layer::kDevice, Kind::kRange, -1, 0);
      }
      Open(state.worker_track, "(thread)", Layer::kEngine, Kind::kRange, -1, 0);
      state.root =
          Open(state.host_track, "execute_context", Layer::kEngine, Kind::kRange, -1, begin);
      state.host_ns = begin + 500;
      state.stream_ns = 0;
      Range(state, "schedule", 30'000);
      Range(state, "prepare_inputs", 50'000);
      state.forward = Open(state.host_track, "forward", Layer::kEngine, Kind::kRange, state.root,
                           state.host_ns);
      state.host_ns += 300;
      ranks_.push_back(state);
    }
  }

  void Range(RankState& state, const char* symbol, int64_t base_ns) {
    const int rank = tracks_[static_cast<std::size_t>(state.host_track)].rank;
    const int64_t before = Injected(rank, symbol, DelayPlace::kBefore);
    const int64_t inside = Injected(rank, symbol, DelayPlace::kInside);
    state.host_ns += before;
    const int node =
        Open(state.host_track, symbol, Layer::kEngine, Kind::kRange, state.root, state.host_ns);
    state.host_ns += Draw(base_ns, false) + inside;
    Close(state.host_track, node, state.host_ns);
    if (before + inside > 0) Hit(state.host_track, node);
    state.host_ns += 200;
  }

  void RunOperator(const OperatorSpec& spec) {
    std::vector<std::pair<int, int>> comm;  // (track, node) of each rank's collective
    for (RankState& state : ranks_) {
      const int rank = tracks_[static_cast<std::size_t>(state.host_track)].rank;
      const int64_t before = Injected(rank, spec.symbol, DelayPlace::kBefore);
      const int64_t inside = Injected(rank, spec.symbol, DelayPlace::kInside);
      state.host_ns += before;
      const int op = Open(state.host_track, spec.symbol, Layer::kBackend, Kind::kOperator,
                          state.forward, state.host_ns);
      if (before + inside > 0) Hit(state.host_track, op);
      state.host_ns += Draw(spec.host_ns, false) / 2 + inside;
      comm.push_back(StartWork(state, spec, op));
      Close(state.host_track, op, state.host_ns);
      state.host_ns += 150;
    }
    if (spec.collective) FinishCollective(spec, comm);
  }

  /// The kernel (or, without a device, the work on the host) of one operator. A collective's end is
  /// not known yet.
  std::pair<int, int> StartWork(RankState& state, const OperatorSpec& spec, int op) {
    const Layer layer = spec.collective ? Layer::kComm : Layer::kDevice;
    const Kind kind = spec.collective ? Kind::kCollective : Kind::kKernel;
    if (state.device_track < 0) {
      if (!spec.collective) {
        state.host_ns += Draw(spec.device_ns, true);
        return {state.host_track, op};
      }
      const int node = Open(state.host_track, kDeviceCollective, layer, kind, op, state.host_ns);
      return {state.host_track, node};
    }
    const int launch =
        Open(state.host_track, "launch", Layer::kHostApi, Kind::kLaunch, op, state.host_ns);
    state.host_ns += Draw(kLaunchNs, false);
    Close(state.host_track, launch, state.host_ns);
    const int64_t begin = std::max(state.stream_ns, state.host_ns + 1'000);
    const std::string symbol = spec.collective ? kDeviceCollective : spec.kernel;
    const int node = Open(state.device_track, symbol, layer, kind, 0, begin);
    Edge(state.host_track, launch, state.device_track, node, EdgeType::kLaunch);
    if (!spec.collective) {
      const int rank = tracks_[static_cast<std::size_t>(state.host_track)].rank;
      const int64_t inside = Injected(rank, symbol, DelayPlace::kInside);
      if (inside > 0) Hit(state.device_track, node);
      state.stream_ns = begin + Draw(spec.device_ns, true) + inside;
      Close(state.device_track, node, state.stream_ns);
    }
    return {state.device_track, node};
  }

  void FinishCollective(const OperatorSpec& spec, const std::vector<std::pair<int, int>>& comm) {
    std::size_t last = 0;
    for (std::size_t r = 0; r < comm.size(); ++r) {
      if (options_.device) DelayEntry(static_cast<int>(r), comm[r]);
      if (Entry(comm[r]) > Entry(comm[last])) last = r;
    }
    const int64_t transfer = Injected(0, spec.symbol, DelayPlace::kTransfer);
    const int64_t end = Entry(comm[last]) + Draw(spec.device_ns, true) + transfer;
    for (std::size_t r = 0; r < comm.size(); ++r) {
      const auto [track, node] = comm[r];
      Close(track, node, end);
      At(track, node).node.sequence = sequence_;
      At(track, node).node.bytes = 4096 * forest_.batch_size;
      if (transfer > 0) Hit(track, node);
      if (r != last) Edge(comm[last].first, comm[last].second, track, node, EdgeType::kCollective);
      ranks_[r].stream_ns = end;
      if (!options_.device) FinishHostCollective(ranks_[r], node, end);
    }
    ++sequence_;
  }
  /// The device came to the collective; the rank's host joins it a little later.
  void DelayEntry(int rank, std::pair<int, int> at) {
    const int64_t inside = Injected(rank, kDeviceCollective, DelayPlace::kInside);
    At(at.first, at.second).node.entry_delay_ns = Draw(kEntryNs, false) + inside;
    if (inside > 0) Hit(at.first, at.second);
  }
  void FinishHostCollective(RankState& state, int node, int64_t end) {
    state.host_ns = end + 100;
    Close(state.host_track, At(state.host_track, node).parent, state.host_ns);
    state.host_ns += 150;
  }
  int64_t Entry(std::pair<int, int> at) {
    const auto& node = At(at.first, at.second).node;
    return node.begin_ns + node.entry_delay_ns;
  }

  void EndRanks() {
    for (RankState& state : ranks_) {
      if (options_.device) {
        const int sync = Open(state.host_track, "stream_synchronize", Layer::kHostApi,
                              Kind::kSyncCall, state.forward, state.host_ns);
        state.host_ns = std::max(state.host_ns, state.stream_ns) + Draw(4'000, false);
        Close(state.host_track, sync, state.host_ns);
      }
      Close(state.host_track, state.forward, state.host_ns + 100);
      state.host_ns += 300;
      Range(state, "sample", 40'000);
      Close(state.host_track, state.root, state.host_ns);
      Worker(state);
      if (options_.device) CloseSynthetic(state.device_track);
    }
  }

  /// A second host thread detokenises while the step runs.
  void Worker(RankState& state) {
    int64_t now = At(state.host_track, state.forward).node.begin_ns + 1'000;
    for (int i = 0; i < 2; ++i) {
      const int node = Open(state.worker_track, "detokenize", Layer::kEngine, Kind::kRange, 0, now);
      if (i == 0) {
        Edge(state.host_track, state.forward, state.worker_track, node, EdgeType::kThread);
      }
      now += Draw(20'000, false);
      Close(state.worker_track, node, now);
      now += 5'000;
    }
    CloseSynthetic(state.worker_track);
  }
  void CloseSynthetic(int track) {
    At(track, 0).node.begin_ns = At(track, 1).node.begin_ns;
    int64_t end = 0;
    for (const LocalNode& local : tracks_[static_cast<std::size_t>(track)].nodes) {
      end = std::max(end, local.end_ns);
    }
    Close(track, 0, end);
  }

  /// Joins the tracks' nodes into one pre-order list; every time that follows from others is
  /// computed here.
  void Assemble() {
    for (int rank = 0; rank < options_.ranks; ++rank) forest_.ranks.push_back(RankId{rank});
    std::vector<int> offset;
    std::vector<uint32_t> seen(static_cast<std::size_t>(options_.ranks), 0);
    previous_end_ns_.resize(tracks_.size(), -1);
    for (std::size_t t = 0; t < tracks_.size(); ++t) {
      const TrackBuilder& track = tracks_[t];
      offset.push_back(static_cast<int>(forest_.nodes.size()));
      forest_.tracks.push_back(
          {RankId{track.rank}, seen[static_cast<std::size_t>(track.rank)]++, track.device});
      AssembleTrack(track, t, offset.back());
    }
    for (const LocalEdge& edge : local_edges_) {
      forest_.edges.push_back(
          {NodeId{offset[static_cast<std::size_t>(edge.from_track)] + edge.from_node},
           NodeId{offset[static_cast<std::size_t>(edge.to_track)] + edge.to_node}, edge.type});
    }
    for (auto& [track, node] : hits_) {
      hit_nodes_.push_back(NodeId{offset[static_cast<std::size_t>(track)] + node});
    }
    for (const RankState& state : ranks_) {
      forest_.rank_begin_ns.push_back(forest_.begin_ns +
                                      At(state.host_track, state.root).node.begin_ns);
      forest_.rank_end_ns.push_back(forest_.begin_ns + At(state.host_track, state.root).end_ns);
    }
    forest_.end_ns = *std::max_element(forest_.rank_end_ns.begin(), forest_.rank_end_ns.end());
  }

  void AssembleTrack(const TrackBuilder& track, std::size_t t, int offset) {
    const RankState& rank = ranks_[static_cast<std::size_t>(track.rank)];
    const int64_t rank_begin_ns = At(rank.host_track, rank.root).node.begin_ns;
    std::vector<int64_t> covered(track.nodes.size(), 0), cursor(track.nodes.size(), 0);
    for (std::size_t i = 0; i < track.nodes.size(); ++i) {
      const LocalNode& local = track.nodes[i];
      StepNode node = local.node;
      node.track = static_cast<uint16_t>(t);
      node.begin_ns -= rank_begin_ns;  // the simulation counts from the step's begin
      node.duration_ns = local.end_ns - local.node.begin_ns;
      cursor[i] = node.begin_ns;
      if (local.parent >= 0) {
        const auto parent = static_cast<std::size_t>(local.parent);
        node.parent = NodeId{offset + local.parent};
        node.depth = static_cast<uint16_t>(
            forest_.nodes[static_cast<std::size_t>(offset) + parent].depth + 1);
        node.gap_before_ns = std::max<int64_t>(0, node.begin_ns - cursor[parent]);
        covered[parent] += node.duration_ns;
        cursor[parent] = node.begin_ns + node.duration_ns;
      } else {
        const int64_t begin = forest_.begin_ns + local.node.begin_ns;
        node.gap_before_ns = previous_end_ns_[t] < 0 ? -1 : begin - previous_end_ns_[t];
        previous_end_ns_[t] = forest_.begin_ns + local.end_ns;
      }
      forest_.nodes.push_back(node);
    }
    for (std::size_t i = 0; i < track.nodes.size(); ++i) {
      StepNode& node = forest_.nodes[static_cast<std::size_t>(offset) + i];
      const int64_t self = node.duration_ns - covered[i];
      if (!track.device) node.host_self_ns = self;
      if (track.device && i > 0) node.device_busy_ns = self;
    }
  }

  void AddLogs() {
    if (step_ % 10 != 0) return;
    for (int rank = 0; rank < options_.ranks; ++rank) {
      forest_.logs.push_back({RankId{rank}, 1'000,
                              "INFO engine: Running: " + std::to_string(forest_.batch_size) +
                                  " reqs, Waiting: <n> reqs, KV cache usage: <n>%"});
    }
  }

  void FillLabel(dataset::StepLabel& label) {
    label.recorded_ns = recorded_ns_;
    if (step_ < options_.calibration_steps) label.reasons |= dataset::kReasonCalibration;
    if (active_.empty()) return;
    const InjectedDelay& delay = *active_.front();
    label.stretch = label.plan_id = delay.stretch;
    const int64_t most = *std::max_element(recorded_ns_.begin(), recorded_ns_.end());
    if (most == 0) {
      label.reasons |= dataset::kReasonNoAction;
      return;
    }
    label.status = most >= 50'000 ? dataset::LabelStatus::kPositive : dataset::LabelStatus::kGrey;
    if (most < 50'000) label.reasons |= dataset::kReasonBelow;
    const bool link = delay.place == DelayPlace::kTransfer;
    label.kind = delay.kind;
    label.family = delay.family;
    label.view =
        delay.family == "communication" ? dataset::View::kHorizontal : dataset::View::kVertical;
    label.level = delay.level;
    label.culprit_rank = link ? kNoRank : delay.rank;
    label.culprit_layer = "backend";
    label.culprit_symbol = delay.symbol;
    label.hit_nodes = hit_nodes_;
  }

  const ForestOptions& options_;
  int step_;
  StringInterner& symbols_;
  Random& random_;
  std::vector<int64_t>& previous_end_ns_;
  StepForest forest_;
  double work_ = 1;
  int32_t sequence_ = 0;
  std::vector<TrackBuilder> tracks_;
  std::vector<RankState> ranks_;
  std::vector<LocalEdge> local_edges_;
  std::vector<const InjectedDelay*> active_;
  std::vector<std::vector<int>> instances_;  // by rank, by active delay
  std::vector<int64_t> recorded_ns_;
  std::vector<std::pair<int, int>> hits_;
  std::vector<NodeId> hit_nodes_;
};

}  // namespace

dataset::StepsFile GenerateRun(const ForestOptions& options) {
  dataset::StepsFile file;
  file.run.run_id = options.run_id;
  file.run.workload = file.engine = "synthetic";
  file.number_names = {"log_step_ns", "batch_size", "is_prefill"};
  file.clock_aligned = true;
  Random random(options.seed, "forest_generator");
  std::vector<int64_t> previous_end_ns;
  int64_t begin_ns = 1'000'000;
  for (int step = 0; step < options.steps; ++step) {
    dataset::StepLabel label;
    StepSimulator simulator(options, step, file.run.symbols, random, previous_end_ns);
    StepForest forest = simulator.Simulate(begin_ns, label);
    file.numbers.push_back(
        {static_cast<float>(std::log(static_cast<double>(forest.end_ns - forest.begin_ns))),
         static_cast<float>(forest.batch_size), forest.phase == Phase::kPrefill ? 1.0f : 0.0f});
    begin_ns = forest.end_ns + random.UniformInt(20'000, 60'000);
    file.run.steps.push_back(std::move(forest));
    file.labels.push_back(std::move(label));
    file.forest.push_back(1);
  }
  return file;
}

}  // namespace teller::testing_support
