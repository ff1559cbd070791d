// Broken inputs for what comm/ reads of other ranks and of files, without
// torch. A decoder may refuse an input by an error of ours, and must do nothing
// else. Codecs of objects: codec_fuzz_test.cpp.
#include <gtest/gtest.h>

#include <sstream>

#include "argosy/comm/flight/hang.h"
#include "argosy/comm/flight/record_json.h"
#include "argosy/comm/message/failure_agreement.h"
#include "argosy/comm/message/op_entry.h"
#include "tests/support/mutations.h"

namespace argosy::comm {
namespace {

using argosy::testing::fuzz_for;
using argosy::testing::kFuzzSeed;
using argosy::testing::Mutator;
using argosy::testing::read_corpus;
using message::OpEntry;
using message::OpEntryView;

constexpr int kRanks = 3;
const std::string kCorpus =
    std::string(ARGOSY_SOURCE_DIR) + "/tests/comm/corpus/";

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// An entry of each kind, as ranks send them.
std::vector<std::string> good_entries() {
  std::vector<std::string> entries;
  for (std::size_t kind = 0; kind < kNumOpKinds; ++kind) {
    OpEntry entry{
        .record = make_record(static_cast<OpKind>(kind), 4, DType::Float32, 1),
        .counts = {},
        .data = std::vector<std::byte>(16)};
    if (entry.record.kind == OpKind::AllToAll) {
      entry.counts = {{1, 2, 3}, {1, 2, 3}};
    }
    entries.push_back(text_of(pack(entry)));
  }
  return entries;
}

// What a rank does with the entries of the others: all views stay inside of
// their bytes.
void use(const std::vector<OpEntryView>& entries, const std::string& input) {
  check_agreement(entries, "0", {});
  for (const OpEntryView& entry : entries) {
    ASSERT_LE(entry.data.size(), input.size());
    ASSERT_LE(entry.counts.send.size(), input.size() / 16);
    message::data_at(entry, 8, 8);
  }
}

void fuzz_entries(std::uint64_t seed) {
  const std::vector<std::string> good = good_entries();
  Mutator inputs(good, seed);
  int agreed = 0;
  for (int i = 0; i < 40'000; ++i) {
    const std::string input = inputs.next();
    const auto* bytes = reinterpret_cast<const std::byte*>(input.data());
    try {
      const OpEntryView theirs = message::unpack({bytes, input.size()});
      use(std::vector<OpEntryView>(kRanks, theirs), input);
      ++agreed;
    } catch (const InvalidArgument&) {
    }
  }
  // Neither everything nor nothing.
  EXPECT_GT(agreed, 1'000);
  EXPECT_LT(agreed, 36'000);
}

void fuzz_verdicts(std::uint64_t seed) {
  Mutator inputs(
      {to_text(message::Verdict{message::Verdict::Kind::TimeoutError, "late"}),
       to_text(message::Verdict{message::Verdict::Kind::PeerLost, ""})},
      seed);
  for (int i = 0; i < 20'000; ++i) {
    EXPECT_THROW(message::parse_verdict(inputs.next()).raise(), Error) << i;
  }
}

void fuzz_flight_records(std::uint64_t seed) {
  Mutator inputs(read_corpus(kCorpus + "flight_records.json"), seed);
  int parsed = 0;
  for (int i = 0; i < 10'000; ++i) {
    try {
      const std::vector<flight::Record> records = {
          flight::parse_record(inputs.next(), "a file")};
      ++parsed;
      // What `argosy trace hang` does with it.
      std::ostringstream text;
      const auto report = flight::find_hang(records);
      text << report << summary(report) << to_json(report);
      EXPECT_EQ(
          flight::parse_record(flight::to_json(records[0]), "again").rank,
          records[0].rank);
    } catch (const InvalidArgument&) {
    }
  }
  EXPECT_GT(parsed, 200);
}

TEST(Fuzz, EntriesOfOperations) {
  fuzz_entries(kFuzzSeed);
}

TEST(Fuzz, Verdicts) {
  fuzz_verdicts(kFuzzSeed);
}

TEST(Fuzz, FlightRecords) {
  fuzz_flight_records(kFuzzSeed);
}

TEST(Fuzz, SoakWithOtherSeeds) {
  fuzz_for(std::chrono::minutes(2), [](std::uint64_t seed) {
    fuzz_entries(seed);
    fuzz_verdicts(seed);
    fuzz_flight_records(seed);
  });
}

// An entry that is shorter than what it says, or says more than it can.
TEST(Entries, AreCheckedAgainstTheirLength) {
  OpEntry entry{
      .record = make_record(OpKind::AllToAll, 0, DType::Float32),
      .counts = {{1, 2, 3}, {1, 2, 3}},
      .data = std::vector<std::byte>(24)};
  const auto packed = pack(entry);
  const auto unpacked = [](std::vector<std::byte> bytes) {
    return message::unpack({bytes.data(), bytes.size()}).counts.send.size();
  };
  EXPECT_EQ(unpacked(packed), 3u);
  const std::size_t header = packed.size() - 24 - 6 * 8;
  auto shorter = packed;
  shorter.resize(header + 5 * 8);
  EXPECT_THROW(unpacked(shorter), InvalidArgument);
  // 2^61 numbers of 8 bytes are none, when the product overflows.
  auto many = packed;
  many[header - 1] = std::byte{0x20};
  EXPECT_THROW(unpacked(many), InvalidArgument);
  auto unknown = packed;
  unknown[0] = std::byte{200};
  EXPECT_THROW(unpacked(unknown), InvalidArgument);
  // Counts for fewer ranks than there are.
  const OpEntryView view = message::unpack({packed.data(), packed.size()});
  EXPECT_THROW(
      check_agreement(std::vector<OpEntryView>(4, view), "0", {}),
      InvalidArgument);
}

} // namespace
} // namespace argosy::comm
