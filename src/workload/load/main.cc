// teller-load: requests to an OpenAI-compatible server, and what they felt like at the client.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <string>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/core/interrupt.h"
#include "src/core/progress.h"
#include "src/core/version.h"
#include "src/workload/load/arrivals.h"
#include "src/workload/load/load_run.h"
#include "src/workload/load/load_summary.h"

namespace {

using namespace teller;        // NOLINT(google-build-using-namespace)
using namespace teller::load;  // NOLINT(google-build-using-namespace)

struct Options {
  ClientOptions client;
  RunOptions run;
  ArrivalOptions arrivals;
  std::string prompt_tokens = "64", output_tokens = "64";
  std::string prompt_kind = "ids";
  int concurrency = 1;
  int max_outstanding = 256;
  std::string output;
  bool force = false;
  bool json = false;
};

void AddOptions(CLI::App& app, Options& o) {
  app.set_version_flag("--version", std::string(Version()) + " (" + Commit() + ")");
  app.add_option("--url", o.client.url, "The server: http://HOST:PORT")->capture_default_str();
  app.add_option("--model", o.client.model,
                 "Model name (default: the first that the server lists)");
  app.add_option("--concurrency", o.concurrency, "Closed loop: requests in flight")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--rate", o.arrivals.rate_per_s, "Poisson arrivals instead: requests per second")
      ->check(CLI::PositiveNumber);
  app.add_option("--arrivals", o.arrivals.trace,
                 "Arrivals from a CSV instead: arrival_s,prompt_tokens,output_tokens");
  app.add_option("--max-outstanding", o.max_outstanding, "Open arrivals: connections at most")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--duration", o.run.duration_s, "No request begins after so many seconds")
      ->check(CLI::PositiveNumber);
  app.add_option("--requests", o.arrivals.requests, "End after so many requests")
      ->check(CLI::PositiveNumber);
  app.add_option("--prompt-tokens", o.prompt_tokens, "N, or LOW:HIGH uniform")
      ->capture_default_str();
  app.add_option("--output-tokens", o.output_tokens, "N, or LOW:HIGH uniform")
      ->capture_default_str();
  app.add_option("--prompt-kind", o.prompt_kind,
                 "'ids' (exact lengths) or 'text' (lengths in words)")
      ->check(CLI::IsMember({"ids", "text"}))
      ->capture_default_str();
  app.add_option("--vocabulary", o.client.vocabulary, "Prompt ids are below it")
      ->check(CLI::Range(4, 1 << 24))
      ->capture_default_str();
  app.add_option("--timeout", o.client.timeout_s, "Longest wait for the next byte, seconds")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  app.add_option("--seed", o.arrivals.seed, "Of lengths, arrivals and prompts")
      ->capture_default_str();
  app.add_option("--output", o.output, "Writes load.jsonl there");
  app.add_flag("--force", o.force, "Overwrites it");
  app.add_flag("--json", o.json, "The summary as JSON");
}

void Complete(Options& o) {
  o.arrivals.prompt = LengthRange::Parse(o.prompt_tokens, "--prompt-tokens");
  o.arrivals.output = LengthRange::Parse(o.output_tokens, "--output-tokens");
  if (o.arrivals.rate_per_s > 0 && !o.arrivals.trace.empty()) {
    throw ConfigError("--rate and --arrivals: give one of them");
  }
  const bool ends = o.run.duration_s > 0 || o.arrivals.requests > 0 || !o.arrivals.trace.empty();
  if (!ends) throw ConfigError("the load has no end: give --duration, --requests or --arrivals");
  o.client.seed = o.arrivals.seed;
  o.client.text_prompts = o.prompt_kind == "text";
}

/// Writes a line a request as it ends, and the summary.
class LoadFile {
 public:
  LoadFile(const std::string& path, bool force) {
    if (path.empty()) return;
    file_ = std::make_unique<AtomicFile>(path, force);
    stream_.open(file_->path());
  }
  void Write(const std::string& line) {
    if (file_ && !(stream_ << line << '\n'))
      throw DeviceError(file_->path().string() + ": writing failed");
  }
  void Commit() {
    if (!file_) return;
    stream_.close();
    file_->Commit();
  }

 private:
  std::unique_ptr<AtomicFile> file_;
  std::ofstream stream_;
};

const RequestResult* LastFailure(const RunResult& run) {
  for (auto it = run.results.rbegin(); it != run.results.rend(); ++it) {
    if (!it->ok()) return &*it;
  }
  return nullptr;
}

void ThrowIfUseless(const RunResult& run, const LoadSummary& summary) {
  if (!run.gave_up && (summary.requests == 0 || summary.failed < summary.requests)) return;
  throw DeviceError(std::to_string(summary.failed) + " of " + std::to_string(summary.requests) +
                    " requests failed, the last one: " + LastFailure(run)->reason);
}

void Run(Options& o) {
  Complete(o);
  LoadFile file(o.output, o.force);
  Arrivals arrivals(o.arrivals);
  o.run.connections = arrivals.open_loop() ? o.max_outstanding : o.concurrency;
  if (o.client.model.empty()) o.client.model = FirstModel(o.client);
  Progress progress("load", o.arrivals.requests, "requests");
  const RunResult run = RunLoad(o.run, o.client, arrivals, [&](const RequestResult& result) {
    file.Write(ToJsonLine(result));
    progress.Add(1);
  });
  const LoadSummary summary = Summarize(run.results, run.late);
  file.Write(ToJsonLine(summary));
  file.Commit();
  std::fputs(o.json ? (ToJsonLine(summary) + "\n").c_str() : ToText(summary).c_str(), stdout);
  ThrowIfUseless(run, summary);
}

int Report(const std::string& message, ExitCode code) {
  std::fprintf(stderr, "teller-load: error: %s\n", message.c_str());
  return static_cast<int>(code);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Load for an OpenAI-compatible server, timed at the client.", "teller-load");
  Options options;
  AddOptions(app, options);
  try {
    InstallInterruptHandlers();
    app.parse(argc, argv);
    Run(options);
    return static_cast<int>(ExitCode::kDone);
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    return Report(std::string(error.what()) + "; see 'teller-load --help'", ExitCode::kBadInput);
  } catch (const Error& error) {
    return Report(error.what(), error.code());
  } catch (const std::exception& error) {
    return Report(error.what(), ExitCode::kFailed);
  }
}
