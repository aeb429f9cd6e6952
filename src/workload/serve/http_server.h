#pragma once

#include <memory>
#include <string>

#include "src/text/sentence_pieces.h"
#include "src/workload/serve/engine.h"
#include "src/workload/serve/serve_config.h"

namespace teller::serve {

/// The OpenAI-compatible interface of rank 0: GET /health, GET /v1/models, POST /v1/completions
/// (whole or streamed). One thread a connection, one request a connection. Nothing that a client
/// sends ends the service.
class HttpServer {
 public:
  /// Takes the port at once, answers from Start on. Throws DeviceError: port in use, bad address.
  HttpServer(const std::string& host, int port, const ServeConfig& config,
             const text::SentencePieces& pieces);
  ~HttpServer();  ///< stops; requests still open must have been closed by the engine
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  void Start(Engine& engine);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace teller::serve
