// Which file system a URL opens, and how answers of servers are read. Nothing
// here contacts a server.
#include <gmock/gmock.h>

#include "argosy/common/http.h"
#include "argosy/fs/open.h"
#include "argosy/fs/s3.h"
#include "argosy/fs/xml.h"
#include "tests/support/refusal.h"

namespace argosy::fs {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What a URL becomes in messages, and its path.
std::vector<std::string> opened(const std::string& url) {
  const Location location = open(url, Environment());
  return {location.fs->url(location.path), location.path};
}

TEST(FsUrl, NamesTheFileSystemAndThePath) {
  EXPECT_THAT(opened("/a/b"), ElementsAre("/a/b", "/a/b"));
  EXPECT_THAT(opened("a/b"), ElementsAre("a/b", "a/b"));
  EXPECT_THAT(opened("file:///a/b"), ElementsAre("/a/b", "/a/b"));
  EXPECT_THAT(opened("s3://bucket/a/b"), ElementsAre("s3://bucket/a/b", "a/b"));
  EXPECT_THAT(opened("s3://bucket/a/"), ElementsAre("s3://bucket/a", "a"));
  EXPECT_THAT(opened("s3://bucket"), ElementsAre("s3://bucket/", ""));
  EXPECT_THAT(
      opened("webhdfs://host:50070/a"),
      ElementsAre("webhdfs://host:50070/a", "/a"));
  EXPECT_THAT(
      opened("hdfs://user@host/a"), ElementsAre("hdfs://host:9870/a", "/a"));
  EXPECT_THAT(
      opened("swebhdfs://host/a"), ElementsAre("swebhdfs://host:9871/a", "/a"));
}

TEST(FsUrl, RefusesWhatItDoesNotKnow) {
  const auto error = [](const std::string& url) {
    return testing::refusal([&] { open(url, Environment()); });
  };
  EXPECT_THAT(
      error("s4://bucket/x"),
      AllOf(HasSubstr("s4://bucket/x"), HasSubstr("did you mean s3")));
  EXPECT_THAT(error("file://x"), HasSubstr("not absolute"));
  EXPECT_THAT(error("s3:///x"), HasSubstr("no bucket"));
  EXPECT_THAT(error(""), HasSubstr("no path"));
  EXPECT_THAT(
      error("hdfs://host:8020/x"),
      AllOf(HasSubstr("Hadoop's own protocol"), HasSubstr("9870")));
  EXPECT_THAT(error("webhdfs://host:x/x"), HasSubstr("host:x"));
}

TEST(S3Address, ComesFromTheEnvironment) {
  const S3Address address = s3_address("b", {{"AWS_REGION", "eu-west-1"}});
  EXPECT_EQ(address.endpoint, "https://s3.eu-west-1.amazonaws.com");
  EXPECT_EQ(address.region, "eu-west-1");
  EXPECT_EQ(address.part_bytes, 8u << 20);
  const S3Address other = s3_address(
      "b",
      {{"AWS_ENDPOINT_URL", "http://host:1/"},
       {"AWS_DEFAULT_REGION", "x"},
       {"ARGOSY_FS_PART", "5"}});
  EXPECT_EQ(other.endpoint, "http://host:1");
  EXPECT_EQ(other.region, "x");
  EXPECT_EQ(other.part_bytes, 5u << 20);
  EXPECT_THAT(
      testing::refusal([] {
        s3_address("b", {{"AWS_ACCESS_KEY_ID", "k"}});
      }),
      HasSubstr("AWS_SECRET_ACCESS_KEY"));
}

TEST(S3Listing, IsReadFromXml) {
  const S3Listing listing = parse_s3_listing(
      "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3\">"
      "<IsTruncated>true</IsTruncated><Prefix>a/</Prefix>"
      "<NextContinuationToken>t&amp;1</NextContinuationToken>"
      "<Contents><Key>a/&lt;x&gt; &#38; &#xfc;</Key><Size>12</Size>"
      "<LastModified>1970-01-02T00:00:01.000Z</LastModified></Contents>"
      "<Contents><Key>a/y</Key><Size>0</Size></Contents>"
      "<CommonPrefixes><Prefix>a/b/</Prefix></CommonPrefixes>"
      "</ListBucketResult>");
  ASSERT_EQ(listing.objects.size(), 2);
  EXPECT_EQ(listing.objects[0].key, "a/<x> & \xc3\xbc");
  EXPECT_EQ(listing.objects[0].bytes, 12);
  EXPECT_EQ(
      listing.objects[0].modified.time_since_epoch(),
      std::chrono::seconds(86401));
  EXPECT_EQ(listing.objects[1].key, "a/y");
  EXPECT_THAT(listing.prefixes, ElementsAre("a/b/"));
  EXPECT_EQ(listing.next, "t&1");
}

TEST(S3Listing, WhatIsNoXmlHasNothing) {
  for (const std::string text :
       {"",
        "<",
        "<Contents",
        "<Contents>",
        "<Contents/>",
        "nonsense",
        "<Contents></Content>",
        "<Contents><Key>&#xfffffff;</Key></Contents>"}) {
    EXPECT_LE(parse_s3_listing(text).objects.size(), 1) << text;
    EXPECT_TRUE(parse_s3_listing(text).next.empty());
  }
}

TEST(Xml, TextsSurviveEscaping) {
  const std::string text = "<a b='c'> & \"d\"; &amp;";
  EXPECT_EQ(xml_unescape(xml_escape(text)), text);
  EXPECT_THAT(
      xml_texts("<a>1</a><ab>2</ab><a x=\"1\">3</a><a/>", "a"),
      ElementsAre("1", "3", ""));
}

TEST(PercentEncode, KeepsWhatUrlsMayHave) {
  EXPECT_EQ(percent_encode("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(percent_encode("a/b c+\xc3\xbc"), "a%2Fb%20c%2B%C3%BC");
  EXPECT_EQ(percent_encode("a/b", true), "a/b");
}

} // namespace
} // namespace argosy::fs
