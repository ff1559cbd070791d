// The Python module argosy_torch._C: creates Argosy's process groups for
// torch.distributed.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include <utility>

#include "argosy/heap/allocator.h"
#include "bindings/python/process_group.h"

namespace argosy::python {

namespace {

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    c10::intrusive_ptr<c10d::Store> store,
    int rank,
    int size,
    std::chrono::milliseconds timeout,
    std::string name,
    std::vector<int> global_ranks) {
  return c10::make_intrusive<ProcessGroupArgosy>(ProcessGroupArgosy::Setup{
      .store = std::move(store),
      .rank = rank,
      .size = size,
      .timeout = timeout,
      .name = std::move(name),
      .global_ranks = std::move(global_ranks)});
}

} // namespace

PYBIND11_MODULE(_C, module) {
  namespace py = pybind11;
  module.def(
      "make_process_group",
      &make_process_group,
      py::arg("store"),
      py::arg("rank"),
      py::arg("size"),
      py::arg("timeout"),
      py::arg("name"),
      py::arg("global_ranks"),
      // The constructor blocks until all members have called it, and thread
      // ranks share the GIL.
      py::call_guard<py::gil_scoped_release>());
  module.def("share_tensor_memory", &share_tensor_memory);
}

} // namespace argosy::python
