#include "argosy/torch_hooks/op_override.h"

#include <torch/library.h>

#include "argosy/torch_hooks/hook.h"

namespace argosy::torch_hooks {

void install_batch_norm(BatchNorm* batch_norm) {
  require(Hook::kBatchNorm, "convert_sync_batchnorm()", [&] {
    static auto* const library = new torch::Library(
        torch::Library::IMPL,
        "aten",
        c10::DispatchKey::AutogradCPU,
        __FILE__,
        __LINE__);
    library->impl("batch_norm", batch_norm);
  });
}

} // namespace argosy::torch_hooks
