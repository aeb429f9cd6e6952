#include "src/interop/packed_steps.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/interop/input_files.h"

namespace teller::interop {
namespace fs = std::filesystem;
namespace {

using dataset::StepsFile;
using reconstruct::StepForest;
using reconstruct::StepNode;

constexpr char kMember[] = "steps.h5";
const double kLogStep = std::log(1.01);
constexpr int kNumberBits = 15;  // of a float's mantissa are cleared: 8 stay, and the leading one
constexpr std::size_t kCopyBytes = 1 << 20;

/// A time's place on the logarithmic grid, sign kept: 0, +-1 (1 ns), +-2 (the next), ...
int64_t CodeOf(int64_t ns) {
  if (ns == 0) return 0;
  const double log_ns = std::log(static_cast<double>(std::llabs(ns)));
  const int64_t code = 1 + std::llround(log_ns / kLogStep);
  return ns < 0 ? -code : code;
}

int64_t TimeOf(int64_t code) {
  if (code == 0) return 0;
  // No time is longer than some 290 years: a damaged code does not overflow.
  const auto steps = static_cast<double>(std::min<int64_t>(std::llabs(code), 4300) - 1);
  const int64_t ns = std::llround(std::exp(steps * kLogStep));
  return code < 0 ? -ns : ns;
}

/// Children of every node, in order.
std::vector<std::vector<std::size_t>> ChildrenOf(const StepForest& step) {
  std::vector<std::vector<std::size_t>> children(step.nodes.size());
  for (std::size_t i = 0; i < step.nodes.size(); ++i) {
    if (step.nodes[i].parent != kNoNode) children[Index(step.nodes[i].parent)].push_back(i);
  }
  return children;
}

/// Walks a forest track by track, parents before children, and lets `visit` decide where each node
/// begins and ends: from the end of what came before it on its track (its parent's begin, its
/// sibling's end), and from the end of its last child (its own begin where it has none).
template <typename Visit>
class ForestWalk {
 public:
  ForestWalk(StepForest& step, Visit visit)
      : step_(step), children_(ChildrenOf(step)), visit_(visit) {
    for (std::size_t i = 0; i < step.nodes.size(); ++i) {
      if (step.nodes[i].parent == kNoNode) Place(i, 0);
    }
  }

 private:
  int64_t Place(std::size_t index, int64_t cursor_ns) {
    const int64_t begin_ns = visit_.Begin(index, cursor_ns);
    int64_t last_ns = begin_ns, children_ns = 0;
    for (const std::size_t child : children_[index]) {
      last_ns = Place(child, last_ns);
      children_ns += step_.nodes[child].duration_ns;
    }
    return visit_.End(index, begin_ns, last_ns, children_ns);
  }

  StepForest& step_;
  std::vector<std::vector<std::size_t>> children_;
  Visit visit_;
};

void SetSelf(StepForest& step, std::size_t index, int64_t duration_ns, int64_t children_ns) {
  StepNode& node = step.nodes[index];
  const bool device = step.tracks[node.track].device;
  node.duration_ns = duration_ns;
  node.host_self_ns = device ? 0 : duration_ns - children_ns;
  node.device_busy_ns = device && node.parent != kNoNode ? duration_ns - children_ns : 0;
}

/// From exact times to codes: `begin_ns` and `duration_ns` of a node hold the codes of its gap and
/// of its tail, and every other time but a root's gap is 0.
struct Encode {
  StepForest& step;
  std::vector<StepNode> exact;

  int64_t Begin(std::size_t index, int64_t cursor_ns) {
    StepNode& node = step.nodes[index];
    int64_t gap_ns = exact[index].begin_ns - cursor_ns;
    // Rounding must not make siblings overlap; roots may begin before their rank's step.
    if (node.parent != kNoNode) gap_ns = std::max<int64_t>(0, gap_ns);
    const int64_t code = CodeOf(gap_ns);
    node.begin_ns = code;
    node.gap_before_ns = node.parent == kNoNode ? CodeOf(exact[index].gap_before_ns) : 0;
    return cursor_ns + TimeOf(code);
  }
  int64_t End(std::size_t index, int64_t begin_ns, int64_t last_ns, int64_t) {
    const int64_t end_ns = exact[index].begin_ns + exact[index].duration_ns;
    // A leaf keeps its own duration: its begin is off already.
    const bool leaf = last_ns == begin_ns;
    const int64_t code =
        CodeOf(leaf ? exact[index].duration_ns : std::max<int64_t>(0, end_ns - last_ns));
    StepNode& node = step.nodes[index];
    node.duration_ns = code;
    node.host_self_ns = node.device_busy_ns = 0;
    return last_ns + TimeOf(code);
  }
};

/// Back from codes to times.
struct Decode {
  StepForest& step;
  std::vector<StepNode> coded;

