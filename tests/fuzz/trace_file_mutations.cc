// usage: trace_file_mutations [SECONDS] [SEED]
// Damages a small trace file in one way after another and reads it as strangers' files are read: in
// a child process with limits. The child may refuse, die or hang; this program may not, and every
// failure must be one line.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "src/core/clock.h"
#include "src/core/error.h"
#include "src/core/random.h"
#include "src/h5/child.h"
#include "src/trace/trace_file.h"

namespace {

using namespace teller;

std::string MakeTrace(const std::filesystem::path& path) {
  {
    trace::TraceWriter writer(path, {.run_id = "run", .hosts = {"h"}, .workload = "reference"});
    const int process = writer.AddProcess({.rank = RankId{0}, .node = "n", .host = "h", .pid = 1});
    trace::EventTable events;
    for (int i = 0; i < 20; ++i)
      events.Append(
          {.begin_ns = i, .end_ns = i + 1, .name = writer.Intern("op" + std::to_string(i))});
    writer.Append(process, events);
    writer.AppendLogs({{.process = 0, .file = writer.Intern("stdout"), .text = "line"}});
    writer.AppendClock({{.process = 0, .ticks = 1, .monotonic_ns = 2, .realtime_ns = 3}});
    writer.SetStats({{.name = "dropped", .unit = "events", .count = 1}});
    writer.Close();
  }
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// Bytes flipped, numbers made huge, pieces moved, the end cut off.
std::string Damage(std::string bytes, Random& random) {
  const auto anywhere = [&](std::size_t room) {
    return static_cast<std::size_t>(
        random.UniformInt(0, static_cast<int64_t>(bytes.size() - room) - 1));
  };
  for (int64_t changes = random.UniformInt(1, 6); changes > 0; --changes) {
    switch (random.UniformInt(0, 3)) {
      case 0:
        bytes[anywhere(0)] ^= static_cast<char>(1 << random.UniformInt(0, 7));
        break;
      case 1: {  // a count or an address of up to 2^40 and beyond
        const uint64_t number = uint64_t{1} << random.UniformInt(0, 63);
        std::memcpy(&bytes[anywhere(8)], &number, 8);
        break;
      }
      case 2: {
        const std::size_t length = static_cast<std::size_t>(random.UniformInt(1, 64));
        std::memmove(&bytes[anywhere(length)], &bytes[anywhere(length)], length);
        break;
      }
      default:
        if (random.Bernoulli(0.2)) bytes.resize(std::max<std::size_t>(512, anywhere(0)));
        break;
    }
  }
  return bytes;
}

std::string ReadAll(const std::filesystem::path& path) {
  const trace::TraceReader reader(path);
  std::size_t events = 0;
  for (int i = 0; i < static_cast<int>(reader.processes().size()); ++i)
    events += reader.ReadEvents(i).size();
  events += reader.ReadLogs().size() + reader.ReadClock().size() + reader.ReadProbes().size();
  if (reader.complete()) events += reader.ReadStats().size();
  return std::to_string(events);
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t seconds = argc > 1 ? std::atoll(argv[1]) : 60;
  Random random(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  std::string folder = "/tmp/teller-mutations-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return 1;
  const std::filesystem::path path = std::filesystem::path(folder) / "trace.h5";
  const std::string good = MakeTrace(path);
  const h5::ChildLimits limits{
      .memory_bytes = uint64_t{1} << 30, .cpu_seconds = 5, .wall_seconds = 10};
  int64_t read = 0, refused = 0, failures = 0;
  const int64_t stop_ns = MonotonicNs() + seconds * 1'000'000'000;
  while (MonotonicNs() < stop_ns) {
    std::ofstream(path, std::ios::binary) << Damage(good, random);
    try {
      h5::RunInChild(path.string(), limits, [&] { return ReadAll(path); });
      ++read;
    } catch (const DataError& error) {
      ++refused;
      failures += std::strchr(error.what(), '\n') != nullptr ? 1 : 0;
    }
  }
  std::filesystem::remove_all(folder);
  std::printf("trace_file_mutations: %ld files, %ld read, %ld refused in one line, %ld in more\n",
              static_cast<long>(read + refused), static_cast<long>(read),
              static_cast<long>(refused - failures), static_cast<long>(failures));
  return failures == 0 ? 0 : 3;
}
