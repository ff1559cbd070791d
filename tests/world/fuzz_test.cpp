// Broken inputs for everything that world/ reads from files, other processes
// and the environment. A reader may refuse an input by an error of ours, and
// must do nothing else.
#include <nlohmann/json.hpp>

#include "argosy/world/address_exchange_ways.h"
#include "argosy/world/invitation.h"
#include "argosy/world/sources/rank_table.h"
#include "argosy/world/sources/slurm_nodelist.h"
#include "tests/support/mutations.h"
#include "tests/world/adopting.h"

namespace argosy::world {
namespace {

using argosy::testing::fuzz_for;
using argosy::testing::kFuzzSeed;
using argosy::testing::Mutator;
using argosy::testing::read_corpus;

const std::string kCorpus =
    std::string(ARGOSY_SOURCE_DIR) + "/tests/world/corpus/";

void fuzz_rank_tables(std::uint64_t seed) {
  Mutator inputs(read_corpus(kCorpus + "rank_tables.json"), seed);
  int parsed = 0;
  for (int i = 0; i < 15'000; ++i) {
    const auto table = nlohmann::json::parse(inputs.next(), nullptr, false);
    if (table.is_discarded()) {
      continue;
    }
    try {
      const RankTable ranks = parse_rank_table(table, "file");
      for (std::size_t rank = 0; rank < ranks.devices.size(); ++rank) {
        ASSERT_EQ(ranks.devices[rank].rank, static_cast<int>(rank)) << i;
      }
      ++parsed;
    } catch (const InvalidArgument&) {
    }
  }
  EXPECT_GT(parsed, 100);
}

void fuzz_nodelists(std::uint64_t seed) {
  Mutator inputs(read_corpus(kCorpus + "nodelists.txt"), seed);
  for (int i = 0; i < 30'000; ++i) {
    const std::string text = inputs.next();
    try {
      // A list of some bytes must not become millions of names.
      ASSERT_LE(expand_nodelist(text, "list").size(), 1u << 20) << text;
    } catch (const InvalidArgument&) {
    }
    try {
      ASSERT_LE(expand_tasks_per_node(text, "list").size(), 1u << 20) << text;
    } catch (const InvalidArgument&) {
    }
  }
}

void fuzz_environments(std::uint64_t seed) {
  Mutator inputs(read_corpus(kCorpus + "environments.txt"), seed);
  for (int i = 0; i < 10'000; ++i) {
    Environment env;
    for (const std::string& part : split(inputs.next(), ';')) {
      const std::size_t equals = part.find('=');
      if (equals != std::string::npos) {
        env.set(part.substr(0, equals), part.substr(equals + 1));
      }
    }
    try {
      const Adoption adoption = examine(env, {.job_key = "1.2"});
      if (adoption.error.empty()) {
        const LaunchInfo& info = adoption.info;
        ASSERT_GE(info.size, 1) << i;
        ASSERT_LT(info.rank, info.size) << i;
        ASSERT_LT(info.local_rank, info.local_size) << i;
      }
    } catch (const InvalidArgument&) {
    } catch (const SystemError&) {
    }
  }
}

void fuzz_invitations(std::uint64_t seed) {
  const std::string good =
      to_text({.address = "127.0.0.1:4711", .secret = store::Secret::random()});
  EXPECT_EQ(parse_invitation(good).address, "127.0.0.1:4711");
  Mutator inputs({good, "[::1]:80,", "!no port is free"}, seed);
  for (int i = 0; i < 20'000; ++i) {
    try {
      const Invitation invitation = parse_invitation(inputs.next());
      ASSERT_TRUE(!invitation.failure.empty() || !invitation.address.empty());
    } catch (const StoreError&) {
    }
  }
}

void fuzz_notes(std::uint64_t seed) {
  const std::string good = "run\n77\n1234\n127.0.0.1:4711,\n";
  const auto note = parse_exchange_note(good);
  ASSERT_TRUE(note);
  EXPECT_EQ(note->pid, 77);
  EXPECT_EQ(note->value, "127.0.0.1:4711,");
  Mutator inputs({good, "\n1\n\n\n"}, seed);
  for (int i = 0; i < 20'000; ++i) {
    if (const auto broken = parse_exchange_note(inputs.next())) {
      ASSERT_GT(broken->pid, 0) << i;
    }
  }
}

TEST(Fuzz, RankTables) {
  fuzz_rank_tables(kFuzzSeed);
}

TEST(Fuzz, Nodelists) {
  fuzz_nodelists(kFuzzSeed);
}

TEST(Fuzz, Environments) {
  fuzz_environments(kFuzzSeed);
}

TEST(Fuzz, Invitations) {
  fuzz_invitations(kFuzzSeed);
}

TEST(Fuzz, NotesOfAnExchange) {
  fuzz_notes(kFuzzSeed);
}

TEST(Fuzz, SoakWithOtherSeeds) {
  fuzz_for(std::chrono::minutes(5), [](std::uint64_t seed) {
    fuzz_rank_tables(seed);
    fuzz_nodelists(seed);
    fuzz_environments(seed);
    fuzz_invitations(seed);
    fuzz_notes(seed);
  });
}

} // namespace
} // namespace argosy::world
