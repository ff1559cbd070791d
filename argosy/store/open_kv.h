#pragma once

#include <memory>
#include <string>

#include "argosy/store/credentials.h"
#include "argosy/store/kv.h"

namespace argosy::store {

// Opens the Kv at a URL (see url.h), without torch:
//   mem://name   the MemKv of that name in this process
//   tcp://...    a client of the KvServer there
//   etcd://...   keys under the URL's prefix; etcds:// over https
// Blocks until the store answers. Throws InvalidArgument for other URLs,
// StoreError when something else answers, the credentials do not fit or the
// host does not resolve, TimeoutError at the deadline or the URL's timeout,
// whichever is earlier.
std::shared_ptr<Kv> open_kv(
    const std::string& url,
    Deadline deadline,
    const Credentials& credentials = {});

} // namespace argosy::store
