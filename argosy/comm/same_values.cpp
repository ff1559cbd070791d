#include "argosy/comm/same_values.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "argosy/comm/group.h"
#include "argosy/comm/objects.h"
#include "argosy/common/text.h"

namespace argosy::comm {

namespace {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * kOdd;
  return hash ^ hash >> 32;
}

// Four lanes, so that a multiplication need not wait for the one before: the
// parameters of a large model pass through here.
std::uint64_t hash_bytes(const char* data, std::size_t bytes) {
  constexpr std::size_t kLanes = 4;
  std::array<std::uint64_t, kLanes> lanes{1, 2, 3, 4};
  std::array<std::uint64_t, kLanes> words{};
  std::size_t i = 0;
  for (; i + sizeof(words) <= bytes; i += sizeof(words)) {
    std::memcpy(words.data(), data + i, sizeof(words));
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = mixed(lanes[lane], words[lane]);
    }
  }
  words.fill(bytes - i);
  std::memcpy(words.data(), data + i, bytes - i);
  std::uint64_t hash = bytes;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    hash = mixed(mixed(hash, lanes[lane]), words[lane]);
  }
  return hash;
}

bool has_memory(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided &&
      tensor.device().is_cpu() && tensor.has_storage() &&
      (tensor.numel() == 0 || tensor.storage().data() != nullptr);
}

// One entry per tensor: the name and what follows from its type and shape, and
// the hash as text.
struct Descriptions {
  std::vector<std::string> layouts;
  std::vector<std::string> hashes;
};

Descriptions describe(const NamedTensors& tensors) {
  Descriptions all;
  for (const auto& [name, tensor] : tensors) {
    all.layouts.push_back(
        tensor.defined()
            ? argosy::str(name, ": ", tensor.scalar_type(), " ", tensor.sizes())
            : argosy::str(name, ": nothing"));
    all.hashes.push_back(std::to_string(value_hash(tensor)));
  }
  return all;
}

std::string entry(const std::vector<std::string>& list, std::size_t i) {
  return i < list.size() ? list[i] : "no tensor";
}

// The ranks whose entry is unlike that of the first rank.
std::vector<int> unlike_first(
    const std::vector<std::vector<std::string>>& lists,
    std::size_t i,
    const std::vector<int>& ranks) {
  std::vector<int> unlike;
  for (std::size_t rank = 1; rank < lists.size(); ++rank) {
    if (entry(lists[rank], i) != entry(lists.front(), i)) {
      unlike.push_back(ranks[rank]);
    }
  }
  std::ranges::sort(unlike);
  return unlike;
}

std::string ranks_text(const std::vector<int>& ranks) {
  return argosy::str(
      ranks.size() == 1 ? "rank " : "ranks ", ranges_text(ranks));
}

// All ranks differ from rank 0 in the same way, so they find the same text.
std::string explain(const NamedTensors& tensors, const GroupPtr& group) {
  const Descriptions own = describe(tensors);
  std::vector<std::vector<std::string>> layouts;
  std::vector<std::vector<std::string>> hashes;
  all_gather_object(layouts, own.layouts, group);
  all_gather_object(hashes, own.hashes, group);
  std::size_t most = 0;
  for (const auto& list : layouts) {
    most = std::max(most, list.size());
  }
  const int first = group->ranks().front();
  for (std::size_t i = 0; i < most; ++i) {
    auto unlike = unlike_first(layouts, i, group->ranks());
    if (!unlike.empty()) {
      const auto other = static_cast<std::size_t>(
          std::ranges::find(group->ranks(), unlike.front()) -
          group->ranks().begin());
      return str_format(
          "{} on rank {}, {} on {}",
          entry(layouts.front(), i),
          first,
          entry(layouts[other], i),
          ranks_text(unlike));
    }
    unlike = unlike_first(hashes, i, group->ranks());
    if (!unlike.empty()) {
      return str_format(
          "{}: the values on {} differ from those on rank {}",
          entry(layouts.front(), i),
          ranks_text(unlike),
          first);
    }
  }
  return "";
}

} // namespace

std::uint64_t value_hash(const at::Tensor& tensor) {
  if (!has_memory(tensor)) {
    return 0;
  }
  std::uint64_t hash = static_cast<std::uint64_t>(tensor.scalar_type()) + 1;
  for (const std::int64_t size : tensor.sizes()) {
    hash = mixed(hash, static_cast<std::uint64_t>(size));
  }
  const at::Tensor plain =
      tensor.detach().resolve_conj().resolve_neg().contiguous();
  return mixed(
      hash,
      hash_bytes(static_cast<const char*>(plain.data_ptr()), plain.nbytes()));
}

std::string first_difference(
    const NamedTensors& tensors, const GroupPtr& group) {
  if (group->nranks() == 1) {
    return "";
  }
  std::uint64_t hash = tensors.size();
  for (const auto& [name, tensor] : tensors) {
    hash = mixed(hash, value_hash(tensor));
  }
  const at::Tensor own =
      at::full({1}, static_cast<std::int64_t>(hash), at::kLong);
  const at::Tensor all = at::empty({group->nranks()}, own.options());
  all_gather(all, own, group);
  const auto* hashes = all.data_ptr<std::int64_t>();
  // All ranks see the same hashes, so either all or none go on.
  return std::ranges::count(hashes, hashes + group->nranks(), hashes[0]) ==
          group->nranks()
      ? ""
      : explain(tensors, group);
}

} // namespace argosy::comm
