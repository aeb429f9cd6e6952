#include "src/interop/importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "src/core/error.h"
#include "src/core/hash.h"
#include "src/interop/input_files.h"
#include "src/interop/kineto.h"
#include "src/interop/log_lines.h"
#include "src/interop/merge.h"
#include "src/interop/nccl_inspector.h"
#include "src/interop/nsight.h"
#include "src/interop/published_import.h"
#include "src/interop/rank_names.h"

namespace teller::interop {
namespace {

namespace fs = std::filesystem;

/// A member of a file with its bytes expanded, however it is packed.
struct Member {
  std::string name;
  ByteStream* stream;
};

/// Calls `visit` for every regular member of `path`: itself, the files of a tar, each decompressed.
void ForEachMember(const fs::path& path, Progress& progress, ImportLog& log,
                   const std::function<void(Member)>& visit) {
  ArchiveReader outer(path, &progress);
  while (outer.Next()) {
    if (!outer.is_archive()) {
      visit({outer.name(), &outer.stream()});
      continue;
    }
    ArchiveReader inner(outer.stream(), outer.name());
    while (inner.Next()) {
      if (inner.is_archive()) {
        log.Count("skipped_archive_in_archive", 1, trace::Severity::kError, "files");
        continue;
      }
      visit({outer.name(), &inner.stream()});
    }
  }
  if (!outer.stream().cut_reason().empty()) {
    log.Count("archive_cut_short", 1, trace::Severity::kDataLoss, "files");
    log.Note(fmt::format("{}: {}; what came before it was kept", path.string(),
                         outer.stream().cut_reason()));
  }
}

DetectedFormat DetectFile(const fs::path& path) {
  ArchiveReader reader(path);
  DetectedFormat first{InputFormat::kNone, "empty"};
  while (reader.Next()) {
    std::unique_ptr<ArchiveReader> inner;
    ByteStream* stream = &reader.stream();
    if (reader.is_archive()) {
      inner = std::make_unique<ArchiveReader>(reader.stream(), reader.name());
      if (!inner->Next()) continue;
      stream = &inner->stream();
    }
    PeekableStream peekable(*stream);
    first = DetectFormat(peekable.Peek(kDetectionBytes));
    const bool packed = reader.is_archive() || reader.is_compressed();
    if (packed && (first.format == InputFormat::kNsight || first.format == InputFormat::kTeller)) {
      first = {InputFormat::kNone, "a packed database; unpack it first"};
    }
    if (!reader.is_archive() || first.format != InputFormat::kNone) return first;
  }
  if (first.format == InputFormat::kNone && !reader.stream().cut_reason().empty()) {
    first.looks_like = reader.stream().cut_reason();
  }
  return first;
}

/// Names a run by what was imported: sizes, first and last megabyte of every file.
std::string NameRun(const std::vector<PlannedFile>& files) {
  constexpr std::size_t kSampleBytes = std::size_t{1} << 20;
  std::string sample;
  for (const PlannedFile& file : files) {
    const auto size = fs::file_size(file.path);
    std::string head(std::min<std::size_t>(size, kSampleBytes), '\0');
    std::FILE* stream = std::fopen(file.path.c_str(), "rb");
    if (stream == nullptr) throw DataError(fmt::format("cannot read {}", file.path.string()));
    head.resize(std::fread(head.data(), 1, head.size(), stream));
    std::string tail(head.size(), '\0');
    std::fseek(stream, static_cast<long>(size - head.size()), SEEK_SET);
    tail.resize(std::fread(tail.data(), 1, tail.size(), stream));
    std::fclose(stream);
    sample += fmt::format("{} {} {}\n", size, HashHex(head), HashHex(tail));
  }
  return "import-" + HashHex(sample).substr(0, 12);
}

bool IsTrace(InputFormat format) {
  return format != InputFormat::kLog && format != InputFormat::kNone;
}

trace::TraceMeta MetaOf(const ImportPlan& plan) {
  if (plan.format == InputFormat::kTeller) {
    std::vector<fs::path> traces;
    for (const PlannedFile& file : plan.files) {
      if (file.format == InputFormat::kTeller) traces.push_back(file.path);
    }
    return MergedMeta(traces);
  }
  return {.run_id = NameRun(plan.files),
          .clock = "realtime",
          .workload = fmt::format("import:{}", FormatName(plan.format))};
}

void AddFile(ImportPlan& plan, const fs::path& path, bool named) {
  const DetectedFormat detected = DetectFile(path);
  if (detected.format == InputFormat::kNone) {
    if (named)
      throw DataError(
          fmt::format("cannot import {}: it is {}", path.string(), detected.looks_like));
    plan.log.Count("skipped_file", 1, trace::Severity::kInfo, "files");
    plan.log.Note(fmt::format("left out {}: it is {}", path.string(), detected.looks_like));
    return;
  }
  if (IsTrace(detected.format) && IsTrace(plan.format) && detected.format != plan.format) {
    throw DataError(
        fmt::format("cannot import {} ({}) together with files of {}: give traces of one kind",
                    path.string(), FormatName(detected.format), FormatName(plan.format)));
  }
  if (IsTrace(detected.format) || plan.format == InputFormat::kNone) plan.format = detected.format;
  plan.files.push_back({path, detected.format});
}

/// Bytes of the files that are read as streams.
int64_t StreamedBytes(const ImportPlan& plan) {
  int64_t bytes = 0;
  for (const PlannedFile& file : plan.files) {
    const bool streamed =
        file.format != InputFormat::kNsight && file.format != InputFormat::kTeller;
    if (streamed) bytes += static_cast<int64_t>(fs::file_size(file.path));
  }
  return bytes;
}

/// One import on its way.
class Import {
 public:
  Import(const ImportPlan& plan, const ImportOptions& options, TraceSink& sink)
      : plan_(plan),
        options_(options),
        sink_(sink),
        log_(plan.log),
        progress_("importing", StreamedBytes(plan), "bytes") {}

