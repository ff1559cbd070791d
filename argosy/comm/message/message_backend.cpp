#include "argosy/comm/message/message_backend.h"

#include <cstring>
#include <utility>

#include "argosy/comm/kernels/reduce.h"
#include "argosy/comm/message/copies.h"
#include "argosy/comm/message/failure_agreement.h"
#include "argosy/comm/message/op_entry.h"
#include "argosy/comm/message/point_to_point.h"
#include "argosy/comm/message/reductions.h"
#include "argosy/comm/message/small_all_gather.h"
#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"

namespace argosy::comm::message {

namespace {

using OpEntries = std::vector<OpEntryView>;

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
void reduce_entries(
    const OpEntries& entries,
    std::size_t offset,
    void* out,
    std::size_t count,
    Reduction reduction) {
  std::vector<const void*> inputs;
  const std::size_t bytes = count * size_of(reduction.dtype);
  for (const OpEntryView& entry : entries) {
    inputs.push_back(data_at(entry, offset, bytes));
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

// Every collective first all-gathers a short entry (op_entry.h): the operation
// of each rank, and its data if that fits. So all ranks detect a disagreement
// before any data moves, and short collectives need no second step: they take
// ceil(log2(n)) messages per rank.
class MessageBackend final : public Backend {
 public:
  MessageBackend(
      std::string group_name,
      std::unique_ptr<Messenger> messenger,
      std::shared_ptr<FailureStore> failure_store,
      std::vector<int> labels)
      : messenger_(std::move(messenger)),
        rank_(messenger_->rank()),
        size_(messenger_->size()),
        group_(std::move(group_name)),
        labels_(std::move(labels)),
        failures_(
            {.group = group_,
             .rank = rank_,
             .size = size_,
             .labels = labels_,
             .failure_store = std::move(failure_store),
             .cut =
                 [this](const std::string& reason) {
                   messenger_->abort(reason);
                 }}),
        all_gather_(*messenger_, max_entry_bytes(size_)),
        point_to_point_(group_, *messenger_) {}

  ~MessageBackend() override {
    // Of what the others might have sent next, nothing comes any more.
    messenger_->abort("the group has ended");
  }

  std::string name() const override { return messenger_->name(); }

  void barrier(Deadline deadline) override {
    collective({}, deadline, [](TransferSet&, const OpEntries&) {});
  }

  void all_reduce(
      const void* in,
      void* out,
      std::size_t count,
      Reduction reduction,
      Deadline deadline) override {
    const std::size_t bytes = count * size_of(reduction.dtype);
    collective(
        make_record(OpKind::AllReduce, count, reduction),
        inline_data(in, bytes),
        deadline,
        [&](TransferSet& transfers, const OpEntries& entries) {
          if (fits_inline(bytes)) {
            reduce_entries(entries, 0, out, count, reduction);
            return;
          }
          run_reduce_plan(
              transfers,
              all_reduce_plan(rank_, size_, in, out, count, reduction));
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
    collective(
        make_record(OpKind::Reduce, count, reduction, root),
        inline_data(in, bytes),
        deadline,
        [&](TransferSet& transfers, const OpEntries& entries) {
          if (!fits_inline(bytes)) {
            run_reduce_plan(
                transfers,
                reduce_plan(rank_, size_, in, out, count, reduction, root));
          } else if (rank_ == root) {
            reduce_entries(entries, 0, out, count, reduction);
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
    collective(
        make_record(OpKind::Broadcast, count, dtype, root),
        rank_ == root ? inline_data(data, bytes) : Bytes(),
        deadline,
        [&](TransferSet& transfers, const OpEntries& entries) {
          if (!fits_inline(bytes)) {
            message::broadcast(
                transfers, {static_cast<std::byte*>(data), bytes}, root);
          } else if (rank_ != root) {
            put(data, data_at(of(entries, root), 0, bytes), bytes);
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
    collective(
        make_record(OpKind::AllGather, count, dtype),
        inline_data(in, bytes),
        deadline,
        [&](TransferSet& transfers, const OpEntries& entries) {
          const ByteRanges to = byte_ranges_of(out, size_of(dtype), size_);
          if (fits_inline(bytes)) {
            put_all(entries, to);
            return;
          }
          message::all_to_all(
              transfers, {.send = to_everybody(in, bytes), .receive = to});
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
    collective(
        make_record(OpKind::Gather, count, dtype, root),
        inline_data(in, bytes),
        deadline,
        [&](TransferSet& transfers, const OpEntries& entries) {
          const ByteRanges to = byte_ranges_of(
              rank_ == root ? out : Blocks{}, size_of(dtype), size_);
          if (!fits_inline(bytes)) {
            ByteRanges from(to.size());
            of(from, root) = as_range(in, bytes);
            message::all_to_all(transfers, {.send = from, .receive = to});
          } else if (rank_ == root) {
            put_all(entries, to);
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
    const bool is_inline = fits_inline(bytes * static_cast<std::size_t>(size_));
    const Blocks& given = rank_ == root ? in : Blocks{};
    collective(
        make_record(OpKind::Scatter, count, dtype, root),
        is_inline ? bytes_of(given, size_of(dtype)) : Bytes(),
        deadline,
        [&](TransferSet& transfers, const OpEntries& entries) {
          if (is_inline) {
            put(out, own_share(of(entries, root), bytes), bytes);
            return;
          }
          ByteRanges to(static_cast<std::size_t>(size_));
          of(to, root) = as_range(out, bytes);
          message::all_to_all(
              transfers,
              {.send = byte_ranges_of(given, size_of(dtype), size_),
               .receive = to});
        });
  }

  void reduce_scatter(
      const Blocks& in,
      void* out,
      std::size_t count,
      Reduction reduction,
      Deadline deadline) override {
    const std::size_t bytes = count * size_of(reduction.dtype);
    const bool is_inline = fits_inline(bytes * static_cast<std::size_t>(size_));
    collective(
        make_record(OpKind::ReduceScatter, count, reduction),
        is_inline ? bytes_of(in, size_of(reduction.dtype)) : Bytes(),
        deadline,
        [&](TransferSet& transfers, const OpEntries& entries) {
          if (is_inline) {
            reduce_entries(
                entries,
                static_cast<std::size_t>(rank_) * bytes,
                out,
                count,
                reduction);
            return;
          }
          run_reduce_plan(
              transfers, reduce_scatter_plan(size_, in, out, count, reduction));
        });
  }

  // Short data travels in the entry, longer data straight to each rank.
  void all_to_all(
      const Blocks& in,
      const Blocks& out,
      DType dtype,
      Deadline deadline) override {
    const std::size_t element = size_of(dtype);
    const bool is_inline = fits_inline(total_count(in) * element);
    collective(
        {.record = make_record(OpKind::AllToAll, 0, dtype),
         .counts = counts_of(in, out),
         .data = is_inline ? bytes_of(in, element) : Bytes()},
        deadline,
        [&](TransferSet& transfers, const OpEntries& entries) {
          AllToAllRanges ranges{
              .send = byte_ranges_of(is_inline ? Blocks{} : in, element, size_),
              .receive = byte_ranges_of(out, element, size_)};
          for (int peer = 0; peer < size_; ++peer) {
            const OpEntryView& theirs = of(entries, peer);
            if (fits_inline(sum_of(theirs.counts.send) * element)) {
              ByteRange& to = of(ranges.receive, peer);
              put(to.data, share_of(theirs, element), to.bytes);
              to = {};
            }
          }
          message::all_to_all(transfers, ranges);
        });
  }

  void send(
      const void* data,
      std::size_t count,
      DType dtype,
      int peer,
      Deadline deadline) override {
    message(
        make_record(OpKind::Send, count, dtype, peer),
        deadline,
        [&](TransferSet& transfers) {
          point_to_point_.send(data, count, dtype, peer, transfers);
        });
  }

  void receive(
      void* data,
      std::size_t count,
      DType dtype,
      int peer,
      Deadline deadline) override {
    message(
        make_record(OpKind::Recv, count, dtype, peer),
        deadline,
        [&](TransferSet& transfers) {
          point_to_point_.receive(data, count, dtype, peer, transfers);
        });
  }

  int await_any_message(Deadline deadline) override {
    int peer = -1;
    guarded(
        make_record(OpKind::Recv, 0, DType::UInt8), // from any rank
        deadline,
        [&](TransferSet&) { peer = point_to_point_.await_any(deadline); });
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

  static Bytes inline_data(const void* data, std::size_t bytes) {
    return fits_inline(bytes) ? bytes_of(data, bytes) : Bytes();
  }

  static ByteRange as_range(const void* data, std::size_t bytes) {
    return {static_cast<std::byte*>(const_cast<void*>(data)), bytes};
  }

  ByteRanges to_everybody(const void* data, std::size_t bytes) const {
    return ByteRanges(static_cast<std::size_t>(size_), as_range(data, bytes));
  }

  // Where ours begins in data with equal shares for all ranks.
  const std::byte* own_share(
      const OpEntryView& entry, std::size_t bytes) const {
    return data_at(entry, static_cast<std::size_t>(rank_) * bytes, bytes);
  }

  // The same for shares of the entry's counts.
  const std::byte* share_of(
      const OpEntryView& entry, std::size_t element) const {
    std::size_t before = 0;
    for (int rank = 0; rank < rank_; ++rank) {
      before += of(entry.counts.send, rank);
    }
    return data_at(
        entry, before * element, of(entry.counts.send, rank_) * element);
  }

  static void put_all(const OpEntries& entries, const ByteRanges& to) {
    for (std::size_t rank = 0; rank < to.size(); ++rank) {
      put(to[rank].data,
          data_at(entries[rank], 0, to[rank].bytes),
          to[rank].bytes);
    }
  }

  template <typename Body>
  void collective(
      const OpRecord& record, Bytes data, Deadline deadline, const Body& body) {
    collective(
        {.record = record, .counts = {}, .data = std::move(data)},
        deadline,
        body);
  }

  // Enters an operation together with the others, then does our part of it.
  template <typename Body>
  void collective(OpEntry entry, Deadline deadline, const Body& body) {
    entry.record.sequence = ++sequence_;
    guarded(entry.record, deadline, [&](TransferSet& transfers) {
      fault_point("message.enter");
      const Bytes packed = pack(entry);
      OpEntries entries;
      for (const ByteSpan& theirs : all_gather_.gather(packed, transfers)) {
        entries.push_back(unpack(theirs));
      }
      check_agreement(entries, group_, labels_);
      fault_point("message.entered");
      body(transfers, entries);
    });
  }

  template <typename Body>
  void message(const OpRecord& what, Deadline deadline, const Body& body) {
    ARGOSY_CHECK(
        what.root >= 0 && what.root < size_ && what.root != rank_,
        "[comm.{}] rank {} cannot exchange messages with rank {}",
        to_string(what.kind),
        rank_,
        what.root);
    guarded(what, deadline, body);
  }

  template <typename Body>
  void guarded(const OpRecord& op, Deadline deadline, const Body& body) {
    failures_.check();
    // Outlives the error: transfers end by the cut of settle().
    TransferSet transfers(*messenger_, deadline);
    try {
      body(transfers);
    } catch (...) {
      failures_.settle(std::current_exception(), op, deadline);
    }
  }

  const std::unique_ptr<Messenger> messenger_;
  const int rank_;
  const int size_;
  const std::string group_;
  const std::vector<int> labels_;
  FailureAgreement failures_;
  SmallAllGather all_gather_;
  PointToPoint point_to_point_;
  std::uint64_t sequence_ = 0; // of collectives
};

} // namespace

std::unique_ptr<Backend> make_message_backend(
    std::string group_name,
    std::unique_ptr<Messenger> messenger,
    std::shared_ptr<FailureStore> failure_store,
    std::vector<int> labels) {
  return std::make_unique<MessageBackend>(
      std::move(group_name),
      std::move(messenger),
      std::move(failure_store),
      std::move(labels));
}

} // namespace argosy::comm::message
