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

// What the workers of a job tell each other beside the gradients. All workers
// call the same, in the same order. `comm_world` is who takes part: "worker" or
// "all", which is the same where there are no servers; for "server"
// InvalidArgument is thrown.
class UtilBase {
 public:
  UtilBase(int worker_index, int worker_num, GroupPtr group);

  // The sum, the least or the greatest ("sum", "min", "max") of everybody's
  // number, or of each place of everybody's list. Integers stay exact; throws
  // InvalidArgument when a result does not fit its type.
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

  // A new tensor; `input` stays as it is.
  at::Tensor all_reduce(
      const at::Tensor& input,
      const std::string& mode = "sum",
      const std::string& comm_world = "worker") const;

  // Everybody's object, of any type with a Codec, in the order of workers.
  template <typename T>
  std::vector<T> all_gather(
      const T& input, const std::string& comm_world = "worker") const {
    check_world("all_gather", comm_world);
    std::vector<T> result;
    all_gather_object(result, input, group_);
    return result;
  }

  void barrier(const std::string& comm_world = "worker") const;

  // This worker's part of a list of files: see file_shard().
  std::vector<std::string> get_file_shard(
      const std::vector<std::string>& files) const;

  // Prints a line at one worker. Throws InvalidArgument when there is no such
  // worker. The other form prints to `out`.
  void print_on_rank(const std::string& message, int rank_id) const;
  void print_on_rank(
      const std::string& message, int rank_id, std::ostream& out) const;

 private:
  template <typename To, typename From>
  static To narrowed(From number) {
    if constexpr (std::is_integral_v<From>) {
      ARGOSY_CHECK(
          std::in_range<To>(number),
          "[fleet.util.all_reduce] ",
          number,
          " does not fit the type of the numbers");
    }
    return static_cast<To>(number);
  }

  static void check_world(const char* op, const std::string& comm_world);
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
