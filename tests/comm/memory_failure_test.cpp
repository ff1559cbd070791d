// Ranks that share memory and are late, stopped, killed or aborted: the others
// never hang, and say who it was.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <thread>

#include "argosy/common/fault_point.h"
#include "tests/comm/memory_ranks.h"
#include "tests/support/victim.h"

namespace argosy::comm::memory {
namespace {

using argosy::testing::run_with_victim;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::chrono::steady_clock::duration since(
    std::chrono::steady_clock::time_point began) {
  return std::chrono::steady_clock::now() - began;
}

// Every collective, by name, on buffers of its own.
class Collectives {
 public:
  Collectives(Backend& backend, int size, std::size_t count)
      : backend_(backend),
        count_(count),
        one_(count, 1.0f),
        many_(count * static_cast<std::size_t>(size), 1.0f),
        other_(many_),
        in_(packed(many_, size)),
        out_(packed(other_, size)) {}

  static const std::vector<std::string>& names() {
    static const std::vector<std::string> all = {
        "barrier",
        "all_reduce",
        "reduce",
        "broadcast",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
        "gather",
        "scatter"};
    return all;
  }

  void run(const std::string& name, Deadline deadline) {
    const DType type = DType::Float32;
    const std::map<std::string, std::function<void()>> calls = {
        {"barrier", [&] { backend_.barrier(deadline); }},
        {"all_reduce",
         [&] {
           backend_.all_reduce(
               one_.data(), one_.data(), count_, kSum, deadline);
         }},
        {"reduce",
         [&] {
           backend_.reduce(one_.data(), one_.data(), count_, kSum, 0, deadline);
         }},
        {"broadcast",
         [&] { backend_.broadcast(one_.data(), count_, type, 0, deadline); }},
        {"all_gather",
         [&] {
           backend_.all_gather(one_.data(), out_, count_, type, deadline);
         }},
        {"reduce_scatter",
         [&] {
           backend_.reduce_scatter(in_, one_.data(), count_, kSum, deadline);
         }},
        {"all_to_all", [&] { backend_.all_to_all(in_, out_, type, deadline); }},
        {"gather",
         [&] {
           backend_.gather(one_.data(), out_, count_, type, 0, deadline);
         }},
        {"scatter", [&] {
           backend_.scatter(in_, one_.data(), count_, type, 0, deadline);
         }}};
    calls.at(name)();
  }

