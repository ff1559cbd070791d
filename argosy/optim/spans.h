#pragma once

#include <array>
#include <optional>
#include <vector>

#include "argosy/optim/kernels/kernels.h"
#include "argosy/optim/pieces.h"

namespace at {
class Tensor;
}

// Kernels over the memory of many tensors.
namespace argosy::optim {

struct Span {
  Format format;
  Tile tile;
};

using Sums = std::array<double, kNumSums>;

// What float tensors are made of; nothing for other types, and for DTensors,
// which have no memory of their own.
std::optional<Format> format_of(const at::Tensor& tensor);

// Whether elements of both lie in memory in the same order, without gaps.
bool same_order(const at::Tensor& a, const at::Tensor& b);

// A span whose `param` is the memory of a dense tensor.
Span span_of(const at::Tensor& tensor);

// The kernels of the instruction set of this process.
const KernelTable& kernels();

// Runs a kernel on all spans, each with its step, on torch's threads; gives
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
  const std::vector<Piece> pieces = cut(counts);
  std::vector<Sums> of_pieces(pieces.size(), Sums{});
  for_each_piece(pieces, [&](std::size_t i) {
    const auto& [index, begin, count] = pieces[i];
    const Span& span = spans[index];
    row[span.format](
        part_of(span.tile, span.format, begin, count),
        steps[index],
        of_pieces[i].data());
  });
  std::vector<Sums> sums(spans.size(), Sums{});
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    for (int k = 0; k < kNumSums; ++k) {
      sums[pieces[i].span][k] += of_pieces[i][k];
    }
  }
  return sums;
}

// The same step for all.
template <typename Step>
std::vector<Sums> run(
    const KernelRow<Step>& row,
    const std::vector<Span>& spans,
    const Step& step) {
  return run(row, spans, std::vector<Step>(spans.size(), step));
}

} // namespace argosy::optim
