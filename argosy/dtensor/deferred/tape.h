#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "argosy/dtensor/layout/layout.h"
#include "argosy/dtensor/tensor/random_state.h"
#include "argosy/trace/program.h"

namespace argosy::dtensor {

// What happened to tensors that have no memory yet, as a program of which the
// part is run that a tensor depends on. Each tensor is a value of it.
class Tape : public std::enable_shared_from_this<Tape> {
 public:
  // Makes the tensor of a value to which nothing has happened yet.
  using Make = std::function<at::Tensor(int value, const trace::TensorMeta&)>;

  // A tensor that begins its life here.
  at::Tensor begin(const Shape& shape, at::ScalarType dtype);

  // Records an op that has tensors of this tape among its arguments, and
  // replaces those on the stack by its results. Throws InvalidArgument for an
  // op that needs their values.
  void record(const c10::OperatorHandle& op, torch::jit::Stack& stack);

  // Runs all again that the tensor of a value depends on.
  at::Tensor replay(int value, RandomState& random, const Make& make) const;

  // The same for a plain tensor, which gets the values that it would have had
  // without recording: its random numbers are those of the generators that the
  // ops name, or of torch's. The first call draws all numbers of the tape once,
  // to learn where those of each op begin, and moves generators on that nobody
  // has used since. Memory is that of the tensors that the value depends on.
  at::Tensor replay_plain(int value);

  // The first value in the memory of a value: itself, or what it is a view of.
  int root(int value) const;

  // Whether an op wrote to a view of that value.
  bool has_written_views(int root) const;

 private:
  int add_value(trace::Value::Kind kind, trace::TensorMeta meta, int memory);
  int number_of(const at::Tensor& tensor);
  at::Tensor tensor(int value);
  void add_results(
      const torch_hooks::OpInfo& info,
      const c10::IValue* arguments,
      trace::Call& call,
      trace::Node& node,
      torch::jit::Stack& results);

  // A generator of torch's that recorded ops would have drawn from.
  struct Source {
    at::Generator generator;
    at::Tensor start;            // its state before the first of them
    at::Generator own;           // a copy, which draws instead of it
    std::shared_ptr<Tape> after; // a tape whose draws come before; may be null
  };
  // How a node draws from a source.
  struct TorchDraw {
    int source = 0;
    bool is_explicit = false; // the op names the generator
    at::Tensor state;         // of the generator before; set by find_states()
  };

  void note_draw(const torch_hooks::OpInfo& info, trace::Call& call);
  int source_of(const at::Generator& generator);
  void find_states();
  void draw_in_vain(std::size_t node, at::Generator& own);
  template <typename Around>
  at::Tensor run_needed(
      int value, const Make& make, const Around& around) const;

  trace::Program program_;
  std::vector<std::optional<RandomState::Draw>> draws_; // by node
  std::vector<std::optional<TorchDraw>> torch_draws_;   // by node
  std::vector<Source> sources_;
  std::size_t num_found_ = 0; // nodes whose states are found
  std::vector<int> roots_;    // by memory
};

// The tape and value of a deferred tensor; null for any other.
struct DeferredParts {
  std::shared_ptr<Tape> tape;
  int value = -1;
};
const DeferredParts* deferred_of(const at::Tensor& tensor);

// The tape of the calling thread's DeferredInit; null outside of one.
Tape* current_tape();
void set_current_tape(Tape* tape);

// Under DeferredInit: records an op on deferred tensors instead of running it.
// Returns false when it has none among its arguments.
bool record_deferred(const c10::OperatorHandle& op, torch::jit::Stack& stack);

} // namespace argosy::dtensor
