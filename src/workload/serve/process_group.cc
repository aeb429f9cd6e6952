#include "src/workload/serve/process_group.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>

#include <chrono>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include "src/core/error.h"

namespace teller::serve {
namespace {

/// The first line of what torch says.
std::string FirstLine(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

/// Runs `call`; what torch or Gloo throw becomes one line of ours.
template <typename Call>
auto Translated(const std::string& what, Call call) {
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw DeviceError(what + ": " + FirstLine(error));
  }
}

}  // namespace

struct RankStore::State {
  c10::intrusive_ptr<c10d::TCPStore> store;
};

RankStore::RankStore(const std::string& address, int port, int timeout_s)
    : state_(std::make_unique<State>()) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.isServer = port == 0;
  options.waitWorkers = false;
  options.timeout = std::chrono::seconds(timeout_s);
  Translated("opening the ranks' store at " + address + ":" + std::to_string(port),
             [&] { state_->store = c10::make_intrusive<c10d::TCPStore>(address, options); });
}

RankStore::~RankStore() = default;
int RankStore::port() const { return state_->store->getPort(); }

struct ProcessGroup::State {
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo;
};

ProcessGroup::ProcessGroup(RankStore& store, std::string name, int rank, int size,
                           const std::string& local_address, int timeout_s)
    : name_(std::move(name)),
      rank_(rank),
      size_(size),
      sent_(static_cast<std::size_t>(size)),
      received_(static_cast<std::size_t>(size)),
      state_(std::make_unique<State>()) {
  Translated("connecting the ranks of group '" + name_ + "' from " + local_address, [&] {
    auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::seconds(timeout_s));
    options->devices = {c10d::ProcessGroupGloo::createDeviceForHostname(local_address)};
    options->threads = 1;  // one stream calls it, one collective at a time
    options->group_name = name_;
    auto prefixed = c10::make_intrusive<c10d::PrefixStore>(name_, store.state_->store);
    state_->gloo =
        c10::make_intrusive<c10d::ProcessGroupGloo>(std::move(prefixed), rank, size, options);
  });
}

ProcessGroup::~ProcessGroup() = default;

void ProcessGroup::AllReduce(at::Tensor tensor) {
  Translated("all-reduce of group '" + name_ + "'", [&] {
    const c10::InferenceMode guard;
    std::vector<at::Tensor> tensors = {std::move(tensor)};
    state_->gloo->allreduce(tensors)->wait();
  });
}

void ProcessGroup::AllGather(at::Tensor out, at::Tensor tensor) {
  Translated("all-gather of group '" + name_ + "'", [&] {
    const c10::InferenceMode guard;
    std::vector<std::vector<at::Tensor>> outputs(1);
    for (int64_t i = 0; i < size_; ++i) {
      float* part = out.mutable_data_ptr<float>() + i * tensor.numel();
      outputs[0].push_back(at::from_blob(part, tensor.sizes(), tensor.options()));
    }
    std::vector<at::Tensor> inputs = {std::move(tensor)};
    state_->gloo->allgather(outputs, inputs)->wait();
  });
}

void ProcessGroup::Send(at::Tensor tensor, int peer) {
  Translated("sending in group '" + name_ + "'", [&] {
    const c10::InferenceMode guard;
    std::vector<at::Tensor> tensors = {std::move(tensor)};
    state_->gloo->send(tensors, peer, /*tag=*/0)->wait();
  });
}

void ProcessGroup::Receive(at::Tensor tensor, int peer) {
  Translated("receiving in group '" + name_ + "'", [&] {
    const c10::InferenceMode guard;
    std::vector<at::Tensor> tensors = {std::move(tensor)};
    state_->gloo->recv(tensors, peer, /*tag=*/0)->wait();
  });
}

}  // namespace teller::serve
