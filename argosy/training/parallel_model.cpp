#include "argosy/training/parallel_model.h"

namespace argosy::training {

NoSync::NoSync(std::shared_ptr<ModelCore> core) : core_(std::move(core)) {
  if (core_) {
    before_ = core_->sync();
    core_->set_sync(false);
  }
}

NoSync::~NoSync() {
  if (core_) {
    core_->set_sync(before_);
  }
}

} // namespace argosy::training
