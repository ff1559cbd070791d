#include "argosy/comm/message/message_backend.h"

#include <cstring>
#include <utility>

#include "argosy/comm/kernels/reduce.h"
#include "argosy/comm/message/entrance.h"
#include "argosy/comm/message/exchange.h"
#include "argosy/comm/message/failures.h"
#include "argosy/comm/message/mail.h"
#include "argosy/comm/message/notes.h"
#include "argosy/comm/message/reductions.h"
#include "argosy/common/error.h"

namespace argosy::comm::message {

namespace {

using Tickets = std::vector<Seen>;

std::vector<std::byte> bytes_of(const void* data, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  return {begin, begin + bytes};
}

std::vector<std::byte> bytes_of(const Blocks& blocks, std::size_t element) {
  std::vector<std::byte> bytes;
  for (const Block& block : blocks) {
    const auto part = bytes_of(block.data, block.count * element);
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

void put(void* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}

// Adds up what rode along, from `offset` on in everybody's data.
void add_up_tickets(
    const Tickets& tickets,
    std::size_t offset,
    void* out,
    std::size_t count,
    Reduction reduction) {
  std::vector<const void*> inputs;
  for (const Seen& ticket : tickets) {
    inputs.push_back(ticket.data.data() + offset);
  }
  comm::reduce(
      out,
      inputs.data(),
      static_cast<int>(inputs.size()),
      count,
      reduction.dtype,
      reduction.op);
}

RankCounts counts_of(const Blocks& in, const Blocks& out) {
  RankCounts counts;
  for (const Block& block : in) {
    counts.send.push_back(block.count);
  }
  for (const Block& block : out) {
    counts.receive.push_back(block.count);
  }
  return counts;
}

std::uint64_t sum_of(const std::vector<std::uint64_t>& counts) {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : counts) {
    sum += count;
  }
  return sum;
}

class MessageBackend final : public Backend {
 public:
  MessageBackend(
      std::string group_name,
      std::unique_ptr<Messenger> messenger,
      std::shared_ptr<Board> board,
      std::vector<int> labels)
      : messenger_(std::move(messenger)),
        rank_(messenger_->rank()),
        size_(messenger_->size()),
        group_(std::move(group_name)),
        failures_(
            {.group = group_,
             .rank = rank_,
             .size = size_,
             .labels = std::move(labels),
             .board = std::move(board),
             .cut =
                 [this](const std::string& reason) {
                   messenger_->abort(reason);
                 }}),
        notes_(*messenger_, max_note_bytes(size_)),
        mail_(group_, *messenger_) {}

  ~MessageBackend() override {
    // Of what the others might have sent next, nothing comes any more.
    messenger_->abort("the group has ended");
  }

  std::string name() const override { return messenger_->name(); }

  void barrier(Deadline deadline) override {
    collective({}, deadline, [](Flight&, const Tickets&) {});
  }

  void all_reduce(
      const void* in,
      void* out,
      std::size_t count,
      Reduction reduction,
      Deadline deadline) override {
    const std::size_t bytes = count * size_of(reduction.dtype);
    Ticket ticket{
        .record = make_record(OpKind::AllReduce, count, reduction),
        .counts = {},
        .data = riding(in, bytes)};
    collective(
        std::move(ticket),
        deadline,
        [&](Flight& flight, const Tickets& tickets) {
          if (rides(bytes)) {
            add_up_tickets(tickets, 0, out, count, reduction);
            return;
          }
          add_up(
              flight, all_reduce_plan(rank_, size_, in, out, count, reduction));
        });
  }

  void reduce(
      const void* in,
      void* out,
      std::size_t count,
      Reduction reduction,
      int root,
      Deadline deadline) override {
    const std::size_t bytes = count * size_of(reduction.dtype);
    Ticket ticket{
        .record = make_record(OpKind::Reduce, count, reduction, root),
        .counts = {},
        .data = riding(in, bytes)};
    collective(
        std::move(ticket),
        deadline,
        [&](Flight& flight, const Tickets& tickets) {
          if (!rides(bytes)) {
            add_up(
                flight,
                reduce_plan(rank_, size_, in, out, count, reduction, root));
          } else if (rank_ == root) {
            add_up_tickets(tickets, 0, out, count, reduction);
          }
        });
  }

  void broadcast(
      void* data,
      std::size_t count,
      DType dtype,
      int root,
      Deadline deadline) override {
    const std::size_t bytes = count * size_of(dtype);
    Ticket ticket{
        .record = make_record(OpKind::Broadcast, count, plain(dtype), root),
        .counts = {},
        .data = rank_ == root ? riding(data, bytes) : Bytes()};
    collective(
        std::move(ticket),
        deadline,
        [&](Flight& flight, const Tickets& tickets) {
          if (!rides(bytes)) {
            message::broadcast(
                flight, {static_cast<std::byte*>(data), bytes}, root);
          } else if (rank_ != root) {
            put(data, of(tickets, root).data.data(), bytes);
          }
        });
  }

  void all_gather(
      const void* in,
      const Blocks& out,
      std::size_t count,
      DType dtype,
      Deadline deadline) override {
    const std::size_t bytes = count * size_of(dtype);
    Ticket ticket{
        .record = make_record(OpKind::AllGather, count, plain(dtype)),
        .counts = {},
        .data = riding(in, bytes)};
    collective(
        std::move(ticket),
        deadline,
        [&](Flight& flight, const Tickets& tickets) {
          const Parts to = parts_of(out, size_of(dtype), size_);
          if (rides(bytes)) {
            put_all(tickets, to);
            return;
          }
          exchange(flight, {.send = to_everybody(in, bytes), .receive = to});
        });
  }

  void gather(
      const void* in,
      const Blocks& out,
      std::size_t count,
      DType dtype,
      int root,
      Deadline deadline) override {
    const std::size_t bytes = count * size_of(dtype);
    Ticket ticket{
        .record = make_record(OpKind::Gather, count, plain(dtype), root),
        .counts = {},
        .data = riding(in, bytes)};
    collective(
        std::move(ticket),
        deadline,
        [&](Flight& flight, const Tickets& tickets) {
          const Parts to =
              parts_of(rank_ == root ? out : Blocks{}, size_of(dtype), size_);
          if (!rides(bytes)) {
            Parts from(to.size());
            of(from, root) = as_part(in, bytes);
            exchange(flight, {.send = from, .receive = to});
          } else if (rank_ == root) {
            put_all(tickets, to);
          }
        });
  }

  void scatter(
      const Blocks& in,
      void* out,
      std::size_t count,
      DType dtype,
      int root,
      Deadline deadline) override {
    const std::size_t bytes = count * size_of(dtype);
    const bool ride = rides(bytes * static_cast<std::size_t>(size_));
    const Blocks& given = rank_ == root ? in : Blocks{};
    Ticket ticket{
        .record = make_record(OpKind::Scatter, count, plain(dtype), root),
        .counts = {},
        .data = ride ? bytes_of(given, size_of(dtype)) : Bytes()};
    collective(
        std::move(ticket),
        deadline,
        [&](Flight& flight, const Tickets& tickets) {
          if (ride) {
            put(out, own_share(of(tickets, root), bytes), bytes);
            return;
          }
          Parts to(static_cast<std::size_t>(size_));
          of(to, root) = as_part(out, bytes);
          exchange(
              flight,
              {.send = parts_of(given, size_of(dtype), size_), .receive = to});
        });
  }

  void reduce_scatter(
      const Blocks& in,
      void* out,
      std::size_t count,
      Reduction reduction,
      Deadline deadline) override {
    const std::size_t bytes = count * size_of(reduction.dtype);
    const bool ride = rides(bytes * static_cast<std::size_t>(size_));
    Ticket ticket{
        .record = make_record(OpKind::ReduceScatter, count, reduction),
        .counts = {},
        .data = ride ? bytes_of(in, size_of(reduction.dtype)) : Bytes()};
    collective(
        std::move(ticket),
        deadline,
        [&](Flight& flight, const Tickets& tickets) {
          if (ride) {
            add_up_tickets(
                tickets,
                static_cast<std::size_t>(rank_) * bytes,
                out,
                count,
                reduction);
            return;
          }
          add_up(flight, reduce_scatter_plan(size_, in, out, count, reduction));
        });
  }

  // What short senders bring rides along; the others send to each.
  void all_to_all(
      const Blocks& in,
      const Blocks& out,
      DType dtype,
      Deadline deadline) override {
    const std::size_t element = size_of(dtype);
    const bool ride = rides(total_count(in) * element);
    Ticket ticket{
        .record = make_record(OpKind::AllToAll, 0, plain(dtype)),
        .counts = counts_of(in, out),
        .data = ride ? bytes_of(in, element) : Bytes()};
    collective(
        std::move(ticket),
        deadline,
        [&](Flight& flight, const Tickets& tickets) {
          Parcels parcels{
              .send = parts_of(ride ? Blocks{} : in, element, size_),
              .receive = parts_of(out, element, size_)};
          for (int peer = 0; peer < size_; ++peer) {
            const Seen& theirs = of(tickets, peer);
            if (rides(sum_of(theirs.counts.send) * element)) {
              Part& to = of(parcels.receive, peer);
              put(to.data, share_of(theirs, element), to.bytes);
              to = {};
            }
          }
          exchange(flight, parcels);
        });
  }

  void send(
      const void* data,
      std::size_t count,
      DType dtype,
      int peer,
      Deadline deadline) override {
    message(
        make_record(OpKind::Send, count, plain(dtype), peer),
        deadline,
        [&](Flight& flight) { mail_.send(data, count, dtype, peer, flight); });
  }

  void receive(
      void* data,
      std::size_t count,
      DType dtype,
      int peer,
      Deadline deadline) override {
    message(
        make_record(OpKind::Recv, count, plain(dtype), peer),
        deadline,
        [&](Flight& flight) {
          mail_.receive(data, count, dtype, peer, flight);
        });
  }

  int await_any_message(Deadline deadline) override {
    int peer = -1;
    guarded(
        {.op = "recv", .description = "the wait for any message"},
        deadline,
        [&](Flight&) { peer = mail_.await_any(deadline); });
    return peer;
  }

  void abort(const std::string& reason) override { failures_.abort(reason); }

 private:
  using Bytes = std::vector<std::byte>;

  template <typename T>
  static T& of(std::vector<T>& all, int rank) {
    return all[static_cast<std::size_t>(rank)];
  }
  template <typename T>
  static const T& of(const std::vector<T>& all, int rank) {
    return all[static_cast<std::size_t>(rank)];
  }

  static Reduction plain(DType dtype) { return {dtype, ReduceOp::SUM}; }

  static Bytes riding(const void* data, std::size_t bytes) {
    return rides(bytes) ? bytes_of(data, bytes) : Bytes();
  }

  static Part as_part(const void* data, std::size_t bytes) {
    return {static_cast<std::byte*>(const_cast<void*>(data)), bytes};
  }

  Parts to_everybody(const void* data, std::size_t bytes) const {
    return Parts(static_cast<std::size_t>(size_), as_part(data, bytes));
  }

  // Where ours begins in data with equal shares for all ranks.
  const std::byte* own_share(const Seen& ticket, std::size_t bytes) const {
    return ticket.data.data() + static_cast<std::size_t>(rank_) * bytes;
  }

  // The same for shares of the ticket's counts.
  const std::byte* share_of(const Seen& ticket, std::size_t element) const {
    std::size_t before = 0;
    for (int rank = 0; rank < rank_; ++rank) {
      before += of(ticket.counts.send, rank);
    }
    return ticket.data.data() + before * element;
  }

  static void put_all(const Tickets& tickets, const Parts& to) {
    for (std::size_t rank = 0; rank < to.size(); ++rank) {
      put(to[rank].data, tickets[rank].data.data(), to[rank].bytes);
    }
  }

  // Enters an operation together with the others, then does our part of it.
  template <typename Body>
  void collective(Ticket ticket, Deadline deadline, const Body& body) {
    ticket.record.sequence = ++sequence_;
    const Occasion occasion{
        .op = to_string(ticket.record.kind),
        .description =
            str("operation ", sequence_, " (", describe(ticket.record), ")")};
    guarded(occasion, deadline, [&](Flight& flight) {
      const Bytes packed = pack(ticket);
      Tickets tickets;
      for (const Note& note : notes_.gather(packed, flight)) {
        tickets.push_back(unpack(note));
      }
      check_agreement(tickets, group_);
      body(flight, tickets);
    });
  }

  template <typename Body>
  void message(const OpRecord& what, Deadline deadline, const Body& body) {
    ARGOSY_CHECK(
        what.root >= 0 && what.root < size_ && what.root != rank_,
        "[comm.",
        to_string(what.kind),
        "] rank ",
        rank_,
        " cannot exchange messages with rank ",
        what.root);
    guarded(
        {.op = to_string(what.kind), .description = describe(what)},
        deadline,
        body);
  }

  template <typename Body>
  void guarded(const Occasion& occasion, Deadline deadline, const Body& body) {
    failures_.check();
    // Outlives the error: transfers end by the cut of settle().
    Flight flight(*messenger_, deadline);
    try {
      body(flight);
    } catch (...) {
      failures_.settle(std::current_exception(), occasion, deadline);
    }
  }

  const std::unique_ptr<Messenger> messenger_;
  const int rank_;
  const int size_;
  const std::string group_;
  Failures failures_;
  Notes notes_;
  Mail mail_;
  std::uint64_t sequence_ = 0; // of collectives
};

} // namespace

std::unique_ptr<Backend> make_message_backend(
    std::string group_name,
    std::unique_ptr<Messenger> messenger,
    std::shared_ptr<Board> board,
    std::vector<int> labels) {
  return std::make_unique<MessageBackend>(
      std::move(group_name),
      std::move(messenger),
      std::move(board),
      std::move(labels));
}

} // namespace argosy::comm::message
