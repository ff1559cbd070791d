#include "argosy/fleet/util.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

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

void UtilBase::check_world(const char* op, const std::string& comm_world) {
  const auto job = find_ps_job();
  if (!job) {
    ARGOSY_CHECK(
        comm_world == "worker" || comm_world == "all",
        "[fleet.util.{}] comm_world {}, expected worker or all: this job has "
        "no servers",
        op,
        comm_world);
    return;
  }
  // Processes of a role are among themselves. "worker", which callers may leave
  // out, means the own role.
  ARGOSY_CHECK(
      comm_world == "worker" ||
          (comm_world == "server" && job->role.is_server()),
      "[fleet.util.{}] comm_world {} of a {}, expected its own role",
      op,
      comm_world,
      to_string(job->role.role()));
}

void UtilBase::reduce(
    std::vector<std::int64_t>& numbers,
    const std::string& mode,
    const std::string& comm_world) const {
  check_world("all_reduce", comm_world);
  argosy::all_reduce(tensor_of(numbers, at::kLong), op_of(mode), group_);
}

void UtilBase::reduce(
    std::vector<double>& numbers,
    const std::string& mode,
    const std::string& comm_world) const {
  check_world("all_reduce", comm_world);
  argosy::all_reduce(tensor_of(numbers, at::kDouble), op_of(mode), group_);
}

at::Tensor UtilBase::all_reduce(
    const at::Tensor& input,
    const std::string& mode,
    const std::string& comm_world) const {
  check_world("all_reduce", comm_world);
  // The collective works in place; the caller's tensor stays as it is.
  at::Tensor result = input.detach().clone(at::MemoryFormat::Contiguous);
  argosy::all_reduce(result, op_of(mode), group_);
  return result;
}

void UtilBase::barrier(const std::string& comm_world) const {
  check_world("barrier", comm_world);
  argosy::barrier(group_);
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
