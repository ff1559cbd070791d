#include "argosy/comm/c10d/c10d_backend.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

// After c10d: clang 14 wants IValue complete before tensors.
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <mutex>
#include <numeric>
#include <utility>

#include "argosy/comm/kernels/reduce.h"
#include "argosy/comm/slice.h"
#include "argosy/common/error.h"
#include "argosy/common/net.h"

namespace argosy::comm {

namespace {

at::Tensor bytes_at(const void* data, std::size_t bytes) {
  return at::from_blob(
      const_cast<void*>(data), {static_cast<std::int64_t>(bytes)}, at::kByte);
}

std::vector<std::int64_t> scaled(
    const std::vector<std::size_t>& counts, std::size_t element) {
  std::vector<std::int64_t> sizes;
  for (const std::size_t count : counts) {
    sizes.push_back(static_cast<std::int64_t>(count * element));
  }
  return sizes;
}

class C10dBackend final : public Backend {
 public:
  C10dBackend(
      std::string group_name, c10::intrusive_ptr<::c10d::ProcessGroup> group)
      : name_(std::move(group_name)),
        group_(std::move(group)),
        rank_(group_->getRank()),
        size_(group_->getSize()) {}

  std::string name() const override {
    return "c10d:" + group_->getBackendName();
  }

  void barrier(Deadline deadline) override {
    run("barrier", deadline, [&](auto limit) {
      ::c10d::BarrierOptions options;
      options.timeout = limit;
      return group_->barrier(options);
    });
  }

  void broadcast(
      void* data,
      std::size_t count,
      DType dtype,
      int root,
      Deadline deadline) override {
    std::vector<at::Tensor> tensors = {bytes_at(data, count * size_of(dtype))};
    run("broadcast", deadline, [&](auto limit) {
      ::c10d::BroadcastOptions options;
      options.rootRank = root;
      options.timeout = limit;
      return group_->broadcast(tensors, options);
    });
  }

  void all_gather(
      const void* in,
      const Blocks& out,
      std::size_t count,
      DType dtype,
      Deadline deadline) override {
    const std::size_t bytes = count * size_of(dtype);
    std::vector<at::Tensor> inputs = {bytes_at(in, bytes)};
    std::vector<std::vector<at::Tensor>> outputs = {
        parts_of(out, size_of(dtype))};
    run("all_gather", deadline, [&](auto limit) {
      ::c10d::AllgatherOptions options;
      options.timeout = limit;
      return group_->allgather(outputs, inputs, options);
    });
  }

  void all_to_all(
      const Blocks& in,
      const Blocks& out,
      DType dtype,
      Deadline deadline) override {
    const PackedBlocks from(in, size_of(dtype), PackedBlocks::Use::Input);
    const PackedBlocks to(out, size_of(dtype), PackedBlocks::Use::Output);
    std::vector<std::size_t> send;
    std::vector<std::size_t> receive;
    for (int peer = 0; peer < size_; ++peer) {
      send.push_back(in[static_cast<std::size_t>(peer)].count);
      receive.push_back(out[static_cast<std::size_t>(peer)].count);
    }
    exchange(from.data(), send, to.data(), receive, dtype, deadline);
    to.put_back();
  }

