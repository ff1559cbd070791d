// Faults on the way to a server: nothing is lost, nothing is done twice, no
// torn file appears.
#include <gmock/gmock.h>

#include <map>
#include <random>

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
using ::testing::IsEmpty;
using testing::pattern;
using testing::soon;

class ServerFaults : public ::testing::TestWithParam<testing::PeerKind> {
 protected:
  ServerFaults()
      : peer_(testing::shared_peer(GetParam())),
        root_(open(peer_.new_folder(), peer_.environment())) {
    root_.fs().make_dirs(root_.path(""), soon());
  }
  ~ServerFaults() override {
    peer_.faults().plan(Fault::Slow, 0);
    peer_.faults().set_random(0, 0);
  }

  // Does `action` while the next two requests with `text` meet a fault, for
  // every fault.
  void with_each_fault(
      const std::string& text, const std::function<void()>& action) {
    for (const Fault fault : testing::kPassingFaults) {
      SCOPED_TRACE(str("fault ", static_cast<int>(fault), " at ", text));
      const int before = peer_.faults().num_faults();
      peer_.faults().plan(fault, 2, text);
      action();
      peer_.faults().plan(fault, 0);
      EXPECT_GT(peer_.faults().num_faults(), before);
      expect_nothing_left();
    }
  }

  // S3 alone may keep an upload when the answer to its begin is lost: nobody
  // knows its name until a sweep.
  void expect_nothing_left() const {
    if (is_s3()) {
      root_.fs().sweep(root_.path(""), std::chrono::hours(-1), soon());
    }
    EXPECT_EQ(peer_.num_leftovers(), 0);
  }

  bool is_s3() const { return GetParam() == testing::PeerKind::S3; }

  testing::Peer& peer_;
  const testing::Folder root_;
};

