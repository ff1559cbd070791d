#include "argosy/store/url.h"

#include "argosy/common/error.h"
#include "tests/store/expect.h"

namespace argosy::store {
namespace {

using argosy::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Url, ParsesEachForm) {
  EXPECT_EQ(
      parse_url("tcp://node1:29500"),
      (Url{Scheme::Tcp, {{"node1", 29500}}, "", "", {}}));
  EXPECT_EQ(
      parse_url("tcp://[::1]:80/"),
      (Url{Scheme::Tcp, {{"::1", 80}}, "", "", {}}));
  EXPECT_EQ(
      parse_url("file:///tmp/a b"),
      (Url{Scheme::File, {}, "/tmp/a b", "", {}}));
  EXPECT_EQ(parse_url("mem://x"), (Url{Scheme::Mem, {}, "", "x", {}}));
  EXPECT_EQ(
      parse_url("etcd://a:1,b:2/jobs/7/"),
      (Url{Scheme::Etcd, {{"a", 1}, {"b", 2}}, "", "jobs/7", {}}));
  EXPECT_EQ(parse_url("etcd://a:1").name, "argosy");
  EXPECT_FALSE(parse_url("etcd://a:1").tls);
  EXPECT_TRUE(parse_url("etcds://a:1/p").tls);
  EXPECT_EQ(parse_url("etcds://a:1/p").scheme, Scheme::Etcd);
  EXPECT_EQ(
      parse_url("c10d://node1:29500"),
      (Url{Scheme::C10d, {{"node1", 29500}}, "", "", {}}));
  EXPECT_TRUE(parse_url("tcp://h:1?serve=no").served_elsewhere);
}

TEST(Url, ParsesTheTimeout) {
  EXPECT_EQ(parse_url("mem://x").timeout, std::nullopt);
  EXPECT_EQ(
      parse_url("mem://x?timeout=500ms").timeout,
      std::chrono::milliseconds(500));
  EXPECT_EQ(parse_url("tcp://h:1?timeout=2m").timeout, std::chrono::minutes(2));
}

TEST(Url, RefusesOthersAndShowsTheForms) {
  for (const char* url :
       {"",
        "host:80",
        "tcp:/host:80",
        "http://host:80",
        "tcp://",
        "tcp://host",
        "tcp://host:0",
        "tcp://host:x",
        "tcp://host:70000",
        "tcp://:80",
        "tcp://a:1,b:2",
        "tcp://host:80/path",
        "file://relative",
        "file:///folder/",
        "file://",
        "mem://",
        "mem://?timeout=1s",
        "etcd://",
        "etcd:///prefix",
        "etcd://a:1,/p",
        "mem://x?timeout",
        "mem://x?timeout=soon",
        "mem://x?timeout=0",
        "mem://x?serve=no",
        "tcp://h:1?serve=yes",
        "mem://x?wait=1"}) {
    EXPECT_THAT(
        message_of<InvalidArgument>([&] { parse_url(url); }),
        AllOf(
            HasSubstr(url),
            HasSubstr("tcp://host:port"),
            HasSubstr("file:///path"),
            HasSubstr("etcd://host:port"),
            HasSubstr("mem://name")))
        << url;
  }
}

TEST(Url, DoesNotShowAPassword) {
  EXPECT_THAT(
      message_of<InvalidArgument>(
          [] { parse_url("etcd://root:hunter2@h:1/p"); }),
      AllOf(HasSubstr("ARGOSY_ETCD_USER"), Not(HasSubstr("hunter2"))));
}

TEST(Url, SuggestsTheNearestScheme) {
  EXPECT_THAT(
      message_of<InvalidArgument>([] { parse_url("ectd://h:1/p"); }),
      HasSubstr("did you mean etcd"));
}

} // namespace
} // namespace argosy::store
