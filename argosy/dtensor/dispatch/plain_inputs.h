#pragma once

namespace argosy::dtensor {

class Frame;
struct Decision;

// Whether tensors among the inputs are plain and so count as replicated.
// Numbers that LibTorch has made tensors of, as 2 in `x * 2`, are not meant.
bool has_plain_inputs(const Frame& frame);

// Compares them over the ranks of the mesh the first times that a decision is
// carried out (ValueChecks::times()); later it costs two loads. Throws
// InvalidArgument on all ranks when they differ.
void compare_plain_inputs(const Frame& frame, const Decision& decision);

} // namespace argosy::dtensor
