#include "argosy/checkpoint/inspect/diff.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include "argosy/checkpoint/convert/copy.h"
#include "argosy/checkpoint/hash.h"
#include "argosy/checkpoint/import/tensor_reader.h"
#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

float float_of_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const float fraction = static_cast<float>(bits & 1023);
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 31) {
    return fraction == 0 ? sign * INFINITY : NAN;
  }
  return exponent == 0 ? sign * std::ldexp(fraction, -24)
                       : sign * std::ldexp(1024 + fraction, exponent - 25);
}

template <typename T>
double loaded(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return static_cast<double>(value);
}

// None for types whose difference is no number.
std::optional<double> number_at(DType dtype, const std::byte* at) {
  std::uint16_t bits = 0;
  switch (dtype) {
    case DType::kF32:
      return loaded<float>(at);
    case DType::kF64:
      return loaded<double>(at);
    case DType::kF16:
      std::memcpy(&bits, at, sizeof(bits));
      return float_of_half(bits);
    case DType::kBF16:
      std::memcpy(&bits, at, sizeof(bits));
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    case DType::kI8:
      return loaded<std::int8_t>(at);
    case DType::kU8:
    case DType::kBool:
      return loaded<std::uint8_t>(at);
    case DType::kI16:
      return loaded<std::int16_t>(at);
    case DType::kU16:
      return loaded<std::uint16_t>(at);
    case DType::kI32:
      return loaded<std::int32_t>(at);
    case DType::kU32:
      return loaded<std::uint32_t>(at);
    case DType::kI64:
      return loaded<std::int64_t>(at);
    case DType::kU64:
      return loaded<std::uint64_t>(at);
    default:
      return std::nullopt;
  }
}

// Adds the elements of a chunk that differ.
void compare_chunk(
    DType dtype,
    std::int64_t begin,
    std::span<const std::byte> a,
    std::span<const std::byte> b,
    TensorDiff& diff) {
  if (std::memcmp(a.data(), b.data(), a.size()) == 0) {
    return;
  }
  const std::size_t width = element_bytes(dtype);
  for (std::size_t i = 0; i < a.size(); i += width) {
    if (std::memcmp(&a[i], &b[i], width) == 0) {
      continue;
    }
    if (diff.elements++ == 0) {
      diff.first = begin + static_cast<std::int64_t>(i / width);
      diff.largest = 0;
    }
    const auto left = number_at(dtype, &a[i]);
    const auto right = number_at(dtype, &b[i]);
    const double distance =
        left && right ? std::fabs(*left - *right) : std::nan("");
    if (diff.largest && std::isfinite(distance)) {
      diff.largest = std::max(*diff.largest, distance);
    } else {
      diff.largest.reset();
    }
  }
}

std::vector<std::pair<std::int64_t, std::int64_t>> differing_blocks(
    const TensorInfo& info, const BlockSums& a, const BlockSums& b) {
  const auto per_block =
      static_cast<std::int64_t>(kBlockBytes / element_bytes(info.dtype));
  const std::int64_t count = dtensor::numel(info.shape);
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (const auto& [block, sum] : a.sums()) {
    const auto other = b.sums().find(block);
    if (other != b.sums().end() && other->second == sum) {
      continue;
    }
    const std::int64_t begin = block * per_block;
    const std::int64_t end = std::min(count, begin + per_block);
    if (!ranges.empty() && ranges.back().second == begin) {
      ranges.back().second = end;
    } else {
      ranges.emplace_back(begin, end);
    }
  }
  return ranges;
}

class Comparison {
 public:
  Comparison(
      const TensorSet& a,
      const TensorSet& b,
      DiffDepth depth,
      const CopyContext& context_a,
      const CopyContext& context_b)
      : a_(a),
        b_(b),
        depth_(depth),
        on_progress_(context_a.on_progress),
        reader_a_(context_a.source_cipher),
        reader_b_(context_b.source_cipher),
        left_(kChunkBytes),
        right_(kChunkBytes) {}

