#include "src/workload/load/completion_client.h"

#include <httplib.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "src/core/clock.h"
#include "src/core/error.h"
#include "src/core/interrupt.h"
#include "src/workload/load/event_stream.h"

namespace teller::load {
namespace {

using nlohmann::json;

httplib::Client MakeClient(const ClientOptions& options) {
  const auto bad_url = [&] {
    return ConfigError("--url '" + options.url + "': expected http://HOST:PORT");
  };
  if (!options.url.starts_with("http://")) throw bad_url();
  httplib::Client client(options.url);
  if (!client.is_valid()) throw bad_url();
  client.set_connection_timeout(10);
  client.set_read_timeout(options.timeout_s);
  client.set_write_timeout(options.timeout_s);
  client.set_tcp_nodelay(true);
  return client;
}

std::string Body(const ClientOptions& options, const Arrival& arrival) {
  json body = {{"model", options.model}, {"max_tokens", arrival.output_tokens},
               {"temperature", 0},       {"ignore_eos", true},
               {"stream", true},         {"stream_options", {{"include_usage", true}}}};
  if (options.text_prompts) {
    body["prompt"] = PromptText(options.seed, arrival);
  } else {
    body["prompt"] = PromptIds(options.seed, arrival, options.vocabulary);
  }
  return body.dump();
}

/// Collects one answer: the stream's events, or the text of an error.
class AnswerReader {
 public:
  explicit AnswerReader(RequestResult& result) : result_(result) {}

  void Feed(std::string_view bytes) {
    if (raw_.size() < 512) raw_ += bytes.substr(0, 512);
    parser_.Feed(bytes);
  }
  bool done() const { return done_; }
  /// The start of what came, in one line.
  std::string Excerpt() const {
    std::string line = raw_.substr(0, 200);
    for (char& c : line) c = static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    return line;
  }

 private:
  void OnEvent(std::string_view data) {
    if (data == "[DONE]") {
      done_ = true;
      return;
    }
    const json event = json::parse(data, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object()) throw DataError("an event of the stream is no JSON object");
    const auto choices = event.find("choices");
    if (choices != event.end() && choices->is_array() && !choices->empty()) {
      result_.token_ns.push_back(MonotonicNs());
    }
    ReadUsage(event);
  }
  void ReadUsage(const json& event) {
    const auto usage = event.find("usage");
    if (usage == event.end() || !usage->is_object()) return;
    const auto read = [&](const char* key, int& value) {
      const auto it = usage->find(key);
      if (it != usage->end() && it->is_number_integer()) value = it->get<int>();
    };
    read("prompt_tokens", result_.prompt_tokens);
    read("completion_tokens", result_.output_tokens);
  }

  RequestResult& result_;
  EventStreamParser parser_{[this](std::string_view data) { OnEvent(data); }};
  std::string raw_;
  bool done_ = false;
};

void Failed(RequestResult& result, std::string status, std::string reason) {
  result.status = std::move(status);
  result.reason = std::move(reason);
}

void Judge(RequestResult& result, const httplib::Result& response, const AnswerReader& answer,
           const std::string& url) {
  if (!response && Interrupted()) return Failed(result, "interrupted", "stopped by a signal");
  if (!response) {
    const bool refused = response.error() == httplib::Error::Connection;
    const std::string what = httplib::to_string(response.error());
    if (refused)
      return Failed(result, "unreachable",
                    url + ": no connection (" + what + "); is the service running?");
    return Failed(result, "cut_short", url + ": the answer broke off (" + what + ")");
  }
  if (response->status != 200) {
    return Failed(result, "http_" + std::to_string(response->status),
                  url + ": HTTP " + std::to_string(response->status) + ": " + answer.Excerpt());
  }
  if (!answer.done()) Failed(result, "cut_short", url + ": the stream ended without [DONE]");
}

}  // namespace

std::string FirstModel(const ClientOptions& options) {
  httplib::Client client = MakeClient(options);
  const auto response = client.Get("/v1/models");
  if (!response) {
    throw DeviceError("GET " + options.url + "/v1/models: " + httplib::to_string(response.error()) +
                      "; is the service running?");
  }
  const json models = json::parse(response->body, nullptr, /*allow_exceptions=*/false);
  const bool listed = response->status == 200 && models.is_object() && models.contains("data") &&
                      models["data"].is_array() && !models["data"].empty() &&
                      models["data"][0].is_object() && models["data"][0].contains("id") &&
                      models["data"][0]["id"].is_string();
  if (!listed) {
    throw DeviceError(
        "GET " + options.url + "/v1/models: HTTP " + std::to_string(response->status) +
        " without a list of models; is it an OpenAI-compatible server? Else give --model");
  }
  return models["data"][0]["id"].get<std::string>();
}

RequestResult SendCompletion(const ClientOptions& options, const Arrival& arrival) {
  RequestResult result = {
      .index = arrival.index,
      .id = "load-" + std::to_string(options.seed) + "-" + std::to_string(arrival.index),
      .prompt_tokens = arrival.prompt_tokens};
  httplib::Client client = MakeClient(options);
  AnswerReader answer(result);
  httplib::Request request;
  request.method = "POST";
  request.path = "/v1/completions";
  request.headers = {{"Content-Type", "application/json"}, {"X-Request-Id", result.id}};
  request.body = Body(options, arrival);
  std::string broken;
  request.content_receiver = [&](const char* data, std::size_t length, uint64_t, uint64_t) {
    try {
      answer.Feed({data, length});
      return !Interrupted();
    } catch (const std::exception& error) {
      broken = error.what();
      return false;
    }
  };
  result.begin_ns = MonotonicNs();
  const auto response = client.send(request);
  result.end_ns = MonotonicNs();
  Judge(result, response, answer, options.url);
  if (!broken.empty()) Failed(result, "bad_stream", options.url + ": " + broken);
  if (result.output_tokens == 0) result.output_tokens = static_cast<int>(result.token_ns.size());
  return result;
}

}  // namespace teller::load
