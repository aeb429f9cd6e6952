// The service as its users meet it: HTTP, signals, death of a rank, ports in use, bad
// configurations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>

#include <algorithm>
#include <future>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "src/core/atomic_file.h"
#include "tests/integration/serve/program.h"

namespace teller::serve {
namespace {

using nlohmann::json;
using testing::HasSubstr;

httplib::Result Complete(int port, const json& body) {
  httplib::Client client("127.0.0.1", port);
  client.set_read_timeout(120);
  return client.Post("/v1/completions", body.dump(), "application/json");
}

int LineCount(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

TEST(ServiceTest, CompletesWholeAndStreamedAlikeAndStopsWhenAsked) {
  TwoRanks ranks;
  ASSERT_TRUE(ranks.Ready()) << ranks.rank(0).Stderr() << ranks.rank(1).Stderr();
  const auto whole =
      Complete(ranks.port(), {{"prompt", "hello world"}, {"max_tokens", 12}, {"ignore_eos", true}});
  ASSERT_TRUE(whole);
  ASSERT_EQ(whole->status, 200) << whole->body;
  const json answer = json::parse(whole->body);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 12);
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");

  const auto streamed = Complete(
      ranks.port(),
      {{"prompt", "hello world"}, {"max_tokens", 12}, {"ignore_eos", true}, {"stream", true}});
  ASSERT_TRUE(streamed);
  EXPECT_TRUE(streamed->get_header_value("Content-Type").starts_with("text/event-stream"));
  std::string text;
  int events = 0;
  std::istringstream lines(streamed->body);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("data: {")) continue;
    ++events;
    text += json::parse(line.substr(6))["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(events, 12);
  EXPECT_EQ(text, answer["choices"][0]["text"]);
  EXPECT_THAT(streamed->body, testing::EndsWith("data: [DONE]\n\n"));

  ranks.rank(0).Signal(SIGTERM);
  EXPECT_EQ(ranks.rank(0).Wait(kPatienceS), 0);
  EXPECT_EQ(ranks.rank(1).Wait(kPatienceS), 0);
  EXPECT_EQ(ranks.rank(0).Stderr() + ranks.rank(1).Stderr(), "");
  const std::regex vllm_line(
      R"(\(Worker_TP0 pid=\d+\) INFO \d\d-\d\d \d\d:\d\d:\d\d \[\w+\.cc:\d+\] Added request cmpl-)");
  EXPECT_TRUE(std::regex_search(ranks.rank(0).Stdout(), vllm_line)) << ranks.rank(0).Stdout();
}

TEST(ServiceTest, TurnsBadRequestsAwayAndLivesOn) {
  TwoRanks ranks;
  ASSERT_TRUE(ranks.Ready()) << ranks.rank(0).Stderr();
  httplib::Client client("127.0.0.1", ranks.port());
  const std::vector<std::pair<std::string, int>> bad = {
      {"", 400},
      {"{", 400},
      {"[]", 400},
      {R"({"max_tokens":4})", 400},
      {R"({"prompt":""})", 400},
      {R"({"prompt":[]})", 400},
      {R"({"prompt":[1,-1]})", 400},
      {R"({"prompt":[99999]})", 400},
      {R"({"prompt":{"a":1}})", 400},
      {R"({"prompt":["a","b"]})", 400},
      {R"({"prompt":"a","max_tokens":0})", 400},
      {R"({"prompt":"a","max_tokens":1024})", 400},
      {R"({"prompt":"a","max_tokens":"x"})", 400},
      {R"({"prompt":"a","temperature":0.7})", 400},
      {R"({"prompt":"a","n":2})", 400},
      {R"({"prompt":"a","model":"other"})", 404},
      {"{\"prompt\":\"\xff\xfe\"}", 400},
      {std::string(900000, '['), 400},
      {R"({"prompt":")" + std::string(2 << 20, 'a') + R"("})", 413}};
  for (const auto& [body, status] : bad) {
    const auto response = client.Post("/v1/completions", body, "application/json");
    ASSERT_TRUE(response) << body.substr(0, 60);
    EXPECT_EQ(response->status, status) << body.substr(0, 60);
  }
  EXPECT_EQ(client.Get("/nothing")->status, 404);
  EXPECT_EQ(Complete(ranks.port(), {{"prompt", {5, 6}}, {"max_tokens", 2}})->status, 200);
}

TEST(ServiceTest, TwoRequestsMayHaveOneId) {
  TwoRanks ranks;
  ASSERT_TRUE(ranks.Ready()) << ranks.rank(0).Stderr();
  const auto complete = [&ranks] {
    httplib::Client client("127.0.0.1", ranks.port());
    client.set_read_timeout(120);
    return client.Post("/v1/completions", httplib::Headers{{"X-Request-Id", "same"}},
                       R"({"prompt":[5,6,7],"max_tokens":40,"ignore_eos":true})",
                       "application/json");
  };
  auto first = std::async(std::launch::async, complete);
  auto second = std::async(std::launch::async, complete);
  const auto one = first.get(), two = second.get();
  ASSERT_TRUE(one && two);
  EXPECT_EQ(json::parse(one->body)["id"], "cmpl-same");
  EXPECT_EQ(json::parse(one->body)["choices"], json::parse(two->body)["choices"]);
}

TEST(ServiceTest, AClientThatHangsUpFreesItsRequest) {
  TwoRanks ranks;
  ASSERT_TRUE(ranks.Ready()) << ranks.rank(0).Stderr();
  httplib::Client client("127.0.0.1", ranks.port());
  httplib::Request request;
  request.method = "POST";
  request.path = "/v1/completions";
  request.body = R"({"prompt":[5,6,7],"max_tokens":1000,"ignore_eos":true,"stream":true})";
  request.content_receiver = [](const char*, std::size_t, uint64_t, uint64_t) { return false; };
  EXPECT_FALSE(client.send(request));
  EXPECT_EQ(Complete(ranks.port(), {{"prompt", {5, 6}}, {"max_tokens", 20}})->status, 200);
  ranks.rank(0).Signal(SIGTERM);
  EXPECT_EQ(ranks.rank(0).Wait(kPatienceS), 0);
  EXPECT_THAT(ranks.rank(0).Stdout(), HasSubstr("aborted"));
}

TEST(ServiceTest, AKilledRankEndsTheOtherWithOneLine) {
  for (const int victim : {0, 1}) {
    TwoRanks ranks;
    ASSERT_TRUE(ranks.Ready()) << ranks.rank(0).Stderr();
    const Program load(
        "teller-load",
        {"--url", ranks.url(), "--concurrency", "2", "--duration", "60", "--output-tokens", "200"},
        ranks.folder(), "load");
    // Steps are under way when the first request is known.
    while (ranks.rank(0).Stdout().find("Added request") == std::string::npos) usleep(10000);
    ranks.rank(victim).Signal(SIGKILL);
    Program& survivor = ranks.rank(1 - victim);
    EXPECT_EQ(survivor.Wait(kPatienceS), 1);
    EXPECT_EQ(LineCount(survivor.Stderr()), 1) << survivor.Stderr();
    EXPECT_THAT(survivor.Stderr(), testing::StartsWith("teller-serve: error: "));
  }
}

TEST(ServiceTest, AnIdleServiceNoticesAKilledRank) {
  TwoRanks ranks;
  ASSERT_TRUE(ranks.Ready()) << ranks.rank(0).Stderr();
  ranks.rank(1).Signal(SIGKILL);
  EXPECT_EQ(ranks.rank(0).Wait(kPatienceS), 1);
  EXPECT_THAT(ranks.rank(0).Stderr(), HasSubstr("rank 1 is gone"));
}

TEST(ServiceTest, AStoppedRankIsWaitedFor) {
  TwoRanks ranks;
  ASSERT_TRUE(ranks.Ready()) << ranks.rank(0).Stderr();
  ranks.rank(1).Signal(SIGSTOP);
  std::future<httplib::Result> answer = std::async(std::launch::async, [&] {
    return Complete(ranks.port(), {{"prompt", {5, 6}}, {"max_tokens", 3}});
  });
  EXPECT_EQ(answer.wait_for(std::chrono::milliseconds(700)), std::future_status::timeout);
  ranks.rank(1).Signal(SIGCONT);
  EXPECT_EQ(answer.get()->status, 200);
}

TEST(ServiceTest, APortInUseIsOneLine) {
  TwoRanks ranks;
  ASSERT_TRUE(ranks.Ready()) << ranks.rank(0).Stderr();
  const int other_master = FreePorts(1)[0];
  Program second("teller-serve", TwoRanks::Arguments(0, other_master, ranks.port()), ranks.folder(),
                 "second");
  EXPECT_EQ(second.Wait(kPatienceS), 1);
  EXPECT_EQ(LineCount(second.Stderr()), 1) << second.Stderr();
  EXPECT_THAT(second.Stderr(),
              testing::AllOf(HasSubstr(std::to_string(ranks.port())), HasSubstr("--port")));
}

TEST(ServiceTest, SigtermToAnyRankWhileStartingEndsIt) {
  const testing_support::TemporaryFolder folder;
  const std::vector<int> ports = FreePorts(2);
  Program alone("teller-serve", TwoRanks::Arguments(1, ports[0], ports[1]), folder.path(), "alone");
  usleep(500000);
  alone.Signal(SIGTERM);
  EXPECT_TRUE(alone.Wait(kPatienceS).has_value());
}

struct BadCommand {
  std::vector<std::string> arguments;
  int code;
  std::string says;
};

TEST(ServiceTest, BadCommandsAndConfigurationsAreOneLine) {
  const testing_support::TemporaryFolder folder;
  const std::string reference = TELLER_SOURCE_DIR "/configs/workload/reference.yaml";
  WriteFileAtomically(folder / "bad.yaml",
                      "schema_version: 1\nkind: reference\nmodel:\n  hiden: 3\n");
  const std::vector<BadCommand> commands = {
      {{}, 2, "--config"},
      {{"--config", folder / "none.yaml"}, 2, "none.yaml"},
      {{"--config", folder / "bad.yaml"}, 2, "bad.yaml:4:"},
      {{"--config", reference, "--world-size", "3"}, 2, "parallel.pipeline is 2"},
      {{"--config", reference, "--rank", "2", "--world-size", "2"}, 2, "--rank 2"},
      {{"--config", reference, "--set", "model.tokenizer=none.model", "--world-size", "2"},
       2,
       "none.model"},
      {{"--config", reference, "--set", "parallel.tensor=1", "--logits", folder / "bad.yaml"},
       2,
       "bad.yaml"},
  };
  for (std::size_t i = 0; i < commands.size(); ++i) {
    SCOPED_TRACE(i);
    Program program("teller-serve", commands[i].arguments, folder.path(), std::to_string(i));
    EXPECT_EQ(program.Wait(kPatienceS), commands[i].code);
    EXPECT_EQ(LineCount(program.Stderr()), 1) << program.Stderr();
    EXPECT_THAT(program.Stderr(), HasSubstr(commands[i].says));
  }
}

TEST(LoadTest, MeasuresTheServiceAndWritesALinePerRequest) {
  TwoRanks ranks;
  ASSERT_TRUE(ranks.Ready()) << ranks.rank(0).Stderr();
  for (const std::vector<std::string>& arrivals :
       {std::vector<std::string>{"--concurrency", "2"}, std::vector<std::string>{"--rate", "50"}}) {
    const std::string output = ranks.folder() / (arrivals[0].substr(2) + ".jsonl");
    std::vector<std::string> arguments = {"--url",           ranks.url(), "--requests",      "6",
                                          "--prompt-tokens", "4:8",       "--output-tokens", "5",
                                          "--output",        output,      "--json"};
    arguments.insert(arguments.end(), arrivals.begin(), arrivals.end());
    Program load("teller-load", arguments, ranks.folder(), "load");
    ASSERT_EQ(load.Wait(kPatienceS), 0) << load.Stderr();
    EXPECT_EQ(json::parse(load.Stdout())["summary"]["output_tokens"], 30);
    std::istringstream lines(ReadFile(output));
    int requests = 0;
    for (std::string line; std::getline(lines, line);) {
      const json entry = json::parse(line);
      if (entry.contains("summary")) continue;
      ++requests;
      EXPECT_EQ(entry["status"], "ok");
      EXPECT_EQ(entry["output_tokens"], 5);
      EXPECT_GT(entry["ttft_ns"], 0);
      EXPECT_GT(entry["tpot_ns"], 0);
    }
    EXPECT_EQ(requests, 6);
  }
}

TEST(LoadTest, ASignalKeepsWhatIsFinished) {
  TwoRanks ranks;
  ASSERT_TRUE(ranks.Ready()) << ranks.rank(0).Stderr();
  const std::string output = ranks.folder() / "load.jsonl";
  Program load("teller-load",
               {"--url", ranks.url(), "--concurrency", "2", "--duration", "100", "--output-tokens",
                "900", "--prompt-tokens", "4", "--output", output, "--json"},
               ranks.folder(), "load");
  while (ranks.rank(0).Stdout().find("Added request") == std::string::npos) usleep(10000);
  load.Signal(SIGINT);
  ASSERT_EQ(load.Wait(kPatienceS), 0) << load.Stderr();
  EXPECT_EQ(json::parse(load.Stdout())["summary"]["failed"], 0);
  EXPECT_THAT(ReadFile(output), HasSubstr("\"interrupted\""));
}

TEST(LoadTest, BadCommandsAndAbsentServersAreOneLine) {
  const testing_support::TemporaryFolder folder;
  const std::string nowhere = "http://127.0.0.1:" + std::to_string(FreePorts(1)[0]);
  const std::vector<BadCommand> commands = {
      {{"--url", nowhere, "--requests", "1"}, 1, "is the service running?"},
      {{"--url", nowhere, "--requests", "40", "--model", "m"}, 1, "10 of 10 requests failed"},
      {{"--url", nowhere}, 2, "has no end"},
      {{"--url", "x://y", "--requests", "1"}, 2, "--url"},
      {{"--url", nowhere, "--requests", "1", "--prompt-tokens", "0"}, 2, "--prompt-tokens"},
      {{"--url", nowhere, "--arrivals", folder / "none.csv"}, 2, "none.csv"},
  };
  for (std::size_t i = 0; i < commands.size(); ++i) {
    SCOPED_TRACE(i);
    Program program("teller-load", commands[i].arguments, folder.path(), std::to_string(i));
    EXPECT_EQ(program.Wait(kPatienceS), commands[i].code);
    EXPECT_EQ(LineCount(program.Stderr()), 1) << program.Stderr();
    EXPECT_THAT(program.Stderr(), HasSubstr(commands[i].says));
  }
}

}  // namespace
}  // namespace teller::serve
