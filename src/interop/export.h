#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace teller::interop {

/// What an export wrote, and what its format cannot hold, by reason.
struct ExportReport {
  int64_t written_events = 0;
  std::map<std::string, int64_t> losses;
};

/// Writes a trace for ui.perfetto.dev (protobuf track events): a track for every rank's threads and
/// streams, events that overlap in one stream on tracks of their own, flow arrows from launches to
/// device items and between the ranks of a collective, all on the aligned clock. With a steps file
/// the labels of its steps stand on a track of their own.
/// @param output  a file that does not exist
/// @param steps   a steps file of the same run, or empty
ExportReport ExportPerfetto(const std::filesystem::path& trace, const std::filesystem::path& steps,
                            const std::filesystem::path& output);

/// Writes the published TELLER layout into the new folder `output`: ENGINE/RUN/{trace.json,log.txt,
/// annotation.json}. A step is an outermost engine range of a thread; its outermost backend events
/// are frontend operators, the innermost around a call backend operators. Where an operator has one
/// level only, a backend operator marked 'teller_synthetic' holds its calls, which our importer
/// skips.
ExportReport ExportPublished(const std::filesystem::path& trace, const std::filesystem::path& steps,
                             const std::filesystem::path& output);

/// Writes every event as a line of comma-separated values (RFC 4180) with a header.
ExportReport ExportCsv(const std::filesystem::path& trace, const std::filesystem::path& output);

}  // namespace teller::interop
