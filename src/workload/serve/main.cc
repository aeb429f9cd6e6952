// teller-serve: one rank of the reference service. Start command: README.md beside this file.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/core/error.h"
#include "src/core/hash.h"
#include "src/core/interrupt.h"
#include "src/core/version.h"
#include "src/text/sentence_pieces.h"
#include "src/workload/serve/activity.h"
#include "src/workload/serve/control_channel.h"
#include "src/workload/serve/cpu_stream.h"
#include "src/workload/serve/decoder.h"
#include "src/workload/serve/engine.h"
#include "src/workload/serve/http_server.h"
#include "src/workload/serve/logits_mode.h"
#include "src/workload/serve/process_group.h"
#include "src/workload/serve/serve_config.h"
#include "src/workload/serve/service_log.h"

namespace {

using namespace teller;         // NOLINT(google-build-using-namespace)
using namespace teller::serve;  // NOLINT(google-build-using-namespace)

struct Options {
  std::string config;
  std::vector<std::string> set;
  int rank = 0;
  int world_size = 1;
  std::string master_address = "127.0.0.1";
  int master_port = 29500;
  std::string local_address;
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string logits;
};

/// Ends the process with one line, the first time that it is called. No destructor runs: a
/// collective may be waiting for a peer that will never answer.
[[noreturn]] void Fail(const std::string& message, ExitCode code) {
  static std::atomic<bool> failed{false};
  if (failed.exchange(true)) {
    for (;;) pause();
  }
  std::fprintf(stderr, "teller-serve: error: %s\n", message.c_str());
  std::fflush(stderr);
  _exit(static_cast<int>(code));
}

/// The same while running. When all ranks are told to stop, one may leave before the other is done.
[[noreturn]] void FailUnlessStopping(const std::string& message) {
  if (Interrupted()) _exit(static_cast<int>(ExitCode::kDone));
  Fail(message, ExitCode::kFailed);
}

void AddOptions(CLI::App& app, Options& options) {
  app.set_version_flag("--version", std::string(Version()) + " (" + Commit() + ")");
  app.add_option("--config", options.config, "Model, engine and parallelism (configs/workload/)")
      ->required();
  app.add_option("--set", options.set, "Overrides a key of the configuration: a.b=value");
  app.add_option("--rank", options.rank, "This process's rank")->envname("RANK");
  app.add_option("--world-size", options.world_size, "Number of ranks")->envname("WORLD_SIZE");
  app.add_option("--master-addr", options.master_address, "Where rank 0 listens for the others")
      ->capture_default_str();
  app.add_option("--master-port", options.master_port, "Its port")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  app.add_option("--local-addr", options.local_address,
                 "This rank's address for collectives (default: of its route to --master-addr)");
  app.add_option("--host", options.host, "HTTP address of rank 0")->capture_default_str();
  app.add_option("--port", options.port, "HTTP port of rank 0")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  app.add_option("--logits", options.logits,
                 "Decode this file's prompts, print tokens and logits as JSON, leave");
}

ServeConfig LoadConfig(const Options& options) {
  const auto root = config::Node::Load(options.config, options.set);
  ServeConfig config = ReadServeConfig(root);
  if (options.rank < 0 || options.rank >= options.world_size) {
    throw ConfigError("--rank " + std::to_string(options.rank) + " is not below --world-size " +
                      std::to_string(options.world_size));
  }
  const int ranks = config.parallel.tensor * config.parallel.pipeline;
  if (ranks != options.world_size) {
    throw ConfigError(options.config + ": parallel.tensor times parallel.pipeline is " +
                      std::to_string(ranks) + ", --world-size is " +
                      std::to_string(options.world_size) + "; they must be equal");
  }
  return config;
}

text::SentencePieces LoadTokenizer(ServeConfig& config) {
  auto pieces = text::SentencePieces::FromFile(config.model.tokenizer);
  config.model.vocabulary = pieces.size();
  config.hash ^= Hash64(pieces.bytes());
  if (pieces.size() % config.parallel.tensor != 0) {
    throw ConfigError(config.model.tokenizer.string() + ": " + std::to_string(pieces.size()) +
                      " pieces do not divide by parallel.tensor " +
                      std::to_string(config.parallel.tensor));
  }
  return pieces;
}

/// Where a rank stands, numbered as vLLM numbers them: the stages are the outer dimension.
struct Place {
  int stage = 0;
  int tensor = 0;
};

Place PlaceOf(int rank, const ParallelOptions& parallel) {
  return {.stage = rank / parallel.tensor, .tensor = rank % parallel.tensor};
}

std::string WorkerName(const Place& place, const ParallelOptions& parallel) {
  const std::string stage = parallel.pipeline > 1 ? "_PP" + std::to_string(place.stage) : "";
  return "Worker" + stage + "_TP" + std::to_string(place.tensor);
}

/// One rank, from configuration to loop. Members are made in this order and unmade in reverse.
class Rank {
 public:
  Rank(const Options& options, ServeConfig& config)
      : options_(options),
        config_(config),
        pieces_(LoadTokenizer(config)),
        place_(PlaceOf(options.rank, config.parallel)),
        device_({.spin_us = config.device_spin_us, .on_stream_start = UseOneThread}),
        local_address_(options.local_address.empty() ? LocalAddressTowards(options.master_address)
                                                     : options.local_address) {
    if (options.rank == 0 && options.logits.empty())
      http_.emplace(options.host, options.port, config, pieces_);
    Connect();
    SERVICE_INFO("rank " + std::to_string(options.rank) + " in world size " +
                 std::to_string(options.world_size) + " is assigned as DP rank 0, PP rank " +
                 std::to_string(place_.stage) + ", TP rank " + std::to_string(place_.tensor));
    decoder_ = std::make_unique<Decoder>(
        config.model, config.engine, device_,
        DecoderGroups{.tensor = tensor_group_.get(), .pipeline = pipeline_group_.get()});
    SERVICE_INFO("CPU KV cache size: " +
                 std::to_string(int64_t{config.engine.blocks} * config.engine.block_tokens) +
                 " tokens");
  }

