#pragma once

#include <optional>
#include <vector>

#include "argosy/optim/kernels/kernels.h"
#include "argosy/optim/parallel_for.h"
#include "argosy/optim/parts.h"

namespace at {
class Tensor;
}

// Kernels over the memory of many tensors.
namespace argosy::optim {

struct Span {
  Format format;
  Tile tile;
};

// The format of a tensor of floats. None for other types, and for DTensors,
// which have no memory of their own.
std::optional<Format> format_of(const at::Tensor& tensor);

// Whether the elements of both tensors lie in memory in the same order, without
// gaps.
bool same_order(const at::Tensor& a, const at::Tensor& b);

// A span whose `param` is the memory of a dense tensor.
Span span_of(const at::Tensor& tensor);

// The kernels for the instruction set of this machine.
const KernelTable& kernels();

// Runs a kernel on all spans on torch's threads, span i with steps[i]. Returns
// the sums of each span.
template <typename Step>
std::vector<Sums> run(
    const KernelRow<Step>& row,
    const std::vector<Span>& spans,
    const std::vector<Step>& steps) {
  std::vector<std::size_t> counts;
  counts.reserve(spans.size());
  for (const Span& span : spans) {
    counts.push_back(span.tile.count);
  }
  const std::vector<Chunk> chunks = chunks_of(counts);
  std::vector<Sums> of_chunks(chunks.size(), Sums{});
  parallel_for(chunks, [&](std::size_t i) {
    const auto& [index, begin, count] = chunks[i];
    const Span& span = spans[index];
    row[span.format](
        part_of(span.tile, span.format, begin, count),
        steps[index],
        of_chunks[i].data());
  });
  std::vector<Sums> sums(spans.size(), Sums{});
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    for (int k = 0; k < kNumSums; ++k) {
      sums[chunks[i].span][k] += of_chunks[i][k];
    }
  }
  return sums;
}

// Runs a kernel with the same step on all spans.
template <typename Step>
std::vector<Sums> run(
    const KernelRow<Step>& row,
    const std::vector<Span>& spans,
    const Step& step) {
  return run(row, spans, std::vector<Step>(spans.size(), step));
}

} // namespace argosy::optim
