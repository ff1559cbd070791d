#pragma once

#include <ATen/core/Tensor.h>

#include <iosfwd>

namespace argosy::torch_hooks {

// Prints a tensor that it knows, and returns whether it did.
using PrintTensor = bool(std::ostream& out, const at::Tensor& tensor);

// Lets `print` come first when a program writes `out << tensor`, which calls
// at::print(). Argosy defines that function, too: a program that links Argosy
// before LibTorch calls Argosy's, which hands all other tensors to LibTorch's.
// Elsewhere, such as in Python, nothing changes.
void install_print(PrintTensor* print);

} // namespace argosy::torch_hooks
