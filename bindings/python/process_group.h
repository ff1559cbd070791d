#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "argosy/comm/backend/backend.h"
#include "argosy/comm/op.h"
#include "bindings/python/mailbox.h"
#include "bindings/python/operation_queue.h"
#include "bindings/python/operations.h"

namespace argosy::python {

// A c10d process group on a backend of Argosy. Collectives run in the order of
// issue, concurrently with messages. Messages to one peer are sent in order,
// independently of other peers.
class ProcessGroupArgosy final : public c10d::ProcessGroup {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  struct Setup {
    c10::intrusive_ptr<c10d::Store> store; // used by this group only
    int rank = 0;
    int size = 1;
    std::chrono::milliseconds timeout{};
    std::string name;              // for messages
    std::vector<int> global_ranks; // empty: all
  };

  // Connects the members; blocks until all of them have called it.
  explicit ProcessGroupArgosy(Setup setup);
  // Waits briefly for pending operations, then ends them with PeerLost on all
  // members: a program that fails must not wait for its peers.
  ~ProcessGroupArgosy() override;

  const std::string getBackendName() const override { return "argosy"; }

  WorkPtr broadcast(
      Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(
      Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(
      Tensors& tensors,
      const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(
      TensorLists& outputs,
      Tensors& inputs,
      const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(
      at::Tensor& output,
      at::Tensor& input,
      const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(
      TensorLists& outputs,
      Tensors& inputs,
      const c10d::AllgatherOptions& options) override;
  WorkPtr gather(
      TensorLists& outputs,
      Tensors& inputs,
      const c10d::GatherOptions& options) override;
  WorkPtr scatter(
      Tensors& outputs,
      TensorLists& inputs,
      const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(
      Tensors& outputs,
      TensorLists& inputs,
      const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(
      at::Tensor& output,
      at::Tensor& input,
      const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(
      at::Tensor& output,
      at::Tensor& input,
      std::vector<std::int64_t>& output_rows,
      std::vector<std::int64_t>& input_rows,
      const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(
      Tensors& outputs,
      Tensors& inputs,
      const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int peer, int tag) override;
  WorkPtr recv(Tensors& tensors, int peer, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(
      const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override;

 private:
  using Operation = std::function<void(comm::Backend&, Deadline)>;

  TorchWork::About about(
      c10d::OpType type,
      const char* title,
      Tensors inputs,
      TensorLists outputs) const;
  // Runs operations of Argosy, one after the other, as one c10d operation.
  WorkPtr issue(
      std::vector<comm::Op> ops,
      TorchWork::About about,
      std::chrono::milliseconds timeout);
  WorkPtr issue(
      Operation operation,
      TorchWork::About about,
      std::chrono::milliseconds timeout);
  WorkPtr receive(
      const at::Tensor& tensor,
      int source,
      int tag,
      c10d::OpType type,
      const char* title);
  void check_peer(int peer, const char* op) const;
  std::chrono::milliseconds limit(std::chrono::milliseconds given) const;
  std::shared_ptr<OperationQueue> queue_to(int peer);

  const Setup setup_;
  const std::shared_ptr<comm::Backend> backend_;
  const std::shared_ptr<OperationQueue> collectives_ =
      std::make_shared<OperationQueue>();
  const std::shared_ptr<Mailbox> mailbox_;

  std::mutex mutex_;
  // Guarded by mutex_.
  std::map<int, std::shared_ptr<OperationQueue>> senders_; // by peer
  std::uint64_t num_collectives_ = 0;
  int num_monitored_barriers_ = 0;
};

} // namespace argosy::python
