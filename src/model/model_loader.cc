#include "src/model/model_loader.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <array>
#include <exception>
#include <utility>

#include "src/core/error.h"
#include "src/model/api.h"

namespace teller::model {
namespace {

constexpr const char* kFileName = "libteller_model.so";

std::vector<std::filesystem::path> DefaultCandidates() {
  if (const char* named = getenv("TELLER_MODEL_LIBRARY"); named != nullptr && *named != '\0')
    return {named};
  std::vector<std::filesystem::path> candidates;
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    candidates.push_back(program.parent_path().parent_path() / "lib" / kFileName);
    candidates.push_back(program.parent_path() / kFileName);
  }
  candidates.emplace_back(kFileName);
  return candidates;
}

/// What travels through the C border during one call.
struct CallState {
  const ModelLibrary::ProgressCall& progress;
  std::exception_ptr failure;  // thrown by `progress`; the library is asked to stop and it is
                               // thrown again afterwards
};

int OnProgress(void* context, int64_t done, int64_t total, const char* note) {
  auto& state = *static_cast<CallState*>(context);
  try {
    return state.progress(done, total, note) ? 1 : 0;
  } catch (...) {
    state.failure = std::current_exception();
    return 0;
  }
}

void Call(TellerModelCall call, const std::string& request,
          const ModelLibrary::ProgressCall& progress) {
  std::array<char, 2048> error{};
  CallState state{progress, nullptr};
  const int code = call(request.c_str(), OnProgress, &state, error.data(), error.size());
  if (state.failure) std::rethrow_exception(state.failure);
  if (code != 0) throw Error(error.data(), static_cast<ExitCode>(code));
}

}  // namespace

struct ModelLibrary::Handle {
  void* library = nullptr;
  TellerModelCall train = nullptr;
  TellerModelCall predict = nullptr;

  ~Handle() {
    if (library != nullptr) dlclose(library);
  }
  template <typename Function>
  Function Find(const char* name) const {
    return reinterpret_cast<Function>(dlsym(library, name));
  }
};

ModelLibrary::ModelLibrary(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
ModelLibrary::~ModelLibrary() = default;
ModelLibrary::ModelLibrary(ModelLibrary&&) noexcept = default;

ModelLibrary ModelLibrary::Open() { return Open(DefaultCandidates()); }

ModelLibrary ModelLibrary::Open(const std::vector<std::filesystem::path>& candidates) {
  setenv("OMP_NUM_THREADS", "1", 0);
  auto handle = std::make_unique<Handle>();
  std::string reason;
  for (const auto& path : candidates) {
    handle->library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle->library != nullptr) break;
    if (reason.empty() || std::filesystem::exists(path)) reason = dlerror();
  }
  if (handle->library == nullptr) {
    throw UnavailableError("the model library could not be opened (" + reason +
                           "); build with TELLER_WITH_TORCH=ON or set TELLER_MODEL_LIBRARY");
  }
  const auto version = handle->Find<int (*)()>("teller_model_api_version");
  handle->train = handle->Find<TellerModelCall>("teller_model_train");
  handle->predict = handle->Find<TellerModelCall>("teller_model_predict");
  if (version == nullptr || handle->train == nullptr || handle->predict == nullptr ||
      version() != TELLER_MODEL_API_VERSION) {
    throw UnavailableError(
        "the model library is of another version than this program; build both together");
  }
  return ModelLibrary(std::move(handle));
}

void ModelLibrary::Train(const std::string& request_json, const ProgressCall& progress) const {
  Call(handle_->train, request_json, progress);
}

void ModelLibrary::Predict(const std::string& request_json, const ProgressCall& progress) const {
  Call(handle_->predict, request_json, progress);
}

}  // namespace teller::model
