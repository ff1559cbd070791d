#include "tests/comm/simulated_messenger.h"

#include <algorithm>
#include <cstring>

namespace argosy::testing {

using comm::message::Messenger;
using comm::message::Transfer;

namespace {

class SimulatedDispatch final : public Transfer {
 public:
  void wait(Deadline /*deadline*/) override {} // the network has copied it
};

} // namespace

class SimulatedReceipt final : public Transfer {
 public:
  SimulatedReceipt(
      SimulatedWire& wire, SimulatedWire::Way way, void* data, std::size_t room)
      : wire_(wire), way_(way), data_(data), room_(room) {}

  void wait(Deadline deadline) override {
    const auto [from, to, tag] = way_;
    auto& queue = wire_.queues_[way_];
    while (queue.empty() || wire_.is_closed(to, to)) {
      if (wire_.is_closed(to, from) || wire_.is_closed(to, to)) {
        throw PeerLost("cut");
      }
      if (deadline.expired()) {
        throw TimeoutError("late");
      }
      wire_.waiting_[to] = wire_.simulation_.current();
      wire_.simulation_.park(deadline.time());
    }
    ARGOSY_ASSERT(queue.front().size() <= room_, "a message is too long");
    std::memcpy(data_, queue.front().data(), queue.front().size());
    queue.pop_front();
  }

 private:
  SimulatedWire& wire_;
  const SimulatedWire::Way way_;
  void* const data_;
  const std::size_t room_;
};

class SimulatedMessenger final : public Messenger {
 public:
  SimulatedMessenger(SimulatedWire& wire, int rank)
      : wire_(wire), rank_(rank) {}

  std::string name() const override { return "simulated"; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(wire_.nodes_.size()); }

  std::unique_ptr<Transfer> send(
      int peer,
      std::uint64_t tag,
      const void* data,
      std::size_t bytes) override {
    if (wire_.is_closed(rank_, peer) || wire_.is_closed(rank_, rank_)) {
      throw PeerLost("cut");
    }
    const auto* const begin = static_cast<const std::byte*>(data);
    std::vector<std::byte> copy(begin, begin + bytes);
    wire_.deliver(
        rank_,
        peer,
        [&wire = wire_,
         way = SimulatedWire::Way{rank_, peer, tag},
         copy = std::move(copy)]() mutable {
          wire.queues_[way].push_back(std::move(copy));
        });
    return std::make_unique<SimulatedDispatch>();
  }

  std::unique_ptr<Transfer> receive(
      int peer, std::uint64_t tag, void* data, std::size_t bytes) override {
    return std::make_unique<SimulatedReceipt>(
        wire_, SimulatedWire::Way{peer, rank_, tag}, data, bytes);
  }

  void abort(const std::string& /*reason*/) override { wire_.close(rank_); }

 private:
  SimulatedWire& wire_;
  const int rank_;
};

std::unique_ptr<Messenger> SimulatedWire::messenger(int rank) {
  return std::make_unique<SimulatedMessenger>(*this, rank);
}

void SimulatedWire::close(int rank) {
  if (!closed_.emplace(rank, rank).second) {
    return;
  }
  for (int peer = 0; peer < static_cast<int>(nodes_.size()); ++peer) {
    if (peer != rank) {
      deliver(rank, peer, [this, rank, peer] { closed_.emplace(peer, rank); });
    }
  }
}

void SimulatedWire::deliver(int from, int to, Simulation::Event event) {
  auto& last = last_arrival_[{from, to}];
  const auto delay = simulation_.random().between(
      std::chrono::microseconds(20), std::chrono::microseconds(3'000));
  // Later than the last: what comes at once comes in any order.
  last = std::max(
      last + std::chrono::microseconds(1), simulation_.clock() + delay);
  simulation_.after(
      last - simulation_.clock(), [this, to, event = std::move(event)] {
        event();
        wake(to);
      });
}

void SimulatedWire::wake(int rank) {
  simulation_.wake(waiting_[rank]);
}

} // namespace argosy::testing
