#include "argosy/common/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <thread>

#include "argosy/common/error_file.h"
#include "argosy/common/file.h"
#include "argosy/common/log.h"
#include "argosy/common/rank_label.h"

namespace argosy {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(Error, ClassesCanBeToldApart) {
  EXPECT_THROW(throw PeerLost("x"), Error);
  EXPECT_THROW(throw TimeoutError("x"), std::runtime_error);
  try {
    throw RankFailed(3, "boom");
  } catch (const RankFailed& error) {
    EXPECT_EQ(error.rank(), 3);
  }
}

TEST(Error, ChecksCarryTheirParts) {
  try {
    ARGOSY_CHECK(1 == 2, "[op] got {}, expected {}", 1, 2.5);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "[op] got 1, expected 2.5");
  }
}

TEST(Error, ChecksFormatTheirValues) {
  try {
    ARGOSY_CHECK(1 == 2, "[op] got {}, expected {}", 1, 2.5);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "[op] got 1, expected 2.5");
  }
}

TEST(StrFormat, PutsValuesIntoTheirPlacesAndTheRestAtTheEnd) {
  EXPECT_EQ(str_format(), "");
  EXPECT_EQ(str_format("{"), "{");
  EXPECT_EQ(str_format("no value for {}"), "no value for {}");
  EXPECT_EQ(str_format("{}{} end", 1, 'b'), "1b end");
  EXPECT_EQ(str_format("{} and ", "{}", 2, " more"), "{} and 2 more");
  EXPECT_EQ(str_format(1, " of {}"), "1 of {}");
}

TEST(Error, AssertsNameTheConditionInEveryBuild) {
  try {
    ARGOSY_ASSERT(1 == 2, "odd");
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), HasSubstr("1 == 2"));
    EXPECT_THAT(error.what(), HasSubstr("error_test.cpp"));
  }
}

TEST(Error, CarriesTheRankOfItsThread) {
  std::thread([] {
    set_rank_label(2, 4);
    EXPECT_THAT(StoreError("lost").what(), EndsWith("lost; rank 2/4"));
  }).join();
  EXPECT_STREQ(StoreError("lost").what(), "lost");
}

TEST(Error, AddsTheSystemsReason) {
  errno = ENOENT;
  EXPECT_EQ(with_errno("opening"), "opening: No such file or directory");
}

TEST(ErrorFile, ReadsWhatItWrote) {
  const TempDir dir;
  const ErrorReport report{"Type: \"text\"\n", "frame", 123};
  write_error_file(dir.path() / "error.json", report);
  EXPECT_EQ(read_error_file(dir.path() / "error.json"), report);
}

TEST(ErrorFile, TakesWhatTorchrunWrites) {
  const TempDir dir;
  const auto path = dir.path() / "error.json";
  write_file(
      path,
      R"({"message": {"message": "ValueError: x", "extraInfo": {)"
      R"("py_callstack": "Traceback", "timestamp": "17"}}})");
  const auto report = read_error_file(path);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->message, "ValueError: x");
  EXPECT_EQ(report->timestamp, 17);
}

TEST(ErrorFile, TakesNumbersForStrings) {
  const TempDir dir;
  const auto path = dir.path() / "error.json";
  write_file(
      path,
      R"({"message": {"message": "E: x", "extraInfo": {"timestamp": 17}}})");
  EXPECT_EQ(read_error_file(path)->timestamp, 17);
}

TEST(ErrorFile, PassesOverWhatIsNoReport) {
  const TempDir dir;
  const auto path = dir.path() / "error.json";
  EXPECT_FALSE(read_error_file(path));
  for (const char* content :
       {"",
        "{",
        "[]",
        "7",
        "{\"message\": 7}",
        "{\"message\": {}}",
        "{\"message\": {\"message\": 3, \"extraInfo\": 4}}"}) {
    write_file(path, content);
    EXPECT_FALSE(read_error_file(path)) << content;
  }
}

TEST(Log, WritesTheRankAndHonoursTheLevel) {
  const log::Level before = log::level();
  log::set_level(log::Level::Warn);
  set_rank_label(1, 2);
  ::testing::internal::CaptureStderr();
  log::info("unseen");
  log::warn("seen ", 42);
  const std::string text = ::testing::internal::GetCapturedStderr();
  set_rank_label(0, 0);
  log::set_level(before);
  EXPECT_THAT(text, HasSubstr("argosy 1/2 warn] seen 42\n"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("unseen")));
  EXPECT_THROW(log::parse_level("loud"), InvalidArgument);
}

} // namespace
} // namespace argosy
