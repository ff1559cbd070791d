// Messages between two ranks that share memory, as threads and as processes.

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "argosy/comm/memory/layout.h"
#include "tests/comm/memory_ranks.h"

namespace argosy::comm::memory {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<std::size_t> kMessageCounts = {
    0, 1, 7, 8192, 8193, 40000, (std::size_t{1} << 20) + 3};

void send(Backend& backend, const std::vector<float>& data, int peer) {
  backend.send(data.data(), data.size(), DType::Float32, peer, soon());
}

std::vector<float> receive(Backend& backend, std::size_t count, int peer) {
  std::vector<float> data(count, -1);
  backend.receive(data.data(), count, DType::Float32, peer, soon());
  return data;
}

// Every rank sends to every rank, itself among them, on threads of its own.
void check_all_pairs(Backend& backend, const World& world) {
  std::vector<std::thread> threads;
  for (int peer = 0; peer < world.size(); ++peer) {
    threads.emplace_back([&, peer] {
      for (const std::size_t count : kMessageCounts) {
        send(backend, values_of(world.rank(), count, 100 * peer), peer);
      }
    });
    threads.emplace_back([&, peer] {
      for (const std::size_t count : kMessageCounts) {
        EXPECT_EQ(
            receive(backend, count, peer),
            values_of(peer, count, 100 * world.rank()))
            << count << " from rank " << peer;
      }
    });
  }
  // Beside collectives.
  for (int i = 0; i < 20; ++i) {
    const std::size_t count = i % 2 == 0 ? 100 : 100000;
    std::vector<float> data = values_of(world.rank(), count);
    backend.all_reduce(data.data(), data.data(), count, kSum, soon());
    EXPECT_EQ(data, sum_of_all(world.size(), count));
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

class MemoryMessages : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, MemoryMessages, ::testing::Values(1, 2, 3, 4));

TEST_P(MemoryMessages, AllPairsBesideCollectives) {
  argosy::testing::run_ranks(GetParam(), [](World& world) {
    check_all_pairs(*make_backend(world), world);
  });
}

// So many that a piece of 16 KB for each exceeds two windows, behind which the
// messages lie.
TEST(MemoryMessages, WaitUntouchedWhileManyRanksReduce) {
  constexpr int kRanks = 132;
  constexpr std::size_t kSlot = kSlotBytes / sizeof(float);
  argosy::testing::run_ranks(kRanks, [](World& world) {
    const auto backend = make_backend(world);
    const auto message = values_of(world.rank(), kSlot);
    const bool sends = world.rank() >= 128;
    for (int i = 0; i < 3 && sends; ++i) {
      send(*backend, message, 0);
    }
    const std::size_t count = kRanks * 128;
    std::vector<float> data = values_of(world.rank(), count);
    backend->reduce(data.data(), data.data(), count, kSum, 0, soon());
    if (world.rank() != 0) {
      backend->barrier(soon());
      return;
    }
    EXPECT_EQ(data, sum_of_all(kRanks, count));
    for (int peer = 128; peer < kRanks; ++peer) {
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(receive(*backend, kSlot, peer), values_of(peer, kSlot))
            << "message " << i << " of rank " << peer;
      }
    }
    backend->barrier(soon());
  });
}

TEST(MemoryMessagesProcesses, AllPairsBesideCollectives) {
  argosy::testing::run_process_ranks(3, [](World& world) {
    check_all_pairs(*make_backend(world), world);
    check_all_pairs(*make_backend(world, "windows", Fetching::Never), world);
  });
}

TEST(MemoryMessages, ShortOnesDoNotWaitForTheReceiver) {
  argosy::testing::run_ranks(2, [](World& world) {
    const auto backend = make_backend(world);
    const int peer = 1 - world.rank();
    // Both send first.
    send(*backend, values_of(world.rank(), 1000), peer);
    EXPECT_EQ(receive(*backend, 1000, peer), values_of(peer, 1000));
  });
}

TEST(MemoryMessages, ArriveInOrderWhateverTheirNumber) {
  argosy::testing::run_ranks(2, [](World& world) {
    const auto backend = make_backend(world);
    for (int i = 0; i < 1000; ++i) {
      const std::size_t count = static_cast<std::size_t>(i) % 50;
      if (world.rank() == 0) {
        send(*backend, values_of(i, count), 1);
      } else {
        ASSERT_EQ(receive(*backend, count, 0), values_of(i, count));
      }
    }
  });
}

TEST(MemoryMessages, ComeFromAnyone) {
  argosy::testing::run_ranks(4, [](World& world) {
    const auto backend = make_backend(world);
    if (world.rank() != 0) {
      send(*backend, values_of(world.rank(), 10), 0);
      send(*backend, values_of(world.rank(), 20000), 0);
      return;
    }
    std::vector<int> messages(4, 0);
    for (int i = 0; i < 6; ++i) {
      const int peer = backend->await_any_message(soon());
      const std::size_t count = messages[peer]++ == 0 ? 10 : 20000;
      EXPECT_EQ(receive(*backend, count, peer), values_of(peer, count));
    }
    EXPECT_THAT(messages, ::testing::ElementsAre(0, 2, 2, 2));
    EXPECT_THAT(
        message_of<TimeoutError>(
            [&] { backend->await_any_message(Deadline::after(50ms)); }),
        AllOf(HasSubstr("recv from any rank"), HasSubstr("50 ms")));
  });
}

// More elements than 31 bits count. The sender's pages are the zero page, so
// only the receiver's take memory.
TEST(MemoryMessages, HugeOnesAndBroadcasts) {
  argosy::testing::run_ranks(2, [](World& world) {
    const auto backend = make_backend(world);
    const std::size_t count = (std::size_t{1} << 31) + 7;
    const std::unique_ptr<char, void (*)(void*)> data(
        static_cast<char*>(std::calloc(count, 1)), std::free);
    const std::size_t places[] = {0, count / 2, count - 8, count - 1};
    const auto expect = [&](int value) {
      for (const std::size_t place : places) {
        EXPECT_EQ(data.get()[place], value) << place;
      }
    };
    for (const std::size_t place : places) {
      data.get()[place] = world.rank() == 0 ? 3 : 0;
    }
    backend->broadcast(data.get(), count, DType::Int8, 0, soon());
    expect(3);
    if (world.rank() == 0) {
      for (const std::size_t place : places) {
        data.get()[place] = 5;
      }
      backend->send(data.get(), count, DType::Int8, 1, soon());
    } else {
      backend->receive(data.get(), count, DType::Int8, 0, soon());
    }
    expect(5);
  });
}

TEST(MemoryMessages, DisagreementIsNamedOnBothSides) {
  argosy::testing::run_ranks(2, [](World& world) {
    const auto backend = make_backend(world, "g7");
    std::vector<float> data(100000);
    const std::string text = message_of<InvalidArgument>([&] {
      if (world.rank() == 0) {
        backend->send(data.data(), 100000, DType::Float32, 1, soon());
      } else {
        backend->receive(data.data(), 8, DType::Int32, 0, soon());
      }
    });
    EXPECT_THAT(
        text,
        AllOf(
            HasSubstr("group g7"),
            HasSubstr("rank 0 calls send of 100000 float32 to rank 1"),
            HasSubstr("rank 1 calls recv of 8 int32 from rank 0")));
    EXPECT_THROW(backend->barrier(soon()), PeerLost);
  });
}

TEST(MemoryMessages, ALateRankIsNamed) {
  argosy::testing::run_ranks(3, [](World& world) {
    const auto backend = make_backend(world);
    if (world.rank() == 0) {
      EXPECT_THAT(
          message_of<TimeoutError>([&] {
            float value = 0;
            backend->receive(
                &value, 1, DType::Float32, 2, Deadline::after(100ms));
          }),
          AllOf(
              HasSubstr("rank 2"),
              HasSubstr("recv of 1 float32 from rank 2"),
              HasSubstr("100 ms")));
    }
  });
}

TEST(MemoryMessages, AbortEndsThem) {
  argosy::testing::run_ranks(2, [](World& world) {
    const auto backend = make_backend(world);
    if (world.rank() == 1) {
      backend->abort("disk full");
      return;
    }
    std::vector<float> data(100000);
    EXPECT_THAT(
        message_of<PeerLost>([&] { send(*backend, data, 1); }),
        HasSubstr("disk full"));
  });
}

TEST(MemoryMessagesProcesses, AKilledSenderIsNoticedWithin200Milliseconds) {
  try {
    argosy::testing::run_process_ranks(2, [](World& world) {
      const auto backend = make_backend(world);
      if (world.rank() == 1) {
        send(*backend, values_of(1, 100), 0);
        ::kill(::getpid(), SIGKILL);
      }
      // What was sent before arrives.
      EXPECT_EQ(receive(*backend, 100, 1), values_of(1, 100));
      const auto began = std::chrono::steady_clock::now();
      EXPECT_THAT(
          message_of<PeerLost>([&] { receive(*backend, 100, 1); }),
          AllOf(HasSubstr("rank 1"), HasSubstr("died"), HasSubstr("recv")));
      EXPECT_LT(std::chrono::steady_clock::now() - began, 200ms);
    });
    FAIL() << "rank 1 was killed";
  } catch (const RankFailed& failure) {
    EXPECT_EQ(failure.rank(), 1) << failure.what();
  }
}

} // namespace
} // namespace argosy::comm::memory
