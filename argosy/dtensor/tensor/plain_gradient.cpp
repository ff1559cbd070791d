#include "argosy/dtensor/tensor/plain_gradient.h"

#include "argosy/dtensor/tensor/convert.h"
#include "argosy/torch_hooks/grad_change.h"

namespace argosy::dtensor {

void make_gradient_plain(const at::Tensor& tensor) {
  torch_hooks::change_gradient(tensor, &full_tensor);
}

} // namespace argosy::dtensor
