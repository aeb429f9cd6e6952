#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace teller::model {

/// libteller_model.so, opened at run time so that the program itself does not link torch.
class ModelLibrary {
 public:
  /// Called now and then with what was done of how much; answering false asks for a clean stop.
  using ProgressCall = std::function<bool(int64_t done, int64_t total, const std::string& note)>;

  /// Opens the library named by TELLER_MODEL_LIBRARY, else the one beside the program (../lib or
  /// its own folder), else wherever the system finds it. Sets OMP_NUM_THREADS=1 where it is unset.
  /// Throws UnavailableError (exit code 4) where it is absent, cannot be loaded or speaks another
  /// version of src/model/api.h.
  static ModelLibrary Open();
  static ModelLibrary Open(const std::vector<std::filesystem::path>& candidates);
  ~ModelLibrary();
  ModelLibrary(ModelLibrary&&) noexcept;

  /// Requests: docs/schema/model_request.md. Throw teller::Error with the library's line and exit
  /// code.
  void Train(const std::string& request_json, const ProgressCall& progress) const;
  void Predict(const std::string& request_json, const ProgressCall& progress) const;

 private:
  struct Handle;
  explicit ModelLibrary(std::unique_ptr<Handle> handle);

  std::unique_ptr<Handle> handle_;
};

}  // namespace teller::model
