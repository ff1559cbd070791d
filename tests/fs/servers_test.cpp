// What one kind of server alone does.
#include <gmock/gmock.h>

#include "argosy/fs/partial.h"
#include "argosy/fs/s3.h"
#include "tests/fs/peers.h"
#include "tests/fs/support.h"
#include "tests/support/refusal.h"

namespace argosy::fs {
namespace {

using ::testing::AllOf;
using testing::bytes_of;
using ::testing::ElementsAre;
using testing::Fault;
using ::testing::HasSubstr;
using testing::pattern;
using testing::PeerKind;
using testing::soon;

testing::Folder new_folder(PeerKind kind) {
  testing::Peer& peer = testing::shared_peer(kind);
  testing::Folder folder(open(peer.new_folder(), peer.environment()));
  folder.fs().make_dirs(folder.path(""), soon());
  return folder;
}

class Servers : public ::testing::TestWithParam<PeerKind> {};

TEST_P(Servers, AFileThatIsReplacedWhileItIsReadIsAnError) {
  const auto folder = new_folder(GetParam());
  folder.put("file", "first text");
  const auto reader = folder.fs().open_read(folder.path("file"), {}, soon());
  folder.put("file", "other text");
  std::string text(10, '\0');
  EXPECT_THAT(
      testing::refusal<FsError>([&] {
        reader->read_at(0, std::as_writable_bytes(std::span(text)), soon());
      }),
      HasSubstr("was replaced"));
}

TEST_P(Servers, WritesInOrderOnly) {
  const auto folder = new_folder(GetParam());
  const auto writer = folder.fs().open_write(folder.path("x"), {}, soon());
  EXPECT_FALSE(writer->can_write_at());
  EXPECT_EQ(writer->descriptor(), -1);
  EXPECT_THROW(writer->write_at(0, bytes_of("x"), soon()), InvalidArgument);
}

TEST_P(Servers, SweepRemovesWhatWritersLeft) {
  testing::Peer& peer = testing::shared_peer(GetParam());
  const auto folder = new_folder(GetParam());
  {
    const auto dead = folder.fs().open_write(folder.path("dead"), {}, soon());
    dead->write(bytes_of(pattern(2'500'000)), soon());
    // The destructor achieves nothing.
    peer.faults().plan(Fault::Refuse, 1, "DELETE");
  }
  peer.faults().plan(Fault::Slow, 0);
  EXPECT_GT(peer.num_leftovers(), 0);
  EXPECT_THAT(folder.names(), ElementsAre());
  FileSystem& fs = folder.fs();
  EXPECT_EQ(fs.sweep(folder.path(""), std::chrono::hours(1), soon()), 0);
  EXPECT_EQ(fs.sweep(folder.path(""), std::chrono::hours(-1), soon()), 1);
  EXPECT_EQ(peer.num_leftovers(), 0);
}

TEST_P(Servers, NobodyListensIsATimeoutThatNamesTheServer) {
  const ReservedPort port;
  const std::string url = GetParam() == PeerKind::S3
      ? "s3://bucket/x"
      : str("webhdfs://127.0.0.1:", port.port(), "/x");
  const Location file =
      open(url, {{"AWS_ENDPOINT_URL", str("http://127.0.0.1:", port.port())}});
  EXPECT_THAT(
      testing::refusal<TimeoutError>([&] {
        read_text(file, Deadline::after(std::chrono::milliseconds(200)));
      }),
      AllOf(HasSubstr(url), HasSubstr(std::to_string(port.port()))));
}

INSTANTIATE_TEST_SUITE_P(
    ,
    Servers,
    ::testing::Values(PeerKind::WebHdfs, PeerKind::S3),
    [](const auto& peer) { return testing::peer_name(peer.param); });

TEST(S3Server, AWrongSecretIsRefusedInTheServersWords) {
  testing::Peer& peer = testing::shared_peer(PeerKind::S3);
  Environment environment = peer.environment();
  environment.set("AWS_SECRET_ACCESS_KEY", "wrong");
  const Location file = open(peer.new_folder() + "/file", environment);
  try {
    write_text(file, "text", soon());
    FAIL() << "the server took a wrong signature";
  } catch (const FsError& error) {
    EXPECT_EQ(error.failure(), Failure::Denied);
    EXPECT_THAT(
        error.what(),
        AllOf(
            HasSubstr(file.fs->url(file.path)),
            HasSubstr("HTTP 403: SignatureDoesNotMatch"),
            HasSubstr("check the user or the credentials")));
  }
}

TEST(S3Server, RequestsWithoutKeysAreNotSigned) {
  testing::Peer& peer = testing::shared_peer(PeerKind::S3);
  const Location file = open(
      peer.new_folder(),
      {{"AWS_ENDPOINT_URL", peer.environment().get("AWS_ENDPOINT_URL", "")}});
  EXPECT_THAT(
      testing::refusal<FsError>([&] { file.fs->list(file.path, soon()); }),
      HasSubstr("HTTP 403: AccessDenied"));
}

TEST(S3Server, ASessionTokenIsSignedToo) {
  testing::Peer& peer = testing::shared_peer(PeerKind::S3);
  Environment environment = peer.environment();
  environment.set("AWS_SESSION_TOKEN", "a/token+with=signs==");
  const Location file = open(peer.new_folder() + "/file", environment);
  write_text(file, "text", soon());
  EXPECT_EQ(read_text(file, soon()), "text");
}

TEST(S3Server, AMissingBucketIsNamed) {
  testing::Peer& peer = testing::shared_peer(PeerKind::S3);
  const Location file = open("s3://absent/file", peer.environment());
  EXPECT_THAT(
      testing::refusal<FsError>([&] { write_text(file, "text", soon()); }),
      AllOf(HasSubstr("s3://absent/file"), HasSubstr("NoSuchBucket")));
}

TEST(S3Server, ListsMoreThanAPage) {
  testing::Peer& peer = testing::shared_peer(PeerKind::S3);
  const auto folder = new_folder(PeerKind::S3);
  for (int i = 0; i < 5; ++i) {
    folder.put(str("file", i), "x");
  }
  S3Client client(s3_address("bucket", peer.environment()), peer.environment());
  S3Client::ListQuery query{.prefix = folder.path("file"), .max_keys = 2};
  std::vector<std::string> names;
  int num_pages = 0;
  do {
    const S3Listing page = client.list(query, "list", soon());
    for (const S3Object& object : page.objects) {
      names.push_back(base_name(object.key));
    }
    query.token = page.next;
    ++num_pages;
  } while (!query.token.empty());
  EXPECT_EQ(num_pages, 3);
  EXPECT_THAT(names, ElementsAre("file0", "file1", "file2", "file3", "file4"));
}

TEST(S3Server, PartsOfAFileTravelTogether) {
  const auto folder = new_folder(PeerKind::S3);
  const std::string text = pattern((9 << 20) + 5);
  const auto writer = folder.fs().open_write(
      folder.path("large"), {.expected_bytes = text.size()}, soon());
  writer->write(bytes_of(text), soon());
  writer->commit(soon());
  EXPECT_TRUE(folder.get("large") == text);
}

TEST(WebHdfsServer, RefusalsHaveTheServersWords) {
  const auto folder = new_folder(PeerKind::WebHdfs);
  folder.put("file", "x");
  EXPECT_THAT(
      testing::refusal<FsError>(
          [&] { folder.fs().make_dirs(folder.path("file/below"), soon()); }),
      AllOf(
          HasSubstr("[fs.make_dirs] webhdfs://127.0.0.1:"),
          HasSubstr("HTTP 403: ParentNotDirectoryException"),
          HasSubstr("is not a directory")));
}

} // namespace
} // namespace argosy::fs
