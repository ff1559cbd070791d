#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>

#include "argosy/comm/message/failure_agreement.h"

namespace c10d {
class Store;
}

namespace argosy::comm::message {

// A failure store in a group's c10d store, under keys that begin with
// "failures/".
std::shared_ptr<FailureStore> make_c10d_failure_store(
    const c10::intrusive_ptr<c10d::Store>& store);

} // namespace argosy::comm::message
