// Fault points: what they do, how faults are drawn, and that the page lists
// them all.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>

#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "argosy/common/file.h"
#include "argosy/testing/faults.h"

namespace argosy::testing {
namespace {

using ::testing::ElementsAre;

TEST(FaultPoint, ActsAtTheVisitThatWasNamed) {
  set_fault("here:throw:2");
  EXPECT_NO_THROW(fault_point("here"));
  EXPECT_NO_THROW(fault_point("there"));
  EXPECT_THROW(fault_point("here"), SystemError);
  EXPECT_NO_THROW(fault_point("here"));
  set_fault("here:fail:all");
  EXPECT_TRUE(fault_fails("here"));
  EXPECT_TRUE(fault_fails("here"));
  EXPECT_FALSE(fault_fails("there"));
  set_fault("");
  EXPECT_FALSE(fault_fails("here"));
  EXPECT_THROW(set_fault("a:b:c:d"), InvalidArgument);
}

TEST(Faults, CountsVisits) {
  const TempDir folder;
  write_file(folder.path() / "visits.1", "0 a\n0 b\n0 a\n");
  write_file(folder.path() / "visits.2", "1 a\nlauncher c\n1 hal");
  EXPECT_THAT(
      read_fault_visits(folder.path()),
      ElementsAre(
          FaultVisits{"0", "a", 2},
          FaultVisits{"0", "b", 1},
          FaultVisits{"1", "a", 1},
          FaultVisits{"1", "hal", 1},
          FaultVisits{"launcher", "c", 1}));
}

TEST(Faults, AreDrawnFromTheSeedAlone) {
  const std::vector<FaultVisits> visits = {
      {"0", "a", 5}, {"1", "a", 2}, {"1", "b", 1}};
  std::set<std::string> drawn;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Fault fault = draw_fault(seed, visits, {"kill", "stop"});
    EXPECT_EQ(fault, draw_fault(seed, visits, {"kill", "stop"}));
    drawn.insert(fault.text());
  }
  // 8 visits, 2 actions each.
  EXPECT_EQ(drawn.size(), 16u);
  EXPECT_TRUE(drawn.contains("stop 0 at a, visit 5"));
  EXPECT_THROW(draw_fault(1, {}, {"kill"}), InvalidArgument);
}

TEST(Faults, ThePageListsAllPoints) {
  const std::filesystem::path root = ARGOSY_SOURCE_DIR;
  const std::string page = read_file(root / "docs/faults.md").value_or("");
  const std::regex call("fault_(?:point|fails)\\(\"([^\"]+)\"\\)");
  std::set<std::string> points;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(root / "argosy")) {
    if (entry.path().extension() != ".cpp") {
      continue;
    }
    const std::string source = read_file(entry.path()).value_or("");
    for (std::sregex_iterator it(source.begin(), source.end(), call), end;
         it != end;
         ++it) {
      points.insert((*it)[1]);
    }
  }
  EXPECT_GT(points.size(), 25u);
  for (const std::string& point : points) {
    EXPECT_NE(page.find("`" + point + "`"), std::string::npos) << point;
  }
}

} // namespace
} // namespace argosy::testing
