// MultiSlot text: what a line means, and what is wrong with one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/common/error.h"
#include "argosy/data/slots/multi_slot.h"
#include "tests/data/record_text.h"
#include "tests/support/mutations.h"
#include "tests/support/refusal.h"

namespace argosy::data {
namespace {

using argosy::testing::refusal;
using ::testing::HasSubstr;

std::string parsed(const std::string& line, MultiSlotOptions options = {}) {
  const MultiSlotParser parser(some_slots(), options);
  Records records;
  const auto fault = parser.parse(line, records);
  if (fault) {
    EXPECT_TRUE(records.empty());
    return str(fault->column, ": ", fault->what);
  }
  EXPECT_EQ(records.size(), 1U);
  EXPECT_EQ(RecordView(parser.layout(), records[0]).bytes(), records.bytes());
  return text_of(parser.layout(), records[0]);
}

TEST(MultiSlot, ReadsTheValuesOfEachSlot) {
  EXPECT_EQ(
      parsed("1 0.5 3 7 8 9 2 1.25 -3e2 2 1 2"),
      "label=0.5 user=7,8,9 price=1.25,-300 place=1,2");
  EXPECT_EQ(
      parsed("  1\t1   1 18446744073709551615 1 0 2 0 0 \r"),
      "label=1 user=18446744073709551615 price=0 place=0,0");
  EXPECT_EQ(
      parsed("1 1 1 00000000000000000000000000000000000007 1 1e-60 2 1 1"),
      "label=1 user=7 price=0 place=1,1");
}

TEST(MultiSlot, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(parsed(""), "1: the line ends before slot \"label\"");
  EXPECT_EQ(parsed("1 1 2 3"), "8: slot \"user\": 2 values, the line has 1");
  EXPECT_EQ(
      parsed("1 1 1 -3 1 1 2 1 1"),
      "7: slot \"user\": value 1 of 1 is \"-3\", expected an integer from 0 to "
      "2^64-1");
  EXPECT_EQ(
      parsed("1 1 1 18446744073709551616 1 1 2 1 1"),
      "7: slot \"user\": value 1 of 1 is \"18446744073709551616\", expected an "
      "integer from 0 to 2^64-1");
  EXPECT_EQ(
      parsed("1 1 1 3.5 1 1 2 1 1"),
      "7: slot \"user\": value 1 of 1 is \"3.5\", expected an integer from 0 "
      "to 2^64-1");
  for (const char* const number : {"nan", "inf", "1e60", "x", "1x", "+1"}) {
    EXPECT_THAT(
        parsed(str("1 ", number, " 1 3 1 1 2 1 1")),
        HasSubstr(str("3: slot \"label\": value 1 of 1 is \"", number)));
  }
  EXPECT_EQ(
      parsed("1 1 0 1 1 2 1 1"),
      "6: slot \"user\": 0 values, expected at least 1 (allow_empty lets them "
      "pass)");
  EXPECT_EQ(
      parsed("2 1 1 1 3 1 1 2 1 1"), "2: slot \"label\": 2 values, expected 1");
  EXPECT_EQ(
      parsed("1 1 1 3 1 1 2 1 1 9 8"),
      "19: \"9\" after the last slot, expected the line's end");
  EXPECT_EQ(
      parsed("x"), "1: slot \"label\": \"x\", expected its number of values");
  EXPECT_THAT(parsed("1 1 99999999999 1"), HasSubstr("99999999999 values"));
}

TEST(MultiSlot, SwitchesLetPassWhatIsRefused) {
  EXPECT_EQ(
      parsed("1 1 0 0 2 1 1", {.allow_empty = true}),
      "label=1 user= price= place=1,1");
  EXPECT_EQ(
      parsed("1 1 1 3 1 1 2 1 1 9 x", {.ignore_rest = true}),
      "label=1 user=3 price=1 place=1,1");
  // As Paddle: dense slots keep their zeros, a slot without values has a 0.
  EXPECT_EQ(
      parsed("1 0 3 0 5 0 2 1e-7 0 2 0 0", {.drop_zeros = true}),
      "label=0 user=5 price=0 place=0,0");
}

TEST(MultiSlot, KeepsIdContentAndLogKey) {
  const MultiSlotParser parser(
      {{"user"}}, {.has_id = true, .has_content = true, .has_log_key = true});
  Records records;
  ASSERT_FALSE(parser.parse(
      "1 line-7 1 a,b 1 00000000000abc1f00000000000000ff 2 5 6", records));
  const RecordView view(parser.layout(), records[0]);
  EXPECT_EQ(view.id(), "line-7");
  EXPECT_EQ(view.content(), "a,b");
  EXPECT_EQ(
      view.log_key(), (LogKey{.search_id = 255, .cmatch = 0xabc, .rank = 31}));
  EXPECT_EQ(text_of(parser.layout(), records[0]), "line-7: user=5,6");
  EXPECT_EQ(
      parser.parse("2 a b 1 1 2", records).value().what,
      "\"2\", expected 1 before the id");
  EXPECT_EQ(
      parser.parse("1 a 1 b 1 77 1 1", records).value().what,
      "log key \"77\", expected 32 hexadecimal digits or more");
}

TEST(MultiSlot, RefusesSlotsThatCannotBe) {
  const auto with = [](Slots slots) {
    return refusal([&] { MultiSlotParser parser(slots); });
  };
  EXPECT_THAT(with({}), HasSubstr("no slot"));
  EXPECT_THAT(with({{"a"}, {"a"}}), HasSubstr("two slots are called \"a\""));
  EXPECT_THAT(
      with({{"a", SlotType::Float, {2, 0}}}),
      HasSubstr("slot \"a\": a size of its shape is 0"));
  EXPECT_THAT(
      refusal([] { slot_index(some_slots(), "usr"); }),
      HasSubstr("did you mean \"user\"?"));
}

TEST(Records, CanBeMovedAndAppended) {
  const MultiSlotParser parser({{"user"}});
  Records first;
  Records second;
  ASSERT_FALSE(parser.parse("1 1", first));
  ASSERT_FALSE(parser.parse("2 2 3", second));
  const std::string bytes(
      reinterpret_cast<const char*>(second[0]), second.bytes());
  first.append(std::move(second));
  const std::string twice = bytes + bytes;
  std::memcpy(first.room(twice.size()), twice.data(), twice.size());
  const auto length = static_cast<std::int32_t>(bytes.size());
  first.commit_samples(std::vector{length, length});
  Records moved = std::move(first);
  ASSERT_FALSE(parser.parse("1 4", moved));
  std::string all;
  for (std::size_t i = 0; i < moved.size(); ++i) {
    all += text_of(parser.layout(), moved[i]) + ";";
  }
  EXPECT_EQ(all, "user=1;user=2,3;user=2,3;user=2,3;user=4;");
}

// Pieces that are taken apart and put together again: the room behind their
// samples is used, and no other memory.
TEST(Records, UseTheRoomOfPieces) {
  const MultiSlotParser parser({{"user"}});
  Records records;
  for (int i = 0; i < 100'000; ++i) {
    ASSERT_FALSE(parser.parse(str("1 ", i), records));
  }
  const std::size_t bytes = records.bytes();
  const std::size_t each = bytes / records.size();
  auto pieces = records.release();
  EXPECT_TRUE(records.empty());
  EXPECT_EQ(records.bytes(), 0U);
  EXPECT_GT(pieces.size(), 3U);
  std::size_t capacity = 0;
  for (Records::Piece& piece : pieces) {
    capacity += piece.capacity;
    piece.used = each; // the first sample stays
    const std::byte* const first = piece.memory.get();
    records.adopt(std::move(piece), {&first, 1});
  }
  EXPECT_EQ(records.bytes(), pieces.size() * each);
  const std::size_t first = records.size();
  for (int i = 0; records.bytes() + pieces.size() * 65536 < capacity; ++i) {
    ASSERT_FALSE(parser.parse(str("1 ", i), records));
  }
  for (std::size_t i = first; i < records.size(); ++i) {
    ASSERT_EQ(text_of(parser.layout(), records[i]), str("user=", i - first));
  }
  EXPECT_EQ(records.release().size(), pieces.size());
}

TEST(Records, ShufflesDependOnTheSeed) {
  const MultiSlotParser parser({{"user"}});
  const auto shuffled = [&](std::uint64_t seed) {
    Records records;
    for (int i = 0; i < 8; ++i) {
      EXPECT_FALSE(parser.parse(str("1 ", i), records));
    }
    records.shuffle(seed);
    std::string all;
    for (std::size_t i = 0; i < records.size(); ++i) {
      all += text_of(parser.layout(), records[i]).substr(5);
    }
    return all;
  };
  EXPECT_EQ(shuffled(1), shuffled(1));
  EXPECT_NE(shuffled(1), shuffled(2));
  // Every sample comes to every place about as often.
  std::vector<std::vector<int>> counts(8, std::vector<int>(8));
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    const std::string order = shuffled(seed);
    ASSERT_EQ(order.size(), 8U);
    for (std::size_t place = 0; place < 8; ++place) {
      ++counts[place][static_cast<std::size_t>(order[place] - '0')];
    }
  }
  for (const auto& of_place : counts) {
    for (const int count : of_place) {
      EXPECT_NEAR(count, 500, 120); // more than five standard deviations
    }
  }
}

// Whatever a line holds: a sample that is whole, or a fault.
TEST(MultiSlot, TakesAnyLine) {
  const MultiSlotParser parser(
      some_slots(), {.has_id = true, .has_log_key = true, .drop_zeros = true});
  const std::string good =
      "1 id 1 00000000000abc1f00000000000000ff 1 0.5 3 7 8 9 2 1.25 -3 2 1 2";
  Records records;
  ASSERT_FALSE(parser.parse(good, records));
  argosy::testing::Mutator mutator({good});
  std::size_t num_good = 0;
  for (int i = 0; i < 100000; ++i) {
    const std::string line = mutator.next();
    if (!parser.parse(line, records)) {
      ++num_good;
      const std::byte* const last = records[records.size() - 1];
      EXPECT_FALSE(text_of(parser.layout(), last).empty());
    }
    if (records.size() > 1000) {
      records.clear();
    }
  }
  EXPECT_GT(num_good, 100U);
}

} // namespace
} // namespace argosy::data
