// Collectives over messages, without torch: the plans, and all of them on
// thread ranks over a messenger of queues that can be cut.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <thread>
#include <tuple>

#include "argosy/comm/kernels/reduce.h"
#include "argosy/comm/message/failure_agreement.h"
#include "argosy/comm/message/message_backend.h"
#include "argosy/comm/message/reductions.h"
#include "argosy/comm/message/small_all_gather.h"
#include "argosy/comm/operation/op_record.h"
#include "argosy/common/error.h"
#include "tests/support/thrown_by.h"

namespace argosy::comm::message {
namespace {

using namespace std::chrono_literals;
using argosy::testing::thrown_by;
using ::testing::AllOf;
using ::testing::HasSubstr;

// ---- Plans ------------------------------------------------------------------

TEST(BruckSteps, EveryRankHearsOfEveryRank) {
  for (int size = 1; size < 20; ++size) {
    std::vector<std::set<int>> heard(static_cast<std::size_t>(size));
    std::vector<std::vector<BruckStep>> steps;
    for (int rank = 0; rank < size; ++rank) {
      heard[rank] = {rank};
      steps.push_back(bruck_steps(rank, size));
    }
    for (std::size_t step = 0; step < steps[0].size(); ++step) {
      const auto before = heard;
      for (int rank = 0; rank < size; ++rank) {
        const BruckStep& plan = steps[rank][step];
        EXPECT_EQ(steps[plan.from][step].to, rank);
        EXPECT_EQ(steps[plan.from][step].count, plan.count);
        for (int i = 0; i < plan.count; ++i) {
          const int told = (plan.from + i) % size;
          EXPECT_TRUE(before[plan.from].contains(told));
          EXPECT_TRUE(heard[rank].insert(told).second) << "told twice";
        }
      }
    }
    for (const auto& ranks : heard) {
      EXPECT_EQ(ranks.size(), static_cast<std::size_t>(size));
    }
  }
}

void expect_reaches_all(
    int size,
    int root,
    const std::function<Neighbours(int rank)>& neighbours_of) {
  std::set<int> reached = {root};
  std::deque<int> next = {root};
  EXPECT_EQ(neighbours_of(root).from, -1);
  while (!next.empty()) {
    const int rank = next.front();
    next.pop_front();
    for (const int to : neighbours_of(rank).to) {
      EXPECT_EQ(neighbours_of(to).from, rank);
      EXPECT_TRUE(reached.insert(to).second) << "reached twice";
      next.push_back(to);
    }
  }
  EXPECT_EQ(reached.size(), static_cast<std::size_t>(size));
}

TEST(BroadcastNeighbours, TreesAndChainsReachAll) {
  for (int size = 1; size < 20; ++size) {
    for (int root = 0; root < size; ++root) {
      expect_reaches_all(size, root, [&](int rank) {
        return tree_neighbours(rank, size, root);
      });
      expect_reaches_all(size, root, [&](int rank) {
        return chain_neighbours(rank, size, root);
      });
    }
  }
  EXPECT_EQ(tree_neighbours(0, 8, 0).to, (std::vector<int>{4, 2, 1}));
}

TEST(Slices, CoverTheDataAlongElements) {
  std::vector<double> data(1001);
  const ByteRanges parts =
      sliced_ranges(data.data(), data.size(), sizeof(double), 7);
  auto* at = reinterpret_cast<std::byte*>(data.data());
  for (const ByteRange& part : parts) {
    EXPECT_EQ(part.data, at);
    EXPECT_EQ(part.bytes % sizeof(double), 0u);
    at += part.bytes;
  }
  EXPECT_EQ(at, reinterpret_cast<std::byte*>(data.data() + data.size()));
}

TEST(Slices, ChunksEndWithTheRange) {
  std::byte data[10];
  const ByteRange part{data, 10};
  EXPECT_EQ(chunk_of(part, 4, 0), (ByteRange{data, 4}));
  EXPECT_EQ(chunk_of(part, 4, 2), (ByteRange{data + 8, 2}));
  EXPECT_EQ(chunk_of(part, 4, 3).bytes, 0u);
}

TEST(OpRecords, DisagreementNamesBothSides) {
  OpRecord sum{.kind = OpKind::AllReduce, .dtype = DType::Float32, .count = 3};
  OpRecord max = sum;
  max.reduce = ReduceOp::MAX;
  EXPECT_EQ(disagreement({sum, sum}), "");
  EXPECT_EQ(
      disagreement({sum, sum, max}),
      "rank 0 calls all_reduce of 3 float32, sum, rank 2 calls all_reduce of 3 "
      "float32, max");
  EXPECT_EQ(
      disagreement({{{1, 2}, {1, 5}}, {{4, 0}, {2, 0}}}),
      "rank 1 sends 4 elements to rank 0, which expects 5");
}

TEST(Verdicts, SurviveTheFailureStore) {
  for (const auto kind :
       {Verdict::Kind::InvalidArgument,
        Verdict::Kind::TimeoutError,
        Verdict::Kind::PeerLost}) {
    const Verdict verdict{kind, "1 of 2"};
    EXPECT_EQ(parse_verdict(to_text(verdict)), verdict);
  }
}

// ---- A messenger of queues --------------------------------------------------

// What all ranks share. Receivers take what senders left, so sends never wait.
struct Post {
  using Way = std::tuple<int, int, std::uint64_t>; // from, to, tag

