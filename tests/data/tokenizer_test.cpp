#include "argosy/data/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/data/corpora.h"
#include "tests/store/expect.h"

namespace argosy::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Pair;

std::string all_bytes() {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) {
    text += static_cast<char>(byte);
  }
  return text;
}

TEST(Words, PutTogetherAreTheText) {
  EXPECT_THAT(
      split_words("In the  year 1611, \n\xc3\xa9t\xc3\xa9's "),
      ElementsAre(
          "In",
          " the",
          "  ",
          "year",
          " 1611",
          ",",
          " \n",
          "\xc3\xa9t\xc3\xa9",
          "'",
          "s",
          " "));
  EXPECT_TRUE(split_words("").empty());
}

TEST(Tokenizer, OfBytes) {
  const Tokenizer bytes;
  EXPECT_EQ(bytes.vocab_size(), 256);
  EXPECT_THAT(bytes.encode("A\xff"), ElementsAre(65, 255));
  EXPECT_EQ(bytes.decode(bytes.encode(all_bytes())), all_bytes());
}

TEST(Tokenizer, LearnsTheMostFrequentPairFirst) {
  // Pairs: ab 3, bc 2, then abc 2; x occurs once.
  const auto tokenizer = Tokenizer::train("abc\nabc\nab\nx", 1000);
  EXPECT_THAT(tokenizer.merges(), ElementsAre(Pair('a', 'b'), Pair(256, 'c')));
  EXPECT_THAT(tokenizer.encode("abcab"), ElementsAre(257, 256));
  EXPECT_EQ(tokenizer.vocab_size(), 258);
}

TEST(Tokenizer, AmongEqualsTheSmallestPairComesFirst) {
  EXPECT_THAT(
      Tokenizer::train("zy yz zy yz ba ba", 258).merges(),
      ElementsAre(Pair(' ', 'b'), Pair(' ', 'y')));
}

TEST(Tokenizer, MergesRunsFromTheLeft) {
  const Tokenizer tokenizer({{'a', 'a'}});
  EXPECT_THAT(tokenizer.encode("aaa"), ElementsAre(256, 'a'));
}

// The definition, without any index: count all pairs, merge, and again.
std::vector<Tokenizer::Merge> plain_merges(
    std::string_view text, std::size_t limit) {
  std::vector<std::vector<std::int32_t>> words;
  for (const auto word : split_words(text)) {
    auto& ids = words.emplace_back();
    for (const char c : word) {
      ids.push_back(static_cast<unsigned char>(c));
    }
  }
  std::vector<Tokenizer::Merge> merges;
  while (merges.size() < limit) {
    std::map<Tokenizer::Merge, int> counts;
    for (const auto& ids : words) {
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        ++counts[{ids[i], ids[i + 1]}];
      }
    }
    const auto best = std::max_element(
        counts.begin(), counts.end(), [](const auto& a, const auto& b) {
          return a.second < b.second;
        });
    if (best == counts.end() || best->second < 2) {
      break;
    }
    for (auto& ids : words) {
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        if (Tokenizer::Merge(ids[i], ids[i + 1]) == best->first) {
          ids[i] = static_cast<std::int32_t>(256 + merges.size());
          ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        }
      }
    }
    merges.push_back(best->first);
  }
  return merges;
}

TEST(Tokenizer, TrainsAsTheDefinitionSays) {
  const std::string text = king_james_bible().substr(0, 20000);
  EXPECT_EQ(Tokenizer::train(text, 456).merges(), plain_merges(text, 200));
  std::mt19937 generator(1);
  std::string letters;
  for (int i = 0; i < 3000; ++i) {
    letters += "aab \n"[generator() % 5];
  }
  EXPECT_EQ(
      Tokenizer::train(letters, 1 << 20).merges(),
      plain_merges(letters, 1 << 20));
}

TEST(Tokenizer, GivesBackAnyBytes) {
  const auto tokenizer =
      Tokenizer::train(king_james_bible().substr(0, 100000), 512);
  std::mt19937 generator(2);
  for (int round = 0; round < 50; ++round) {
    std::string text = round % 2 == 0 ? all_bytes() : "";
    for (int i = 0; i < 500; ++i) {
      const auto draw = generator();
      text += static_cast<char>(round % 3 == 0 ? draw : 'a' + draw % 8);
    }
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(Tokenizer, LoadsWhatWasSaved) {
  const TempDir dir;
  const auto path = dir.path() / "tokenizer.json";
  const auto tokenizer = Tokenizer::train("the theme of them all", 270);
  tokenizer.save(path);
  EXPECT_EQ(Tokenizer::load(path), tokenizer);
  EXPECT_GT(tokenizer.vocab_size(), 256);
  EXPECT_THROW(Tokenizer::load(dir.path() / "none"), SystemError);
  for (const std::string content :
       {"",
        "{}",
        R"({"format":"x","version":1,"merges":[]})",
        R"({"format":"argosy.tokenizer","version":2,"merges":[]})",
        R"({"format":"argosy.tokenizer","version":1,"merges":[1]})",
        R"({"format":"argosy.tokenizer","version":1,"merges":[[1,256]]})"}) {
    write_file(path, content);
    EXPECT_THAT(
        message_of<InvalidArgument>([&] { Tokenizer::load(path); }),
        HasSubstr("[data.tokenizer]"))
        << content;
  }
}

TEST(Tokenizer, RefusesWhatCannotBe) {
  const Tokenizer bytes;
  EXPECT_THAT(
      message_of<InvalidArgument>(
          [&] { bytes.decode(std::vector<std::int64_t>{256}); }),
      HasSubstr("token 256, expected 0 to 255"));
  EXPECT_THAT(
      message_of<InvalidArgument>([] { Tokenizer::train("x", 255); }),
      HasSubstr("vocab_size 255"));
  EXPECT_THAT(
      message_of<InvalidArgument>([] {
        Tokenizer({{97, -1}});
      }),
      HasSubstr("token 256 is made"));
}

TEST(Corpus, IsTheWholeText) {
  const std::string text = king_james_bible();
  EXPECT_TRUE(text.starts_with("In the beginning God created the heaven"));
  EXPECT_TRUE(text.ends_with("Lord Jesus Christ be with you all. Amen.\n"));
  // 31102 verses in 1189 chapters.
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 31102 + 1188);
  EXPECT_GT(text.size(), 4'000'000);
}

TEST(Corpus, GivesAUsefulVocabulary) {
  const std::string text = king_james_bible();
  const auto tokenizer = Tokenizer::train(text, 1024);
  EXPECT_EQ(tokenizer.vocab_size(), 1024);
  const auto ids = tokenizer.encode(text);
  EXPECT_EQ(tokenizer.decode(ids), text);
  const double bytes_a_token =
      static_cast<double>(text.size()) / static_cast<double>(ids.size());
  EXPECT_GT(bytes_a_token, 2.5);
  RecordProperty("bytes_a_token", std::to_string(bytes_a_token));
}

} // namespace
} // namespace argosy::data
