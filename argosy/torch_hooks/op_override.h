#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Optional.h>

namespace argosy::torch_hooks {

using OptionalTensor = c10::optional<at::Tensor>;

using BatchNorm = at::Tensor(
    const at::Tensor& input,
    const OptionalTensor& weight,
    const OptionalTensor& bias,
    const OptionalTensor& running_mean,
    const OptionalTensor& running_var,
    bool training,
    double momentum,
    double eps,
    bool cudnn_enabled);

// Puts `batch_norm` in the place of aten::batch_norm on CPU tensors. No other
// thread may be in batch_norm() while the first call registers it. Idempotent.
// Throws InvalidArgument when the hook is switched off.
void install_batch_norm(BatchNorm* batch_norm);

} // namespace argosy::torch_hooks
