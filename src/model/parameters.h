#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace at {
class Tensor;
}

namespace teller::model {

/// Named float32 tensors, their AdamW moments and their files. Creation order and seed fix the
/// initial values. Torch is confined to the .cc: at::Tensor is only named here.
class Parameters {
 public:
  /// Uses one thread from here on (docs/design.md, section 3: two cost up to six times as much on a
  /// busy machine).
  explicit Parameters(int64_t seed);
  ~Parameters();

  /// Normal values of this deviation; `deviation` 0 gives zeros, -1 ones. Names are unique.
  void Add(const std::string& name, const std::vector<int64_t>& shape, double deviation);
  const at::Tensor& Get(const std::string& name) const;
  /// Constants: neither trained nor saved.
  void AddFixed(const std::string& name, const std::vector<int64_t>& shape,
                const std::vector<float>& values);
  const at::Tensor& Fixed(const std::string& name) const;
  std::map<std::string, std::vector<int64_t>> Shapes() const;
  /// Overwrites one tensor, row by row; for tests against reference numbers.
  void Set(const std::string& name, const std::vector<float>& values);

  void ZeroGradients();
  /// Names of parameters that the last gradients did not reach.
  std::vector<std::string> Untouched() const;
  /// One AdamW update (decoupled weight decay on tensors of two dimensions or more, betas .9 and
  /// .98) after clipping the gradient to norm `clip`. Returns the norm before clipping; where it is
  /// not finite nothing is changed.
  double Step(double learning_rate, double weight_decay, double clip);

  /// Values only, as a dictionary that Python's torch.load reads.
  void SaveWeights(const std::filesystem::path& path) const;
  /// Throws DataError: unreadable, another set of names, shapes or types, values that are not
  /// finite.
  void LoadWeights(const std::filesystem::path& path);
  /// Values, moments and update count, for resuming.
  void SaveState(const std::filesystem::path& path) const;
  void LoadState(const std::filesystem::path& path);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace teller::model
