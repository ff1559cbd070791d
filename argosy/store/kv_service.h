#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "argosy/store/kv_table.h"

namespace argosy::store {

// A wait request that is not answered yet.
struct PendingWait {
  TableWait wait;
  KvTable::Time deadline;
};

// Answers the requests of the wire protocol from a table. No sockets, no
// threads.
class KvService {
 public:
  using Time = KvTable::Time;

  // The reply to a request, or nothing: then `pending` holds the wait. A
  // malformed request is answered by a refusal.
  std::optional<std::string> execute(
      std::string_view request, Time now, std::optional<PendingWait>& pending);

  // The reply to a wait once its keys exist or its time is up.
  std::optional<std::string> answer(PendingWait& pending, Time now) const;

  KvTable& table() { return table_; }

 private:
  KvTable table_;
};

} // namespace argosy::store