  int64_t Begin(std::size_t index, int64_t cursor_ns) {
    const int64_t begin_ns = cursor_ns + TimeOf(coded[index].begin_ns);
    StepNode& node = step.nodes[index];
    node.begin_ns = begin_ns;
    node.gap_before_ns =
        node.parent == kNoNode ? TimeOf(coded[index].gap_before_ns) : begin_ns - cursor_ns;
    return begin_ns;
  }
  int64_t End(std::size_t index, int64_t begin_ns, int64_t last_ns, int64_t children_ns) {
    const int64_t end_ns = last_ns + TimeOf(coded[index].duration_ns);
    SetSelf(step, index, end_ns - begin_ns, children_ns);
    return end_ns;
  }
};

void EncodeForest(StepForest& step) { ForestWalk(step, Encode{step, step.nodes}); }
void DecodeForest(StepForest& step) { ForestWalk(step, Decode{step, step.nodes}); }

float RoundNumber(float value) {
  if (!std::isfinite(value)) return value;
  const auto bits = std::bit_cast<uint32_t>(value) + (1u << (kNumberBits - 1));
  const float rounded = std::bit_cast<float>(bits & ~((1u << kNumberBits) - 1));
  return std::isfinite(rounded) ? rounded : value;
}

void DropForest(StepForest& step, dataset::StepLabel& label) {
  step.tracks.clear();
  step.nodes.clear();
  step.edges.clear();
  step.logs.clear();
  label.hit_nodes.clear();
}

void DropWithoutForest(StepsFile& steps) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < steps.forest.size(); ++i) {
    if (!steps.forest[i]) continue;
    if (kept != i) {
      steps.run.steps[kept] = std::move(steps.run.steps[i]);
      steps.labels[kept] = std::move(steps.labels[i]);
      steps.numbers[kept] = std::move(steps.numbers[i]);
    }
    ++kept;
  }
  steps.run.steps.resize(kept);
  steps.labels.resize(kept);
  steps.numbers.resize(kept);
  steps.forest.assign(kept, 1);
}

using Archive = std::unique_ptr<archive, int (*)(archive*)>;

void Check(int result, archive* which, const fs::path& path) {
  if (result < ARCHIVE_WARN)
    throw DeviceError(fmt::format("write {}: {}", path.string(), archive_error_string(which)));
}

void CompressFile(const fs::path& plain, const fs::path& output) {
  const Archive writer(archive_write_new(), archive_write_free);
  Check(archive_write_set_format_raw(writer.get()), writer.get(), output);
  Check(archive_write_add_filter_xz(writer.get()), writer.get(), output);
  Check(archive_write_set_options(writer.get(), "xz:compression-level=9"), writer.get(), output);
  Check(archive_write_open_filename(writer.get(), output.c_str()), writer.get(), output);
  const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(),
                                                                       archive_entry_free);
  archive_entry_set_pathname(entry.get(), kMember);
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  Check(archive_write_header(writer.get(), entry.get()), writer.get(), output);
  std::ifstream in(plain, std::ios::binary);
  std::vector<char> bytes(kCopyBytes);
  while (in.read(bytes.data(), static_cast<std::streamsize>(bytes.size())), in.gcount() > 0) {
    const la_ssize_t written =
        archive_write_data(writer.get(), bytes.data(), static_cast<std::size_t>(in.gcount()));
    Check(written < 0 ? ARCHIVE_FATAL : ARCHIVE_OK, writer.get(), output);
  }
  Check(archive_write_close(writer.get()), writer.get(), output);
}

void ExpandFile(const fs::path& packed, const fs::path& output) {
  ArchiveReader reader(packed);
  if (!reader.Next()) throw DataError(fmt::format("{}: it is empty", packed.string()));
  std::ofstream out(output, std::ios::binary);
  std::vector<char> bytes(kCopyBytes);
  while (const std::size_t count = reader.stream().Read(bytes.data(), bytes.size()))
    out.write(bytes.data(), static_cast<std::streamsize>(count));
  if (const std::string why = reader.stream().cut_reason(); !why.empty())
    throw DataError(fmt::format("{}: {}; fetch it again", packed.string(), why));
  if (!out.flush()) throw DeviceError(fmt::format("write {}: no space", output.string()));
}

/// A name beside `path` for what is in between; removed at the end.
class Beside {
 public:
  explicit Beside(const fs::path& path) : path_(path.string() + ".plain.partial") {
    fs::remove(path_);
  }
  ~Beside() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

int64_t RoundTime(int64_t ns) { return TimeOf(CodeOf(ns)); }

void RoundForest(StepForest& step) {
  EncodeForest(step);
  DecodeForest(step);
}

void WritePackedSteps(const fs::path& path, StepsFile steps, const std::vector<uint8_t>& keep) {
  TELLER_CHECK(keep.size() == steps.run.steps.size());
  for (std::size_t i = 0; i < keep.size(); ++i) {
    StepForest& step = steps.run.steps[i];
    step.requests.clear();
    for (float& number : steps.numbers[i]) number = RoundNumber(number);
    if (!keep[i]) DropForest(step, steps.labels[i]);
    steps.forest[i] = keep[i] && steps.forest[i];
    EncodeForest(step);
  }
  AtomicFile destination(path, /*force=*/false);
  const Beside plain(path);
  dataset::WriteSteps(plain.path(), steps,
                      h5::ColumnOptions{.chunk_rows = 16384, .deflate = 0, .shuffle = true});
  CompressFile(plain.path(), destination.path());
  destination.Commit();
}

void UnpackSteps(const fs::path& packed, const fs::path& output, Unpack which) {
  const Beside plain(output);
  ExpandFile(packed, plain.path());
  StepsFile steps = dataset::ReadSteps(plain.path());
  if (which == Unpack::kForests) DropWithoutForest(steps);
  for (StepForest& step : steps.run.steps) DecodeForest(step);
  dataset::WriteSteps(output, steps);
}

}  // namespace teller::interop
