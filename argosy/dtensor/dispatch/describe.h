#pragma once

#include <string>

namespace at {
class Tensor;
}

namespace argosy {

// A DTensor as text: global shape, placements, mesh, and the values of this
// rank's part. Sends nothing, so one rank may call it alone. `std::cout << x`
// prints the same. Throws InvalidArgument for a plain tensor.
//
//   DTensor of shape [4, 2], [S(0)] on ProcessMesh(shape=[2], ...)
//   rank 0 has [0:2, 0:2]:
//    1  2
//    3  4
//   [ CPUFloatType{2,2} ]
std::string describe(const at::Tensor& dtensor);

namespace dtensor {

// Makes `std::cout << x` and the errors of x.data_ptr(), x.accessor() and
// torch::save(x) say what x is, when x is a DTensor or made under DeferredInit.
// Called once per process.
void install_descriptions();

} // namespace dtensor
} // namespace argosy
