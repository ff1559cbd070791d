#include "argosy/comm/backend/store_gather_strings.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "argosy/common/error.h"

namespace argosy::comm {

GatherStrings gather_strings_through(
    const c10::intrusive_ptr<c10d::Store>& store,
    const std::string& prefix,
    int rank,
    int size) {
  // All members make the same calls in the same order, so the counter gives
  // each call keys of its own.
  return [=, call = 0](const std::string& own) mutable {
    const std::string base = str(prefix, "/", call++, "/");
    store->set(str(base, rank), {own.begin(), own.end()});
    std::vector<std::string> all;
    for (int peer = 0; peer < size; ++peer) {
      const auto value = store->get(str(base, peer));
      all.emplace_back(value.begin(), value.end());
    }
    return all;
  };
}

} // namespace argosy::comm
