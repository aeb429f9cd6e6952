#include "src/abi/control_file.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "tests/support/temporary_folder.h"

namespace {

using teller::testing_support::TemporaryFolder;

TEST(ControlFileTest, IsSeenByAReaderWithAllItsChanges) {
  const TemporaryFolder folder;
  TellerControl* writer = nullptr;
  ASSERT_EQ(teller_control_create(folder.path().c_str(), &writer), 0);
  TellerControl* reader = nullptr;
  ASSERT_EQ(teller_control_map(folder.path().c_str(), 0, &reader), 0);
  EXPECT_EQ(reader->level, TELLER_LEVEL_OFF);
  EXPECT_EQ(reader->generation, 0u);

  teller_control_set_level(writer, TELLER_LEVEL_FULL);
  teller_control_set_perturb(writer, 1);
  TellerPerturbation perturbation{};
  perturbation.plan_id = 7;
  std::strcpy(perturbation.pattern, "all_reduce*");
  teller_control_set_perturbation(writer, 3, &perturbation);

  EXPECT_EQ(reader->level, TELLER_LEVEL_FULL);
  EXPECT_EQ(reader->perturb, 1u);
  EXPECT_EQ(reader->generation, 3u);
  EXPECT_EQ(reader->perturbations[3].active, 1u);
  EXPECT_EQ(reader->perturbations[3].plan_id, 7u);
  EXPECT_STREQ(reader->perturbations[3].pattern, "all_reduce*");
  teller_control_clear_perturbation(writer, 3);
  EXPECT_EQ(reader->perturbations[3].active, 0u);
  teller_control_unmap(reader);
  teller_control_unmap(writer);
}

TEST(ControlFileTest, IsMadeOnce) {
  const TemporaryFolder folder;
  TellerControl* control = nullptr;
  ASSERT_EQ(teller_control_create(folder.path().c_str(), &control), 0);
  TellerControl* second = nullptr;
  EXPECT_EQ(teller_control_create(folder.path().c_str(), &second), EEXIST);
  teller_control_unmap(control);
}

TEST(ControlFileTest, RefusesForeignAndMissingFiles) {
  const TemporaryFolder folder;
  TellerControl* control = nullptr;
  EXPECT_EQ(teller_control_map(folder.path().c_str(), 0, &control), ENOENT);
  std::ofstream(folder / TELLER_CONTROL_FILE) << "short";
  EXPECT_EQ(teller_control_map(folder.path().c_str(), 0, &control), EPROTO);
  std::ofstream(folder / TELLER_CONTROL_FILE) << std::string(sizeof(TellerControl), 'x');
  EXPECT_EQ(teller_control_map(folder.path().c_str(), 0, &control), EPROTO);
  EXPECT_EQ(control, nullptr);
}

}  // namespace
