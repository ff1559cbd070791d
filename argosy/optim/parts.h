#pragma once

#include <array>
#include <memory>
#include <vector>

#include "argosy/optim/kernels/kernels.h"

namespace at {
class Tensor;
}

namespace argosy {
class Group;
}

// Parameters of which each rank holds a part. LAMB and LARS need the norms of
// whole parameters, so they add up what the kernels of all ranks have summed.
namespace argosy::optim {

using Sums = std::array<double, kNumSums>;
using Groups = std::vector<std::shared_ptr<Group>>;

// Says that the ranks of each group hold different parts of a parameter, as
// tensor parallel layers do: sums over all groups, one after the other, are
// those of the whole. Belongs to the tensor, as ParameterMarks do.
void set_part_groups(const at::Tensor& parameter, Groups groups);

// Those groups; of a DTensor, that of the ranks that it is sharded over. Empty
// where this rank holds the whole parameter.
Groups part_groups(const at::Tensor& parameter);

// Collective: adds up sums[i] over groups[i], one of them after the other. All
// ranks call it with the same parameters in the same order.
void add_over_groups(
    const std::vector<Groups>& groups, std::vector<Sums>& sums);

// Adds up sums for an optimizer whose parameters are parts that
// part_groups() cannot describe.
class PartSums {
 public:
  virtual ~PartSums() = default;

  // Collective: replaces the sums of parts by those of the whole parameters. A
  // rank that has no parts calls it too, with empty lists.
  virtual void add(
      const std::vector<const at::Tensor*>& parts, std::vector<Sums>& sums) = 0;
};

} // namespace argosy::optim
