#include "argosy/fleet/util.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <iostream>

#include "argosy/fleet/file_shard.h"
#include "argosy/fleet/ps_job.h"

namespace argosy::fleet {

namespace {

ReduceOp op_of(const std::string& mode) {
  if (mode == "sum") {
    return ReduceOp::SUM;
  }
  if (mode == "min") {
    return ReduceOp::MIN;
  }
  ARGOSY_CHECK(
      mode == "max",
      "[fleet.util.all_reduce] mode {}, expected sum, min or max",
      mode);
  return ReduceOp::MAX;
}

template <typename T>
at::Tensor tensor_of(std::vector<T>& numbers, c10::ScalarType type) {
  return at::from_blob(
      numbers.data(), {static_cast<std::int64_t>(numbers.size())}, type);
}

} // namespace

UtilBase::UtilBase(int worker_index, int worker_num, GroupPtr group)
    : worker_index_(worker_index),
      worker_num_(worker_num),
      group_(std::move(group)) {}

bool UtilBase::spans_roles(const char* op, const std::string& comm_world) {
  const auto job = find_ps_job();
  if (!job) {
    ARGOSY_CHECK(
        comm_world == "worker" || comm_world == "all",
        "[fleet.util.{}] comm_world {}, expected worker or all: this job has "
        "no servers",
        op,
        comm_world);
    return false;
  }
  // "worker", which callers may leave out, means the own role.
  ARGOSY_CHECK(
      comm_world == "worker" || comm_world == "all" ||
          (comm_world == "server" && job->role.is_server()),
      "[fleet.util.{}] comm_world {} of a {}, expected its own role or all",
      op,
      comm_world,
      to_string(job->role.role()));
  return comm_world == "all";
}

std::vector<std::string> UtilBase::gather(
    const char* op,
    const std::string& own,
    const std::string& comm_world) const {
  return spans_roles(op, comm_world) ? gather_of_all(*find_ps_job(), own)
                                     : comm::all_gather_bytes(own, group_);
}

namespace {

template <typename T>
void reduce_into(T& sum, T number, ReduceOp op) {
  sum = op == ReduceOp::SUM ? sum + number
      : op == ReduceOp::MIN ? std::min(sum, number)
                            : std::max(sum, number);
}

// Element by element, in the order of the processes.
template <typename T>
std::vector<T> reduced(const std::vector<std::string>& all, ReduceOp op) {
  std::vector<T> sum = comm::decode<std::vector<T>>(all.front());
  for (std::size_t i = 1; i < all.size(); ++i) {
    const auto next = comm::decode<std::vector<T>>(all[i]);
    ARGOSY_CHECK(
        next.size() == sum.size(),
        "[fleet.util.all_reduce] lists of {} and {} numbers",
        sum.size(),
        next.size());
    for (std::size_t k = 0; k < sum.size(); ++k) {
      reduce_into(sum[k], next[k], op);
    }
  }
  return sum;
}

template <typename T>
void reduce_numbers(
    std::vector<T>& numbers,
    const std::string& mode,
    const GroupPtr& group,
    bool of_all) {
  constexpr auto kType = std::is_integral_v<T> ? at::kLong : at::kDouble;
  if (of_all) {
    numbers = reduced<T>(
        gather_of_all(*find_ps_job(), comm::encode(numbers)), op_of(mode));
  } else {
    argosy::all_reduce(tensor_of(numbers, kType), op_of(mode), group);
  }
}

} // namespace

void UtilBase::reduce(
    std::vector<std::int64_t>& numbers,
    const std::string& mode,
    const std::string& comm_world) const {
  reduce_numbers(numbers, mode, group_, spans_roles("all_reduce", comm_world));
}

void UtilBase::reduce(
    std::vector<double>& numbers,
    const std::string& mode,
    const std::string& comm_world) const {
  reduce_numbers(numbers, mode, group_, spans_roles("all_reduce", comm_world));
}

at::Tensor UtilBase::all_reduce(
    const at::Tensor& input,
    const std::string& mode,
    const std::string& comm_world) const {
  ARGOSY_CHECK(
      !spans_roles("all_reduce", comm_world),
      "[fleet.util.all_reduce] a tensor over all roles, expected numbers");
  // The collective works in place; the caller's tensor stays as it is.
  at::Tensor result = input.detach().clone(at::MemoryFormat::Contiguous);
  argosy::all_reduce(result, op_of(mode), group_);
  return result;
}

void UtilBase::barrier(const std::string& comm_world) const {
  if (spans_roles("barrier", comm_world)) {
    gather_of_all(*find_ps_job(), "");
  } else {
    argosy::barrier(group_);
  }
}

std::vector<std::string> UtilBase::get_file_shard(
    const std::vector<std::string>& files) const {
  return file_shard(files, worker_index_, worker_num_);
}

void UtilBase::print_on_rank(const std::string& message, int rank_id) const {
  print_on_rank(message, rank_id, std::cout);
}

void UtilBase::print_on_rank(
    const std::string& message, int rank_id, std::ostream& out) const {
  ARGOSY_CHECK(
      rank_id >= 0 && rank_id < worker_num_,
      "[fleet.util.print_on_rank] worker {} of {}, expected 0 <= worker < {}",
      rank_id,
      worker_num_,
      worker_num_);
  if (rank_id == worker_index_) {
    out << message << std::endl;
  }
}

} // namespace argosy::fleet
