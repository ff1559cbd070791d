#include "argosy/comm/message/transfer_set.h"

#include "argosy/common/fault_point.h"

namespace argosy::comm::message {

namespace {

// Messengers do not say which peer is lost or late; failure_agreement.cpp must
// know.
template <typename Act>
auto with_peer(int peer, const Act& act) {
  try {
    return act();
  } catch (const PeerLost& error) {
    throw ConnectionLost(peer, error.what());
  } catch (const TimeoutError& error) {
    throw TransferLate(peer, error.what());
  }
}

} // namespace

PeerTransfer PeerTransfer::send(
    Messenger& messenger,
    int peer,
    Tag tag,
    const void* data,
    std::size_t bytes) {
  PeerTransfer pending;
  pending.peer_ = peer;
  pending.transfer_ = with_peer(peer, [&] {
    return messenger.send(peer, static_cast<std::uint64_t>(tag), data, bytes);
  });
  return pending;
}

PeerTransfer PeerTransfer::receive(
    Messenger& messenger, int peer, Tag tag, void* data, std::size_t bytes) {
  PeerTransfer pending;
  pending.peer_ = peer;
  pending.transfer_ = with_peer(peer, [&] {
    return messenger.receive(
        peer, static_cast<std::uint64_t>(tag), data, bytes);
  });
  return pending;
}

void PeerTransfer::wait(Deadline deadline) {
  if (transfer_) {
    with_peer(peer_, [&] { transfer_->wait(deadline); });
    transfer_.reset();
  }
}

std::size_t TransferSet::send(
    int peer, Tag tag, const void* data, std::size_t bytes) {
  transfers_.push_back(PeerTransfer::send(messenger_, peer, tag, data, bytes));
  return transfers_.size() - 1;
}

std::size_t TransferSet::receive(
    int peer, Tag tag, void* data, std::size_t bytes) {
  transfers_.push_back(
      PeerTransfer::receive(messenger_, peer, tag, data, bytes));
  return transfers_.size() - 1;
}

void TransferSet::wait(std::size_t transfer) {
  fault_point("message.transfer");
  transfers_[transfer].wait(deadline_);
}

void TransferSet::wait(const std::vector<std::size_t>& transfers) {
  for (const std::size_t transfer : transfers) {
    wait(transfer);
  }
}

void TransferSet::wait_all() {
  for (PeerTransfer& transfer : transfers_) {
    transfer.wait(deadline_);
  }
}

std::byte* TransferSet::scratch(std::size_t bytes) {
  scratch_.emplace_back(new std::byte[bytes]);
  return scratch_.back().get();
}

std::vector<int> TransferSet::others() const {
  std::vector<int> order;
  for (int step = 1; step < size(); ++step) {
    order.push_back((rank() + step) % size());
  }
  return order;
}

} // namespace argosy::comm::message