  std::mutex mutex;
  std::condition_variable changed;
  std::map<Way, std::deque<std::vector<std::byte>>> queues;
  std::set<int> gone; // ranks that aborted or died
};

class QueueTransfer final : public Transfer {
 public:
  QueueTransfer(
      std::shared_ptr<Post> post, Post::Way way, void* data, std::size_t room)
      : post_(std::move(post)), way_(way), data_(data), room_(room) {}

  void wait(Deadline deadline) override {
    if (data_ == nullptr) {
      return;
    }
    const auto [from, to, tag] = way_;
    std::unique_lock lock(post_->mutex);
    auto& queue = post_->queues[way_];
    const bool there =
        post_->changed.wait_until(lock, deadline.time(), [&, to = to] {
          return !queue.empty() || post_->gone.contains(from) ||
              post_->gone.contains(to);
        });
    if (!there) {
      throw TimeoutError("late");
    }
    if (queue.empty() || post_->gone.contains(to)) {
      throw PeerLost("cut");
    }
    ASSERT_LE(queue.front().size(), room_);
    std::memcpy(data_, queue.front().data(), queue.front().size());
    queue.pop_front();
  }

 private:
  const std::shared_ptr<Post> post_;
  const Post::Way way_;
  void* const data_; // null: a send
  const std::size_t room_;
};

class QueueMessenger final : public Messenger {
 public:
  QueueMessenger(std::shared_ptr<Post> post, int rank, int size)
      : post_(std::move(post)), rank_(rank), size_(size) {}

