// Every counter that the sources add is in docs/reconstruction.md, and the other way round.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "src/core/atomic_file.h"
#include "tests/support/schema_document.h"

namespace teller::reconstruct {
namespace {

std::set<std::string> Documented() {
  std::set<std::string> counters;
  const std::regex word("`?([a-z_]+)`?");
  for (const auto& row :
       testing_support::TableRows("docs/reconstruction.md", "| counter | meaning |")) {
    for (std::sregex_iterator i(row[0].begin(), row[0].end(), word), end; i != end; ++i)
      counters.insert((*i)[1]);
  }
  counters.erase("trace_");  // of 'trace_NAME'
  return counters;
}

std::set<std::string> Used() {
  std::set<std::string> counters;
  const std::regex added(
      R"rx(stats_?\[(?:ranks\.empty\(\) \? )?"([a-z_]+)"(?: : "([a-z_]+)")?\])rx");
  const std::regex listed(R"rx(\{"([a-z_]+)", trees\.[a-z_]+\})rx");
  for (const char* file :
       {"reconstruct/run_builder.cc", "reconstruct/rank_steps.cc", "reconstruct/log_attach.cc",
        "dataset/label_steps.cc", "dataset/build_steps.cc"}) {
    const std::string text = ReadFile(std::filesystem::path(TELLER_SOURCE_DIR) / "src" / file);
    for (const std::regex& pattern : {added, listed}) {
      for (std::sregex_iterator i(text.begin(), text.end(), pattern), end; i != end; ++i) {
        for (std::size_t group = 1; group < i->size(); ++group) {
          if ((*i)[group].matched) counters.insert((*i)[group]);
        }
      }
    }
  }
  counters.insert("trace_incomplete");
  return counters;
}

TEST(ReconstructionDocumentTest, ListsExactlyTheCountersInUse) { EXPECT_EQ(Documented(), Used()); }

}  // namespace
}  // namespace teller::reconstruct
