#pragma once

#include <vector>

namespace at {
class Tensor;
}

// What a step does about axes other than data. Parameters tell by their marks
// (parameter_marks.h) which ranks have what of them.
namespace argosy::fleet {

struct Axes;

// Adds up the gradients of parameters that saw only some of the tokens, over
// the ranks that saw the others (sequence parallel).
void sum_in_layers(const std::vector<at::Tensor>& params, const Axes& axes);

// clip_grad_norm_() by the norm of the gradients of the whole model, which is
// returned. What several ranks have counts once.
double clip_norm(
    const std::vector<at::Tensor>& params, double max_norm, const Axes& axes);

// Gives the ranks of a tensor parallel group the first one's values of what is
// not cut.
void share_in_layers(const std::vector<at::Tensor>& params, const Axes& axes);

} // namespace argosy::fleet
