#include "src/model/api.h"

#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "src/core/error.h"
#include "src/model/run_request.h"

namespace {

int Report(const char* message, teller::ExitCode code, char* error, size_t error_bytes) {
  if (error != nullptr && error_bytes > 0) std::snprintf(error, error_bytes, "%s", message);
  return static_cast<int>(code);
}

teller::model::ProgressCall Wrap(TellerModelProgress progress, void* context) {
  return [progress, context](int64_t done, int64_t total, const std::string& note) {
    return progress == nullptr || progress(context, done, total, note.c_str()) != 0;
  };
}

/// Runs `body` and turns what it throws into an exit code and a line.
template <typename Body>
int Guard(char* error, size_t error_bytes, Body&& body) {
  try {
    body();
    return static_cast<int>(teller::ExitCode::kDone);
  } catch (const teller::Error& failure) {
    return Report(failure.what(), failure.code(), error, error_bytes);
  } catch (const std::bad_alloc&) {
    return Report("out of memory", teller::ExitCode::kFailed, error, error_bytes);
  } catch (const std::exception& failure) {
    // LibTorch adds a backtrace below the first line.
    const std::string text = failure.what();
    return Report(text.substr(0, text.find('\n')).c_str(), teller::ExitCode::kFailed, error,
                  error_bytes);
  }
}

}  // namespace

int teller_model_api_version() { return TELLER_MODEL_API_VERSION; }

int teller_model_train(const char* request_json, TellerModelProgress progress, void* context,
                       char* error, size_t error_bytes) {
  return Guard(error, error_bytes, [&] {
    teller::model::Train(teller::model::ParseTrainRequest(request_json), Wrap(progress, context));
  });
}

int teller_model_predict(const char* request_json, TellerModelProgress progress, void* context,
                         char* error, size_t error_bytes) {
  return Guard(error, error_bytes, [&] {
    teller::model::Predict(teller::model::ParsePredictRequest(request_json),
                           Wrap(progress, context));
  });
}
