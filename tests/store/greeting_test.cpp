// The greeting as bytes, without sockets: who is let in, and who is not.
#include "argosy/store/greeting.h"

#include <fstream>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "tests/store/expect.h"

namespace argosy::store {
namespace {

using argosy::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using State = ServerGreeting::State;

Credentials with_secret(char digit) {
  return {.secret = Secret::parse(std::string(64, digit), "test")};
}

const Credentials kOurs = with_secret('a');
const Credentials kOther = with_secret('b');
const Credentials kNone{};
const std::string kInstance = "12345678";

// What a client that reads `answer` sends, or its error.
std::string proof_of(
    const ClientGreeting& client,
    const std::string& answer,
    const std::string& binding = "") {
  return client.accept(answer, "h:1", binding).proof;
}

struct Exchange {
  std::string opening;
  std::string answer;
  std::string proof;
};

// Runs both sides, and returns what went over the wire.
Exchange greet(ServerGreeting& server, const ClientGreeting& client) {
  Exchange wire;
  wire.opening = client.opening();
  std::string in = wire.opening;
  server.advance(in, wire.answer, "");
  wire.proof = proof_of(client, wire.answer);
  in += wire.proof;
  std::string nothing;
  server.advance(in, nothing, "");
  return wire;
}

TEST(Greeting, LetsInWhoKnowsTheSecretAndKeepsWhatFollows) {
  for (const Credentials& both : {kOurs, kNone}) {
    ServerGreeting server(both, kInstance);
    const ClientGreeting client(both);
    std::string out;
    std::string in = client.opening();
    EXPECT_EQ(server.advance(in, out, ""), State::Proof);
    EXPECT_EQ(out.size(), kAnswerBytes);
    const auto accepted = client.accept(out, "h:1", "");
    EXPECT_EQ(accepted.instance, kInstance);
    in = accepted.proof + "request";
    EXPECT_EQ(server.advance(in, out, ""), State::Proven);
    EXPECT_EQ(in, "request");
    EXPECT_EQ(out.size(), kAnswerBytes);
  }
}

TEST(Greeting, TakesItsBytesOneByOne) {
  ServerGreeting server(kOurs, kInstance);
  const ClientGreeting client(kOurs);
  std::string in;
  std::string out;
  for (const char byte : client.opening()) {
    EXPECT_EQ(server.state(), State::Opening);
    in += byte;
    server.advance(in, out, "");
  }
  for (const char byte : proof_of(client, out)) {
    EXPECT_EQ(server.state(), State::Proof);
    in += byte;
    server.advance(in, out, "");
  }
  EXPECT_EQ(server.state(), State::Proven);
}

TEST(Greeting, KeepsOutWhoHasAnotherSecretOrNone) {
  ServerGreeting server(kOurs, kInstance);
  // One that does not look at the server's proof.
  std::string in = ClientGreeting(kOther).opening();
  std::string out;
  EXPECT_EQ(server.advance(in, out, ""), State::Proof);
  in = std::string(kProofBytes, 'x');
  EXPECT_EQ(server.advance(in, out, ""), State::Failed);
  EXPECT_EQ(server.distrust(), Distrust::Proof);

  ServerGreeting second(kOurs, kInstance);
  in = ClientGreeting(kNone).opening();
  EXPECT_EQ(second.advance(in, out, ""), State::Failed);
  EXPECT_EQ(second.distrust(), Distrust::NoSecret);
}

TEST(Greeting, TellsTheClientWhatIsWrong) {
  const auto refusal = [](const Credentials& server, const Credentials& own) {
    ServerGreeting greeting(server, kInstance);
    const ClientGreeting client(own);
    std::string in = client.opening();
    std::string out;
    greeting.advance(in, out, "");
    return message_of<StoreError>([&] { proof_of(client, out); });
  };
  EXPECT_THAT(
      refusal(kOther, kOurs),
      AllOf(HasSubstr("h:1 does not know the secret"), Not(HasSubstr("none"))));
  EXPECT_THAT(refusal(kNone, kOurs), HasSubstr("it has none"));
  EXPECT_THAT(refusal(kOurs, kNone), HasSubstr("ARGOSY_SECRET_FILE"));
}

TEST(Greeting, IsWorthNothingASecondTime) {
  ServerGreeting first(kOurs, kInstance);
  const ClientGreeting client(kOurs);
  const Exchange wire = greet(first, client);
  ASSERT_EQ(first.state(), State::Proven);
  // Somebody who listened sends the client's bytes again,
  ServerGreeting server(kOurs, kInstance);
  std::string in = wire.opening;
  std::string out;
  server.advance(in, out, "");
  in += wire.proof;
  EXPECT_EQ(server.advance(in, out, ""), State::Failed);
  // and the server's to another client.
  EXPECT_THROW(proof_of(ClientGreeting(kOurs), wire.answer), StoreError);
}

TEST(Greeting, CannotBeReflected) {
  // The server's own proof, of the same nonces, is not the client's.
  ServerGreeting server(kOurs, kInstance);
  const ClientGreeting client(kOurs);
  std::string in = client.opening();
  std::string out;
  server.advance(in, out, "");
  in = out.substr(out.size() - kProofBytes);
  EXPECT_EQ(server.advance(in, out, ""), State::Failed);

  // Nor does it help to open a second connection and to ask the server there
  // with the nonce that it gave on the first.
  ServerGreeting victim(kOurs, kInstance);
  in = client.opening();
  out.clear();
  victim.advance(in, out, "");
  const std::string nonce = out.substr(kHello.size() + 1, kNonceBytes);
  ServerGreeting oracle(kOurs, kInstance);
  std::string answer;
  in = str(kHello, 's', nonce);
  oracle.advance(in, answer, "");
  in = answer.substr(answer.size() - kProofBytes);
  EXPECT_EQ(victim.advance(in, out, ""), State::Failed);
}

TEST(Greeting, BelongsToOneTlsSession) {
  ServerGreeting server(kOurs, kInstance);
  const ClientGreeting client(kOurs);
  std::string in = client.opening();
  std::string out;
  server.advance(in, out, "session of the server");
  EXPECT_THROW(proof_of(client, out, "another session"), StoreError);
  in = proof_of(client, out, "session of the server");
  EXPECT_EQ(server.advance(in, out, "session of the server"), State::Proven);
}

TEST(Greeting, CoversEveryByte) {
  const ClientGreeting client(kOurs);
  ServerGreeting good(kOurs, kInstance);
  std::string in = client.opening();
  std::string answer;
  good.advance(in, answer, "");
  for (std::size_t i = kHello.size(); i < answer.size(); ++i) {
    std::string changed = answer;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_THROW(proof_of(client, changed), StoreError) << i;
  }
  // What the server sees may be changed on the way, too.
  for (std::size_t i = kHello.size(); i < kOpeningBytes; ++i) {
    ServerGreeting server(kOurs, kInstance);
    in = client.opening();
    in[i] = static_cast<char>(in[i] ^ 1);
    answer.clear();
    if (server.advance(in, answer, "") == State::Proof) {
      EXPECT_THROW(proof_of(client, answer), StoreError) << i;
    }
  }
}

TEST(Greeting, AnswersAnotherVersionAndNothingElse) {
  const auto answer_to = [](std::string in) {
    ServerGreeting server(kOurs, kInstance);
    std::string out;
    EXPECT_EQ(server.advance(in, out, ""), State::Failed);
    EXPECT_EQ(server.distrust(), Distrust::Foreign);
    return out;
  };
  EXPECT_EQ(answer_to("ARGOSY KV 0001\r\n\r\n"), kHello);
  EXPECT_EQ(answer_to("GET / HTTP/1.1\r\n"), "");
  EXPECT_EQ(answer_to(std::string(1, '\0')), "");
}

TEST(Secret, IsReadFromDigitsAndShownNowhere) {
  const std::string digits =
      "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";
  EXPECT_EQ(
      Secret::parse(" " + digits + "\n", "test").hex().substr(0, 8),
      "00112233");
  for (const std::string& bad :
       {std::string(),
        digits.substr(1),
        digits + "00",
        "xx" + digits.substr(2)}) {
    const std::string message =
        message_of<InvalidArgument>([&] { Secret::parse(bad, "[here]"); });
    EXPECT_THAT(message, AllOf(HasSubstr("[here]"), HasSubstr("64")));
    EXPECT_THAT(message, Not(HasSubstr("112233")));
  }
  EXPECT_FALSE(Secret::random() == Secret::random());
  EXPECT_FALSE(kOurs.secret->derived("a") == kOurs.secret->derived("b"));
}

// RFC 4231, test case 2, with a key that is padded to 32 bytes: HMAC pads it
// with zeros all the same.
TEST(Secret, MakesTheStandardsHmac) {
  const Secret key = Secret::parse("4a656665" + std::string(56, '0'), "test");
  const std::string mac = key.mac("what do ya want for nothing?");
  EXPECT_EQ(
      Secret::parse(
          "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
          "test")
          .hex(),
      [&] {
        std::string hex;
        for (const unsigned char byte : mac) {
          hex += "0123456789abcdef"[byte >> 4];
          hex += "0123456789abcdef"[byte & 15];
        }
        return hex;
      }());
}

TEST(SecretFile, IsRefusedIfOthersMayChangeIt) {
  const TempDir folder;
  const auto path = folder.path() / "secret";
  write_file(path, std::string(64, 'a') + "\n");
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  EXPECT_TRUE(read_secret_file(path) == *kOurs.secret);
  std::filesystem::permissions(path, std::filesystem::perms(0620));
  EXPECT_THAT(
      message_of<InvalidArgument>([&] { read_secret_file(path); }),
      AllOf(HasSubstr(path.string()), HasSubstr("0600")));
  EXPECT_THAT(
      message_of<InvalidArgument>([&] { read_secret_file("/no/such"); }),
      HasSubstr("/no/such"));
}

TEST(SecretFile, ComesBeforeTheVariable) {
  const OfferedSecret offered(*kOurs.secret);
  Environment env({{"ARGOSY_SECRET", std::string(64, 'b')}});
  EXPECT_TRUE(credentials_of(env) == kOther);
  env.set("ARGOSY_SECRET_FILE", offered.path());
  EXPECT_TRUE(credentials_of(env) == kOurs);
  offered.offer(env);
  EXPECT_FALSE(env.has("ARGOSY_SECRET"));
  EXPECT_TRUE(credentials_of(env) == kOurs);
  EXPECT_TRUE(credentials_of(Environment()) == kNone);
}

TEST(SecretFile, CannotBeWrittenByThoseWhoRead) {
  const OfferedSecret offered(*kOurs.secret);
  std::ofstream file(offered.path(), std::ios::in | std::ios::out);
  file << std::string(64, 'b') << std::flush;
  EXPECT_TRUE(read_secret_file(offered.path()) == *kOurs.secret);
}

TEST(TlsFiles, AreAllGivenOrNone) {
  const auto files = [](const Environment& env) { return credentials_of(env); };
  EXPECT_THAT(
      message_of<InvalidArgument>([&] {
        files(Environment({{"ARGOSY_TLS_CERT", "c"}}));
      }),
      HasSubstr("ARGOSY_TLS_KEY"));
  EXPECT_FALSE(files(Environment({{"ARGOSY_TLS_CA", "c"}})).tls.on());
}

} // namespace
} // namespace argosy::store
