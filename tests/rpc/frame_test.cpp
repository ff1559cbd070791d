#include "argosy/rpc/frame.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "argosy/common/error.h"
#include "argosy/rpc/address.h"
#include "argosy/rpc/hello.h"
#include "tests/rpc/workers.h"

namespace argosy::rpc::testing {
namespace {

constexpr std::size_t kLongest = 1 << 20;

std::string frame_bytes(
    FrameHeader header, std::string_view method, const Message& message) {
  std::string bytes = encode_front(header, method, message);
  for (const Bytes& part : message.parts) {
    bytes += part.text();
  }
  return bytes;
}

FrameReader make_reader() {
  return FrameReader(kLongest, std::make_shared<BufferPool>());
}

// Feeds bytes in pieces of at most `step`; returns the frames that are
// complete.
std::vector<Frame> feed(
    FrameReader& reader, std::string_view bytes, std::size_t step) {
  std::vector<Frame> frames;
  for (;;) {
    if (reader.wants() == FrameReader::Wants::Nothing) {
      frames.push_back(reader.take());
    } else if (reader.wants() == FrameReader::Wants::Admission) {
      reader.admit();
    } else if (bytes.empty()) {
      return frames;
    } else {
      const auto room = reader.room();
      const std::size_t n = std::min({room.size(), bytes.size(), step});
      std::memcpy(room.data(), bytes.data(), n);
      bytes.remove_prefix(n);
      reader.advance(n);
    }
  }
}

Message sample_message() {
  return {
      "head",
      {Bytes::owned(pattern(100)), Bytes{}, Bytes::owned(pattern(70000))}};
}

TEST(Frame, ComeOutAsTheyWentInHoweverTheyAreCut) {
  const FrameHeader header{
      .kind = FrameKind::Call,
      .flags = kExactlyOnce,
      .sequence = 77,
      .confirmed = 70,
      .time_left_us = 1234567};
  const std::string one = frame_bytes(header, "sum", sample_message());
  const std::string empty = frame_bytes({.kind = FrameKind::Reply}, "", {});
  for (const std::size_t step : {1, 7, 4096, 1 << 20}) {
    FrameReader reader = make_reader();
    const auto frames = feed(reader, one + empty + one, step);
    ASSERT_EQ(frames.size(), 3);
    EXPECT_FALSE(reader.halfway());
    EXPECT_EQ(frames[2].header.sequence, 77);
    EXPECT_EQ(frames[2].header.confirmed, 70);
    EXPECT_EQ(frames[2].header.time_left_us, 1234567);
    EXPECT_EQ(frames[2].header.flags, kExactlyOnce);
    EXPECT_EQ(frames[2].method, "sum");
    EXPECT_EQ(frames[2].message.head, "head");
    EXPECT_EQ(frames[2].message.parts[0].text(), pattern(100));
    EXPECT_EQ(frames[2].message.parts[1].size, 0);
    EXPECT_EQ(frames[2].message.parts[2].text(), pattern(70000));
    EXPECT_EQ(frames[1].header.kind, FrameKind::Reply);
    EXPECT_TRUE(frames[1].message.parts.empty());
  }
}

TEST(Frame, TakesNoMemoryBeforeItIsAdmitted) {
  FrameReader reader = make_reader();
  const std::string bytes = frame_bytes({}, "f", sample_message());
  const std::size_t front = kHeaderBytes + 1 + 3 * 8;
  std::string_view rest(bytes);
  while (reader.wants() == FrameReader::Wants::Bytes) {
    const auto room = reader.room();
    std::memcpy(room.data(), rest.data(), room.size());
    rest.remove_prefix(room.size());
    reader.advance(room.size());
  }
  EXPECT_EQ(reader.wants(), FrameReader::Wants::Admission);
  EXPECT_EQ(bytes.size() - rest.size(), front);
  EXPECT_EQ(reader.header().message_bytes(), 4 + 100 + 70000);
}

template <typename T>
void overwrite(std::string& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}

TEST(Frame, RefusesEachFieldBeyondItsLimit) {
  const std::string good = frame_bytes({}, "f", sample_message());
  const auto refuses = [&](std::size_t at, auto value) {
    std::string bytes = good;
    overwrite(bytes, at, value);
    FrameReader reader = make_reader();
    EXPECT_THROW(feed(reader, bytes, 1 << 20), InvalidArgument) << at;
  };
  refuses(0, std::uint32_t{1});                 // not a frame
  refuses(4, std::uint8_t{0});                  // kind
  refuses(4, std::uint8_t{9});                  // kind
  refuses(6, std::uint16_t{2000});              // method
  refuses(8, std::uint32_t{70000});             // parts
  refuses(12, std::uint32_t{1});                // must be 0
  refuses(40, ~std::uint64_t{0});               // head
  refuses(40, std::uint64_t{kLongest + 1});     // head
  refuses(48, ~std::uint64_t{0});               // body
  refuses(48, std::uint64_t{kLongest});         // head and body
  refuses(kHeaderBytes + 1, std::uint64_t{99}); // parts are shorter
  refuses(kHeaderBytes + 1, ~std::uint64_t{0}); // a part is longer than all
}

// Whatever comes, the reader throws or gives frames within the limits.
TEST(Frame, SurvivesMutations) {
  std::mt19937 random(7);
  const std::string good =
      frame_bytes({}, "f", {"h", {Bytes::owned(pattern(9))}}) +
      frame_bytes({.kind = FrameKind::Reply}, "", {"reply"});
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good;
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int c = 0; c < changes; ++c) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    bytes.resize(random() % 8 == 0 ? random() % bytes.size() : bytes.size());
    FrameReader reader = make_reader();
    try {
      for (const Frame& frame : feed(reader, bytes, 1 + random() % 64)) {
        EXPECT_LE(frame.message.bytes(), kLongest);
        EXPECT_LE(frame.method.size(), kLongestMethod);
      }
    } catch (const InvalidArgument&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 5000);
}

TEST(Hello, ComesOutAsItWentIn) {
  const Hello hello{3, "trainer 3", "0a1b", true};
  FrameReader reader = make_reader();
  const auto frames = feed(reader, encode(hello) + encode(Welcome{true}), 5);
  ASSERT_EQ(frames.size(), 2);
  EXPECT_EQ(decode_hello(frames[0]), hello);
  EXPECT_EQ(decode_welcome(frames[1]), Welcome{true});
  EXPECT_THROW(decode_hello(frames[1]), InvalidArgument);
  EXPECT_THROW(decode_welcome(frames[0]), InvalidArgument);
  for (const char* bad :
       {"",
        "1",
        "-1 s 0",
        "1 s 2",
        "x s 0",
        "1  0",
        "99999999999 s 0",
        "1 s 0 0"}) {
    Frame frame;
    frame.header.kind = FrameKind::Hello;
    frame.message.head = bad;
    EXPECT_THROW(decode_hello(frame), InvalidArgument) << bad;
  }
}

TEST(Address, ComesOutAsItWentInAndPicksTheFastestWay) {
  const Address here{"h1", "name", true, {"10.0.0.1", 80}};
  EXPECT_EQ(parse_address(here.text()), here);
  EXPECT_EQ(parse_address("host=h2 tcp=[::1]:5").tcp.host, "::1");
  for (const char* bad :
       {"", "unix=a", "host", "host=a host=b", "host=a tcp=b"}) {
    EXPECT_THROW(parse_address(bad), InvalidArgument) << bad;
  }
  Address there = here;
  EXPECT_EQ(choose_transport(here, there), Transport::SharedMemory);
  there.rings = false;
  EXPECT_EQ(choose_transport(here, there), Transport::Unix);
  there.host = "h2";
  EXPECT_EQ(choose_transport(here, there), Transport::Tcp);
  there.tcp = {};
  EXPECT_THROW(choose_transport(here, there), InvalidArgument);
}

TEST(BufferPool, KeepsLargeBuffersWithinItsLimit) {
  const auto pool = std::make_shared<BufferPool>(300000);
  EXPECT_EQ(buffer_bytes(0), 1);
  EXPECT_EQ(buffer_bytes(100000), 106496);
  std::byte* first = pool->take(100000).get();
  EXPECT_EQ(pool->kept_bytes(), 106496);
  EXPECT_EQ(pool->take(99000).get(), first); // of the same size class
  {
    std::vector<std::shared_ptr<std::byte>> many;
    for (int i = 0; i < 5; ++i) {
      many.push_back(pool->take(100000));
    }
  }
  EXPECT_EQ(pool->kept_bytes(), 2 * 106496);
}

} // namespace
} // namespace argosy::rpc::testing