TEST_P(ServerFaults, WritingInOneRequest) {
  const std::string text = pattern(300'000);
  with_each_fault("PUT", [&] {
    root_.put("file", text);
    EXPECT_TRUE(root_.get("file") == text);
    EXPECT_THAT(root_.names(), ElementsAre("file"));
  });
}

TEST_P(ServerFaults, WritingInParts) {
  const std::string text = pattern(3'500'000);
  const std::vector<std::string> steps = is_s3()
      ? std::vector<std::string>{"uploads=", "partNumber=2", "POST"}
      : std::vector<std::string>{
            "op=CREATE", "op=APPEND", "redirect=true", "op=RENAME"};
  for (const std::string& step : steps) {
    with_each_fault(step, [&] {
      root_.put("file", "old");
      root_.put("file", text);
      EXPECT_TRUE(root_.get("file") == text);
      EXPECT_THAT(root_.names(), ElementsAre("file"));
      root_.fs().remove(root_.path("file"), soon());
    });
  }
}

TEST_P(ServerFaults, Reading) {
  const std::string text = pattern(300'000);
  root_.put("file", text);
  with_each_fault("GET", [&] { EXPECT_TRUE(root_.get("file") == text); });
}

TEST_P(ServerFaults, Renaming) {
  for (const Fault fault : testing::kPassingFaults) {
    SCOPED_TRACE(static_cast<int>(fault));
    root_.put("a", "text");
    root_.put("b", "old");
    peer_.faults().plan(fault, 1, is_s3() ? "PUT" : "op=RENAME");
    root_.fs().rename(root_.path("a"), root_.path("b"), soon());
    EXPECT_EQ(root_.get("b"), "text");
    EXPECT_THAT(root_.names(), ElementsAre("b"));
  }
}

TEST_P(ServerFaults, ListingMakingAndRemovingFolders) {
  for (const Fault fault : testing::kPassingFaults) {
    SCOPED_TRACE(static_cast<int>(fault));
    peer_.faults().plan(fault, 2);
    root_.fs().make_dirs(root_.path("a/b"), soon());
    peer_.faults().plan(fault, 2);
    EXPECT_THAT(root_.names(), ElementsAre("a/"));
    peer_.faults().plan(fault, 2);
    EXPECT_TRUE(root_.fs().stat(root_.path("a/b"), soon())->is_dir);
    peer_.faults().plan(fault, 2, "DELETE");
    root_.fs().remove(root_.path("a"), soon());
    EXPECT_THAT(root_.names(), IsEmpty());
  }
}

TEST_P(ServerFaults, AServerThatFallsSilentIsAskedAgain) {
  const std::string text = pattern(300'000);
  peer_.faults().plan(Fault::Stall, 1, "PUT");
  root_.put("file", text);
  peer_.faults().plan(Fault::Stall, 1, "GET");
  EXPECT_TRUE(root_.get("file") == text);
}

TEST_P(ServerFaults, AServerThatStaysAwayIsATimeoutWithItsLastWords) {
  root_.put("file", "kept");
  peer_.faults().plan(Fault::Unavailable, 1'000'000);
  const auto limit = Deadline::after(std::chrono::milliseconds(300));
  const std::string error = testing::refusal<TimeoutError>(
      [&] { write_text(root_.at("file"), "new", limit); });
  EXPECT_THAT(
      error,
      AllOf(
          HasSubstr(root_.fs().url(root_.path("file"))),
          HasSubstr("not done within 300 ms"),
          HasSubstr("HTTP 503: slow down")));
  peer_.faults().plan(Fault::Slow, 0);
  EXPECT_EQ(root_.get("file"), "kept");
  expect_nothing_left();
}

TEST_P(ServerFaults, AWriteThatDiesHalfwayKeepsTheOldFile) {
  root_.put("file", "kept");
  {
    const auto writer = root_.fs().open_write(root_.path("file"), {}, soon());
    writer->write(bytes_of(pattern(2'500'000)), soon());
    peer_.faults().plan(Fault::ShortUpload, 1'000'000, "P"); // PUT and POST
    EXPECT_THROW(
        writer->commit(Deadline::after(std::chrono::milliseconds(300))),
        TimeoutError);
    peer_.faults().plan(Fault::Slow, 0);
    EXPECT_EQ(root_.get("file"), "kept");
  }
  EXPECT_THAT(root_.names(), ElementsAre("file"));
  expect_nothing_left();
}

// A run of random operations with random faults, beside the same on a map.
void run_beside_a_map(
    const testing::Folder& root, std::mt19937& random, int num_steps) {
  std::map<std::string, std::string> expected;
  for (int i = 0; i < num_steps; ++i) {
    const std::string name = str("file", random() % 4);
    const std::string other = str("file", random() % 4);
    const auto found = expected.find(name);
    switch (random() % 5) {
      case 0:
        root.fs().remove(root.path(name), soon());
        expected.erase(name);
        break;
      case 1:
        if (found != expected.end() && name != other) {
          root.fs().rename(root.path(name), root.path(other), soon());
          expected[other] = found->second;
          expected.erase(name);
        }
        break;
      case 2:
        if (found != expected.end()) {
          ASSERT_TRUE(root.get(name) == found->second) << name;
        }
        break;
      default: {
        const std::size_t size = random() % 4 == 0 ? 2'200'000 : 5'000;
        expected[name] = pattern(size, random());
        root.put(name, expected[name]);
      }
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, text] : expected) {
    names.push_back(name);
    EXPECT_TRUE(root.get(name) == text) << name;
  }
  EXPECT_EQ(root.names(), names);
}

TEST_P(ServerFaults, ManyOperationsWithManyFaultsLoseNothing) {
  std::mt19937 random(7);
  const int before = peer_.faults().num_faults();
  peer_.faults().set_random(20, 7);
  run_beside_a_map(root_, random, 25);
  peer_.faults().set_random(0, 0);
  EXPECT_GT(peer_.faults().num_faults(), before + 10);
  expect_nothing_left();
}

TEST_P(ServerFaults, SoakManyOperationsWithManyFaultsLoseNothing) {
  for (unsigned seed = 100; seed < 120; ++seed) {
    std::mt19937 random(seed);
    const testing::Folder root(open(peer_.new_folder(), peer_.environment()));
    peer_.faults().set_random(25, seed);
    run_beside_a_map(root, random, 60);
    peer_.faults().set_random(0, 0);
    root.fs().sweep(root.path(""), std::chrono::hours(-1), soon());
  }
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(
    ,
    ServerFaults,
    ::testing::ValuesIn(testing::kServers),
    [](const auto& peer) { return testing::peer_name(peer.param); });

} // namespace
} // namespace argosy::fs
