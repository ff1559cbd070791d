#include "argosy/dtensor/dispatch/register.h"

#include "argosy/dtensor/dispatch/execute.h"
#include "argosy/dtensor/ops/families.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy::dtensor {

void install_dispatch() {
  torch_hooks::install_wrapper_ops<&execute>(&add_kernels);
}

} // namespace argosy::dtensor
