#include "tests/integration/serve/program.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <httplib.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "src/core/atomic_file.h"
#include "src/core/clock.h"
#include "src/core/error.h"

namespace teller::serve {
namespace {

void Pause() { std::this_thread::sleep_for(std::chrono::milliseconds(10)); }

[[noreturn]] void Execute(const std::string& path, const std::vector<std::string>& arguments,
                          const std::string& out, const std::string& err) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
  dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
  std::vector<char*> argv = {const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(path.c_str(), argv.data());
  _exit(127);
}

}  // namespace

Program::Program(const std::string& name, const std::vector<std::string>& arguments,
                 const std::filesystem::path& folder, const std::string& label)
    : prefix_(folder / label) {
  const std::string path = std::string(TELLER_BINARY_DIR) + "/bin/" + name;
  const std::string out = prefix_.string() + ".stdout", err = prefix_.string() + ".stderr";
  pid_ = fork();
  TELLER_CHECK(pid_ >= 0);
  if (pid_ == 0) Execute(path, arguments, out, err);
}

Program::~Program() {
  if (exit_code_) return;
  Signal(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Program::Signal(int signal_number) const { kill(pid_, signal_number); }

std::optional<int> Program::Wait(double seconds) {
  const int64_t until = MonotonicNs() + static_cast<int64_t>(seconds * 1e9);
  while (!exit_code_) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    } else if (MonotonicNs() > until) {
      return std::nullopt;
    } else {
      Pause();
    }
  }
  return exit_code_;
}

std::string Program::Stdout() const { return ReadFile(prefix_.string() + ".stdout"); }
std::string Program::Stderr() const { return ReadFile(prefix_.string() + ".stderr"); }

std::vector<int> FreePorts(int count) {
  std::vector<int> sockets, ports;
  for (int i = 0; i < count; ++i) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    sockets.push_back(socket(AF_INET, SOCK_STREAM, 0));
    bind(sockets.back(), reinterpret_cast<sockaddr*>(&address), size);
    getsockname(sockets.back(), reinterpret_cast<sockaddr*>(&address), &size);
    ports.push_back(ntohs(address.sin_port));
  }
  for (const int socket : sockets) close(socket);
  return ports;
}

std::vector<std::string> TwoRanks::Arguments(int rank, int master_port, int port) {
  return {"--config",      TELLER_SOURCE_DIR "/configs/workload/reference.yaml",
          "--rank",        std::to_string(rank),
          "--world-size",  "2",
          "--master-port", std::to_string(master_port),
          "--port",        std::to_string(port),
          "--set",         "parallel.peer_timeout_s=120"};
}

TwoRanks::TwoRanks(const std::vector<std::string>& more) {
  const std::vector<int> ports = FreePorts(2);
  port_ = ports[1];
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<std::string> arguments = Arguments(rank, ports[0], ports[1]);
    arguments.insert(arguments.end(), more.begin(), more.end());
    ranks_.push_back(std::make_unique<Program>("teller-serve", arguments, folder_.path(),
                                               "rank" + std::to_string(rank)));
  }
}

bool TwoRanks::Ready(double seconds) {
  httplib::Client client("127.0.0.1", port_);
  const int64_t until = MonotonicNs() + static_cast<int64_t>(seconds * 1e9);
  while (MonotonicNs() < until && !rank(0).Wait(0) && !rank(1).Wait(0)) {
    const auto response = client.Get("/health");
    if (response && response->status == 200) return true;
    Pause();
  }
  return false;
}

}  // namespace teller::serve
