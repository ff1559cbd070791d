#pragma once

#include <functional>
#include <vector>

namespace at {
class Tensor;
}

// What a recording cannot see op by op: communication, and functions with a
// backward of their own. Each becomes one op of the program, which a run calls
// again. Outside of a recording these call the functions and nothing else.
namespace argosy::trace {

using TensorFn = std::function<at::Tensor(const at::Tensor&)>;
using TensorsFn =
    std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

// Whether a recorder writes down what the calling thread does next.
bool is_recording();

// Calls fn(inputs). The function may use the inputs, and what is the same in
// each run; parameters must be among the inputs, because a cut finds by them
// where a layer is. A run calls a copy of `fn` on its own tensors, possibly
// while the results of an earlier run are in use. The function must not write
// to the inputs, and the shapes of the results must depend on the shapes of the
// inputs alone.
std::vector<at::Tensor> recorded_call(
    const std::vector<at::Tensor>& inputs, const TensorsFn& fn);

// A node of autograd's graph made of two functions, as torch_hooks::apply()
// makes it. They must not hand values of a run on to the next.
std::vector<at::Tensor> recorded_apply(
    const std::vector<at::Tensor>& inputs,
    const TensorsFn& forward,
    TensorsFn backward);
at::Tensor recorded_apply(
    const at::Tensor& tensor,
    const TensorFn& forward,
    const TensorFn& backward);

} // namespace argosy::trace
