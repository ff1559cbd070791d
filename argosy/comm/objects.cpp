#include "argosy/comm/objects.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <numeric>

#include "argosy/common/error.h"

namespace argosy::comm {

namespace {

GroupPtr group_or_default(const GroupPtr& group) {
  return group ? group : get_group(0);
}

at::Tensor numbers(std::vector<std::int64_t>& values) {
  return at::from_blob(
      values.data(), {static_cast<std::int64_t>(values.size())}, at::kLong);
}

at::Tensor view_of(const std::string& bytes) {
  return at::from_blob(
      const_cast<char*>(bytes.data()),
      {static_cast<std::int64_t>(bytes.size())},
      at::kByte);
}

std::vector<std::int64_t> sizes_of(const std::vector<std::string>& bytes) {
  std::vector<std::int64_t> sizes;
  for (const std::string& each : bytes) {
    sizes.push_back(static_cast<std::int64_t>(each.size()));
  }
  return sizes;
}

} // namespace

bool is_source(int src, const GroupPtr& group) {
  const GroupPtr members = group_or_default(group);
  return members->is_member() &&
      members->rank() == members->get_group_rank(src);
}

std::vector<std::string> all_gather_bytes(
    const std::string& own, const GroupPtr& group) {
  const GroupPtr members = group_or_default(group);
  const auto n = static_cast<std::size_t>(members->nranks());
  std::vector<std::int64_t> own_size = {static_cast<std::int64_t>(own.size())};
  std::vector<std::int64_t> sizes(n);
  all_gather(numbers(sizes), numbers(own_size), members);
  // As messages of different sizes to everybody: no padding.
  std::vector<std::string> all(n);
  Tensors outs;
  for (std::size_t rank = 0; rank < n; ++rank) {
    all[rank].resize(static_cast<std::size_t>(sizes[rank]));
    outs.push_back(view_of(all[rank]));
  }
  alltoall({.out = outs, .in = Tensors(n, view_of(own))}, members);
  return all;
}

void broadcast_bytes(
    std::vector<std::string>& bytes, int src, const GroupPtr& group) {
  std::vector<std::int64_t> sizes = sizes_of(bytes);
  broadcast(numbers(sizes), src, group);
  const auto total =
      std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  std::string packed;
  for (const std::string& each : bytes) {
    packed += each;
  }
  packed.resize(static_cast<std::size_t>(total));
  broadcast(view_of(packed), src, group);
  std::size_t offset = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto size = static_cast<std::size_t>(sizes[i]);
    bytes[i] = packed.substr(offset, size);
    offset += size;
  }
}

std::string scatter_bytes(
    const std::vector<std::string>& bytes, int src, const GroupPtr& group) {
  const GroupPtr members = group_or_default(group);
  const auto n = static_cast<std::size_t>(members->nranks());
  const bool gives = is_source(src, members);
  ARGOSY_CHECK(
      !gives || bytes.size() == n,
      "[comm.scatter_object_list] {} objects for {} ranks",
      bytes.size(),
      n);
  std::vector<std::int64_t> sizes =
      gives ? sizes_of(bytes) : std::vector<std::int64_t>(n);
  broadcast(numbers(sizes), src, members);
  std::string own(
      static_cast<std::size_t>(
          sizes[static_cast<std::size_t>(members->rank())]),
      '\0');
  const std::string nothing;
  Tensors ins;
  Tensors outs;
  for (std::size_t rank = 0; rank < n; ++rank) {
    const bool from_source = members->ranks()[rank] == src;
    ins.push_back(view_of(gives ? bytes[rank] : nothing));
    outs.push_back(view_of(from_source ? own : nothing));
  }
  alltoall({.out = outs, .in = ins}, members);
  return own;
}

} // namespace argosy::comm
