#pragma once

#include <memory>
#include <string>

#include "argosy/store/kv.h"

namespace argosy::store {

// Opens the Kv at a URL (see url.h), without torch:
//   mem://name   the MemKv of that name in this process
//   tcp://...    a client of the KvServer there
//   etcd://...   keys under the URL's prefix
// Blocks until the store answers. Throws InvalidArgument for other URLs,
// StoreError when something else answers or the host does not resolve,
// TimeoutError at the deadline or the URL's timeout, whichever is earlier.
std::shared_ptr<Kv> open_kv(const std::string& url, Deadline deadline);

} // namespace argosy::store
