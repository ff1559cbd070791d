// Broken strategies, as JSON and as Paddle's prototxt, broken schedules of
// pipelines and broken strategies of MindSpore. A reader may refuse a text by
// InvalidArgument or CheckpointError, and must do nothing else.
#include <gtest/gtest.h>

#include "argosy/compat/strategy_file.h"
#include "argosy/fleet/prototxt.h"
#include "argosy/fleet/strategy.h"
#include "argosy/pipeline/schedule_json.h"
#include "argosy/pipeline/schedules/schedules.h"
#include "tests/support/mutations.h"

namespace argosy::fleet {
namespace {

using argosy::testing::fuzz_for;
using argosy::testing::kFuzzSeed;
using argosy::testing::Mutator;
using argosy::testing::read_corpus;

const std::string kCorpus =
    std::string(ARGOSY_SOURCE_DIR) + "/tests/fleet/corpus/";

// How many of the inputs `read` accepts.
template <typename Read>
int num_accepted(
    const std::vector<std::string>& corpus,
    int num_inputs,
    std::uint64_t seed,
    const Read& read) {
  Mutator inputs(corpus, seed);
  int accepted = 0;
  for (int i = 0; i < num_inputs; ++i) {
    try {
      read(inputs.next());
      ++accepted;
    } catch (const InvalidArgument&) {
    } catch (const CheckpointError&) {
    }
  }
  return accepted;
}

void fuzz_strategies(std::uint64_t seed) {
  std::vector<std::string> corpus = read_corpus(kCorpus + "strategies.json");
  corpus.push_back(DistributedStrategy().to_json());
  const int accepted =
      num_accepted(corpus, 10'000, seed, [](const std::string& text) {
        // What was accepted can be written and read again.
        const auto strategy = DistributedStrategy::from_json(text);
        ASSERT_EQ(
            DistributedStrategy::from_json(strategy.to_json()).to_json(),
            strategy.to_json());
      });
  EXPECT_GT(accepted, 100);
}

void fuzz_prototxts(std::uint64_t seed) {
  const int accepted = num_accepted(
      read_corpus(kCorpus + "prototxts.txt"),
      20'000,
      seed,
      [](const std::string& text) {
        const std::string json = prototxt_to_json(
            text, "file", [](const std::string&) { return false; });
        try {
          DistributedStrategy::from_json(json);
        } catch (const InvalidArgument&) {
        }
      });
  EXPECT_GT(accepted, 100);
}

void fuzz_schedules(std::uint64_t seed) {
  const int accepted = num_accepted(
      {pipeline::to_json(pipeline::make_schedule("gpipe", 2, 2, 1)),
       pipeline::to_json(pipeline::make_schedule("1f1b", 2, 3, 1))},
      5'000,
      seed,
      [](const std::string& text) {
        pipeline::schedule_from_json(text, "file");
      });
  EXPECT_GT(accepted, 50);
}

void fuzz_foreign_strategies(std::uint64_t seed) {
  const int accepted = num_accepted(
      read_corpus(kCorpus + "mindspore_strategies.json"),
      10'000,
      seed,
      [](const std::string& text) {
        const auto strategy = compat::parse_strategy(text, "file");
        compat::parse_strategy(compat::to_json(strategy), "again");
      });
  EXPECT_GT(accepted, 100);
}

TEST(Fuzz, Strategies) {
  fuzz_strategies(kFuzzSeed);
}

TEST(Fuzz, Prototxts) {
  fuzz_prototxts(kFuzzSeed);
}

TEST(Fuzz, Schedules) {
  fuzz_schedules(kFuzzSeed);
}

TEST(Fuzz, StrategiesOfMindSpore) {
  fuzz_foreign_strategies(kFuzzSeed);
}

TEST(Fuzz, SoakWithOtherSeeds) {
  fuzz_for(std::chrono::minutes(2), [](std::uint64_t seed) {
    fuzz_strategies(seed);
    fuzz_prototxts(seed);
    fuzz_schedules(seed);
    fuzz_foreign_strategies(seed);
  });
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) {
    all += text;
  }
  return all;
}

// Levels for which neither parsers nor printers have a stack.
TEST(Strategies, OfAMillionLevelsAreRefused) {
  const auto read = [](const std::string& text) {
    DistributedStrategy::from_json(text);
  };
  EXPECT_THROW(read(repeated("[", 1'000'000)), InvalidArgument);
  EXPECT_THROW(read(repeated("{\"amp\":", 1'000'000)), InvalidArgument);
  EXPECT_THROW(
      read("{\"amp\":" + repeated("[", 100'000) + repeated("]", 100'000) + "}"),
      InvalidArgument);
  EXPECT_THROW(
      prototxt_to_json(
          repeated("a{", 1'000'000), "", [](const auto&) { return false; }),
      InvalidArgument);
}

TEST(Strategies, NumbersThatDoNotFitAreRefused) {
  for (const char* number :
       {"18446744073709551615", "4294967297", "-4294967295", "1e400"}) {
    EXPECT_THROW(
        DistributedStrategy::from_json(
            str("{\"gradient_merge_configs\":{\"k_steps\":", number, "}}")),
        InvalidArgument)
        << number;
  }
}

} // namespace
} // namespace argosy::fleet
