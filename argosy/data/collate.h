#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "argosy/data/idx.h"
#include "argosy/data/token_dataset.h"

// Collate functions for DataLoader: they make a batch of tensors from samples.
// All throw InvalidArgument when samples differ in size.
namespace argosy::data {

// A model input and its target.
struct Example {
  at::Tensor input;
  at::Tensor target;
};

// Stacks tensors of equal shape along a new first dim.
at::Tensor stack_tensors(const std::vector<at::Tensor>& samples);
Example stack_examples(const std::vector<Example>& samples);

// Returns images as float [N, 1, rows, columns] in 0 (black) to 1 (white), and
// labels as int64 [N].
Example stack_images(const std::vector<ImageSample>& samples);

// Returns tokens and next tokens, both int64 [N, length].
Example stack_windows(const std::vector<TokenWindow>& samples);

} // namespace argosy::data
