#include "src/experiment/executor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "src/core/clock.h"
#include "src/core/error.h"
#include "src/core/interrupt.h"
#include "src/core/log.h"
#include "src/core/progress.h"

namespace teller::experiment {
namespace {

constexpr int kPollMs = 100;
constexpr int64_t kGraceNs = 20'000'000'000;  // for a campaign run that restores the machine

/// Messages from a child, one a line: 'p SHARE NOTE' progress, 'e CODE MESSAGE' failure.
void SendLine(int fd, const std::string& line) {
  const std::string whole = line + "\n";
  if (::write(fd, whole.data(), whole.size()) < 0 && errno != EPIPE)
    std::perror("teller: stage pipe");
}

std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// A stage in its child process.
struct Child {
  std::size_t stage = 0;
  pid_t pid = -1;
  int pipe = -1;
  std::string unread;
  double share = 0;
  std::string note;
  std::optional<Error> failure;
};

/// The child's side of fork: never returns.
[[noreturn]] void RunStage(const Stage& stage, const StageStore& store, StageContext context,
                           int pipe) {
  int64_t sent_ns = 0;
  context.progress = [&](double share, const std::string& note) {
    const int64_t now_ns = MonotonicNs();
    if (now_ns - sent_ns < 100'000'000) return;
    sent_ns = now_ns;
    SendLine(pipe, fmt::format("p {} {}", share, OneLine(note)));
  };
  int code = 0;
  try {
    store.Make(stage, std::move(context));
  } catch (const Error& error) {
    code = static_cast<int>(error.code());
    SendLine(pipe, fmt::format("e {} {}", code, OneLine(error.what())));
  } catch (const std::exception& error) {
    code = static_cast<int>(ExitCode::kFailed);
    SendLine(pipe, fmt::format("e {} {}", code, OneLine(error.what())));
  }
  std::fflush(nullptr);
  ::_exit(code);
}

/// Dies with the parent; has a process group of its own, so that a Ctrl-C reaches it once, through
/// the parent.
void EnterChild(pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(static_cast<int>(ExitCode::kFailed));
}

class Executor {
 public:
  Executor(const Plan& plan, const StageStore& store, const ExecutorOptions& options)
      : plan_(plan),
        store_(store),
        options_(options),
        states_(LookUp(plan, store)),
        tries_(plan.stages.size(), 0),
        progress_(options.label, static_cast<int64_t>(OpenCost() + .5), "s of work") {}

  ~Executor() {
    for (const Child& child : children_) {  // only after an exception of our own
      ::kill(child.pid, SIGKILL);
      ::waitpid(child.pid, nullptr, 0);
      ::close(child.pipe);
    }
  }

  std::vector<StageState> Run() {
    while (!failure_ && !Interrupted()) {
      StartWhatCanRun();
      if (children_.empty()) break;
      Listen();
    }
    if (Interrupted() && !children_.empty())
      LogInfo(
          "stopping: what runs is ended and the machine is restored; this may take some seconds");
    EndChildren();
    ThrowIfInterrupted();
    if (failure_) throw Error(*failure_);
    return std::move(states_);
  }

 private:
  double OpenCost() const {
    double cost = 0;
    for (std::size_t i = 0; i < states_.size(); ++i)
      cost += states_[i].cached() ? 0 : plan_.stages[i].cost_s;
    return cost;
  }

  bool IsRunning(std::size_t stage) const {
    return std::any_of(children_.begin(), children_.end(),
                       [&](const Child& child) { return child.stage == stage; });
  }
  bool CanStart(std::size_t stage) const {
    return !states_[stage].cached() && states_[stage].key && !IsRunning(stage);
  }

  /// The next stage to start: exclusive ones first, then in the plan's order.
  std::optional<std::size_t> NextStage() const {
    std::optional<std::size_t> next;
    for (std::size_t i = 0; i < plan_.stages.size(); ++i) {
      if (!CanStart(i)) continue;
      if (plan_.stages[i].exclusive) return i;
      if (!next) next = i;
    }
    return next;
  }

  void StartWhatCanRun() {
    while (children_.size() < static_cast<std::size_t>(std::max(1, options_.jobs))) {
      const std::optional<std::size_t> next = NextStage();
      if (!next) return;
      const bool alone = plan_.stages[*next].exclusive ||
                         (!children_.empty() && plan_.stages[children_.front().stage].exclusive);
      if (alone && !children_.empty()) return;
      Start(*next);
    }
  }

  void Start(std::size_t index) {
    const Stage& stage = plan_.stages[index];
    StageContext context{.inputs = {}, .output = {}, .key = *states_[index].key, .progress = {}};
    for (const StageId input : stage.inputs) {
      context.inputs.push_back(states_[static_cast<std::size_t>(input)].record->folder);
    }
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      throw DeviceError(fmt::format("no pipe for a stage: {}", std::strerror(errno)));
    std::fflush(nullptr);
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) throw DeviceError(fmt::format("no process for a stage: {}", std::strerror(errno)));
    if (pid == 0) {
      EnterChild(parent);
      ::close(ends[0]);
      RunStage(stage, store_, std::move(context), ends[1]);
    }
    ::close(ends[1]);
    ++tries_[index];
    children_.push_back({.stage = index, .pid = pid, .pipe = ends[0]});
  }

