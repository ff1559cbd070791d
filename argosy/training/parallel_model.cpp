#include "argosy/training/parallel_model.h"

namespace argosy::training {

NoSync::NoSync(std::shared_ptr<ModelCore> core)
    : core_(std::move(core)), before_(core_->sync()) {
  core_->set_sync(false);
}

NoSync::~NoSync() {
  core_->set_sync(before_);
}

} // namespace argosy::training
