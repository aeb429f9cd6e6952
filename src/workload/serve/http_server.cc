#include "src/workload/serve/http_server.h"

#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <random>
#include <thread>
#include <utility>

#include "src/core/error.h"
#include "src/workload/serve/completions.h"
#include "src/workload/serve/service_log.h"

namespace teller::serve {
namespace {

constexpr int kBacklog = 512;  // the library's own 5 makes bursts wait for a second

/// Access to the listening socket of the library's server.
class ListeningServer : public httplib::Server {
 public:
  void RaiseBacklog() const { ::listen(svr_sock_, kBacklog); }
};

std::string RandomHex() {
  static thread_local std::mt19937_64 generator(std::random_device{}());
  char text[33];
  std::snprintf(text, sizeof text, "%016lx%016lx", static_cast<unsigned long>(generator()),
                static_cast<unsigned long>(generator()));
  return text;
}

/// 'cmpl-' and the client's X-Request-Id where it is a plain name, else a random one, as vLLM does
/// it.
std::string MakeRequestId(const httplib::Request& request) {
  const std::string wanted = request.get_header_value("X-Request-Id");
  const bool plain = !wanted.empty() && wanted.size() <= 64 &&
                     std::all_of(wanted.begin(), wanted.end(), [](unsigned char c) {
                       return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
                     });
  return "cmpl-" + (plain ? wanted : RandomHex());
}

/// One streamed answer; lives as long as its connection.
struct StreamedAnswer {
  StreamedAnswer(std::shared_ptr<TokenStream> tokens, const text::SentencePieces& pieces,
                 CompletionWriter writer, bool include_usage)
      : tokens(std::move(tokens)),
        decoder(pieces),
        writer(std::move(writer)),
        include_usage(include_usage) {}

  /// The next events; false when the stream is over for any reason.
  bool Write(httplib::DataSink& sink) {
    const auto token = tokens->Next();
    if (!token) return false;
    ++count;
    std::string events = writer.Chunk(decoder.Add(token->id), token->finish);
    ended = token->finish != FinishReason::kNone;
    if (ended && include_usage) events += writer.UsageChunk(count);
    if (ended) events += CompletionWriter::Done();
    if (!sink.write(events.data(), events.size())) return false;
    if (ended) sink.done();
    return true;
  }

  std::shared_ptr<TokenStream> tokens;
  text::StreamDecoder decoder;
  CompletionWriter writer;
  bool include_usage;
  std::size_t count = 0;
  bool ended = false;
};

const char* ReasonPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 413:
      return "Payload Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return "Error";
  }
}

void Answer(httplib::Response& response, const RequestError& error) {
  response.status = error.status;
  response.set_content(error.ToJson(), "application/json");
}

}  // namespace

struct HttpServer::State {
  State(const ServeConfig& config, const text::SentencePieces& pieces)
      : config(config), pieces(pieces), created_s(std::time(nullptr)) {}

  void Complete(const httplib::Request& http, httplib::Response& response);
  void AnswerWhole(httplib::Response& response, TokenStream& tokens,
                   const CompletionWriter& writer) const;
  void SetRoutes();

  const ServeConfig& config;
  const text::SentencePieces& pieces;
  const int64_t created_s;
  ListeningServer server;
  Engine* engine = nullptr;
  std::thread thread;
  std::string address;
};

void HttpServer::State::Complete(const httplib::Request& http, httplib::Response& response) {
  CompletionRequest request;
  if (const auto error = ParseCompletion(http.body, config.model, pieces, request)) {
    return Answer(response, *error);
  }
  if (const std::string why = engine->WhyNever(request.engine); !why.empty())
    return Answer(response, {400, why});
  const std::string id = MakeRequestId(http);
  request.engine.id = id + "-0-" + RandomHex().substr(0, 8);  // clients may repeat their ids
  CompletionWriter writer(id, config.model.name, std::time(nullptr), request.engine.prompt.size());
  const std::string engine_id = request.engine.id;
  SERVICE_INFO("Added request " + engine_id + ".");
  auto tokens = engine->Submit(std::move(request.engine));
  if (!request.stream) return AnswerWhole(response, *tokens, writer);
  auto answer = std::make_shared<StreamedAnswer>(std::move(tokens), pieces, std::move(writer),
                                                 request.include_usage);
  response.set_chunked_content_provider(
      "text/event-stream",
      [answer](std::size_t /*offset*/, httplib::DataSink& sink) { return answer->Write(sink); },
      [answer, this, engine_id](bool /*success*/) {
        if (answer->ended) return;
        engine->Abort(engine_id);
        SERVICE_INFO("Request " + engine_id + " aborted.");
      });
}

void HttpServer::State::AnswerWhole(httplib::Response& response, TokenStream& tokens,
                                    const CompletionWriter& writer) const {
  std::vector<int32_t> ids;
  FinishReason finish = FinishReason::kNone;
  while (finish == FinishReason::kNone) {
    const auto token = tokens.Next();
    if (!token) return Answer(response, {503, "the service is stopping"});
    ids.push_back(token->id);
    finish = token->finish;
  }
  response.set_content(writer.Whole(pieces.Decode(ids), finish, ids.size()), "application/json");
}

void HttpServer::State::SetRoutes() {
  server.Get("/health",
             [](const httplib::Request&, httplib::Response& response) { response.status = 200; });
  server.Get("/v1/models", [this](const httplib::Request&, httplib::Response& response) {
    response.set_content(ModelsJson(config.model, created_s), "application/json");
  });
  server.Post("/v1/completions",
              [this](const httplib::Request& request, httplib::Response& response) {
                Complete(request, response);
              });
  server.set_logger([](const httplib::Request& request, const httplib::Response& response) {
    LogHttp(request.remote_addr + ":" + std::to_string(request.remote_port) + " - \"" +
            request.method + " " + request.path + " " + request.version + "\" " +
            std::to_string(response.status) + " " + ReasonPhrase(response.status));
  });
}

HttpServer::HttpServer(const std::string& host, int port, const ServeConfig& config,
                       const text::SentencePieces& pieces)
    : state_(std::make_unique<State>(config, pieces)) {
  State& s = *state_;
  // The library's own options let two servers share a port.
  s.server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  s.server.set_tcp_nodelay(true);
  s.server.set_keep_alive_max_count(1);  // waiting connections poll in this library
  s.server.set_payload_max_length(std::size_t{1} << 20);
  const auto threads = static_cast<std::size_t>(config.http_threads);
  s.server.new_task_queue = [threads] { return new httplib::ThreadPool(threads); };
  s.SetRoutes();
  s.address = host + ":" + std::to_string(port);
  errno = 0;
  if (!s.server.bind_to_port(host, port)) {
    throw DeviceError("listening for HTTP on " + s.address + ": " + std::strerror(errno) +
                      "; choose another --port or end the process that holds it");
  }
  s.server.RaiseBacklog();
}

void HttpServer::Start(Engine& engine) {
  state_->engine = &engine;
  state_->thread = std::thread([this] { state_->server.listen_after_bind(); });
  SERVICE_INFO("Starting vLLM-compatible API server on http://" + state_->address);
  LogHttp("Application startup complete.");
}

HttpServer::~HttpServer() {
  if (!state_->thread.joinable()) return;
  while (!state_->server.is_running()) std::this_thread::yield();  // stop before that is lost
  state_->server.stop();
  state_->thread.join();
}

}  // namespace teller::serve
