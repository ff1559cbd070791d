#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "argosy/comm/codec.h"
#include "argosy/world/spawn.h"

namespace argosy {

// What a function returns on each rank of a spawn().
template <typename T>
class SpawnResults {
 public:
  explicit SpawnResults(std::shared_ptr<SpawnContext> context)
      : context_(std::move(context)) {}

  // As those of SpawnContext.
  bool join(Deadline deadline) { return context_->join(deadline); }
  void join() { context_->join(); }

  // In the order of the ranks. Joins first.
  std::vector<T> get() {
    std::vector<T> values;
    for (const std::string& bytes : context_->results()) {
      values.push_back(comm::decode<T>(bytes));
    }
    return values;
  }

 private:
  std::shared_ptr<SpawnContext> context_;
};

// As spawn(), for a function that returns a value of any type with a Codec
// (comm/codec.h). Values come as copies, from threads too.
//
//   const std::vector<double> losses = spawn_results(train, 4).get();
template <typename Function>
auto spawn_results(
    Function function, int num_ranks, const SpawnOptions& options = {}) {
  using T = std::decay_t<std::invoke_result_t<const Function&>>;
  return SpawnResults<T>(spawn_bytes(
      [function = std::move(function)]() {
        return comm::encode<T>(function());
      },
      num_ranks,
      options));
}

} // namespace argosy