 private:
  Backend& backend_;
  const std::size_t count_;
  std::vector<float> one_;
  std::vector<float> many_;
  std::vector<float> other_;
  const Blocks in_;
  const Blocks out_;
};

TEST(MemoryFailure, ARankThatDoesNotComeIsNamed) {
  argosy::testing::run_ranks(2, [](World& world) {
    const auto backend = make_backend(world);
    if (world.rank() == 0) {
      EXPECT_THAT(
          message_of<TimeoutError>(
              [&] { backend->barrier(Deadline::after(100ms)); }),
          AllOf(
              HasSubstr("rank 1"), HasSubstr("barrier"), HasSubstr("100 ms")));
    }
  });
}

// The buffer of a call that has thrown is the caller's again: whoever still
// reads it would get what the caller does with it next.
TEST(MemoryFailure, ATimeoutComesAfterThoseWhoReadTheBuffer) {
  argosy::testing::run_ranks(2, [](World& world) {
    std::vector<float> data(32 << 20);
    for (int round = 0; round < 5; ++round) {
      const auto backend = make_backend(world, str("round", round));
      std::fill(data.begin(), data.end(), world.rank() == 0 ? 3.0f : 0.0f);
      backend->barrier(soon());
      try {
        const auto deadline = Deadline::after(world.rank() == 0 ? 2ms : 30s);
        if (world.rank() == 0) {
          backend->send(data.data(), data.size(), DType::Float32, 1, deadline);
        } else {
          backend->receive(
              data.data(), data.size(), DType::Float32, 0, deadline);
        }
      } catch (const TimeoutError&) { // the receiver's when it was too late
        std::fill(data.rbegin(), data.rend(), 9.0f); // meets the reader
        continue;
      }
      EXPECT_TRUE(std::all_of(
          data.begin(), data.end(), [](float each) { return each == 3; }));
    }
  });
}

// Nor does anybody write a sum to it.
TEST(MemoryFailure, ATimeoutComesAfterThoseWhoWriteTheBuffer) {
  argosy::testing::run_ranks(7, [](World& world) {
    std::vector<float> data(7 << 20);
    for (int round = 0; round < 5; ++round) {
      const auto backend = make_backend(world, str("round", round));
      std::fill(data.begin(), data.end(), 1.0f);
      backend->barrier(soon());
      try {
        backend->all_reduce(
            data.data(),
            data.data(),
            data.size(),
            kSum,
            Deadline::after(world.rank() == 0 ? 2ms : 30s));
      } catch (const TimeoutError&) {
        std::fill(data.begin(), data.end(), 9.0f);
        std::this_thread::sleep_for(20ms); // for whoever is still at it
        EXPECT_TRUE(std::all_of(
            data.begin(), data.end(), [](float each) { return each == 9; }));
      }
    }
  });
}

TEST(MemoryFailure, ATimeoutOfOneEndsTheWaitOfTheOthers) {
  argosy::testing::run_ranks(3, [](World& world) {
    const auto backend = make_backend(world);
    if (world.rank() == 2) {
      return;
    }
    const auto began = std::chrono::steady_clock::now();
    EXPECT_THAT(
        message_of<TimeoutError>([&] {
          backend->barrier(world.rank() == 0 ? Deadline::after(100ms) : soon());
        }),
        AllOf(HasSubstr("rank 2"), HasSubstr("100 ms")));
    EXPECT_LT(since(began), 5s);
    EXPECT_THROW(backend->barrier(soon()), PeerLost);
  });
}

TEST(MemoryFailure, AbortEndsTheWaitsOfAll) {
  argosy::testing::run_ranks(3, [](World& world) {
    const auto backend = make_backend(world);
    if (world.rank() == 1) {
      backend->abort("disk full");
    }
    const auto began = std::chrono::steady_clock::now();
    if (world.rank() != 1) {
      EXPECT_THAT(
          message_of<PeerLost>([&] { backend->barrier(soon()); }),
          AllOf(HasSubstr("rank 1"), HasSubstr("disk full")));
    }
    EXPECT_LT(since(began), 1s);
  });
}

// A rank's own time of death, for the survivors. Processes of one host share
// the clock.
class DeathNote {
 public:
  explicit DeathNote(World& world, const std::string& name)
      : store_(world.store()), key_("died/" + name) {}

  void write() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    const std::string text = str(now.count());
    store_->set(key_, std::vector<std::uint8_t>(text.begin(), text.end()));
  }

