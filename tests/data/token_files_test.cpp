#include "argosy/data/token_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/data/loader.h"
#include "argosy/data/megatron_file.h"
#include "argosy/data/token_dataset.h"
#include "tests/store/expect.h"
#include "tests/support/command.h"

namespace argosy::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using Ids = std::vector<std::int64_t>;

Ids all(const Tokens& tokens) {
  return tokens.read(0, tokens.size());
}

std::string python(
    const std::string& action, const std::filesystem::path& path) {
  const auto result = testing::run_command(
      "python3 " ARGOSY_SOURCE_DIR "/tests/data/token_files.py " + action +
      " " + path.string());
  EXPECT_TRUE(result.status.success()) << result.output;
  return result.output;
}

TEST(Tokens, KeepsEachInTheSmallestType) {
  EXPECT_EQ(Tokens(Ids{0, 255}).type(), TokenType::U8);
  EXPECT_EQ(Tokens(Ids{256}).type(), TokenType::U16);
  EXPECT_EQ(Tokens(Ids{65536, 1}).type(), TokenType::U32);
  EXPECT_THAT(all(Tokens(Ids{65536, 1})), ElementsAre(65536, 1));
  EXPECT_EQ(Tokens(Ids{}).size(), 0);
  EXPECT_THAT(
      message_of<InvalidArgument>([] {
        Tokens(Ids{3, -1});
      }),
      HasSubstr("token -1 at 1"));
}

TEST(Tokens, SlicesShareAndStayInBounds) {
  const Tokens tokens(Ids{1, 2, 3, 4, 5});
  const Tokens middle = tokens.slice(1, 4);
  EXPECT_THAT(all(middle), ElementsAre(2, 3, 4));
  EXPECT_THAT(all(middle.slice(3, 3)), ElementsAre());
  EXPECT_THAT(
      message_of<InvalidArgument>([&] { middle.read(1, 3); }),
      HasSubstr("3 tokens from 1 on, expected within 0 to 3"));
  EXPECT_THAT(
      message_of<InvalidArgument>([&] { tokens.read(-1, 1); }),
      HasSubstr("from -1"));
  EXPECT_THAT(
      message_of<InvalidArgument>([&] { tokens.slice(3, 2); }),
      HasSubstr("-1 tokens"));
}

TEST(TokenFiles, ReadsWhatPythonWrote) {
  const TempDir dir;
  python("write", dir.path());
  EXPECT_THAT(
      all(open_tokens(dir.path() / "nanogpt.bin")),
      ElementsAre(7, 0, 50256, 65535));
  const Tokens gpt2 = open_tokens(dir.path() / "gpt2.bin");
  EXPECT_THAT(all(gpt2), ElementsAre(50256, 0, 65535));
  const Tokens llama3 = open_llmc(dir.path() / "llama3.bin");
  EXPECT_THAT(all(llama3), ElementsAre(128000, 0, 4294967295));
  for (const std::string name :
       {"megatron1",
        "megatron2",
        "megatron3",
        "megatron4",
        "megatron5",
        "megatron8",
        "modes"}) {
    const MegatronFile file(dir.path() / name);
    EXPECT_THAT(
        all(file.tokens()), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 100));
    ASSERT_EQ(file.num_sequences(), 5);
    EXPECT_THAT(all(file.sequence(2)), ElementsAre(5, 6, 7, 8, 9));
    EXPECT_THAT(all(file.sequence(3)), ElementsAre());
    ASSERT_EQ(file.num_documents(), 3);
    EXPECT_EQ(file.document(0), std::pair(std::int64_t{0}, std::int64_t{2}));
    EXPECT_EQ(file.document(2), std::pair(std::int64_t{3}, std::int64_t{5}));
  }
  EXPECT_EQ(open_tokens(dir.path() / "megatron4.bin").type(), TokenType::I32);
}

TEST(TokenFiles, PythonReadsWhatWasWritten) {
  const TempDir dir;
  write_nanogpt(dir.path() / "n.bin", Ids{3, 65535, 0});
  EXPECT_EQ(python("read-nanogpt", dir.path() / "n.bin"), "3 65535 0\n");

  MegatronWriter writer(dir.path() / "m", megatron_type(70000));
  writer.add_sequence(Ids{1, 69999});
  writer.add_sequence(Ids{});
  writer.end_document();
  writer.end_document();
  writer.add_sequence(Ids{5});
  writer.end_document();
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "m.bin"));
  writer.finish();
  EXPECT_EQ(
      python("read-megatron", dir.path() / "m"),
      "4 [[[1, 69999], []], [], [[5]]]\n");
  EXPECT_EQ(MegatronFile(dir.path() / "m.idx").num_documents(), 3);
  EXPECT_EQ(megatron_type(65499), TokenType::U16);
}

