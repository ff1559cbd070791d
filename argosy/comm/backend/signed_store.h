#pragma once

#include <c10/util/intrusive_ptr.h>

#include "argosy/comm/backend/members.h"

namespace argosy::comm {

// The members' store for what they connect to, such as addresses: set() signs
// values with the members' key, over key and value, and get() verifies them. So
// somebody who can write to the store, but is no member, cannot make a member
// connect to a place of his choice. Other calls go through unchanged. Returns
// the store itself if the members have no key.
//
// get() throws StoreError that names the key for a value that no member signed.
c10::intrusive_ptr<c10d::Store> signed_store(const Members& members);

} // namespace argosy::comm