  /// Waits a moment for messages and ends.
  void Listen() {
    std::vector<pollfd> fds;
    for (const Child& child : children_) fds.push_back({child.pipe, POLLIN, 0});
    ::poll(fds.data(), fds.size(), kPollMs);
    for (std::size_t i = 0; i < fds.size(); ++i) {
      if (fds[i].revents != 0) ReadMessages(children_[i]);
    }
    ReapChildren();
    ShowProgress();
  }

  static void ReadMessages(Child& child) {
    char buffer[4096];
    const ssize_t count = ::read(child.pipe, buffer, sizeof buffer);
    if (count <= 0) return;
    child.unread.append(buffer, static_cast<std::size_t>(count));
    for (std::size_t end = child.unread.find('\n'); end != std::string::npos;
         end = child.unread.find('\n')) {
      TakeMessage(child, child.unread.substr(0, end));
      child.unread.erase(0, end + 1);
    }
  }

  static void TakeMessage(Child& child, const std::string& line) {
    char* rest = nullptr;
    if (line.starts_with("p ")) {
      child.share = std::clamp(std::strtod(line.c_str() + 2, &rest), 0.0, 1.0);
      child.note = *rest == ' ' ? rest + 1 : "";
    } else if (line.starts_with("e ")) {
      const long code = std::strtol(line.c_str() + 2, &rest, 10);
      child.failure = Error(*rest == ' ' ? rest + 1 : "", static_cast<ExitCode>(code));
    }
  }

  void ReapChildren() {
    for (std::size_t i = 0; i < children_.size();) {
      int status = 0;
      if (::waitpid(children_[i].pid, &status, WNOHANG) != children_[i].pid) {
        ++i;
        continue;
      }
      Child child = std::move(children_[i]);
      children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(i));
      for (pollfd fd{child.pipe, POLLIN, 0}; ::poll(&fd, 1, 0) > 0 && (fd.revents & POLLIN) != 0;)
        ReadMessages(child);
      ::close(child.pipe);
      Finish(child, status);
    }
  }

  void Finish(const Child& child, int status) {
    const Stage& stage = plan_.stages[child.stage];
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
      states_ = LookUp(plan_, store_);
      if (states_[child.stage].cached()) return;
    }
    if (Interrupted() || ending_) return;
    const Error error = Describe(stage, child, status);
    if (tries_[child.stage] < stage.attempts && error.code() == ExitCode::kFailed) {
      LogWarning(fmt::format("{}; trying again", error.what()));
    } else if (!failure_) {
      failure_ = error;
    }
  }

  static Error Describe(const Stage& stage, const Child& child, int status) {
    const std::string what = fmt::format("stage {} '{}'", stage.kind, stage.name);
    if (child.failure)
      return Error(fmt::format("{}: {}", what, child.failure->what()), child.failure->code());
    if (WIFSIGNALED(status)) {
      return Error(
          fmt::format("{}: its process was killed by SIG{} (out of memory?)", what,
                      sigabbrev_np(WTERMSIG(status)) ? sigabbrev_np(WTERMSIG(status)) : "?"));
    }
    return Error(fmt::format("{}: its process ended with exit code {} and left no result", what,
                             WEXITSTATUS(status)));
  }

  void EndChildren() {
    ending_ = true;
    for (const Child& child : children_) ::kill(child.pid, SIGTERM);
    const int64_t deadline_ns = MonotonicNs() + kGraceNs;
    while (!children_.empty() && MonotonicNs() < deadline_ns) Listen();
    for (const Child& child : children_) ::kill(child.pid, SIGKILL);
    while (!children_.empty()) Listen();
  }

  void ShowProgress() {
    double done = progress_total_ - OpenCost();
    std::string note;
    for (const Child& child : children_) {
      const Stage& stage = plan_.stages[child.stage];
      done += child.share * stage.cost_s;
      note += fmt::format("{}{} {}{}", note.empty() ? "" : " | ", stage.kind, stage.name,
                          child.note.empty() ? "" : " (" + child.note + ")");
    }
    progress_.Update(static_cast<int64_t>(done), note);
  }

  const Plan& plan_;
  const StageStore& store_;
  const ExecutorOptions& options_;
  std::vector<StageState> states_;
  std::vector<int> tries_;
  double progress_total_ = OpenCost();
  Progress progress_;
  std::vector<Child> children_;
  std::optional<Error> failure_;
  bool ending_ = false;
};

}  // namespace

std::vector<StageState> LookUp(const Plan& plan, const StageStore& store) {
  std::vector<StageState> states(plan.stages.size());
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    std::vector<std::string> contents;
    for (const StageId input : stage.inputs) {
      const StageState& state = states[static_cast<std::size_t>(input)];
      if (state.cached()) contents.push_back(state.record->content);
    }
    if (contents.size() != stage.inputs.size()) continue;
    states[i].key = StageStore::KeyOf(stage, contents);
    states[i].record = store.Find(stage, *states[i].key);
  }
  return states;
}

std::vector<StageState> Execute(const Plan& plan, const StageStore& store,
                                const ExecutorOptions& options) {
  return Executor(plan, store, options).Run();
}

}  // namespace teller::experiment