TEST(TokenFiles, AWriterThatDoesNotFinishLeavesNothing) {
  const TempDir dir;
  {
    MegatronWriter writer(dir.path() / "m", TokenType::U16);
    writer.add_sequence(Ids{1});
    EXPECT_THAT(
        message_of<InvalidArgument>([&] {
          writer.add_sequence(Ids{1, 65536});
        }),
        HasSubstr("token 65536 at 1, expected a uint16"));
    EXPECT_THAT(
        message_of<InvalidArgument>([&] { writer.finish(); }),
        HasSubstr("end_document()"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  EXPECT_THAT(
      message_of<InvalidArgument>(
          [&] { MegatronWriter(dir.path() / "m", TokenType::U32); }),
      HasSubstr("no uint32"));
  EXPECT_THROW(
      MegatronWriter(dir.path() / "no" / "m", TokenType::U16), SystemError);
  EXPECT_THROW(MegatronFile(dir.path() / "m"), SystemError);
}

TEST(TokenFiles, SaysWhatIsWrongWithAMegatronIndex) {
  const TempDir dir;
  python("write", dir.path());
  // Of five sequences and three documents.
  const auto path = dir.path() / "megatron8.idx";
  const std::string sound = *read_file(path);
  const auto with_damage = [&](std::size_t offset, auto value) {
    std::string index = sound;
    std::memcpy(index.data() + offset, &value, sizeof(value));
    write_file(path, index);
    return message_of<InvalidArgument>([&] { MegatronFile file(path); });
  };
  EXPECT_THAT(
      with_damage(0, char{'X'}), HasSubstr("megatron8.idx, offset 0: magic"));
  EXPECT_THAT(
      with_damage(9, std::uint64_t{2}),
      HasSubstr("offset 9: version is 2, expected 1"));
  EXPECT_THAT(
      with_damage(17, char{6}),
      HasSubstr("offset 17: type of tokens is 6, expected"));
  EXPECT_THAT(
      with_damage(18, std::uint64_t{~0ULL}),
      HasSubstr("offset 18: number of sequences is 18446744073709551615"));
  EXPECT_THAT(
      with_damage(26, std::uint64_t{1ULL << 61}),
      HasSubstr("offset 26: number of documents"));
  EXPECT_THAT(with_damage(26, std::uint64_t{0}), HasSubstr("expected 1 to"));
  EXPECT_THAT(
      with_damage(18, std::uint64_t{6}), HasSubstr("documents: the file ends"));
  EXPECT_THAT(with_damage(26, std::uint64_t{3}), HasSubstr("bytes, expected"));
  EXPECT_THAT(
      with_damage(34, std::int32_t{-1}), HasSubstr("sequence 0 has -1"));
  EXPECT_THAT(
      with_damage(34, std::int32_t{11}),
      HasSubstr("sequence 0 has 11 tokens at byte 0, expected within the 10"));
  EXPECT_THAT(with_damage(54, std::int64_t{1}), HasSubstr("tokens at byte 1,"));
  EXPECT_THAT(
      with_damage(94, std::int64_t{1}),
      HasSubstr("boundary 0 of documents is 1, expected 0 to 0"));
  EXPECT_THAT(
      with_damage(118, std::int64_t{4}),
      HasSubstr("boundary 3 of documents is 4, expected 5 to 5"));
}

TEST(TokenFiles, SaysWhatIsWrongWithOtherFiles) {
  const TempDir dir;
  python("write", dir.path());
  write_file(dir.path() / "odd.bin", "abc");
  EXPECT_THAT(
      message_of<InvalidArgument>([&] { open_tokens(dir.path() / "odd.bin"); }),
      AllOf(HasSubstr("odd.bin"), HasSubstr("3 bytes"), HasSubstr("of 2")));
  EXPECT_THAT(
      message_of<InvalidArgument>(
          [&] { open_llmc(dir.path() / "nanogpt.bin"); }),
      HasSubstr("offset 0: magic is"));
  EXPECT_THAT(
      message_of<InvalidArgument>([&] { open_llmc(dir.path() / "odd.bin"); }),
      HasSubstr("magic: the file ends at 3, expected 4"));
  std::string gpt2 = *read_file(dir.path() / "gpt2.bin");
  write_file(dir.path() / "long.bin", gpt2 + "xx");
  EXPECT_THAT(
      message_of<InvalidArgument>(
          [&] { open_tokens(dir.path() / "long.bin"); }),
      HasSubstr("1032 bytes, expected 1030 by the header"));
  gpt2[4] = 2;
  write_file(dir.path() / "new.bin", gpt2);
  EXPECT_THAT(
      message_of<InvalidArgument>([&] { open_tokens(dir.path() / "new.bin"); }),
      HasSubstr("offset 4: version is 2, expected 1"));
  EXPECT_THROW(open_tokens(dir.path() / "none.bin"), SystemError);
  write_file(dir.path() / "empty.bin", "");
  EXPECT_EQ(open_tokens(dir.path() / "empty.bin").size(), 0);
}

TEST(TokenDataset, EachTokenIsATargetOnce) {
  Ids ids(101);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::int64_t>(i);
  }
  const TokenDataset dataset(Tokens(ids), 10);
  ASSERT_EQ(dataset.size(), 10);
  for (std::int64_t i = 0; i < 10; ++i) {
    const auto window = dataset.get(i);
    EXPECT_EQ(window.input().size(), 10);
    EXPECT_EQ(window.input().front(), 10 * i);
    EXPECT_EQ(window.target().front(), 10 * i + 1);
    EXPECT_EQ(window.target().back(), 10 * i + 10);
  }
  EXPECT_EQ(TokenDataset(Tokens(ids).slice(0, 100), 10).size(), 9);
  EXPECT_EQ(TokenDataset(Tokens(ids), 10, 1).size(), 91);
  EXPECT_EQ(TokenDataset(Tokens(ids), 10, 1).get(90).target().back(), 100);
  EXPECT_THAT(
      message_of<InvalidArgument>([&] { dataset.get(10); }),
      HasSubstr("window 10"));
  EXPECT_THAT(
      message_of<InvalidArgument>([&] { TokenDataset(Tokens(ids), 101); }),
      HasSubstr("101 tokens, expected more than sequence_length 101"));
}

TEST(TokenDataset, GoesThroughALoader) {
  const TokenDataset dataset(Tokens(Ids{1, 2, 3, 4, 5, 6, 7}), 2);
  DataLoader loader(
      dataset, DistributedBatchSampler(dataset, {.batch_size = 2}));
  const auto batch = loader.next();
  ASSERT_EQ(batch->size(), 2);
  EXPECT_THAT((*batch)[1].target(), ElementsAre(4, 5));
}

} // namespace
} // namespace argosy::data
