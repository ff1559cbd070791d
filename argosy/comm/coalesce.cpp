#include "argosy/comm/coalesce.h"

#include <utility>

#include "argosy/comm/collector.h"
#include "argosy/comm/group.h"
#include "argosy/comm/work.h"
#include "argosy/common/thread_context.h"

namespace argosy {

namespace comm {

namespace {

struct CurrentCollector {
  Collector* pointer = nullptr;
};

Collector*& innermost_collector() {
  return of_thread<CurrentCollector>().pointer;
}

} // namespace

std::vector<Batch> fuse(
    const std::vector<Op>& ops,
    const std::vector<std::shared_ptr<Work>>& works) {
  std::vector<Batch> batches;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (batches.empty() || !can_fuse(batches.back().ops.back(), ops[i])) {
      batches.emplace_back();
    }
    batches.back().ops.push_back(ops[i]);
    batches.back().works.push_back(works[i]);
  }
  return batches;
}

Collector::Collector(const Group& group)
    : group_(group), outer_(innermost_collector()) {
  innermost_collector() = this;
}

Collector::~Collector() {
  innermost_collector() = outer_;
}

Collector* Collector::of(const Group& group) {
  Collector* collector = innermost_collector();
  while (collector != nullptr && &collector->group_ != &group) {
    collector = collector->outer_;
  }
  return collector;
}

std::shared_ptr<Work> Collector::add(Op op) {
  ops_.push_back(std::move(op));
  works_.push_back(std::make_shared<Work>());
  return works_.back();
}

} // namespace comm

std::vector<WorkPtr> coalesce(
    const std::function<void()>& body, const GroupPtr& group, bool sync_op) {
  const auto members = group ? group : get_group(0);
  std::vector<comm::Batch> batches;
  {
    comm::Collector collector(*members);
    body();
    batches = collector.batches();
  }
  std::vector<WorkPtr> works;
  for (comm::Batch& batch : batches) {
    works.push_back(members->issue(std::move(batch)));
  }
  if (sync_op) {
    for (const auto& work : works) {
      work->wait();
    }
  }
  return works;
}

std::vector<WorkPtr> all_reduce_coalesced(
    const Tensors& tensors, ReduceOp op, const GroupPtr& group, bool sync_op) {
  const auto issue_all = [&] {
    for (const at::Tensor& tensor : tensors) {
      all_reduce(tensor, op, group);
    }
  };
  return coalesce(issue_all, group, sync_op);
}

std::vector<WorkPtr> broadcast_coalesced(
    const Tensors& tensors, int src, const GroupPtr& group, bool sync_op) {
  const auto issue_all = [&] {
    for (const at::Tensor& tensor : tensors) {
      broadcast(tensor, src, group);
    }
  };
  return coalesce(issue_all, group, sync_op);
}

} // namespace argosy
