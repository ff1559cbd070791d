// DTensors for Python: torch.ops.argosy. A mesh is passed as its shape and its
// ranks in row-major order, placements as strings. argosy_torch/dtensor.py
// wraps these ops.
#include <Python.h>

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "argosy/dtensor/dtensor.h"
#include "argosy/dtensor/tensor/interpreter.h"
#include "argosy/dtensor/tensor/mesh_state.h"
#include "argosy/world/init.h"
#include "bindings/python/gil_release.h"
#include "bindings/python/placement_text.h"
#include "bindings/python/thread_rank.h"

namespace argosy::python {

namespace {

using Ints = std::vector<std::int64_t>;
using Texts = std::vector<std::string>;

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
}

ProcessMesh mesh_of(const Ints& shape, const Ints& ranks) {
  return {shape, std::vector<int>(ranks.begin(), ranks.end()), {}};
}

void join_threads(
    const std::string& name,
    std::int64_t rank,
    std::int64_t size,
    double timeout) {
  const GilRelease unlocked;
  join_thread_ranks(
      name,
      static_cast<int>(rank),
      static_cast<int>(size),
      milliseconds(timeout));
}

void init(c10::optional<double> timeout) {
  const GilRelease unlocked;
  InitOptions options;
  if (timeout) {
    options.timeout = milliseconds(*timeout);
  }
  init_parallel_env(options);
}

void destroy() {
  const GilRelease unlocked;
  destroy_process_group();
}

// Named types, which choose among the overloads.
using Place =
    at::Tensor (*)(const at::Tensor&, const ProcessMesh&, const Placements&);
using Draw =
    at::Tensor (*)(const Ints& shape, const ProcessMesh&, const Placements&);

template <Place function>
at::Tensor place(
    const at::Tensor& tensor,
    const Ints& mesh,
    const Ints& ranks,
    const Texts& placements) {
  const GilRelease unlocked;
  return function(tensor, mesh_of(mesh, ranks), placements_from(placements));
}

template <Draw function>
at::Tensor draw(
    const Ints& shape,
    const Ints& mesh,
    const Ints& ranks,
    const Texts& placements) {
  const GilRelease unlocked;
  return function(shape, mesh_of(mesh, ranks), placements_from(placements));
}

at::Tensor wrap(
    const at::Tensor& local,
    const Ints& mesh,
    const Ints& ranks,
    const Texts& placements,
    const Ints& shape) {
  const GilRelease unlocked; // the first calls compare copies over the ranks
  return from_local(
      local, mesh_of(mesh, ranks), placements_from(placements), shape);
}

at::Tensor gather(const at::Tensor& dtensor) {
  const GilRelease unlocked;
  return full_tensor(dtensor);
}

void seed(std::int64_t value) {
  dtensor_manual_seed(static_cast<std::uint64_t>(value));
}

Texts texts_of(const at::Tensor& dtensor) {
  return to_texts(placements_of(dtensor));
}

Ints mesh_shape_of(const at::Tensor& dtensor) {
  return process_mesh_of(dtensor).shape();
}

Ints mesh_ranks_of(const at::Tensor& dtensor) {
  const ProcessMesh mesh = process_mesh_of(dtensor);
  return {mesh.process_ids().begin(), mesh.process_ids().end()};
}

// DTensor calls these three around ops that wait for other ranks
// (interpreter.h). Thread ranks share one GIL: a rank that kept it while it
// waits would stop the ranks that it waits for.
void* let_go_of_python() {
  return PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr;
}

void take_python_back(void* state) {
  PyEval_RestoreThread(static_cast<PyThreadState*>(state));
}

void forget_python_error() {
  const PyGILState_STATE state = PyGILState_Ensure();
  PyErr_Clear();
  PyGILState_Release(state);
}

constexpr dtensor::Interpreter kPython{
    &let_go_of_python, &take_python_back, &forget_python_error};

} // namespace

TORCH_LIBRARY_FRAGMENT(argosy, library) {
  dtensor::set_interpreter(&kPython);

  library.def("init_parallel_env(float? timeout=None) -> ()", &init);
  library.def("destroy_process_group() -> ()", &destroy);
  library.def("get_rank() -> int", [] { return std::int64_t{get_rank()}; });
  library.def(
      "get_world_size() -> int", [] { return std::int64_t{get_world_size()}; });
  library.def(
      "join_thread_ranks(str name, int rank, int size, float timeout) -> ()",
      &join_threads);
  library.def(
      "abort_thread_ranks(str name, str reason) -> ()", &abort_thread_ranks);
  library.def("leave_thread_ranks() -> ()", &leave_thread_ranks);

  library.def(
      "shard_tensor(Tensor data, int[] mesh, int[] ranks, str[] placements) "
      "-> Tensor",
      &place<&shard_tensor>);
  library.def(
      "from_local(Tensor local, int[] mesh, int[] ranks, str[] placements, "
      "int[] shape) -> Tensor",
      &wrap);
  library.def(
      "reshard(Tensor dtensor, int[] mesh, int[] ranks, str[] placements) "
      "-> Tensor",
      &place<&reshard>);
  library.def("to_local(Tensor dtensor) -> Tensor", &to_local);
  library.def("full_tensor(Tensor dtensor) -> Tensor", &gather);

  library.def("is_dtensor(Tensor tensor) -> bool", &is_dtensor);
  library.def("placements_of(Tensor dtensor) -> str[]", &texts_of);
  library.def("mesh_shape_of(Tensor dtensor) -> int[]", &mesh_shape_of);
  library.def("mesh_ranks_of(Tensor dtensor) -> int[]", &mesh_ranks_of);

  library.def("manual_seed(int seed) -> ()", &seed);
  library.def(
      "rand(int[] shape, int[] mesh, int[] ranks, str[] placements) -> Tensor",
      &draw<&dtensor_rand>);
  library.def(
      "randn(int[] shape, int[] mesh, int[] ranks, str[] placements) -> Tensor",
      &draw<&dtensor_randn>);
  // Ops that this rank ran on gathered inputs since the last call.
  library.def("take_gathered_ops() -> str[]", [] {
    return dtensor::gathered_ops()->take();
  });
}

} // namespace argosy::python
