#include "argosy/sequence_parallel/split_group.h"

#include "argosy/common/error.h"
#include "argosy/mesh/hybrid_mesh.h"

namespace argosy::sequence_parallel {

GroupPtr group_of_split(
    const GroupPtr& group, const SequenceSplit& split, const char* op) {
  GroupPtr members = group_or_axis(group, "sep");
  ARGOSY_CHECK(
      members->is_member() && members->nranks() == split.nranks(),
      "[sequence_parallel.{}] the sequence is split for {} ranks, expected a "
      "group of as many, with this rank; it has {}",
      op,
      split.nranks(),
      members->nranks());
  return members;
}

} // namespace argosy::sequence_parallel
