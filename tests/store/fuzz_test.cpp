// Broken inputs for everything that store/ decodes. A decoder may refuse an
// input by an error of ours, and must do nothing else.
#include <nlohmann/json.hpp>

#include "argosy/common/error.h"
#include "argosy/store/base64.h"
#include "argosy/store/etcd_txn.h"
#include "argosy/store/greeting.h"
#include "argosy/store/kv_service.h"
#include "argosy/store/url.h"
#include "argosy/store/wire.h"
#include "tests/store/expect.h"
#include "tests/support/mutations.h"

namespace argosy::store {
namespace {

using namespace std::chrono_literals;
using argosy::testing::fuzz_for;
using argosy::testing::kFuzzSeed;
using argosy::testing::Mutator;
using argosy::testing::read_corpus;

const std::string kCorpus =
    std::string(ARGOSY_SOURCE_DIR) + "/tests/store/corpus/";

// Calls `decode`, which may throw an Error.
template <typename Decode>
bool is_refused(const Decode& decode) {
  try {
    decode();
    return false;
  } catch (const Error&) {
    return true;
  }
}

void fuzz_requests(std::uint64_t seed) {
  Mutator inputs(read_corpus(kCorpus + "requests.hex", true), seed);
  KvService service({.bytes = 1 << 20, .leases = 100});
  auto now = Deadline::Clock::now();
  int refused = 0;
  for (int i = 0; i < 40'000; ++i) {
    now += 1ms;
    std::optional<PendingWait> pending;
    const auto reply = service.execute(inputs.next(), now, pending);
    ASSERT_EQ(reply.has_value(), !pending || reply.has_value()) << i;
    if (!reply) {
      EXPECT_TRUE(service.answer(*pending, now + 400 * 24h)) << i;
      continue;
    }
    WireReader in(*reply);
    const auto status = static_cast<Status>(in.u8());
    ASSERT_TRUE(
        status == Status::Ok || status == Status::Missing ||
        status == Status::Refused)
        << i;
    refused += status == Status::Refused ? 1 : 0;
  }
  // Neither everything nor nothing.
  EXPECT_GT(refused, 4'000);
  EXPECT_LT(refused, 39'000);
}

void fuzz_replies(std::uint64_t seed) {
  Mutator inputs(read_corpus(kCorpus + "requests.hex", true), seed);
  for (int i = 0; i < 20'000; ++i) {
    const std::string input = inputs.next();
    WireReader in(input);
    is_refused([&] {
      for (;;) {
        switch (inputs.below(6)) {
          case 0:
            in.u8();
            break;
          case 1:
            in.text();
            break;
          case 2:
            in.optional_text();
            break;
          case 3:
            ASSERT_LE(in.keys().size(), input.size() / kLengthBytes);
            break;
          case 4:
            ASSERT_LE(in.count(8), input.size() / 8);
            break;
          default:
            in.end();
            return;
        }
      }
    });
  }
}

void fuzz_greetings(std::uint64_t seed) {
  const Credentials ours{.secret = Secret::random()};
  const ClientGreeting client(ours);
  Mutator openings({client.opening(), std::string(kHello)}, seed);
  Mutator proofs(
      {std::string(kProofBytes, 'p'), Secret::random().mac("")}, seed);
  for (int i = 0; i < 15'000; ++i) {
    ServerGreeting server(ours, "12345678");
    std::string in = openings.next();
    std::string out;
    server.advance(in, out, "");
    ASSERT_LE(out.size(), kAnswerBytes);
    in += proofs.next();
    ASSERT_NE(server.advance(in, out, ""), ServerGreeting::State::Proven) << i;
    if (out.size() == kAnswerBytes) {
      const std::size_t at = kHello.size() + i % (kAnswerBytes - kHello.size());
      out[at] = static_cast<char>(out[at] ^ 1);
      ASSERT_TRUE(is_refused([&] { client.accept(out, "server", ""); })) << i;
    }
  }
}

void fuzz_urls(std::uint64_t seed) {
  Mutator inputs(read_corpus(kCorpus + "urls.txt"), seed);
  for (int i = 0; i < 15'000; ++i) {
    const std::string url = inputs.next();
    try {
      parse_url(url);
    } catch (const InvalidArgument&) {
    }
  }
}

void fuzz_etcd(std::uint64_t seed) {
  Mutator inputs(read_corpus(kCorpus + "etcd_answers.txt"), seed);
  for (int i = 0; i < 10'000; ++i) {
    const std::string text = inputs.next();
    base64_decode(text);
    const auto answer = nlohmann::json::parse(text, nullptr, false);
    if (answer.is_object()) {
      is_refused([&] { first_value(answer); });
      is_refused([&] { int_field(answer, "ID"); });
    }
  }
}

TEST(Fuzz, RequestsGetAReplyThatCanBeRead) {
  fuzz_requests(kFuzzSeed);
}

TEST(Fuzz, RepliesAreReadOrRefused) {
  fuzz_replies(kFuzzSeed);
}

TEST(Fuzz, NoGreetingIsBelievedButTheRightOne) {
  fuzz_greetings(kFuzzSeed);
}

TEST(Fuzz, UrlsAreParsedOrRefused) {
  fuzz_urls(kFuzzSeed);
}

TEST(Fuzz, AnswersOfEtcdAreReadOrRefused) {
  fuzz_etcd(kFuzzSeed);
}

TEST(Fuzz, SoakWithOtherSeeds) {
  fuzz_for(std::chrono::minutes(5), [](std::uint64_t seed) {
    fuzz_requests(seed);
    fuzz_replies(seed);
    fuzz_greetings(seed);
    fuzz_urls(seed);
    fuzz_etcd(seed);
  });
}

} // namespace
} // namespace argosy::store
