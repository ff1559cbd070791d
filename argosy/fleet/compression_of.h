#pragma once

#include <c10/core/ScalarType.h>

#include <memory>
#include <optional>

namespace argosy::data_parallel {
class BucketHook;
}

// What a strategy says about how gradients are sent and kept. Not installed.
namespace argosy::fleet {

struct DistributedStrategy;

// The type in which gradients are sent; none: their own.
std::optional<c10::ScalarType> sent_type_of(
    const DistributedStrategy& strategy);

// Null without power_sgd.
std::shared_ptr<data_parallel::BucketHook> power_sgd_of(
    const DistributedStrategy& strategy);

// Whether gradients of bfloat16 parameters are float32.
bool has_main_grads(const DistributedStrategy& strategy);

} // namespace argosy::fleet
