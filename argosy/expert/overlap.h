#pragma once

#include <functional>
#include <vector>

#include "argosy/comm/ops.h"
#include "argosy/expert/dispatch.h"
#include "argosy/expert/gates.h"

// Experts that compute while tokens travel. Not installed.
namespace argosy::expert {

struct OverlapOptions {
  ExpertsSide side;
  int chunks = 2;
  // Of the experts of this rank.
  Tensors parameters;
  // The results of the local experts; expert e has counts[e] of the rows.
  std::function<at::Tensor(
      const at::Tensor& rows, const std::vector<std::int64_t>& counts)>
      run;
};

// dispatch(), the experts and combine() in chunks of the tokens [tokens, d]:
// the rows of the next chunk are on their way while the experts compute one,
// and so are the results of the chunk before; in backward the gradients. One
// all-to-all of counts for all chunks, and one each way for each chunk.
//
// In the caller's graph it is one node, with the tokens, the weights and the
// parameters as inputs. Backward works once; has no second derivative. All
// ranks of the group must call it alike, with the same number of chunks.
at::Tensor overlapped_experts(
    const at::Tensor& tokens,
    const Routing& routing,
    const OverlapOptions& options);

} // namespace argosy::expert
