// Compares the network with numbers of scripts/reference_model.py, an implementation of its own.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "src/model/network.h"

namespace teller::model {
namespace {

using Arrays = std::map<std::string, std::vector<double>>;

/// 'name value value ...' a line.
Arrays Read(const std::string& name) {
  std::ifstream file(std::string(TELLER_SOURCE_DIR) + "/tests/golden/model/reference/" + name);
  Arrays arrays;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    for (double value; words >> value;) arrays[key].push_back(value);
  }
  return arrays;
}

/// As in the script: base + 0.3 sin(0.7 i + the sum of the name's bytes); base 1 for the weights of
/// norms.
void SetByFormula(Parameters& parameters) {
  for (const auto& [name, shape] : parameters.Shapes()) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    double phase = 0;
    for (const char c : name) phase += static_cast<unsigned char>(c);
    const bool norm = shape.size() == 1 && name.ends_with(".weight");
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) {
      values.push_back(static_cast<float>((norm ? 1.0 : 0.0) +
                                          0.3 * std::sin(0.7 * static_cast<double>(i) + phase)));
    }
    parameters.Set(name, values);
  }
}

template <typename T>
std::vector<T> As(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

Batch BatchOf(const Arrays& in) {
  Batch batch;
  batch.steps = 2;
  batch.length = 4;
  batch.log_length = 3;
  batch.ranks = 2;
  for (const auto& [name, column] :
       std::map<std::string, std::vector<int64_t>*>{{"ids", &batch.ids},
                                                    {"parents", &batch.parents},
                                                    {"layers", &batch.layers},
                                                    {"token_ranks", &batch.token_ranks},
                                                    {"depths", &batch.depths},
                                                    {"positions", &batch.positions},
                                                    {"logs", &batch.logs},
                                                    {"log_ranks", &batch.log_ranks},
                                                    {"node_token", &batch.node_token},
                                                    {"node_symbol", &batch.node_symbol}}) {
    *column = As<int64_t>(in.at(name));
  }
  for (const auto& [name, column] :
       std::map<std::string, std::vector<float>*>{{"values", &batch.values},
                                                  {"token_mask", &batch.token_mask},
                                                  {"rank_mask", &batch.rank_mask},
                                                  {"log_mask", &batch.log_mask},
                                                  {"numbers", &batch.numbers},
                                                  {"localizer", &batch.localizer},
                                                  {"node_values", &batch.node_values}}) {
    *column = As<float>(in.at(name));
  }
  return batch;
}

void ExpectNear(const std::vector<float>& found, const std::vector<double>& expected,
                const std::string& name) {
  ASSERT_EQ(found.size(), expected.size()) << name;
  for (std::size_t i = 0; i < found.size(); ++i) {
    // float32 against float64 through two layers.
    EXPECT_NEAR(found[i], expected[i], 2e-4) << name << " " << i;
  }
}

TEST(ReferenceTest, TheNetworkAgreesWithAnIndependentImplementation) {
  ModelConfig config;
  config.d_model = 8;
  config.heads = 2;
  config.feed_forward = 16;
  config.layers = 2;
  const InputShape shape{"hash", 6, 5, {"a", "b"}, {"x", "y", "z"}};
  ASSERT_EQ(ValueWidth(config), 14);
  Network network(config, shape, 3, 1);
  SetByFormula(network.parameters());
  const Outputs outputs = network.Predict(BatchOf(Read("input.txt")));
  const Arrays expected = Read("expected.txt");
  ExpectNear(outputs.abnormal, expected.at("abnormal"), "abnormal");
  ExpectNear(outputs.kind, expected.at("kind"), "kind");
  ExpectNear(outputs.rank, expected.at("rank"), "rank");
  ExpectNear(outputs.none, expected.at("none"), "none");
  ExpectNear(outputs.node, expected.at("node"), "node");
}

}  // namespace
}  // namespace teller::model
