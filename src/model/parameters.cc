#include "src/model/parameters.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <cmath>
#include <fstream>
#include <utility>

#include "src/core/atomic_file.h"
#include "src/core/error.h"

namespace teller::model {
namespace {

constexpr double kBeta1 = 0.9, kBeta2 = 0.98, kEpsilon = 1e-8;
constexpr std::size_t kLargestFile = std::size_t{1} << 32;

using Dictionary = c10::Dict<std::string, at::Tensor>;

void SaveDictionary(const Dictionary& dictionary, const std::filesystem::path& path) {
  const std::vector<char> bytes = torch::jit::pickle_save(dictionary);
  WriteFileAtomically(path, {bytes.data(), bytes.size()}, true);
}

Dictionary LoadDictionary(const std::filesystem::path& path) {
  const std::string text = ReadFile(path, kLargestFile);
  try {
    const c10::IValue value = torch::jit::pickle_load({text.begin(), text.end()});
    Dictionary dictionary;
    for (const auto& entry : value.toGenericDict()) {
      dictionary.insert(entry.key().toStringRef(), entry.value().toTensor());
    }
    return dictionary;
  } catch (const std::exception&) {
    throw DataError(path.string() + ": not a file of tensors that we wrote; train the model again");
  }
}

}  // namespace

struct Parameters::State {
  explicit State(int64_t seed)
      : generator(at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed))) {}

  std::map<std::string, at::Tensor> values;
  std::map<std::string, at::Tensor> first, second;  // moments
  std::map<std::string, at::Tensor> fixed;
  int64_t updates = 0;
  at::Generator generator;

  void CopyIn(const Dictionary& from, const std::string& prefix,
              std::map<std::string, at::Tensor>& to, const std::filesystem::path& path);
};

void Parameters::State::CopyIn(const Dictionary& from, const std::string& prefix,
                               std::map<std::string, at::Tensor>& to,
                               const std::filesystem::path& path) {
  const c10::NoGradGuard no_gradient;
  for (auto& [name, tensor] : to) {
    const auto found = from.find(prefix + name);
    if (found == from.end())
      throw DataError(path.string() + ": tensor '" + prefix + name + "' is missing");
    const at::Tensor& loaded = found->value();
    if (loaded.scalar_type() != at::kFloat || !loaded.device().is_cpu() ||
        loaded.layout() != at::kStrided || loaded.sizes() != tensor.sizes()) {
      throw DataError(path.string() + ": tensor '" + name +
                      "' has another shape or type than the model");
    }
    if (!at::isfinite(loaded).all().item<bool>()) {
      throw DataError(path.string() + ": tensor '" + name + "' holds values that are not finite");
    }
    tensor.copy_(loaded);
  }
}

Parameters::Parameters(int64_t seed) {
  at::set_num_threads(1);
  state_ = std::make_unique<State>(seed);
}
Parameters::~Parameters() = default;

void Parameters::Add(const std::string& name, const std::vector<int64_t>& shape, double deviation) {
  at::Tensor value = deviation < 0    ? at::ones(shape)
                     : deviation == 0 ? at::zeros(shape)
                                      : at::randn(shape, state_->generator) * deviation;
  value.set_requires_grad(true);
  TELLER_CHECK(state_->values.emplace(name, std::move(value)).second);
  state_->first.emplace(name, at::zeros(shape));
  state_->second.emplace(name, at::zeros(shape));
}

const at::Tensor& Parameters::Get(const std::string& name) const {
  const auto found = state_->values.find(name);
  TELLER_CHECK(found != state_->values.end());
  return found->second;
}

void Parameters::AddFixed(const std::string& name, const std::vector<int64_t>& shape,
                          const std::vector<float>& values) {
  const auto count = static_cast<int64_t>(values.size());
  at::Tensor value =
      at::from_blob(const_cast<float*>(values.data()), {count}, at::kFloat).view(shape).clone();
  TELLER_CHECK(state_->fixed.emplace(name, std::move(value)).second);
}

const at::Tensor& Parameters::Fixed(const std::string& name) const {
  const auto found = state_->fixed.find(name);
  TELLER_CHECK(found != state_->fixed.end());
  return found->second;
}

