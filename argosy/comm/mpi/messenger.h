#pragma once

#include <thread>

#include "argosy/comm/message/messenger.h"
#include "argosy/comm/mpi/endpoint.h"

namespace argosy::comm::mpi {

// Pauses between two tests of a request, as MPI has nothing to sleep on. Spins
// for as long as an answer takes, then yields to ranks that share our core for
// as long as `bytes` may take, then sleeps briefly: a message moves only while
// both sides test.
class TestPause {
 public:
  explicit TestPause(std::size_t bytes)
      : busy_until_(
            Deadline::Clock::now() + std::chrono::milliseconds(1) +
            std::chrono::nanoseconds(kNanosecondsPerByte * bytes)) {}

  void pause() {
    if (++looks_ < kSpins) {
      return;
    }
    if (Deadline::Clock::now() < busy_until_) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  static constexpr int kSpins = 100;
  static constexpr std::size_t kNanosecondsPerByte = 2;
  Deadline::Clock::time_point busy_until_;
  int looks_ = 0;
};

// The members of a group that send over an endpoint.
struct Route {
  std::shared_ptr<Endpoint> endpoint;
  std::shared_ptr<Channel> channel;
  std::uint64_t channel_id = 0;
  std::string group;      // its name in messages
  std::vector<int> ranks; // of the members in the communicator

  int rank_of(int peer) const { return ranks[static_cast<std::size_t>(peer)]; }

  // Throws PeerLost if a transfer can no longer succeed.
  void check(int peer, bool begun) const {
    channel->check(group, rank_of(peer), begun);
  }
};

// Polls until a message is through.
class MpiTransfer : public message::Transfer {
 public:
  MpiTransfer(std::shared_ptr<Route> route, int peer, std::size_t bytes)
      : route_(std::move(route)), peer_(peer), bytes_(bytes) {}

  void wait(Deadline deadline) override {
    TestPause test_pause(bytes_);
    bool moves = false;
    while (!look()) {
      if (deadline.expired()) {
        throw TimeoutError(str_format(
            "[comm.mpi] group {}: {} rank {} not done within {}",
            route_->group,
            verb(),
            peer_,
            deadline.limit_text()));
      }
      if (has_begun_ && !std::exchange(moves, true)) {
        test_pause = TestPause(bytes_);
      }
      test_pause.pause();
    }
  }

 protected:
  // Under calls_mutex().
  virtual bool done() = 0;
  virtual bool has_begun() const = 0; // is on its way
  virtual const char* verb() const = 0;

  Route& route() { return *route_; }
  int peer() const { return peer_; } // rank in the group

 private:
  bool look() {
    const std::lock_guard lock(calls_mutex());
    route_->endpoint->progress();
    if (!route_->endpoint->closed() && done()) {
      return true;
    }
    has_begun_ = has_begun();
    route_->check(peer_, has_begun_);
    return false;
  }

