#include "argosy/checkpoint/import/strided_gather.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "argosy/checkpoint/boxes.h"

namespace argosy::checkpoint {

namespace {

// A dim of a box: its elements in the source and in the result.
struct GatherDim {
  std::int64_t size = 1;
  std::int64_t stride = 0; // in the source, in elements
  std::int64_t to = 0;     // in the result, in elements
};

// Of a run of elements with gaps, as many bytes are read at once.
constexpr std::int64_t kMostSpanBytes = 1 << 20;
// A run that is read whole has at most so many bytes for each that is used.
constexpr std::int64_t kMostGap = 64;

class Gather {
 public:
  Gather(const SourcePiece& piece, std::size_t width, const ReadBytes& read)
      : piece_(piece), width_(static_cast<std::int64_t>(width)), read_(read) {}

  // `box` is one of the piece: from its own first element on.
  void run(const Box& box, std::byte* to) {
    std::int64_t offset = 0;
    std::int64_t dense = 1;
    dims_.clear();
    for (std::size_t d = box.size.size(); d-- > 0;) {
      offset += box.offset[d] * piece_.strides[d];
      if (box.size[d] > 1) {
        dims_.push_back({box.size[d], piece_.strides[d], dense});
      }
      dense *= box.size[d];
    }
    if (dims_.empty()) {
      dims_.push_back({});
    }
    // The widest strides first; those that are 0 repeat what was read.
    std::stable_sort(
        dims_.begin(), dims_.end(), [](const auto& a, const auto& b) {
          return (a.stride != 0 ? a.stride : INT64_MAX) >
              (b.stride != 0 ? b.stride : INT64_MAX);
        });
    visit(0, offset, to);
  }

 private:
  void visit(std::size_t dim, std::int64_t offset, std::byte* to) {
    if (dim + 1 == dims_.size()) {
      read_runs(dims_[dim], offset, to);
      return;
    }
    for (std::int64_t i = 0; i < dims_[dim].size; ++i) {
      visit(
          dim + 1,
          offset + i * dims_[dim].stride,
          to + i * dims_[dim].to * width_);
    }
  }

  void read_runs(const GatherDim& dim, std::int64_t offset, std::byte* to) {
    const std::int64_t step = std::max<std::int64_t>(dim.stride, 1);
    const std::int64_t most = dim.stride > kMostGap
        ? 1
        : std::max<std::int64_t>(kMostSpanBytes / (step * width_), 1);
    for (std::int64_t i = 0; i < dim.size; i += most) {
      const std::int64_t count = std::min(most, dim.size - i);
      read_run(
          {count, dim.stride, dim.to},
          offset + i * dim.stride,
          to + i * dim.to * width_);
    }
  }

  void read_run(const GatherDim& run, std::int64_t offset, std::byte* to) {
    const std::int64_t span = (run.size - 1) * run.stride + 1;
    const auto bytes = static_cast<std::size_t>(span * width_);
    const std::uint64_t at =
        piece_.offset + static_cast<std::uint64_t>(offset * width_);
    if (span == run.size && run.to == 1) {
      read_(at, {to, bytes});
      return;
    }
    buffer_.resize(std::max(buffer_.size(), bytes));
    read_(at, std::span(buffer_).first(bytes));
    for (std::int64_t i = 0; i < run.size; ++i) {
      std::memcpy(
          to + i * run.to * width_,
          buffer_.data() + i * run.stride * width_,
          static_cast<std::size_t>(width_));
    }
  }

  const SourcePiece& piece_;
  const std::int64_t width_;
  const ReadBytes& read_;
  std::vector<GatherDim> dims_;
  std::vector<std::byte> buffer_;
};

} // namespace

void gather_strided(
    const SourcePiece& piece,
    std::size_t width,
    std::int64_t from,
    std::int64_t count,
    std::byte* to,
    const ReadBytes& read) {
  Gather gather(piece, width, read);
  for (const Box& box : boxes_of_range(piece.box.size, from, count)) {
    gather.run(box, to);
    to += static_cast<std::size_t>(box.numel()) * width;
  }
}

} // namespace argosy::checkpoint
