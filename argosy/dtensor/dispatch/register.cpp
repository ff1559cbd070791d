#include "argosy/dtensor/dispatch/register.h"

#include "argosy/dtensor/dispatch/describe.h"
#include "argosy/dtensor/dispatch/execute.h"
#include "argosy/dtensor/ops/families.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy::dtensor {

void install_dispatch() {
  torch_hooks::install_wrapper_ops<&execute>(
      [](torch_hooks::WrapperKernels& kernels) {
        add_kernels(kernels);
        install_descriptions();
      });
}

} // namespace argosy::dtensor
