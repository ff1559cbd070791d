// Servers over HTTPS, with certificates of an authority that the test makes.
#include <gmock/gmock.h>

#include <chrono>
#include <map>
#include <memory>

#include "argosy/common/file.h"
#include "tests/fs/peers.h"
#include "tests/fs/support.h"
#include "tests/support/command.h"
#include "tests/support/refusal.h"

namespace argosy::fs {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::pattern;
using testing::PeerKind;
using testing::soon;
using testing::TlsFiles;

void run(const std::string& line) {
  const auto result = testing::run_command(line);
  ASSERT_TRUE(result.status.success()) << line << ": " << result.output;
}

// An authority and, from it, a certificate for 127.0.0.1.
class Authority {
 public:
  Authority() {
    const std::string new_key =
        " -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes ";
    run("openssl req -x509 -days 2 -subj /CN=Tests" + new_key + "-keyout " +
        file("ca.key") + " -out " + file("ca.pem"));
    run("openssl req -subj /CN=127.0.0.1" + new_key + "-keyout " +
        file("server.key") + " -out " + file("server.csr"));
    write_file(file("extensions"), "subjectAltName=IP:127.0.0.1\n");
    run("openssl x509 -req -days 2 -in " + file("server.csr") + " -CA " +
        file("ca.pem") + " -CAkey " + file("ca.key") +
        " -CAcreateserial -extfile " + file("extensions") + " -out " +
        file("server.pem"));
  }

  TlsFiles files() const {
    return {file("server.key"), file("server.pem"), file("ca.pem")};
  }

 private:
  std::string file(const char* name) const {
    return (folder_.path() / name).string();
  }

  const TempDir folder_;
};

const Authority& authority() {
  static const Authority one;
  return one;
}

testing::Peer& tls_peer(PeerKind kind) {
  static std::map<PeerKind, std::unique_ptr<testing::Peer>> peers;
  auto& peer = peers[kind];
  if (peer == nullptr) {
    peer = testing::make_tls_peer(kind, authority().files());
  }
  return *peer;
}

class Tls : public ::testing::TestWithParam<PeerKind> {
 protected:
  testing::Peer& peer() const { return tls_peer(GetParam()); }

  // What is said of a server with these settings. It must not be tried again
  // and again.
  std::string refusal_with(const Environment& environment) const {
    const auto begin = std::chrono::steady_clock::now();
    const Location file = below_new_folder(environment);
    const std::string text =
        testing::refusal<FsError>([&] { write_text(file, "secret", soon()); });
    EXPECT_LT(
        std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
    return text;
  }

  Location below_new_folder(const Environment& environment) const {
    Location location = open(peer().new_folder(), environment);
    location.path = join_path(location.path, "file");
    return location;
  }

  // The peer's settings, with another file of certificates.
  Environment trusting(const std::string& file) const {
    Environment environment = peer().environment();
    environment.set(
        GetParam() == PeerKind::S3 ? "AWS_CA_BUNDLE" : "ARGOSY_FS_CA", file);
    return environment;
  }
};

INSTANTIATE_TEST_SUITE_P(
    Fs,
    Tls,
    ::testing::Values(PeerKind::WebHdfs, PeerKind::S3),
    [](const auto& of) { return testing::peer_name(of.param); });

TEST_P(Tls, FilesGoThereAndBack) {
  testing::Folder folder(open(peer().new_folder(), peer().environment()));
  folder.fs().make_dirs(folder.path(""), soon());
  const std::string text = pattern(2'500'000); // of several requests
  folder.put("large", text);
  folder.put("small", "x");
  EXPECT_EQ(folder.get("large"), text);
  folder.fs().rename(folder.path("small"), folder.path("other"), soon());
  EXPECT_THAT(folder.names(), ElementsAre("large", "other"));
  EXPECT_EQ(peer().num_leftovers(), 0);
}

TEST_P(Tls, AnotherAuthorityIsRefusedAtOnce) {
  const Authority other;
  EXPECT_THAT(
      refusal_with(trusting(other.files().authority)),
      AllOf(HasSubstr("certificate"), HasSubstr("ARGOSY_FS_CA")));
}

TEST_P(Tls, TheSystemsAuthoritiesDoNotVouchForIt) {
  EXPECT_THAT(refusal_with(trusting("")), HasSubstr("certificate"));
}

TEST_P(Tls, AFileThatIsNotThereIsNamed) {
  EXPECT_THAT(
      refusal_with(trusting("/nowhere/ca.pem")), HasSubstr("/nowhere/ca.pem"));
}

// The certificate is for 127.0.0.1.
TEST_P(Tls, AnotherHostIsRefused) {
  std::string url = peer().new_folder();
  Environment environment = peer().environment();
  const auto rename_host = [](std::string text) {
    const std::string from = "127.0.0.1";
    const std::size_t at = text.find(from);
    return at == text.npos ? text : text.replace(at, from.size(), "localhost");
  };
  environment.set(
      "AWS_ENDPOINT_URL", rename_host(environment.get("AWS_ENDPOINT_URL", "")));
  Location file = open(rename_host(url), environment);
  file.path = join_path(file.path, "file");
  EXPECT_THAT(
      testing::refusal<FsError>([&] { write_text(file, "secret", soon()); }),
      AllOf(HasSubstr("certificate"), HasSubstr("localhost")));
}

} // namespace
} // namespace argosy::fs
