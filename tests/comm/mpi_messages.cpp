// The ranks of mpi_test: run the case that the argument names.

#include <signal.h>

#include <atomic>

#include "argosy/comm/mpi/messenger.h"
#include "tests/comm/mpi_cases.h"

namespace {

using namespace argosy;
using namespace argosy::comm::mpi;
using argosy::testing::expect_error;
using namespace std::chrono_literals;

using Bytes = std::vector<std::byte>;
using Transfers = std::vector<std::unique_ptr<comm::message::Transfer>>;

struct Ranks {
  std::shared_ptr<Endpoint> endpoint;
  int rank = 0;
  int size = 0;

  std::unique_ptr<MpiMessenger> messenger(std::uint64_t channel) const {
    std::vector<int> all;
    for (int i = 0; i < size; ++i) {
      all.push_back(i);
    }
    return std::make_unique<MpiMessenger>(
        endpoint, channel, str("g", channel), all);
  }
};

Deadline soon() {
  return Deadline::after(20s);
}

// What `from` sends to `to` as its message number `number`.
Bytes text_of(int from, int to, std::uint64_t number, std::size_t bytes) {
  Bytes text(bytes);
  std::uint64_t value = static_cast<std::uint64_t>(from * 64 + to) + number * 7;
  for (std::byte& byte : text) {
    byte = static_cast<std::byte>(value += 13);
  }
  return text;
}

// Many in flight, of many sizes, received in the opposite order. The tags agree
// in their lower bits; each is used twice.
void exchange(comm::message::Messenger& messenger) {
  const std::vector<std::size_t> sizes = {
      0, 1, kShortBytes, kShortBytes + 1, 100000, 17};
  constexpr int kMessages = 60;
  const auto tag_of = [](int i) {
    return (static_cast<std::uint64_t>(i / 2) << 34) + 5;
  };
  const auto size_of = [&](int i) {
    return sizes[static_cast<std::size_t>(i) % sizes.size()];
  };
  const int rank = messenger.rank();
  Transfers transfers;
  std::vector<Bytes> sent;
  std::vector<std::pair<Bytes, Bytes>> received; // and what it should be
  received.reserve(kMessages * static_cast<std::size_t>(messenger.size()));
  for (int peer = 0; peer < messenger.size(); ++peer) {
    for (int i = 0; i < kMessages; ++i) {
      sent.push_back(text_of(rank, peer, i, size_of(i)));
      transfers.push_back(messenger.send(
          peer, tag_of(i), sent.back().data(), sent.back().size()));
    }
  }
  for (int peer = messenger.size() - 1; peer >= 0; --peer) {
    for (int pair = kMessages - 2; pair >= 0; pair -= 2) {
      for (int i = pair; i < pair + 2; ++i) {
        Bytes want = text_of(peer, rank, i, size_of(i));
        want.resize(want.size() + 3); // a message may be shorter
        auto& [got, wanted] = received.emplace_back(want.size(), want);
        transfers.push_back(
            messenger.receive(peer, tag_of(i), got.data(), got.size()));
      }
    }
  }
  for (const auto& transfer : transfers) {
    transfer->wait(soon());
  }
  for (const auto& [got, wanted] : received) {
    ARGOSY_CHECK(got == wanted, "a message of {} is wrong", got.size());
  }
}

void case_values(const Ranks& ranks) {
  exchange(*ranks.messenger(1));
}

void case_threads(const Ranks& ranks) {
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (std::uint64_t channel = 1; channel <= 4; ++channel) {
    threads.emplace_back([&, channel] {
      const auto messenger = ranks.messenger(channel);
      for (int i = 0; i < 3; ++i) {
        exchange(*messenger);
      }
      ++good;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  ARGOSY_CHECK(good == 4, "{} of 4 threads", good);
}

void send_one(const Ranks& ranks, std::size_t bytes) {
  const auto messenger = ranks.messenger(1);
  Bytes data(bytes);
  constexpr std::size_t kStep = 1021; // in every page
  const auto value = [](std::size_t i) {
    return static_cast<std::byte>(i * 31 + i / 1000003);
  };
  if (ranks.rank == 0) {
    for (std::size_t i = bytes % kStep; i < bytes; i += kStep) {
      data[i] = value(i);
    }
    data.back() = value(bytes);
    messenger->send(1, 1, data.data(), bytes)->wait(soon());
    return;
  }
  messenger->receive(0, 1, data.data(), bytes)->wait(soon());
  for (std::size_t i = bytes % kStep; i < bytes - 1; i += kStep) {
    ARGOSY_CHECK(data[i] == value(i), "byte {} of {}", i, bytes);
  }
  ARGOSY_CHECK(data.back() == value(bytes), "the last byte of ", bytes);
}

void case_long(const Ranks& ranks) {
  send_one(ranks, 300'000'000);
}

void case_longer_than_int(const Ranks& ranks) {
  send_one(ranks, std::size_t{INT_MAX} + 4097);
}

void case_too_long(const Ranks& ranks) {
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{100000}}) {
    const auto messenger = ranks.messenger(bytes);
    Bytes data(bytes);
    if (ranks.rank == 0) {
      const auto transfer = messenger->send(1, 9, data.data(), bytes);
      char done = 0;
      messenger->receive(1, 1, &done, 1)->wait(soon());
      continue;
    }
    expect_error<InvalidArgument>(
        str("rank 0 sent ", bytes, " bytes with tag 9, expected at most 99"),
        [&] { messenger->receive(0, 9, data.data(), 99)->wait(soon()); });
    messenger->send(0, 1, "x", 1)->wait(soon());
  }
}

void case_timeout(const Ranks& ranks) {
  const auto messenger = ranks.messenger(3);
  const int peer = 1 - ranks.rank;
  Bytes data(1000000);
  const auto began = std::chrono::steady_clock::now();
  expect_error<TimeoutError>(
      str("group g3: receive from rank ", peer, " not done within 200 ms"),
      [&] {
        messenger->receive(peer, 1, data.data(), 8)
            ->wait(Deadline::after(200ms));
      });
  expect_error<TimeoutError>(
      str("group g3: send to rank ", peer, " not done within 200 ms"), [&] {
        messenger->send(peer, 2, data.data(), data.size())
            ->wait(Deadline::after(200ms));
      });
  ARGOSY_CHECK(std::chrono::steady_clock::now() - began < 3s, "took long");
}

// Rank 1 sends and aborts: what it sent arrives, what it did not ends, and the
// others go on.
void case_abort(const Ranks& ranks) {
  const auto messenger = ranks.messenger(3);
  const auto other = ranks.messenger(4);
  Bytes data(1000000);
  char byte = 0;
  if (ranks.rank == 1) {
    const auto pending = messenger->receive(0, 1, &byte, 1);
    const auto first = messenger->send(0, 7, data.data(), data.size());
    const auto second = messenger->send(2, 7, data.data(), data.size());
    first->wait(soon());
    second->wait(soon());
    std::thread aborts([&] { messenger->abort("why"); });
    expect_error<PeerLost>(
        "group g3 has ended: why", [&] { pending->wait(soon()); });
    expect_error<PeerLost>(
        "group g3 has ended: why", [&] { messenger->send(0, 2, &byte, 1); });
    aborts.join();
  } else {
    messenger->receive(1, 7, data.data(), data.size())->wait(soon());
    expect_error<PeerLost>("rank 1 has left group g3: why", [&] {
      messenger->receive(1, 1, &byte, 1)->wait(soon());
    });
    const int peer = 2 - ranks.rank;
    const auto sent = messenger->send(peer, 1, "x", 1);
    messenger->receive(peer, 1, &byte, 1)->wait(soon());
    sent->wait(soon());
  }
  exchange(*other);
}

void case_finalize(const Ranks& ranks) {
  const auto messenger = ranks.messenger(3);
  exchange(*messenger);
  char byte = 0;
  const auto pending = messenger->receive(0, 1, &byte, 1);
  MPI_Finalize();
  expect_error<PeerLost>("MPI was finalized", [&] { pending->wait(soon()); });
  expect_error<PeerLost>(
      "MPI was finalized", [&] { messenger->send(0, 1, &byte, 1); });
  messenger->abort("no matter");
}

// Longer than the others wait for it in MPI_Finalize().
void case_late(const Ranks& ranks) {
  const auto messenger = ranks.messenger(3);
  exchange(*messenger);
  if (ranks.rank == 1) {
    std::this_thread::sleep_for(1500ms);
  }
}

void case_killed(const Ranks& ranks) {
  const auto messenger = ranks.messenger(3);
  exchange(*messenger);
  if (ranks.rank == 1) {
    ::raise(SIGKILL);
  }
  char byte = 0;
  messenger->receive(1, 1, &byte, 1)->wait(Deadline::after(50s));
}

std::function<void()> with_ranks(void (*run)(const Ranks&)) {
  return [run] {
    Ranks ranks;
    ranks.endpoint = Endpoint::make(MPI_COMM_WORLD);
    ranks.rank = ranks.endpoint->rank();
    ranks.size = ranks.endpoint->size();
    run(ranks);
  };
}

} // namespace

int main(int argc, char** argv) {
  return argosy::testing::run_mpi_case(
      argc,
      argv,
      {{"values", with_ranks(case_values)},
       {"threads", with_ranks(case_threads)},
       {"long", with_ranks(case_long)},
       {"longer_than_int", with_ranks(case_longer_than_int)},
       {"too_long", with_ranks(case_too_long)},
       {"timeout", with_ranks(case_timeout)},
       {"abort", with_ranks(case_abort)},
       {"finalize", with_ranks(case_finalize)},
       {"late", with_ranks(case_late)},
       {"killed", with_ranks(case_killed)}});
}
