#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "argosy/data/idx.h"
#include "argosy/data/token_dataset.h"

// Functions that make a batch of tensors from samples, for DataLoader. All
// throw InvalidArgument when the samples differ in size.
namespace argosy::data {

// What a model is given, and what it should make of it.
struct Example {
  at::Tensor input;
  at::Tensor target;
};

// Tensors of one shape, along a new first dimension.
at::Tensor stack_tensors(const std::vector<at::Tensor>& samples);
Example stack_examples(const std::vector<Example>& samples);

// Pictures as float [N, 1, rows, columns], 0 black and 1 white, and labels as
// int64 [N].
Example stack_images(const std::vector<ImageSample>& samples);

// Tokens and the next tokens, both int64 [N, length].
Example stack_windows(const std::vector<TokenWindow>& samples);

} // namespace argosy::data
