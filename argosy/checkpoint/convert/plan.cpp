#include "argosy/checkpoint/convert/plan.h"

#include <algorithm>
#include <optional>
#include <ostream>

#include "argosy/checkpoint/import/tensor_set.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::checkpoint {

namespace {

// The rank of "rank/3/...", if there are so many ranks.
std::optional<std::size_t> owner_of(const std::string& name, int ranks) {
  const auto parts = split(name, '/');
  if (parts.size() < 3 || parts[0] != "rank") {
    return std::nullopt;
  }
  const auto rank = parse_int(parts[1]);
  return rank && *rank >= 0 && *rank < ranks
      ? std::optional(static_cast<std::size_t>(*rank))
      : std::nullopt;
}

std::optional<int> dim_of(const TensorInfo& tensor, const NameRules& dims) {
  const auto text = dims.choose(tensor.name);
  if (!text || tensor.shape.empty()) {
    return std::nullopt;
  }
  const auto dim = parse_int(*text);
  const auto count = static_cast<long long>(tensor.shape.size());
  ARGOSY_CHECK(
      dim && *dim < count && *dim >= -count,
      "[checkpoint.split] {} is to be cut along dim \"{}\", expected 0 to {}",
      tensor,
      *text,
      count - 1);
  return static_cast<int>(*dim < 0 ? *dim + count : *dim);
}

} // namespace

std::vector<std::vector<std::size_t>> plan_shards(
    const std::vector<TensorInfo>& tensors, std::uint64_t most_bytes) {
  std::vector<std::vector<std::size_t>> files(1);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t more = bytes_of(tensors[i]);
    if (!files.back().empty() && bytes + more > most_bytes) {
      files.emplace_back();
      bytes = 0;
    }
    files.back().push_back(i);
    bytes += more;
  }
  return files;
}

std::ostream& operator<<(std::ostream& out, const PlannedPiece& piece) {
  return out << "tensor " << piece.tensor << " " << piece.box;
}

std::vector<std::vector<PlannedPiece>> plan_split(
    const std::vector<TensorInfo>& tensors, int ranks, const NameRules& dims) {
  ARGOSY_CHECK(
      ranks > 0, "[checkpoint.split] {} ranks, expected at least 1", ranks);
  std::vector<std::vector<PlannedPiece>> plan(static_cast<std::size_t>(ranks));
  std::vector<std::uint64_t> load(plan.size(), 0);
  const auto give = [&](std::size_t rank, std::size_t tensor, const Box& box) {
    plan[rank].push_back({tensor, box});
    load[rank] += static_cast<std::uint64_t>(box.numel()) *
        element_bytes(tensors[tensor].dtype);
  };
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Box all = dtensor::whole(tensors[i].shape);
    const auto owner = owner_of(tensors[i].name, ranks);
    const auto dim = dim_of(tensors[i], dims);
    if (owner) {
      give(*owner, i, all);
    } else if (!dim || all.numel() == 0) {
      const auto least = std::min_element(load.begin(), load.end());
      give(static_cast<std::size_t>(least - load.begin()), i, all);
    } else {
      for (int rank = 0; rank < ranks; ++rank) {
        Box box = all;
        dtensor::cut(box, *dim, ranks, rank);
        if (box.numel() > 0) {
          give(static_cast<std::size_t>(rank), i, box);
        }
      }
    }
  }
  return plan;
}

} // namespace argosy::checkpoint