  std::chrono::steady_clock::duration since_written() {
    const auto text = store_->get(key_);
    const std::chrono::steady_clock::time_point time{
        std::chrono::steady_clock::duration(
            std::stoll(std::string(text.begin(), text.end())))};
    return since(time);
  }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  const std::string key_;
};

class MemoryKilled : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(
    Collectives,
    MemoryKilled,
    ::testing::ValuesIn(Collectives::names()),
    [](const auto& test) { return test.param; });

// The victim dies at a random moment of a stream of operations, by the hand of
// a thread of its own.
TEST_P(MemoryKilled, IsNoticedInTheMiddleWithin200Milliseconds) {
  run_with_victim(3, 1, [](World& world) {
    const auto backend = make_backend(world);
    Collectives collectives(*backend, 3, (1 << 20) + 3);
    DeathNote note(world, GetParam());
    std::thread killer;
    if (world.rank() == 1) {
      collectives.run(GetParam(), soon());
      killer = std::thread([&] {
        note.write();
        ::kill(::getpid(), SIGKILL);
      });
    }
    const std::string text = message_of<PeerLost>([&] {
      for (;;) {
        collectives.run(GetParam(), soon());
      }
    });
    const auto took = note.since_written();
    EXPECT_THAT(text, AllOf(HasSubstr("rank 1"), HasSubstr("died")));
    EXPECT_THAT(text, HasSubstr(GetParam()));
    EXPECT_LT(took, 200ms);
  });
}

TEST(MemoryFailure, AStoppedRankIsNamedWithItsOperation) {
  argosy::testing::run_process_ranks(3, [](World& world) {
    const auto backend = make_backend(world);
    const std::size_t count = 1 << 20;
    std::vector<float> data(count, 1.0f);
    if (world.rank() == 1) {
      // Stops, and goes on when another rank has seen what it wanted.
      const std::string text = str(::getpid());
      world.store()->set("pid", {text.begin(), text.end()});
      ::raise(SIGSTOP);
    }
    const auto limit = world.rank() == 1 ? 20s : 300ms;
    const std::string text = message_of<TimeoutError>([&] {
      backend->all_reduce(
          data.data(), data.data(), count, kSum, Deadline::after(limit));
    });
    EXPECT_THAT(
        text,
        AllOf(
            HasSubstr("rank 1 of group"),
            HasSubstr("all_reduce of 1048576 float32"),
            HasSubstr("300 ms")));
    if (world.rank() == 0) {
      const auto pid = world.store()->get("pid");
      ::kill(std::stoi(std::string(pid.begin(), pid.end())), SIGCONT);
    }
  });
}

// Rank 1 dies while it tells the others that its time is up. Rank 2 is alive
// and does not come; rank 0 must not wait for it.
TEST(MemoryFailure, ADeathWhileTellingAFailureIsNoticed) {
  run_with_victim(3, 1, [](World& world) {
    const auto backend = make_backend(world);
    if (world.rank() == 1) {
      set_fault("memory.tell:kill");
      backend->barrier(Deadline::after(200ms));
    } else if (world.rank() == 2) {
      world.store()->wait({"seen"});
    } else {
      const auto began = std::chrono::steady_clock::now();
      EXPECT_THAT(
          message_of<PeerLost>([&] { backend->barrier(soon()); }),
          HasSubstr("rank 1"));
      EXPECT_LT(since(began), 10s);
      world.store()->set("seen", {1});
    }
  });
}

std::unique_ptr<Backend> make_impatient_backend(World& world) {
  return std::make_unique<MemoryBackend>(
      "test",
      world.rank(),
      world.size(),
      gather_strings_through(world.store(), "test", world.rank(), world.size()),
      MemoryOptions{.fetching = Fetching::Always, .longest_guard = 300ms});
}

// Rank 1 is stopped just before it writes a sum into the buffer of rank 0. Its
// owner gets the buffer back at its deadline; when rank 1 is continued, it must
// not write there any more.
TEST(MemoryFailure, AStoppedRankDoesNotWriteIntoABufferThatWasGivenBack) {
  run_with_victim(2, 1, [](World& world) {
    const auto backend = make_impatient_backend(world);
    std::vector<float> data(8 << 20, 1.0f);
    const std::string pid = str(::getpid());
    world.store()->set(str("pid", world.rank()), {pid.begin(), pid.end()});
    const auto other = world.store()->get(str("pid", 1 - world.rank()));
    if (world.rank() == 1) {
      set_fault("memory.guard:stop");
      backend->all_reduce(
          data.data(), data.data(), data.size(), kSum, Deadline::after(30s));
      return;
    }
    EXPECT_THAT(
        message_of<TimeoutError>([&] {
          backend->all_reduce(
              data.data(),
              data.data(),
              data.size(),
              kSum,
              Deadline::after(300ms));
        }),
        HasSubstr("rank 1"));
    std::fill(data.begin(), data.end(), 9.0f);
    ::kill(std::stoi(std::string(other.begin(), other.end())), SIGCONT);
    std::this_thread::sleep_for(300ms); // for whoever is still at it
    EXPECT_TRUE(std::all_of(
        data.begin(), data.end(), [](float each) { return each == 9; }));
  });
}

// As on an old kernel, or when too many files are open.
TEST(MemoryFailure, ADeathIsNoticedWithoutADescriptor) {
  set_fault("process.pidfd:fail:all"); // in the parent of the ranks too
  run_with_victim(2, 1, [](World& world) {
    const auto backend = make_backend(world);
    backend->barrier(soon());
    if (world.rank() == 1) {
      ::kill(::getpid(), SIGKILL);
    }
    const auto began = std::chrono::steady_clock::now();
    EXPECT_THAT(
        message_of<PeerLost>([&] { backend->barrier(soon()); }),
        AllOf(HasSubstr("rank 1"), HasSubstr("died")));
    EXPECT_LT(since(began), 10s);
  });
  set_fault("");
}

int open_files() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

TEST(MemoryFailure, GroupsShareTheDescriptorsOfTheirRanks) {
  argosy::testing::run_process_ranks(3, [](World& world) {
    std::vector<std::unique_ptr<Backend>> backends;
    backends.push_back(make_backend(world, "first"));
    const int before = open_files();
    for (int i = 0; i < 10; ++i) {
      backends.push_back(make_backend(world, str("group", i)));
      backends.back()->barrier(soon());
    }
    EXPECT_EQ(open_files(), before);
  });
}

class MemoryRefused : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    Connecting,
    MemoryRefused,
    ::testing::Values("introduce", "mapped"),
    [](const auto& test) { return test.param; });