  ImportLog Run();

 private:
  void ReadFile(const PlannedFile& file);
  void ReadMember(const PlannedFile& file, const Member& member);
  void ReadKineto(const Member& member, PeekableStream& in);
  void ReadNsight(const fs::path& path);
  void ReadPublished(const Member& member, PeekableStream& in);
  void AddStated(const std::string& file, const std::vector<ImportedProcess>& processes);
  void CheckWorldSize(const std::string& file, std::optional<int32_t> world_size);

  const ImportPlan& plan_;
  const ImportOptions& options_;
  TraceSink& sink_;
  ImportLog log_;
  Progress progress_;
  RankNames ranks_;
  std::string world_size_file_;
  std::optional<int32_t> world_size_;
  int64_t trace_members_ = 0;
};

ImportLog Import::Run() {
  for (const PlannedFile& file : plan_.files) ReadFile(file);
  if (IsTrace(plan_.format) && trace_members_ == 0) {
    throw DataError(fmt::format("cannot import {}: no event in it could be used",
                                plan_.files.front().path.string()));
  }
  ranks_.Settle(sink_, log_);
  return log_;
}

void Import::ReadFile(const PlannedFile& file) {
  if (file.format == InputFormat::kNsight) return ReadNsight(file.path);
  if (file.format == InputFormat::kTeller) {
    CopyTrace(file.path, sink_, ranks_, log_);
    ++trace_members_;
    return;
  }
  ForEachMember(file.path, progress_, log_,
                [&](const Member& member) { ReadMember(file, member); });
}

void Import::ReadMember(const PlannedFile& file, const Member& member) {
  PeekableStream in(*member.stream);
  const InputFormat format = DetectFormat(in.Peek(kDetectionBytes)).format;
  if (format != file.format) {
    log_.Count("skipped_member", 1, trace::Severity::kInfo, "files");
    log_.Note(fmt::format("left out {} in {}", member.name, file.path.string()));
    return;
  }
  if (format == InputFormat::kKineto) {
    ReadKineto(member, in);
  } else if (format == InputFormat::kPublished) {
    ReadPublished(member, in);
  } else if (format == InputFormat::kInspector) {
    AddStated(member.name, ImportNcclInspector(in, options_, sink_, log_));
  } else if (format == InputFormat::kLog) {
    ImportLogFile(in, file.path.filename().string(), options_, sink_, log_);
  }
}

void Import::ReadKineto(const Member& member, PeekableStream& in) {
  const KinetoFile file = ImportKineto(in, RankFromFileName(member.name), options_, sink_, log_);
  if (file.cut_short)
    log_.Note(fmt::format("{}: broken or cut short; whole events were kept", member.name));
  if (file.processes.empty()) {
    log_.Note(fmt::format("{}: no event that could be used", member.name));
    return;
  }
  ++trace_members_;
  CheckWorldSize(member.name, file.info.world_size);
  const ImportedProcess& main = file.processes.front();
  const RankSource source = file.info.rank              ? RankSource::kStated
                            : main.info.rank != kNoRank ? RankSource::kFileName
                                                        : RankSource::kNone;
  ranks_.Add(main, source, member.name);
}

void Import::ReadNsight(const fs::path& path) {
  std::vector<ImportedProcess> processes = ImportNsight(path, options_, sink_, log_);
  if (processes.empty()) {
    log_.Note(fmt::format("{}: no event that could be used", path.string()));
    return;
  }
  ++trace_members_;
  // One process a report: the file's name may say its rank. Several: the order of their devices.
  const auto named = processes.size() == 1 ? RankFromFileName(path.string()) : std::nullopt;
  for (ImportedProcess& process : processes) {
    if (named) {
      process.info.rank = RankId{*named};
      sink_.UpdateProcess(process.index, process.info);
    }
    ranks_.Add(process, named ? RankSource::kFileName : RankSource::kNone, path.string());
  }
}

void Import::ReadPublished(const Member& member, PeekableStream& in) {
  if (trace_members_ > 0) {
    throw DataError(fmt::format(
        "{} is a second sample of the published layout: give one sample at a time", member.name));
  }
  AddStated(member.name, ImportPublished(in, options_, sink_, log_));
}

/// Processes that state their ranks themselves, or have none.
void Import::AddStated(const std::string& file, const std::vector<ImportedProcess>& processes) {
  if (!processes.empty()) ++trace_members_;
  for (const ImportedProcess& process : processes) {
    ranks_.Add(process, process.info.rank == kNoRank ? RankSource::kNone : RankSource::kStated,
               file);
  }
}

void Import::CheckWorldSize(const std::string& file, std::optional<int32_t> world_size) {
  if (!world_size) return;
  if (world_size_ && *world_size_ != *world_size) {
    throw DataError(
        fmt::format("{} is of a run of {} ranks, {} of a run of {}: give files of one run",
                    world_size_file_, *world_size_, file, *world_size));
  }
  world_size_ = world_size;
  world_size_file_ = file;
}

}  // namespace

ImportPlan PlanImport(const std::vector<fs::path>& inputs) {
  ImportPlan plan;
  for (const fs::path& input : inputs) {
    const std::vector<fs::path> files = ListInputFiles(input);
    const bool named = files.size() == 1 && files.front() == input;
    for (const fs::path& file : files) AddFile(plan, file, named);
  }
  if (plan.files.empty()) {
    throw DataError(fmt::format("cannot import {}: nothing in it is of a kind that is read here",
                                inputs.empty() ? "nothing" : inputs.front().string()));
  }
  plan.meta = MetaOf(plan);
  return plan;
}

ImportLog RunImport(const ImportPlan& plan, const ImportOptions& options, TraceSink& sink) {
  return Import(plan, options, sink).Run();
}

}  // namespace teller::interop
