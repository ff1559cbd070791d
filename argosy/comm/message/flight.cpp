#include "argosy/comm/message/flight.h"

#include <utility>

namespace argosy::comm::message {

namespace {

template <typename Act>
auto with_peer(int peer, const Act& act) {
  try {
    return act();
  } catch (const PeerLost& error) {
    throw Broken(peer, error.what());
  }
}

} // namespace

Pending Pending::send(
    Messenger& messenger,
    int peer,
    Tag tag,
    const void* data,
    std::size_t bytes) {
  Pending pending;
  pending.peer_ = peer;
  pending.transfer_ = with_peer(peer, [&] {
    return messenger.send(peer, static_cast<std::uint64_t>(tag), data, bytes);
  });
  return pending;
}

Pending Pending::receive(
    Messenger& messenger, int peer, Tag tag, void* data, std::size_t bytes) {
  Pending pending;
  pending.peer_ = peer;
  pending.transfer_ = with_peer(peer, [&] {
    return messenger.receive(
        peer, static_cast<std::uint64_t>(tag), data, bytes);
  });
  return pending;
}

void Pending::wait(Deadline deadline) {
  if (transfer_) {
    with_peer(peer_, [&] { transfer_->wait(deadline); });
    transfer_.reset();
  }
}

std::size_t Flight::send(
    int peer, Tag tag, const void* data, std::size_t bytes) {
  transfers_.push_back(Pending::send(messenger_, peer, tag, data, bytes));
  return transfers_.size() - 1;
}

std::size_t Flight::receive(int peer, Tag tag, void* data, std::size_t bytes) {
  transfers_.push_back(Pending::receive(messenger_, peer, tag, data, bytes));
  return transfers_.size() - 1;
}

void Flight::wait(std::size_t transfer) {
  transfers_[transfer].wait(deadline_);
}

void Flight::wait(const std::vector<std::size_t>& transfers) {
  for (const std::size_t transfer : transfers) {
    wait(transfer);
  }
}

void Flight::wait_all() {
  for (Pending& transfer : transfers_) {
    transfer.wait(deadline_);
  }
}

std::byte* Flight::scratch(std::size_t bytes) {
  scratch_.emplace_back(new std::byte[bytes]);
  return scratch_.back().get();
}

std::vector<int> Flight::others() const {
  std::vector<int> order;
  for (int step = 1; step < size(); ++step) {
    order.push_back((rank() + step) % size());
  }
  return order;
}

} // namespace argosy::comm::message
