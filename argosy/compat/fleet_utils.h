#pragma once

#include "argosy/fleet/hybrid_utils.h"
#include "argosy/recomputation/recompute.h"
#include "argosy/recomputation/sequential.h"

// Names of paddle.distributed.fleet.utils.
namespace argosy::fleet::utils {

using argosy::recompute;
using argosy::recompute_sequential;

} // namespace argosy::fleet::utils