  void exchange(
      const void* in,
      const std::vector<std::size_t>& send_counts,
      void* out,
      const std::vector<std::size_t>& receive_counts,
      DType dtype,
      Deadline deadline) {
    auto send = scaled(send_counts, size_of(dtype));
    auto receive = scaled(receive_counts, size_of(dtype));
    const auto total = [](const std::vector<std::int64_t>& sizes) {
      return static_cast<std::size_t>(
          std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}));
    };
    at::Tensor input = bytes_at(in, total(send));
    at::Tensor output = bytes_at(out, total(receive));
    run("all_to_all", deadline, [&](auto limit) {
      ::c10d::AllToAllOptions options;
      options.timeout = limit;
      return group_->alltoall_base(output, input, receive, send, options);
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
    std::vector<at::Tensor> inputs = {bytes_at(in, bytes)};
    std::vector<std::vector<at::Tensor>> outputs;
    if (rank_ == root) {
      outputs.push_back(parts_of(out, size_of(dtype)));
    }
    run("gather", deadline, [&](auto limit) {
      ::c10d::GatherOptions options;
      options.rootRank = root;
      options.timeout = limit;
      return group_->gather(outputs, inputs, options);
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
    std::vector<at::Tensor> outputs = {bytes_at(out, bytes)};
    std::vector<std::vector<at::Tensor>> inputs;
    if (rank_ == root) {
      inputs.push_back(parts_of(in, size_of(dtype)));
    }
    run("scatter", deadline, [&](auto limit) {
      ::c10d::ScatterOptions options;
      options.rootRank = root;
      options.timeout = limit;
      return group_->scatter(outputs, inputs, options);
    });
  }

  // Each rank gets its slice of everybody, adds up, and all gather the sums:
  // 2 (n - 1) / n of the buffer per link, as a ring moves.
  void all_reduce(
      const void* in,
      void* out,
      std::size_t count,
      Reduction reduction,
      Deadline deadline) override {
    const auto [dtype, op] = reduction;
    at::Tensor sum = add_own_slice(in, count, dtype, op, deadline);
    // The slices differ in length by at most one element: gathered as messages
    // of one's own slice to everybody.
    const std::vector<std::size_t> own(
        static_cast<std::size_t>(size_), slice(count, rank_).count);
    std::vector<std::size_t> theirs;
    for (int peer = 0; peer < size_; ++peer) {
      theirs.push_back(slice(count, peer).count);
    }
    const at::Tensor copies = sum.repeat({size_});
    exchange(copies.data_ptr(), own, out, theirs, dtype, deadline);
  }

  void reduce(
      const void* in,
      void* out,
      std::size_t count,
      Reduction reduction,
      int root,
      Deadline deadline) override {
    const auto [dtype, op] = reduction;
    at::Tensor sum = add_own_slice(in, count, dtype, op, deadline);
    std::vector<std::size_t> send(static_cast<std::size_t>(size_), 0);
    send[static_cast<std::size_t>(root)] = slice(count, rank_).count;
    std::vector<std::size_t> receive(static_cast<std::size_t>(size_), 0);
    if (rank_ == root) {
      for (int peer = 0; peer < size_; ++peer) {
        receive[static_cast<std::size_t>(peer)] = slice(count, peer).count;
      }
    }
    exchange(sum.data_ptr(), send, out, receive, dtype, deadline);
  }

  void reduce_scatter(
      const Blocks& in,
      void* out,
      std::size_t count,
      Reduction reduction,
      Deadline deadline) override {
    const auto [dtype, op] = reduction;
    const std::vector<std::size_t> equal(
        static_cast<std::size_t>(size_), count);
    const at::Tensor received = at::empty(
        {static_cast<std::int64_t>(count * size_of(dtype)) * size_}, at::kByte);
    const PackedBlocks from(in, size_of(dtype), PackedBlocks::Use::Input);
    exchange(from.data(), equal, received.data_ptr(), equal, dtype, deadline);
    add_up(received, count, out, dtype, op);
  }

  void send(
      const void* /*data*/,
      std::size_t /*count*/,
      DType /*dtype*/,
      int /*peer*/,
      Deadline /*deadline*/) override {
    throw Error("[comm.send] not yet over c10d");
  }

  void receive(
      void* /*data*/,
      std::size_t /*count*/,
      DType /*dtype*/,
      int /*peer*/,
      Deadline /*deadline*/) override {
    throw Error("[comm.recv] not yet over c10d");
  }

  int await_any_message(Deadline /*deadline*/) override {
    throw Error("[comm.recv] not yet over c10d");
  }

  void abort(const std::string& reason) override {
    // c10d's Gloo cannot be interrupted; what comes next is refused.
    const std::lock_guard lock(mutex_);
    abort_reason_ = reason;
  }

 private:
  Slice slice(std::size_t count, int rank) const {
    return slice_of(count, size_, rank, 1);
  }

  static std::vector<at::Tensor> parts_of(
      const Blocks& blocks, std::size_t element) {
    std::vector<at::Tensor> parts;
    for (const Block& block : blocks) {
      parts.push_back(bytes_at(block.data, block.count * element));
    }
    return parts;
  }

  // The sum of this rank's slice over all ranks.
  at::Tensor add_own_slice(
      const void* in,
      std::size_t count,
      DType dtype,
      ReduceOp op,
      Deadline deadline) {
    const std::size_t own = slice(count, rank_).count;
    std::vector<std::size_t> send;
    for (int peer = 0; peer < size_; ++peer) {
      send.push_back(slice(count, peer).count);
    }
    const std::vector<std::size_t> receive(
        static_cast<std::size_t>(size_), own);
    const auto bytes = static_cast<std::int64_t>(own * size_of(dtype));
    const at::Tensor received = at::empty({bytes * size_}, at::kByte);
    exchange(in, send, received.data_ptr(), receive, dtype, deadline);
    at::Tensor sum = at::empty({bytes}, at::kByte);
    add_up(received, own, sum.data_ptr(), dtype, op);
    return sum;
  }

  void add_up(
      const at::Tensor& received,
      std::size_t count,
      void* out,
      DType dtype,
      ReduceOp op) const {
    std::vector<const void*> inputs;
    for (int peer = 0; peer < size_; ++peer) {
      inputs.push_back(
          static_cast<const std::byte*>(received.data_ptr()) +
          count * size_of(dtype) * static_cast<std::size_t>(peer));
    }
    comm::reduce(out, inputs.data(), size_, count, dtype, op);
  }

  template <typename Issue>
  void run(const char* op, Deadline deadline, const Issue& issue) {
    {
      const std::lock_guard lock(mutex_);
      if (!abort_reason_.empty()) {
        throw PeerLost(str(
            "[comm.", op, "] group ", name_, " was aborted: ", abort_reason_));
      }
    }
    try {
      issue(deadline.remaining(std::chrono::hours(24)))->wait();
    } catch (const std::exception& error) {
      const std::string text =
          str("[comm.",
              op,
              "] group ",
              name_,
              ", ",
              group_->getBackendName(),
              ": ",
              error.what());
      if (deadline.expired() || text.find("imed out") != std::string::npos) {
        throw TimeoutError(text);
      }
      throw PeerLost(text);
    }
  }

  const std::string name_;
  const c10::intrusive_ptr<::c10d::ProcessGroup> group_;
  const int rank_;
  const int size_;
  std::mutex mutex_;
  std::string abort_reason_; // guarded by mutex_
};

} // namespace

std::unique_ptr<Backend> make_c10d_backend(
    std::string group_name, c10::intrusive_ptr<::c10d::ProcessGroup> group) {
  return std::make_unique<C10dBackend>(std::move(group_name), std::move(group));
}

std::unique_ptr<Backend> make_c10d_gloo_backend(
    std::string group_name,
    const c10::intrusive_ptr<::c10d::Store>& store,
    int rank,
    int size,
    bool one_host,
    Deadline deadline) {
  auto options = ::c10d::ProcessGroupGloo::Options::create();
  options->timeout = deadline.remaining();
  options->devices.push_back(::c10d::ProcessGroupGloo::createDeviceForHostname(
      one_host ? "127.0.0.1" : own_address()));
  auto prefixed =
      c10::make_intrusive<::c10d::PrefixStore>(group_name + "/gloo", store);
  return make_c10d_backend(
      std::move(group_name),
      c10::make_intrusive<::c10d::ProcessGroupGloo>(
          prefixed, rank, size, options));
}

} // namespace argosy::comm