std::map<std::string, std::vector<int64_t>> Parameters::Shapes() const {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& [name, tensor] : state_->values) shapes[name] = tensor.sizes().vec();
  return shapes;
}

void Parameters::Set(const std::string& name, const std::vector<float>& values) {
  const c10::NoGradGuard no_gradient;
  at::Tensor& tensor = state_->values.at(name);
  const auto count = static_cast<int64_t>(values.size());
  TELLER_CHECK(count == tensor.numel());
  tensor.copy_(
      at::from_blob(const_cast<float*>(values.data()), {count}, at::kFloat).view(tensor.sizes()));
}

void Parameters::ZeroGradients() {
  for (auto& [name, tensor] : state_->values) tensor.mutable_grad() = at::Tensor();
}

std::vector<std::string> Parameters::Untouched() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state_->values) {
    if (!tensor.grad().defined()) names.push_back(name);
  }
  return names;
}

double Parameters::Step(double learning_rate, double weight_decay, double clip) {
  const c10::NoGradGuard no_gradient;
  double squares = 0;
  for (const auto& [name, tensor] : state_->values) {
    if (tensor.grad().defined()) squares += tensor.grad().square().sum().item<double>();
  }
  const double norm = std::sqrt(squares);
  if (!std::isfinite(norm)) return norm;
  ++state_->updates;
  std::vector<at::Tensor> values[2], gradients[2], first[2], second[2],
      steps[2];  // 0: without decay
  for (auto& [name, tensor] : state_->values) {
    if (!tensor.grad().defined()) continue;
    const int decay = tensor.dim() >= 2 ? 1 : 0;
    if (norm > clip) tensor.mutable_grad().mul_(clip / norm);
    values[decay].push_back(tensor);
    gradients[decay].push_back(tensor.grad());
    first[decay].push_back(state_->first.at(name));
    second[decay].push_back(state_->second.at(name));
    steps[decay].push_back(at::full({}, static_cast<double>(state_->updates), at::kFloat));
  }
  for (const int decay : {0, 1}) {
    if (values[decay].empty()) continue;
    at::_fused_adamw_(values[decay], gradients[decay], first[decay], second[decay], {},
                      steps[decay], learning_rate, kBeta1, kBeta2, decay ? weight_decay : 0.0,
                      kEpsilon, false, false);
  }
  return norm;
}

void Parameters::SaveWeights(const std::filesystem::path& path) const {
  Dictionary dictionary;
  for (const auto& [name, tensor] : state_->values) dictionary.insert(name, tensor.detach());
  SaveDictionary(dictionary, path);
}

void Parameters::LoadWeights(const std::filesystem::path& path) {
  const Dictionary dictionary = LoadDictionary(path);
  if (dictionary.size() != state_->values.size()) {
    throw DataError(path.string() + ": found " + std::to_string(dictionary.size()) +
                    " tensors, expected " + std::to_string(state_->values.size()));
  }
  state_->CopyIn(dictionary, "", state_->values, path);
}

void Parameters::SaveState(const std::filesystem::path& path) const {
  Dictionary dictionary;
  for (const auto& [name, tensor] : state_->values) dictionary.insert(name, tensor.detach());
  for (const auto& [name, tensor] : state_->first) dictionary.insert("first/" + name, tensor);
  for (const auto& [name, tensor] : state_->second) dictionary.insert("second/" + name, tensor);
  dictionary.insert("updates", at::full({1}, static_cast<double>(state_->updates), at::kDouble));
  SaveDictionary(dictionary, path);
}

void Parameters::LoadState(const std::filesystem::path& path) {
  const Dictionary dictionary = LoadDictionary(path);
  state_->CopyIn(dictionary, "", state_->values, path);
  state_->CopyIn(dictionary, "first/", state_->first, path);
  state_->CopyIn(dictionary, "second/", state_->second, path);
  const auto updates = dictionary.find("updates");
  if (updates == dictionary.end() || updates->value().numel() != 1) {
    throw DataError(path.string() + ": the update count is missing");
  }
  state_->updates = static_cast<int64_t>(updates->value().item<double>());
}

}  // namespace teller::model
