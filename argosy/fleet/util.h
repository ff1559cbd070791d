#pragma once

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "argosy/comm/objects.h"
#include "argosy/comm/ops.h"
#include "argosy/common/error.h"

namespace argosy::fleet {

template <typename T>
concept Number = std::is_arithmetic_v<T> && !std::same_as<T, bool>;

// Collectives on small host values, beside the training itself. All members of
// `comm_world` call the same methods in the same order; each blocks. In a job
// without servers it is "worker" or "all", which are the same. In a job with
// servers it is the caller's own role ("worker", "server"; the default of a
// server is its role, too) or "all": workers, and servers behind them. Throws
// InvalidArgument for others.
class UtilBase {
 public:
  UtilBase(int worker_index, int worker_num, GroupPtr group);

  // Reduces a number, or a list elementwise, over all workers; `mode` is "sum",
  // "min" or "max". Integers are exact; throws InvalidArgument when a result
  // does not fit T.
  template <Number T>
  T all_reduce(
      T input,
      const std::string& mode = "sum",
      const std::string& comm_world = "worker") const {
    return all_reduce(std::vector<T>{input}, mode, comm_world).front();
  }

  template <Number T>
  std::vector<T> all_reduce(
      const std::vector<T>& input,
      const std::string& mode = "sum",
      const std::string& comm_world = "worker") const {
    using Wide =
        std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;
    std::vector<Wide> wide;
    for (const T number : input) {
      wide.push_back(narrowed<Wide>(number));
    }
    reduce(wide, mode, comm_world);
    std::vector<T> result;
    for (const Wide number : wide) {
      result.push_back(narrowed<T>(number));
    }
    return result;
  }

  // Returns a new tensor; `input` is not changed. Not over "all" in a job with
  // servers.
  at::Tensor all_reduce(
      const at::Tensor& input,
      const std::string& mode = "sum",
      const std::string& comm_world = "worker") const;

  // Returns every worker's object in worker order. T needs a Codec.
  template <typename T>
  std::vector<T> all_gather(
      const T& input, const std::string& comm_world = "worker") const {
    std::vector<T> result;
    for (const std::string& bytes :
         gather("all_gather", comm::encode(input), comm_world)) {
      result.push_back(comm::decode<T>(bytes));
    }
    return result;
  }

  void barrier(const std::string& comm_world = "worker") const;

  // This worker's share of a list of files; see file_shard().
  std::vector<std::string> get_file_shard(
      const std::vector<std::string>& files) const;

  // Prints a line on worker `rank_id` only, to stdout or `out`. Throws
  // InvalidArgument when there is no such worker.
  void print_on_rank(const std::string& message, int rank_id) const;
  void print_on_rank(
      const std::string& message, int rank_id, std::ostream& out) const;

 private:
  template <typename To, typename From>
  static To narrowed(From number) {
    if constexpr (std::is_integral_v<From>) {
      ARGOSY_CHECK(
          std::in_range<To>(number),
          "[fleet.util.all_reduce] {} does not fit the type of the argument",
          number);
    }
    return static_cast<To>(number);
  }

  // Whether it is more than the processes of this role.
  static bool spans_roles(const char* op, const std::string& comm_world);
  std::vector<std::string> gather(
      const char* op,
      const std::string& own,
      const std::string& comm_world) const;
  void reduce(
      std::vector<std::int64_t>& numbers,
      const std::string& mode,
      const std::string& comm_world) const;
  void reduce(
      std::vector<double>& numbers,
      const std::string& mode,
      const std::string& comm_world) const;

  int worker_index_;
  int worker_num_;
  GroupPtr group_;
};

} // namespace argosy::fleet
