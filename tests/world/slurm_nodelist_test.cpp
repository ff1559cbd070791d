#include "argosy/world/sources/slurm_nodelist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/common/error.h"

namespace argosy::world {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> expand(const char* text) {
  return expand_nodelist(text, "NODES");
}

TEST(SlurmNodelist, ExpandsRangesAndLists) {
  EXPECT_THAT(expand("a"), ElementsAre("a"));
  EXPECT_THAT(
      expand("a[1-3,007-9],b2"),
      ElementsAre("a1", "a2", "a3", "a007", "a008", "a009", "b2"));
  EXPECT_THAT(
      expand("c[1-2]d[3-4]"), ElementsAre("c1d3", "c1d4", "c2d3", "c2d4"));
  EXPECT_THAT(expand("r[08-10]-ib"), ElementsAre("r08-ib", "r09-ib", "r10-ib"));
  EXPECT_THAT(expand("n[5]"), ElementsAre("n5"));
  EXPECT_THAT(expand("node-a.x.org,b"), ElementsAre("node-a.x.org", "b"));
}

TEST(SlurmNodelist, RefusesWhatIsNoList) {
  for (const char* bad :
       {"a[",
        "a]",
        "a[1",
        "a[[1]]",
        "a[]",
        "a[x]",
        "a[3-1]",
        "a[1-]",
        "a,,b",
        "",
        "a[1,]",
        "a[-3]",
        "a[1-9999999]",
        "a[1-50000]b[1-50000]",
        "a[99999999999]"}) {
    EXPECT_THROW(expand(bad), InvalidArgument) << bad;
  }
}

TEST(SlurmNodelist, ExpandsTasksPerNode) {
  EXPECT_THAT(expand_tasks_per_node("2(x3),1", "T"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(expand_tasks_per_node("4", "T"), ElementsAre(4));
  for (const char* bad : {"2(x", "x", "2(x0)", "-1", "2(x3", "2(x99999999)"}) {
    EXPECT_THROW(expand_tasks_per_node(bad, "T"), InvalidArgument) << bad;
  }
}

} // namespace
} // namespace argosy::world
