#include "argosy/store/url.h"

#include "argosy/common/error.h"
#include "tests/store/expect.h"

namespace argosy::store {
namespace {

using argosy::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

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

TEST(Url, SuggestsTheNearestScheme) {
  EXPECT_THAT(
      message_of<InvalidArgument>([] { parse_url("ectd://h:1/p"); }),
      HasSubstr("did you mean etcd"));
}

} // namespace
} // namespace argosy::store
