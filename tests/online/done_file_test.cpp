#include "argosy/online/done_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "tests/support/refusal.h"

namespace argosy::online {
namespace {

using argosy::testing::refusal;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(DoneFile, KeepsRecordsInOrder) {
  const TempDir folder;
  const DoneFile file(folder.path());
  EXPECT_THAT(file.read(), IsEmpty());
  const DoneRecord first{"20261118/2", {"20261118", 2, 0, "7 \"x\".txt"}};
  const DoneRecord second{
      "20261119/0",
      {"20261119", 0, 3},
      PlannedExport{3, true, "20261119/base"}};
  file.append(first);
  file.append(second);
  EXPECT_THAT(file.read(), ElementsAre(first, second));
  EXPECT_EQ(
      read_file(folder.path() / "donefile"),
      "{\"day\":\"20261118\",\"pass\":2,\"checkpoint\":\"20261118/2\","
      "\"num_exports\":0,\"last_file\":\"7 \\\"x\\\".txt\"}\n"
      "{\"day\":\"20261119\",\"pass\":0,\"checkpoint\":\"20261119/0\","
      "\"num_exports\":3,\"last_file\":\"\",\"export\":{\"number\":3,"
      "\"is_base\":true,\"path\":\"20261119/base\"}}\n");
}

TEST(DoneFile, NamesALineThatIsNone) {
  const TempDir folder;
  const DoneFile file(folder.path());
  file.append({"20261118/2", {"20261118", 2}});
  const auto path = folder.path() / "donefile";
  write_file(path, *read_file(path) + "{\"day\":\"20261118\"}\n");
  EXPECT_THAT(
      refusal<CheckpointError>([&] { file.read(); }),
      HasSubstr(path.string() + ", line 2: "));
}

} // namespace
} // namespace argosy::online
