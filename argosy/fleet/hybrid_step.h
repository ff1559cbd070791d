#pragma once

#include <vector>

namespace at {
class Tensor;
}

// The parts of an optimizer step that involve axes other than data. Marks on
// the parameters (training/parameter_marks.h) tell which ranks hold what.
namespace argosy::fleet {

struct Axes;

// Sums gradients of parameters marked sequence_parallel over the tensor
// parallel group, because each rank saw only its part of the tokens.
void sum_sequence_parallel_grads(
    const std::vector<at::Tensor>& params, const Axes& axes);

// Scales gradients so that the norm over the whole model is at most `max_norm`,
// and returns the norm before clipping. Gradients that several ranks hold count
// once.
double clip_model_grad_norm(
    const std::vector<at::Tensor>& params, double max_norm, const Axes& axes);

// Copies the parameters that the tensor parallel ranks replicate from the
// group's first rank to the others.
void broadcast_replicated_params(
    const std::vector<at::Tensor>& params, const Axes& axes);

} // namespace argosy::fleet