  std::string name() const override { return "queues"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<Transfer> send(
      int peer,
      std::uint64_t tag,
      const void* data,
      std::size_t bytes) override {
    const std::lock_guard lock(post_->mutex);
    if (post_->gone.contains(peer) || post_->gone.contains(rank_)) {
      throw PeerLost("cut");
    }
    EXPECT_GT(bytes, 0u) << "a message for nothing";
    const auto* begin = static_cast<const std::byte*>(data);
    post_->queues[{rank_, peer, tag}].emplace_back(begin, begin + bytes);
    post_->changed.notify_all();
    return std::make_unique<QueueTransfer>(
        post_, Post::Way{rank_, peer, tag}, nullptr, bytes);
  }

  std::unique_ptr<Transfer> receive(
      int peer, std::uint64_t tag, void* data, std::size_t bytes) override {
    return std::make_unique<QueueTransfer>(
        post_, Post::Way{peer, rank_, tag}, data, bytes);
  }

  void abort(const std::string& /*reason*/) override {
    const std::lock_guard lock(post_->mutex);
    post_->gone.insert(rank_);
    post_->changed.notify_all();
  }

 private:
  const std::shared_ptr<Post> post_;
  const int rank_;
  const int size_;
};

class MemFailureStore final : public FailureStore {
 public:
  void set(const std::string& key, const std::string& text) override {
    const std::lock_guard lock(mutex_);
    texts_[key] = text;
  }
  std::optional<std::string> get(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    const auto found = texts_.find(key);
    return found == texts_.end() ? std::nullopt : std::optional(found->second);
  }
  std::string claim(const std::string& key, const std::string& text) override {
    const std::lock_guard lock(mutex_);
    return texts_.emplace(key, text).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> texts_;
};

using Body = std::function<void(Backend& backend, int rank)>;

void run_on(int size, const Body& body) {
  const auto post = std::make_shared<Post>();
  const auto failure_store = std::make_shared<MemFailureStore>();
  std::vector<std::unique_ptr<Backend>> backends;
  for (int rank = 0; rank < size; ++rank) {
    backends.push_back(make_message_backend(
        "g",
        std::make_unique<QueueMessenger>(post, rank, size),
        failure_store));
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(*backends[static_cast<std::size_t>(rank)], rank);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

Deadline soon() {
  return Deadline::after(20s);
}

// ---- Collectives ------------------------------------------------------------

using Data = std::vector<float>;

Data data_of(int rank, std::size_t count) {
  Data data(count);
  for (std::size_t i = 0; i < count; ++i) {
    data[i] = 1.0f / static_cast<float>(i % 977 + 1 + 100 * rank);
  }
  return data;
}

Data sum_of_all(int size, std::size_t count) {
  std::vector<Data> all;
  std::vector<const void*> inputs;
  for (int rank = 0; rank < size; ++rank) {
    all.push_back(data_of(rank, count));
  }
  for (const Data& each : all) {
    inputs.push_back(each.data());
  }
  Data sum(count);
  comm::reduce(
      sum.data(), inputs.data(), size, count, DType::Float32, ReduceOp::SUM);
  return sum;
}

constexpr Reduction kSum{DType::Float32, ReduceOp::SUM};

class MessageBackends
    : public ::testing::TestWithParam<std::tuple<int, std::size_t>> {
 protected:
  int size() const { return std::get<0>(GetParam()); }
  std::size_t count() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(
    SizesAndCounts,
    MessageBackends,
    ::testing::Combine(
        ::testing::Values(1, 2, 3, 4, 7, 12),
        ::testing::Values(0, 1, 7, 1024, 5000, 300001)));

TEST_P(MessageBackends, AddInRankOrder) {
  const Data expected = sum_of_all(size(), count());
  run_on(size(), [&](Backend& backend, int rank) {
    Data data = data_of(rank, count());
    backend.all_reduce(data.data(), data.data(), count(), kSum, soon());
    EXPECT_EQ(data, expected);

    const int root = size() - 1;
    const Data in = data_of(rank, count());
    Data out(rank == root ? count() : 0);
    backend.reduce(in.data(), out.data(), count(), kSum, root, soon());
    if (rank == root) {
      EXPECT_EQ(out, expected);
    }
    EXPECT_EQ(in, data_of(rank, count())) << "the input stays";

    const std::size_t part = count() / static_cast<std::size_t>(size());
    Data own(part);
    backend.reduce_scatter(
        packed_blocks(in.data(), size(), part, 4),
        own.data(),
        part,
        kSum,
        soon());
    EXPECT_TRUE(std::equal(
        own.begin(),
        own.end(),
        expected.begin() + static_cast<std::ptrdiff_t>(part) * rank));
  });
}

TEST_P(MessageBackends, CopyBetweenAll) {
  run_on(size(), [&](Backend& backend, int rank) {
    const std::size_t n = static_cast<std::size_t>(size());
    const int root = size() / 2;
    Data data = data_of(rank, count());
    backend.broadcast(data.data(), count(), DType::Float32, root, soon());
    EXPECT_EQ(data, data_of(root, count()));

    data = data_of(rank, count());
    Data all(count() * n);
    const Blocks blocks = packed_blocks(all.data(), size(), count(), 4);
    backend.all_gather(data.data(), blocks, count(), DType::Float32, soon());
    for (int peer = 0; peer < size(); ++peer) {
      EXPECT_EQ(
          Data(
              all.begin() + static_cast<std::ptrdiff_t>(count()) * peer,
              all.begin() + static_cast<std::ptrdiff_t>(count()) * (peer + 1)),
          data_of(peer, count()));
    }

    Data gathered(rank == root ? all.size() : 0);
    backend.gather(
        data.data(),
        rank == root ? packed_blocks(gathered.data(), size(), count(), 4)
                     : Blocks{},
        count(),
        DType::Float32,
        root,
        soon());
    if (rank == root) {
      EXPECT_EQ(gathered, all);
    }

    Data back(count());
    backend.scatter(
        rank == root ? blocks : Blocks{},
        back.data(),
        count(),
        DType::Float32,
        root,
        soon());
    EXPECT_EQ(back, data);
    backend.barrier(soon());
  });
}

// Rank r sends (r + p) % 3 * count elements to rank p; some travels inline,
// some does not.
TEST_P(MessageBackends, ExchangeUnevenParts) {
  const auto share = [&](int from, int to) {
    return static_cast<std::size_t>((from + to) % 3) * (count() % 5001);
  };
  run_on(size(), [&](Backend& backend, int rank) {
    std::vector<Data> in;
    std::vector<Data> out;
    Blocks from;
    Blocks to;
    for (int peer = 0; peer < size(); ++peer) {
      in.push_back(data_of(10 * rank + peer, share(rank, peer)));
      out.emplace_back(share(peer, rank));
    }
    for (int peer = 0; peer < size(); ++peer) {
      from.push_back({in[peer].data(), in[peer].size()});
      to.push_back({out[peer].data(), out[peer].size()});
    }
    backend.all_to_all(from, to, DType::Float32, soon());
    for (int peer = 0; peer < size(); ++peer) {
      EXPECT_EQ(out[peer], data_of(10 * peer + rank, share(peer, rank)));
    }
  });
}

TEST_P(MessageBackends, SendToTheNextRank) {
  if (size() == 1) {
    return;
  }
  run_on(size(), [&](Backend& backend, int rank) {
    const int next = (rank + 1) % size();
    const int before = (rank - 1 + size()) % size();
    for (int i = 0; i < 3; ++i) {
      const Data out = data_of(rank + i, count());
      Data in(count());
      std::thread sender([&] {
        backend.send(out.data(), count(), DType::Float32, next, soon());
      });
      backend.receive(in.data(), count(), DType::Float32, before, soon());
      sender.join();
      EXPECT_EQ(in, data_of(before + i, count()));
    }
  });
}

TEST(Messages, AreFoundWhoeverSendsThem) {
  run_on(4, [&](Backend& backend, int rank) {
    if (rank > 0) {
      for (int i = 0; i < 5; ++i) {
        const Data data = data_of(rank, 10000 + static_cast<std::size_t>(rank));
        backend.send(data.data(), data.size(), DType::Float32, 0, soon());
      }
      return;
    }
    std::map<int, int> counts;
    for (int i = 0; i < 15; ++i) {
      const int peer = backend.await_any_message(soon());
      Data data(10000 + static_cast<std::size_t>(peer));
      backend.receive(data.data(), data.size(), DType::Float32, peer, soon());
      EXPECT_EQ(data, data_of(peer, data.size()));
      ++counts[peer];
    }
    EXPECT_EQ(counts, (std::map<int, int>{{1, 5}, {2, 5}, {3, 5}}));
    EXPECT_THROW(
        backend.await_any_message(Deadline::after(20ms)), TimeoutError);
  });
}

// ---- Failures ---------------------------------------------------------------

TEST(MessageFailures, DisagreementIsTheSameTextOnAllRanks) {
  std::vector<std::string> texts(4);
  run_on(4, [&](Backend& backend, int rank) {
    Data data(3 + (rank == 2 ? 1 : 0));
    const auto act = [&] {
      backend.all_reduce(data.data(), data.data(), data.size(), kSum, soon());
    };
    texts[rank] = thrown_by<InvalidArgument>(act);
    EXPECT_EQ(thrown_by<InvalidArgument>(act), texts[rank]) << "for good";
  });
  EXPECT_THAT(
      texts[0],
      AllOf(
          HasSubstr("rank 0 calls all_reduce of 3 float32, sum"),
          HasSubstr("rank 2 calls all_reduce of 4 float32, sum")));
  EXPECT_EQ(texts, std::vector<std::string>(4, texts[0]));
}

TEST(MessageFailures, UnevenPartsThatDoNotMatch) {
  run_on(3, [&](Backend& backend, int rank) {
    std::vector<float> data(8);
    Blocks in(3, Block{data.data(), 2});
    Blocks out(3, Block{data.data() + 4, 2});
    if (rank == 1) {
      out[2].count = 3;
    }
    EXPECT_THAT(
        thrown_by<InvalidArgument>(
            [&] { backend.all_to_all(in, out, DType::Float32, soon()); }),
        HasSubstr("rank 2 sends 2 elements to rank 1, which expects 3"));
  });
}

TEST(MessageFailures, WhoDoesNotComeIsNamed) {
  run_on(5, [&](Backend& backend, int rank) {
    if (rank == 3) {
      return;
    }
    Data data(100000);
    EXPECT_THAT(
        thrown_by<TimeoutError>([&] {
          backend.all_reduce(
              data.data(),
              data.data(),
              data.size(),
              kSum,
              Deadline::after(100ms));
        }),
        AllOf(
            HasSubstr("rank 3 of group g did not come to operation 1"),
            HasSubstr("all_reduce of 100000 float32, sum"),
            HasSubstr("within 100 ms")));
  });
}

TEST(MessageFailures, AnAbortEndsAllWithItsReason) {
  run_on(4, [&](Backend& backend, int rank) {
    backend.barrier(soon());
    if (rank == 1) {
      backend.abort("no more disk");
    }
    EXPECT_THAT(
        thrown_by<PeerLost>([&] { backend.barrier(soon()); }),
        HasSubstr("group g was aborted by rank 1: no more disk"));
  });
}

TEST(MessageFailures, AnAbortEndsWhatIsUnderWay) {
  run_on(2, [&](Backend& backend, int rank) {
    if (rank == 1) {
      return;
    }
    std::thread other([&] { backend.abort("enough"); });
    EXPECT_THAT(
        thrown_by<PeerLost>([&] { backend.barrier(soon()); }),
        HasSubstr("enough"));
    other.join();
  });
}

TEST(MessageFailures, WrongMessagesFailOnBothSides) {
  for (const std::size_t count : {std::size_t{3}, std::size_t{100000}}) {
    run_on(2, [&](Backend& backend, int rank) {
      Data data(count + 1);
      const auto text = thrown_by<InvalidArgument>([&] {
        if (rank == 0) {
          backend.send(data.data(), count, DType::Float32, 1, soon());
          // A short one may be on its way; then the next learns of it.
          backend.receive(data.data(), 1, DType::Float32, 1, soon());
        } else {
          backend.receive(data.data(), count + 1, DType::Float32, 0, soon());
        }
      });
      EXPECT_THAT(
          text,
          AllOf(
              HasSubstr(str("rank 0 sends ", count, " float32")),
              HasSubstr(str("rank 1 expects ", count + 1, " float32"))));
    });
  }
}

} // namespace
} // namespace argosy::comm::message
