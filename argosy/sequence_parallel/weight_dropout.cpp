#include "argosy/sequence_parallel/weight_dropout.h"

namespace argosy::sequence_parallel {

std::uint64_t WeightDropout::row(
    std::int64_t batch, std::int64_t head, std::int64_t query) const {
  return mix(mix(mix(seed, batch), first_head + head), query);
}

} // namespace argosy::sequence_parallel