  const std::shared_ptr<Route> route_;
  const int peer_;
  const std::size_t bytes_;
  bool has_begun_ = false;
};

// Waits briefly for MPI to finish with a buffer that is about to be freed: both
// sides have posted the transfer, so it ends soon if at all.
inline void end_soon(const Endpoint& endpoint, Requests& requests) {
  for (int i = 0; i < 100; ++i) {
    {
      const std::lock_guard lock(calls_mutex());
      if (endpoint.closed() || requests.try_end()) {
        return;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const std::lock_guard lock(calls_mutex());
  if (!endpoint.closed()) {
    requests.forget();
  }
}

class MpiSending : public MpiTransfer {
 public:
  MpiSending(
      std::shared_ptr<Route> its_route,
      int to,
      std::uint64_t tag,
      const void* data,
      std::size_t bytes)
      : MpiTransfer(std::move(its_route), to, bytes) {
    const std::lock_guard lock(calls_mutex());
    route().check(to, false);
    Endpoint& endpoint = *route().endpoint;
    const int rank = route().rank_of(to);
    const bool is_short = bytes <= kShortBytes;
    const Header header{
        .channel = route().channel_id,
        .tag = tag,
        .bytes = bytes,
        .payload_tag = is_short ? 0 : endpoint.next_payload_tag()};
    packet_ = make_packet(header, data, is_short ? bytes : 0);
    requests_.add(endpoint.post_packet(rank, packet_));
    if (!is_short) {
      endpoint.post_payload(rank, data, bytes, header.payload_tag, requests_);
    }
  }

  ~MpiSending() override { end_soon(*route().endpoint, requests_); }

 protected:
  bool done() override { return requests_.test("MPI_Isend", peer()); }
  const char* verb() const override { return "send to"; }
  bool has_begun() const override { return true; }

 private:
  Packet packet_;
  Requests requests_;
};

class MpiReceiving : public MpiTransfer {
 public:
  MpiReceiving(
      std::shared_ptr<Route> its_route,
      int from,
      std::uint64_t tag,
      void* data,
      std::size_t bytes)
      : MpiTransfer(std::move(its_route), from, bytes) {
    const std::lock_guard lock(calls_mutex());
    route().check(from, true);
    pending_.peer = route().rank_of(from);
    pending_.tag = tag;
    pending_.data = data;
    pending_.capacity = bytes;
    route().channel->expect(route().endpoint->comm(), pending_);
  }

  ~MpiReceiving() override {
    {
      const std::lock_guard lock(calls_mutex());
      route().channel->abandon(pending_);
      if (!route().endpoint->closed()) {
        pending_.payload.cancel();
      }
    }
    end_soon(*route().endpoint, pending_.payload);
  }

 protected:
  bool done() override {
    ARGOSY_CHECK(
        pending_.error.empty(),
        "[comm.mpi] group {}: {}",
        route().group,
        pending_.error);
    return pending_.begun && pending_.payload.test("MPI_Irecv", peer());
  }
  const char* verb() const override { return "receive from"; }
  bool has_begun() const override { return pending_.begun; }

 private:
  PendingReceive pending_;
};

// Messages over MPI. An abort is sent to all members, which then treat this
// rank as gone.
class MpiMessenger : public message::Messenger {
 public:
  // `ranks` are those of the members, ours included, in the endpoint's
  // communicator. All members have the same channel, other groups another one.
  MpiMessenger(
      std::shared_ptr<Endpoint> endpoint,
      std::uint64_t channel_id,
      std::string group,
      std::vector<int> ranks)
      : route_(std::make_shared<Route>()) {
    const std::lock_guard lock(calls_mutex());
    const auto own = std::ranges::find(ranks, endpoint->rank());
    ARGOSY_ASSERT(own != ranks.end(), "rank ", endpoint->rank());
    rank_ = static_cast<int>(own - ranks.begin());
    route_->channel = endpoint->channel(channel_id);
    route_->endpoint = std::move(endpoint);
    route_->channel_id = channel_id;
    route_->group = std::move(group);
    route_->ranks = std::move(ranks);
  }

  ~MpiMessenger() override {
    const std::lock_guard lock(calls_mutex());
    route_->endpoint->close_channel(route_->channel_id);
  }

  std::string name() const override { return "mpi"; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(route_->ranks.size()); }

  std::unique_ptr<message::Transfer> send(
      int peer,
      std::uint64_t tag,
      const void* data,
      std::size_t bytes) override {
    return std::make_unique<MpiSending>(route_, peer, tag, data, bytes);
  }

  std::unique_ptr<message::Transfer> receive(
      int peer, std::uint64_t tag, void* data, std::size_t bytes) override {
    return std::make_unique<MpiReceiving>(route_, peer, tag, data, bytes);
  }

  void abort(const std::string& reason) override {
    const std::lock_guard lock(calls_mutex());
    if (!route_->channel->ended.empty()) {
      return; // everybody knows
    }
    route_->channel->ended = reason;
    const std::string text = reason.substr(0, kShortBytes);
    const Header header{
        .channel = route_->channel_id, .bytes = text.size(), .kind = Kind::End};
    for (const int rank : route_->ranks) {
      if (rank != route_->endpoint->rank()) {
        tell(rank, make_packet(header, text.data(), text.size()));
      }
    }
  }

 private:
  void tell(int rank, Packet packet) {
    try {
      route_->endpoint->post_detached(rank, std::move(packet));
    } catch (const PeerLost&) { // so it needs no telling
    }
  }

  int rank_ = 0;
  const std::shared_ptr<Route> route_;
};

} // namespace argosy::comm::mpi