// All ranks hear of it, so that they can choose another way together.
TEST_P(MemoryRefused, ARankWithoutMemoryToShareIsNamedByAll) {
  argosy::testing::run_process_ranks(2, [](World& world) {
    if (world.rank() == 1) {
      set_fault(str("memory.", GetParam(), ":throw").c_str());
    }
    EXPECT_THAT(
        message_of<SystemError>([&] { make_backend(world); }),
        ::testing::ContainsRegex("rank 1 (has no|cannot share) memory"));
  });
}

int entries_in_shared_memory() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    count += entry.path().filename().string().find("argosy") == 0 ? 1 : 0;
  }
  return count;
}

TEST(MemoryFailure, NothingStaysInSharedMemory) {
  argosy::testing::run_ranks(2, [&](World& world) {
    const auto backend = make_backend(world);
    backend->barrier(soon());
    EXPECT_EQ(entries_in_shared_memory(), 0);
  });
}

TEST(MemoryFailure, NothingStaysInSharedMemoryOfKilledRanks) {
  run_with_victim(2, 1, [](World& world) {
    const auto backend = make_backend(world);
    backend->barrier(soon());
    if (world.rank() == 1) {
      ::kill(::getpid(), SIGKILL);
    }
    EXPECT_THROW(backend->barrier(soon()), PeerLost);
  });
  EXPECT_EQ(entries_in_shared_memory(), 0);
}

// Ranks that leave in good order, while others still finish, are no loss.
TEST(MemoryFailure, ARankThatIsDoneMayLeave) {
  argosy::testing::run_process_ranks(3, [](World& world) {
    const auto backend = make_backend(world);
    float value = 0;
    backend->barrier(soon());
    if (world.rank() == 2) {
      return;
    }
    for (int i = 0; i < 3; ++i) {
      if (world.rank() == 0) {
        backend->send(&value, 1, DType::Float32, 1, soon());
        backend->receive(&value, 1, DType::Float32, 1, soon());
      } else {
        backend->receive(&value, 1, DType::Float32, 0, soon());
        backend->send(&value, 1, DType::Float32, 0, soon());
      }
    }
  });
}

} // namespace
} // namespace argosy::comm::memory
