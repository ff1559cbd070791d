#pragma once

#include <memory>
#include <utility>

#include "argosy/dtensor/tensor/decision_cache.h"

namespace c10 {
class OperatorHandle;
}

namespace argosy::dtensor {

class Frame;

// A decision that the calling thread carries out. Each thread has a table of
// those that it needed last, whose owner a call takes from there and puts back
// at its end: so neither a lock nor a reference count is touched.
class TakenDecision {
 public:
  TakenDecision(
      std::shared_ptr<const KnownCall>& slot,
      std::shared_ptr<const KnownCall> call)
      : slot_(slot), call_(std::move(call)) {}
  ~TakenDecision() { slot_ = std::move(call_); }
  TakenDecision(const TakenDecision&) = delete;
  TakenDecision& operator=(const TakenDecision&) = delete;

  const Decision& operator*() const { return call_->decision; }
  const Decision* operator->() const { return &call_->decision; }

 private:
  std::shared_ptr<const KnownCall>& slot_; // of the table
  std::shared_ptr<const KnownCall> call_;
};

// How this call runs: from the table or the cache of the mesh, or by asking the
// op's rule. Throws InvalidArgument for what cannot run at all.
TakenDecision decide(const c10::OperatorHandle& op, const Frame& frame);

} // namespace argosy::dtensor
