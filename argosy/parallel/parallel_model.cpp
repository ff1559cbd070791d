#include "argosy/parallel/parallel_model.h"

namespace argosy::parallel {

NoSync::NoSync(std::shared_ptr<ModelCore> core)
    : core_(std::move(core)), before_(core_->sync()) {
  core_->set_sync(false);
}

NoSync::~NoSync() {
  core_->set_sync(before_);
}

} // namespace argosy::parallel