  /// Failures end the process here: unwinding would wait for threads that wait for what failed.
  void Run() {
    Engine engine(config_.engine, *decoder_, *channel_);
    try {
      RunRole(engine);
    } catch (const DataError& error) {
      Fail(error.what(), error.code());
    } catch (const std::exception& error) {
      FailUnlessStopping(error.what());
    }
  }

 private:
  void RunRole(Engine& engine) {
    if (options_.rank != 0) return FollowRankZero(*decoder_, *channel_);
    if (!options_.logits.empty()) {
      std::puts(DecodePrompts(options_.logits, config_.model, pieces_, engine, *decoder_).c_str());
      return engine.Stop();
    }
    http_->Start(engine);
    engine.Serve();
    SERVICE_INFO("Shutting down");
    http_.reset();  // its handlers use the engine
  }

  void Connect() {
    const ControlChannel::Options channel = {.rank = options_.rank,
                                             .world_size = options_.world_size,
                                             .address = options_.master_address,
                                             .port = options_.master_port,
                                             .timeout_s = config_.parallel.peer_timeout_s,
                                             .config_hash = config_.hash};
    const auto serve_store = [this] {
      store_ =
          std::make_unique<RankStore>(options_.master_address, 0, config_.parallel.peer_timeout_s);
      return store_->port();
    };
    channel_ = std::make_unique<ControlChannel>(channel, serve_store);
    channel_->Watch([](const std::string& who) { FailUnlessStopping(who + "; leaving"); });
    if (options_.world_size == 1) return;
    if (options_.rank != 0) {
      store_ = std::make_unique<RankStore>(options_.master_address, channel_->store_port(),
                                           config_.parallel.peer_timeout_s);
    }
    tensor_group_ = Group("tp", place_.stage, place_.tensor, config_.parallel.tensor);
    pipeline_group_ = Group("pp", place_.tensor, place_.stage, config_.parallel.pipeline);
  }

  /// The group `kind` of this rank: the `index`-th of its kind. Null where it would hold one rank.
  std::unique_ptr<ProcessGroup> Group(const std::string& kind, int index, int rank, int size) {
    if (size == 1) return nullptr;
    const bool only = size == options_.world_size;
    return std::make_unique<ProcessGroup>(*store_, only ? kind : kind + std::to_string(index), rank,
                                          size, local_address_, config_.parallel.peer_timeout_s);
  }

  const Options& options_;
  ServeConfig& config_;
  text::SentencePieces pieces_;
  const Place place_;
  CpuDevice device_;
  std::string local_address_;
  std::optional<HttpServer> http_;
  std::unique_ptr<RankStore> store_;
  std::unique_ptr<ControlChannel> channel_;
  std::unique_ptr<ProcessGroup> tensor_group_, pipeline_group_;
  std::unique_ptr<Decoder> decoder_;
};

int Main(int argc, char** argv) {
  CLI::App app("One rank of Teller's reference inference service.", "teller-serve");
  Options options;
  AddOptions(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    Fail(std::string(error.what()) + "; see 'teller-serve --help'", ExitCode::kBadInput);
  }
  InstallInterruptHandlers();
  ServeConfig config = LoadConfig(options);
  NameServiceLog(WorkerName(PlaceOf(options.rank, config.parallel), config.parallel));
  LoadActivityInjection();
  Rank rank(options, config);
  rank.Run();
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Main(argc, argv);
  } catch (const Error& error) {
    if (Interrupted()) return static_cast<int>(ExitCode::kDone);  // stopped while starting
    Fail(error.what(), error.code());
  } catch (const std::bad_alloc&) {
    Fail("out of memory", ExitCode::kFailed);
  } catch (const std::exception& error) {
    Fail(error.what(), ExitCode::kFailed);
  }
}
