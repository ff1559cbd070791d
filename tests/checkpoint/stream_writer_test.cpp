#include "argosy/checkpoint/stream_writer.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "argosy/common/file.h"

namespace argosy::checkpoint {
namespace {

std::string written_text(std::size_t count, unsigned seed) {
  std::string text(count, '\0');
  for (std::size_t i = 0; i < count; ++i) {
    text[i] = static_cast<char>((i * 2654435761u + seed) >> 11);
  }
  return text;
}

// The buffers of a writer that has ended, or that was given up, are those of
// the next one.
TEST(StreamWriter, WritersShareBuffers) {
  const TempDir folder;
  const fs::Location place = fs::open(folder.path().string());
  const Deadline deadline = Deadline::after(std::chrono::seconds(60));
  WriteBuffers buffers;
  std::set<const std::byte*> seen;
  for (unsigned turn = 0; turn < 3; ++turn) {
    // More than all buffers hold, and aligned to nothing.
    const std::string text = written_text((std::size_t{33} << 20) + 7, turn);
    const auto path = folder.path() / std::to_string(turn);
    {
      StreamWriter writer(buffers);
      writer.open(*place.fs, path.string(), text.size(), deadline);
      writer.write(std::as_bytes(std::span(text)));
      if (turn != 1) {
        writer.finish();
      }
    }
    if (turn != 1) {
      EXPECT_TRUE(read_file(path) == text) << turn;
    } else {
      EXPECT_FALSE(std::filesystem::exists(path));
    }
    std::vector<std::unique_ptr<HugeBuffer>> taken;
    for (int i = 0; i < 3; ++i) {
      taken.push_back(buffers.take());
      seen.insert(taken.back()->data());
    }
    for (auto& buffer : taken) {
      buffers.give_back(std::move(buffer));
    }
  }
  EXPECT_EQ(seen.size(), 3u);
}

} // namespace
} // namespace argosy::checkpoint
