#pragma once

#include <string>

namespace at {
class Tensor;
}

namespace argosy::torch_hooks {

// Throws if the tensor of that name in the archive must not be written.
using SaveCheck = void (*)(const std::string& name, const at::Tensor& tensor);

// From now on torch::save() and every other use of OutputArchive::save_to()
// calls `check`, of which there is one, with all tensors before it writes the
// first. What `check` throws comes out of torch::save(); a file that it has
// opened by then stays behind, without tensors. Idempotent and thread-safe.
// Does nothing where the hook is switched off.
void install_save_check(SaveCheck check);

} // namespace argosy::torch_hooks
