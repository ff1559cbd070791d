#pragma once

namespace at {
class Tensor;
}

namespace argosy {

// What optimizers, gradient clipping and broadcasts must know of a parameter.
// A parameter that nobody has marked has the values below.
struct ParameterMarks {
  // Each rank of the tensor parallel group has its own part of it, cut along
  // `split_axis`; else all have the same values.
  bool is_distributed = false;
  int split_axis = -1;
  // All have the same values, but each sees a part of the tokens: its gradient
  // is to be summed over the tensor parallel group.
  bool sequence_parallel = false;
  // False on the further copies of a parameter that several stages hold, which
  // a norm over all stages must not count again.
  bool is_firstly_shared = true;
  bool need_clip = true;
  // Each rank of the expert group has other experts: its gradient is complete
  // without the ranks of that group, and a norm adds theirs to it.
  bool is_expert = false;

  bool operator==(const ParameterMarks&) const = default;
};

// The marks stay with the tensor itself: copies of the handle have them, and so
// has the tensor after set_data() or Module::to(); clone() and detach() do not.
// Two threads must not mark one tensor at once.
ParameterMarks marks_of(const at::Tensor& parameter);
void set_marks(const at::Tensor& parameter, const ParameterMarks& marks);

} // namespace argosy
