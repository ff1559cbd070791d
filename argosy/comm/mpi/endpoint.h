#pragma once

#include <memory>
#include <set>

#include "argosy/comm/mpi/channel.h"

namespace argosy::comm::mpi {

// A communicator of our own, over which all groups of a world send packets. All
// groups share it, because making a communicator blocks without a deadline and
// MPI has few of them. It lives until MPI_Finalize, so that late packets have a
// receiver. Use it under calls_mutex().
class Endpoint {
 public:
  // Collective over `comm`, which the caller keeps.
  static std::shared_ptr<Endpoint> make(MPI_Comm comm) {
    std::shared_ptr<Endpoint> endpoint(new Endpoint(comm));
    close_before_finalize(endpoint);
    return endpoint;
  }

  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  MPI_Comm comm() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  bool closed() const { return closed_; } // by MPI_Finalize

  // The first call, or the first packet for it, makes the channel.
  std::shared_ptr<Channel> channel(std::uint64_t id) {
    auto& channel = channels_[id];
    if (!channel) {
      channel = std::make_shared<Channel>();
      channel->ended = closed_ ? kFinalized : "";
    }
    return channel;
  }

  void close_channel(std::uint64_t id) {
    channels_.erase(id);
    closed_channels_.insert(id);
  }

  // Delivers the packets that have arrived.
  void progress() {
    for (int i = 0; i < kMostAtOnce && !closed_; ++i) {
      Slot& slot = slots_[next_slot_];
      int done = 0;
      MPI_Status status;
      check(MPI_Test(&slot.request, &done, &status), "MPI_Test", -1);
      if (done == 0) {
        return;
      }
      int bytes = 0;
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      take(status.MPI_SOURCE, slot, static_cast<std::size_t>(bytes));
      listen(slot);
      next_slot_ = (next_slot_ + 1) % slots_.size();
    }
  }

  MPI_Request post_packet(int peer, const Packet& packet) {
    return post(peer, packet.data(), static_cast<int>(packet.size()), 0);
  }

  // A packet that nobody waits for.
  void post_detached(int peer, Packet packet) {
    detached_.push_back(std::move(packet));
    MPI_Request request = post_packet(peer, detached_.back());
    MPI_Request_free(&request);
  }

  void post_payload(
      int peer, const void* data, std::size_t bytes, int tag, Requests& into) {
    for_parts(bytes, [&](std::size_t at, int count) {
      into.add(
          post(peer, static_cast<const std::byte*>(data) + at, count, tag));
    });
  }

  // For the next long message. Tags repeat only after more messages than can be
  // pending.
  int next_payload_tag() {
    payload_tag_ = payload_tag_ == last_tag_ ? 1 : payload_tag_ + 1;
    return payload_tag_;
  }

 private:
  struct Slot {
    std::array<std::byte, kPacketBytes> packet;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  static constexpr int kLeastTagBound = 32767;
  static constexpr int kMostAtOnce = 64;
  static constexpr char kFinalized[] = "MPI was finalized";
  static constexpr std::chrono::seconds kFarewell{1};

  explicit Endpoint(MPI_Comm comm) {
    check_threads(comm);
    MPI_Comm_dup(comm, &comm_);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    void* bound = nullptr;
    int found = 0;
    MPI_Comm_get_attr(comm_, MPI_TAG_UB, static_cast<void*>(&bound), &found);
    last_tag_ = found != 0 ? *static_cast<int*>(bound) : kLeastTagBound;
    for (Slot& slot : slots_) {
      listen(slot);
    }
  }

  MPI_Request post(int peer, const void* data, int bytes, int tag) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(
        MPI_Isend(data, bytes, MPI_BYTE, peer, tag, comm_, &request),
        "MPI_Isend",
        peer);
    return request;
  }

  void listen(Slot& slot) {
    check(
        MPI_Irecv(
            slot.packet.data(),
            static_cast<int>(kPacketBytes),
            MPI_BYTE,
            MPI_ANY_SOURCE,
            0,
            comm_,
            &slot.request),
        "MPI_Irecv",
        -1);
  }

  void take(int peer, const Slot& slot, std::size_t bytes) {
    const Header header = header_of(slot.packet.data());
    if (closed_channels_.count(header.channel) != 0) {
      return;
    }
    const auto to = channel(header.channel);
    if (header.kind == Kind::Message) {
      to->deliver(comm_, peer, slot.packet.data(), bytes);
    } else {
      const auto* text =
          reinterpret_cast<const char*>(slot.packet.data() + sizeof(Header));
      to->end_peer(peer, std::string(text, header.bytes));
    }
  }

  // MPI_Finalize deletes the attributes of MPI_COMM_SELF before all else.
  static void close_before_finalize(const std::shared_ptr<Endpoint>& endpoint) {
    int keyval = MPI_KEYVAL_INVALID;
    MPI_Comm_create_keyval(
        MPI_COMM_NULL_COPY_FN,
        [](MPI_Comm, int, void* attribute, void*) {
          const std::unique_ptr<std::shared_ptr<Endpoint>> kept(
              static_cast<std::shared_ptr<Endpoint>*>(attribute));
          (*kept)->close();
          return MPI_SUCCESS;
        },
        &keyval,
        nullptr);
    MPI_Comm_set_attr(
        MPI_COMM_SELF, keyval, new std::shared_ptr<Endpoint>(endpoint));
    MPI_Comm_free_keyval(&keyval);
  }

  void close() {
    const bool all_here = hear_the_last();
    const std::lock_guard lock(calls_mutex());
    closed_ = true;
    for (const auto& [id, channel] : channels_) {
      if (channel->ended.empty()) {
        channel->ended = kFinalized;
      }
    }
    for (Slot& slot : slots_) {
      MPI_Cancel(&slot.request);
      MPI_Wait(&slot.request, MPI_STATUS_IGNORE);
    }
    // Open MPI goes on with a barrier while it finalizes, and crashes if its
    // communicator is gone by then.
    if (all_here) {
      MPI_Comm_free(&comm_);
    }
  }

  // Delivers packets until all ranks finalize MPI, as they must. Returns
  // whether they did; if not, a barrier is still under way.
  bool hear_the_last() {
    const Deadline deadline = Deadline::after(kFarewell);
    MPI_Request all_here = MPI_REQUEST_NULL;
    MPI_Ibarrier(comm_, &all_here);
    int done = 0;
    while (done == 0 && !deadline.expired()) {
      const std::lock_guard lock(calls_mutex());
      try {
        progress();
      } catch (const PeerLost&) {
        break;
      }
      MPI_Test(&all_here, &done, MPI_STATUS_IGNORE);
    }
    return done != 0;
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 0;
  int last_tag_ = kLeastTagBound;
  int payload_tag_ = 0;
  bool closed_ = false;
  // Packets of one sender are matched in the order of the slots.
  std::array<Slot, 8> slots_;
  std::size_t next_slot_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Channel>> channels_;
  std::set<std::uint64_t> closed_channels_;
  std::deque<Packet> detached_; // of aborts: few
};

} // namespace argosy::comm::mpi
