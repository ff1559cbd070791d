// Generators: what they write is what datasets read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"
#include "argosy/data/slots/data_generator.h"
#include "argosy/data/slots/multi_slot.h"
#include "tests/support/refusal.h"

namespace argosy::data {
namespace {

using argosy::testing::refusal;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Lines "label,user user ...": empty lines have no sample, "twice" has two.
template <typename Base>
class Clicks : public Base {
 public:
  std::vector<GeneratedSample> generate_sample(
      const std::string& line) override {
    if (line.empty()) {
      return {};
    }
    const auto parts = split(line, ',');
    std::vector<std::int64_t> users;
    for (const std::string& user : split(parts.at(1), ' ')) {
      users.push_back(*parse_int(user));
    }
    const GeneratedSample sample = {
        {"label", std::vector<double>{*parse_number(parts[0])}},
        {"users", users}};
    return std::vector<GeneratedSample>(parts.size() > 2 ? 2 : 1, sample);
  }
  std::vector<GeneratedSample> generate_batch(
      std::vector<GeneratedSample> samples) override {
    batches.push_back(samples.size());
    return samples;
  }

  std::vector<std::size_t> batches;
};

TEST(DataGenerator, WritesOneLineForEachSample) {
  Clicks<MultiSlotDataGenerator> generator;
  generator.set_batch(2);
  std::istringstream raw("0.1,7 8\n\n1,9,twice\n0,3\n");
  std::ostringstream out;
  generator.run(raw, out);
  EXPECT_EQ(out.str(), "1 0.1 2 7 8\n1 1 1 9\n1 1 1 9\n1 0 1 3\n");
  EXPECT_EQ(generator.batches, (std::vector<std::size_t>{2, 2, 0}));
  const MultiSlotParser parser({{"label", SlotType::Float, {1}}, {"users"}});
  Records records;
  for (const std::string& line : split(trim(out.str()), '\n')) {
    EXPECT_FALSE(parser.parse(line, records)) << line;
  }
}

TEST(DataGenerator, ReadsFiles) {
  const TempDir dir;
  write_file(dir.path() / "a", "1,2\n");
  write_file(dir.path() / "b", "0,3\n");
  Clicks<MultiSlotStringDataGenerator> generator;
  std::ostringstream out;
  generator.run_from_files(
      {(dir.path() / "a").string(), (dir.path() / "b").string()}, out);
  EXPECT_EQ(out.str(), "1 1 1 2\n1 0 1 3\n");
}

class Fixed : public MultiSlotDataGenerator {
 public:
  std::vector<GeneratedSample> samples;
  std::vector<GeneratedSample> generate_sample(const std::string&) override {
    return samples;
  }
};

TEST(DataGenerator, RefusesSamplesThatDiffer) {
  using Ids = std::vector<std::int64_t>;
  const auto with = [](std::vector<GeneratedSample> samples) {
    Fixed generator;
    generator.samples = std::move(samples);
    std::istringstream raw("\n");
    std::ostringstream out;
    return refusal([&] { generator.run(raw, out); });
  };
  EXPECT_EQ(with({{{"a", Ids{1}}}, {{"a", Ids{2}}}}), "");
  EXPECT_THAT(
      with({{{"a", Ids{1}}}, {{"b", Ids{2}}}}),
      AllOf(
          HasSubstr("up to line 1"),
          HasSubstr("slot 0 is \"b\", in the first sample \"a\"")));
  EXPECT_THAT(
      with({{{"a", Ids{1}}}, {{"a", std::vector<double>{2}}}}),
      HasSubstr("slot \"a\" has floats, in the first sample ids"));
  EXPECT_THAT(
      with({{{"a", Ids{1}}}, {{"a", Ids{1}}, {"b", Ids{1}}}}),
      HasSubstr("a sample has 2 slots, the first one 1"));
  EXPECT_THAT(with({{{"a", Ids{}}}}), HasSubstr("slot \"a\" has no values"));
  EXPECT_THAT(with({{{"a", Ids{-1}}}}), HasSubstr("id -1"));
  EXPECT_THAT(
      with({{{"a", std::vector<double>{INFINITY}}}}),
      HasSubstr("expected a finite number"));
  EXPECT_THAT(with({{}}), HasSubstr("a sample without slots"));
}

} // namespace
} // namespace argosy::data
