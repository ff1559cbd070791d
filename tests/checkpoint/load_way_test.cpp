#include "argosy/checkpoint/load_way.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/checkpoint/chunk_stream.h"
#include "argosy/checkpoint/hash.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "tests/support/refusal.h"

namespace argosy::checkpoint {
namespace {

TEST(LoadWay, DependsOnWhereTheBytesAre) {
  const LoadPlace cached{
      .bytes = 100 << 20, .cached_share = 0.9, .copy_bytes = 1};
  const LoadPlace on_disk{
      .bytes = 100 << 20,
      .cached_share = 0.1,
      .copy_bytes = 50,
      .free_memory = 100};
  LoadPlace small = on_disk;
  small.bytes = 1 << 20;
  LoadPlace too_large = on_disk;
  too_large.copy_bytes = 51;
  const LoadPlace remote{.is_local = false, .cached_share = 0};
  using enum Order;
  EXPECT_EQ(choose_way(true, cached), (LoadWay{VerifyThenRead, false}));
  EXPECT_EQ(choose_way(true, on_disk), (LoadWay{ReadWithUndo, true}));
  EXPECT_EQ(choose_way(true, small), (LoadWay{VerifyThenRead, false}));
  EXPECT_EQ(choose_way(false, small), (LoadWay{ReadInPlace, false}));
  EXPECT_EQ(choose_way(true, too_large), (LoadWay{VerifyThenRead, false}));
  EXPECT_EQ(choose_way(true, remote), (LoadWay{ReadWithUndo, false}));
  EXPECT_EQ(choose_way(false, cached), (LoadWay{ReadInPlace, false}));
  EXPECT_EQ(choose_way(false, on_disk), (LoadWay{ReadInPlace, true}));
  EXPECT_EQ(choose_way(false, remote), (LoadWay{ReadInPlace, false}));
  for (const Order order : {VerifyThenRead, ReadWithUndo, ReadInPlace}) {
    for (const bool ahead : {false, true}) {
      const LoadWay way{order, ahead};
      EXPECT_EQ(parse_load_way(to_text(way)), way);
    }
  }
}

std::string numbered_bytes(std::size_t count, unsigned seed) {
  std::string bytes(count, '\0');
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<char>((i * 2654435761u + seed) >> 13);
  }
  return bytes;
}

const Deadline kSoon = Deadline::after(std::chrono::seconds(60));

// Files whose sizes and ranges are aligned to nothing; more ranges than
// buffers.
struct StreamedFiles {
  TempDir folder;
  std::vector<std::string> contents{
      numbered_bytes(3'000'001, 1), numbered_bytes(9'999, 2), ""};
  fs::Location place = fs::open(folder.path().string());

  StreamedFiles() {
    for (std::size_t i = 0; i < contents.size(); ++i) {
      write_file(folder.path() / std::to_string(i), contents[i]);
    }
  }
  ChunkStream stream(std::vector<ChunkRange> ranges) const {
    return {
        std::move(ranges),
        [this](const ChunkRange& range) {
          fs::ReadOptions options;
          options.direct = true;
          return place.fs->open_read(
              folder.path() / std::to_string(range.file), options, kSoon);
        },
        kSoon};
  }
};

TEST(ChunkStream, GivesRangesInTheirOrder) {
  const StreamedFiles files;
  std::vector<ChunkRange> ranges;
  for (std::uint64_t at = 1; at + 270'001 < 3'000'001; at += 270'001) {
    ranges.push_back({0, at, 270'001});
    ranges.push_back({1, at % 5'000, 4'999});
  }
  ranges.push_back({0, 0, 3'000'001});
  ranges.push_back({1, 9'998, 1});
  ranges.push_back({2, 0, 0});
  auto stream = files.stream(ranges);
  for (const ChunkRange& range : ranges) {
    const auto bytes = stream.next();
    const std::string_view text(
        reinterpret_cast<const char*>(bytes.data()), bytes.size());
    ASSERT_EQ(
        text,
        std::string_view(files.contents[range.file])
            .substr(range.offset, range.bytes))
        << range.file << ' ' << range.offset;
  }
}

// What was read before the error comes first. A stream may end unread.
TEST(ChunkStream, TellsErrorsWhereTheyAre) {
  const StreamedFiles files;
  auto stream = files.stream({{0, 5, 10}, {7, 0, 1}, {0, 0, 1}});
  EXPECT_EQ(stream.next().size(), 10u);
  EXPECT_THAT(
      testing::refusal<Error>([&] { stream.next(); }),
      ::testing::HasSubstr((files.folder.path() / "7").string()));
  const auto unread =
      files.stream(std::vector<ChunkRange>(20, ChunkRange{0, 0, 3'000'000}));
}

} // namespace
} // namespace argosy::checkpoint
