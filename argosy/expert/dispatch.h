#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "argosy/comm/shards.h"
#include "argosy/expert/all_to_all_plan.h"

// Moves tokens to the experts of all ranks and back. Not installed.
namespace argosy::expert {

struct Dispatch;
using DispatchPtr = std::shared_ptr<const Dispatch>;

// The experts of all ranks, and this rank's.
struct ExpertsSide {
  std::int64_t num_experts = 0; // of all ranks
  GroupPtr group;
  // Whether those of this rank need gradients. May differ by rank: some may be
  // frozen, and a rank may have none.
  bool learn = true;
};

// Plans the moves for the chosen experts [tokens, k]. The ranks exchange counts
// of rows: all ranks of the group must call it alike; blocks.
DispatchPtr plan_dispatch(const at::Tensor& experts, const ExpertsSide& side);

// The same for chunks of the tokens, comm::shard_range() of them each. One
// exchange of counts for all.
std::vector<DispatchPtr> plan_chunks(
    const at::Tensor& experts, const ExpertsSide& side, int chunks);

// Whether experts of any rank need gradients. All ranks then take part in
// sending them, also those whose own experts do not need any.
bool any_learn(const Dispatch& plan);

// The number of rows of each local expert.
const std::vector<std::int64_t>& expert_rows(const Dispatch& plan);

// Sends this rank's tokens [tokens, d] to their experts and returns the rows of
// the local experts: one pass over the tokens and one all-to-all. Has no second
// derivative.
at::Tensor dispatch(const at::Tensor& tokens, const DispatchPtr& plan);

// Returns the experts' results to their tokens and sums the choices of each
// token, multiplied by `weights` [tokens, k]: one all-to-all and one pass. Has
// no second derivative.
at::Tensor combine(
    const at::Tensor& rows, const at::Tensor& weights, const DispatchPtr& plan);

// The weights in the type in which combine() multiplies rows of type `type`.
at::Tensor weights_for(at::ScalarType type, const at::Tensor& weights);

// The pieces of dispatch() and combine(), without autograd. What a start
// returns waits for the rows; `plan` must outlive it.
class TokenTravel {
 public:
  // With `sync_op`, rows have arrived when a start returns.
  TokenTravel(DispatchPtr plan, bool sync_op)
      : plan_(std::move(plan)), sync_op_(sync_op) {}

  const std::vector<std::int64_t>& expert_rows() const;

  // Tokens to the rows of experts, and what comes back to sums over the choices
  // of each token, weighted by `weights` unless that is undefined.
  comm::PendingTensor start_dispatch(const at::Tensor& tokens) const;
  comm::PendingTensor start_return(const at::Tensor& rows) const;
  at::Tensor sums(const at::Tensor& returned, const at::Tensor& weights) const;

  // The reverse of sums(): the gradients of `returned` and of the weights. The
  // former goes to the experts.
  std::pair<at::Tensor, at::Tensor> sums_backward(
      const at::Tensor& gradient,
      const at::Tensor& returned,
      const at::Tensor& weights) const;
  comm::PendingTensor start_gradients(const at::Tensor& gradient) const;

 private:
  DispatchPtr plan_;
  bool sync_op_;
};

} // namespace argosy::expert
