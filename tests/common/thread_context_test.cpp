#include "argosy/common/thread_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace argosy {
namespace {

struct Depth {
  int value = 7;
};

struct Name {
  std::string value;
};

TEST(ThreadContext, ASlotKeepsItsValueAndStartsWithItsDefault) {
  std::thread([] {
    EXPECT_EQ(of_thread<Depth>().value, 7);
    of_thread<Depth>().value = 3;
    of_thread<Name>().value = "a rank";
    EXPECT_EQ(of_thread<Depth>().value, 3);
    EXPECT_EQ(of_thread<Name>().value, "a rank");
  }).join();
}

TEST(ThreadContext, ThreadsHaveTheirOwn) {
  of_thread<Depth>().value = 1;
  std::thread([] {
    EXPECT_EQ(of_thread<Depth>().value, 7);
    of_thread<Depth>().value = 2;
  }).join();
  EXPECT_EQ(of_thread<Depth>().value, 1);
}

std::vector<std::string>& ended() {
  static std::vector<std::string> names;
  return names;
}

struct Older {
  ~Older() { ended().emplace_back("older"); }
  int uses = 0;
};

struct Younger {
  ~Younger() {
    ++of_thread<Older>().uses; // still there
    ended().emplace_back("younger");
  }
};

TEST(ThreadContext, TheYoungestEndsFirst) {
  ended().clear();
  std::thread([] {
    of_thread<Older>();
    of_thread<Younger>();
  }).join();
  EXPECT_THAT(ended(), ::testing::ElementsAre("younger", "older"));
}

TEST(ScopedValue, RestoresTheOuterValue) {
  int slot = 1;
  {
    const ScopedValue inner(slot, 2);
    EXPECT_EQ(slot, 2);
    EXPECT_EQ(inner.outer(), 1);
  }
  EXPECT_EQ(slot, 1);
}

} // namespace
} // namespace argosy