  DiffReport run() {
    if (a_.root && b_.root && *a_.root == *b_.root) {
      report_.by_root = true;
      report_.equal = count(a_);
      return std::move(report_);
    }
    for (const SourceTensor& tensor : a_.tensors) {
      progress_.total +=
          is_of_rank(tensor.info.name) ? 0 : bytes_of(tensor.info);
    }
    for (const SourceTensor& tensor : a_.tensors) {
      if (!is_of_rank(tensor.info.name)) {
        compare(tensor);
      }
    }
    for (const SourceTensor& tensor : b_.tensors) {
      if (!is_of_rank(tensor.info.name) &&
          a_.find(tensor.info.name) == nullptr) {
        add_what(tensor.info.name, "only in " + b_.url);
      }
    }
    return std::move(report_);
  }

 private:
  static std::size_t count(const TensorSet& set) {
    std::size_t tensors = 0;
    for (const SourceTensor& tensor : set.tensors) {
      tensors += is_of_rank(tensor.info.name) ? 0 : 1;
    }
    return tensors;
  }

  void add_what(const std::string& name, const std::string& what) {
    TensorDiff diff;
    diff.name = name;
    diff.what = what;
    report_.differing.push_back(std::move(diff));
  }

  void compare(const SourceTensor& a) {
    progress_.what = a.info.name;
    const std::uint64_t done = progress_.bytes + bytes_of(a.info);
    const SourceTensor* b = b_.find(a.info.name);
    if (b == nullptr) {
      add_what(a.info.name, "only in " + a_.url);
    } else if (a.info.dtype != b->info.dtype || a.info.shape != b->info.shape) {
      add_what(
          a.info.name,
          str(to_string(a.info.dtype),
              " ",
              shape_text(a.info.shape),
              " and ",
              to_string(b->info.dtype),
              " ",
              shape_text(b->info.shape)));
    } else if (a.root && b->root && *a.root == *b->root) {
      ++report_.equal;
    } else if (a.root && b->root && depth_ == DiffDepth::Roots) {
      add_what(a.info.name, "other values");
    } else {
      compare_values(a, *b);
    }
    progress_.bytes = done;
  }

  void compare_values(const SourceTensor& a, const SourceTensor& b) {
    const Box box = dtensor::whole(a.info.shape);
    const std::size_t width = element_bytes(a.info.dtype);
    const auto step = static_cast<std::int64_t>(kChunkBytes / width);
    const std::int64_t count = box.numel();
    BlockSums sums_a(a.info);
    BlockSums sums_b(b.info);
    TensorDiff diff;
    diff.name = a.info.name;
    for (std::int64_t begin = 0; begin < count; begin += step) {
      const std::int64_t end = std::min(count, begin + step);
      const std::size_t bytes = static_cast<std::size_t>(end - begin) * width;
      reader_a_.read(a, box, begin, end, left_.data());
      reader_b_.read(b, box, begin, end, right_.data());
      sums_a.add(box, begin, end, left_.data());
      sums_b.add(box, begin, end, right_.data());
      if (depth_ == DiffDepth::Values) {
        compare_chunk(
            a.info.dtype,
            begin,
            std::span(left_).first(bytes),
            std::span(right_).first(bytes),
            diff);
      }
      report_.bytes += 2 * bytes;
      progress_.bytes += bytes;
      if (on_progress_) {
        on_progress_(progress_);
      }
    }
    diff.blocks = differing_blocks(a.info, sums_a, sums_b);
    if (diff.blocks.empty() && diff.elements == 0) {
      ++report_.equal;
    } else {
      report_.differing.push_back(std::move(diff));
    }
  }

  const TensorSet& a_;
  const TensorSet& b_;
  const DiffDepth depth_;
  const OnConvert& on_progress_;
  TensorReader reader_a_;
  TensorReader reader_b_;
  std::vector<std::byte> left_;
  std::vector<std::byte> right_;
  Progress progress_;
  DiffReport report_;
};

} // namespace

DiffReport diff_checkpoints(
    const TensorSet& a,
    const TensorSet& b,
    DiffDepth depth,
    const CopyContext& context_a,
    const CopyContext& context_b) {
  return Comparison(a, b, depth, context_a, context_b).run();
}

} // namespace argosy::checkpoint
