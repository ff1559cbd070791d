#pragma once

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}

namespace argosy {

// What optimizers, gradient clipping and broadcasts must know about a
// parameter. The defaults hold for parameters that are not marked.
struct ParameterMarks {
  // Each rank of the tensor parallel group holds a different slice, cut along
  // `split_axis`. If false, all ranks hold the same values.
  bool is_distributed = false;
  int split_axis = -1;
  // All ranks hold the same values, but each rank sees only its slice of the
  // tokens, so the gradient must be summed over the tensor parallel group.
  bool sequence_parallel = false;
  // False for the second and further copies of a parameter that several
  // pipeline stages share: a norm over all stages must count it once.
  bool is_firstly_shared = true;
  bool need_clip = true; // gradient clipping includes it
  // Each rank of the expert group holds different experts. The gradient needs
  // no reduction over that group, and a norm sums over its ranks.
  bool is_expert = false;
  // Which parameters share a bucket: those with equal ids above 0 do; one with
  // the id 0 has a bucket of its own; others (-1) are grouped by size or
  // module.
  int comm_fusion = -1;
  // Parameter servers hold and update it: ranks neither broadcast it nor reduce
  // its gradient.
  bool on_servers = false;

  bool operator==(const ParameterMarks&) const = default;
};

// Marks belong to the tensor: copies of the handle share them, and set_data()
// and Module::to() keep them. clone() and detach() do not copy them. Two
// threads must not mark the same tensor at the same time. set_marks() throws
// InvalidArgument unless the tensor is a leaf.
ParameterMarks marks_of(const at::Tensor& parameter);
void set_marks(const at::Tensor& parameter, const ParameterMarks& marks);

// Sets comm_fusion of the parameters of a module (or only its own, without
// those of its children), or of one parameter; other marks stay. Call it on all
// ranks alike, before DataParallel, sharding or fleet take the model. Throws
// InvalidArgument for an id below 0.
void set_comm_fusion(torch::nn::Module& module, int id, bool recurse = true);
void set_comm_fusion(const at::Tensor& parameter, int id);

} // namespace argosy
