#pragma once

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

// Executes requests of the wire protocol on a table. No sockets, no threads.
class KvService {
 public:
  using Time = KvTable::Time;

  explicit KvService(const TableLimits& limits = {}) : table_(limits) {}

  // Returns the reply, or nullopt and sets `pending` to the wait. Answers a
  // malformed request with Refused.
  std::optional<std::string> execute(
      std::string_view request, Time now, std::optional<PendingWait>& pending);

  // Returns the reply to a wait once its keys exist or its time is up.
  std::optional<std::string> answer(PendingWait& pending, Time now) const;

  KvTable& table() { return table_; }

 private:
  KvTable table_;
};

} // namespace argosy::store
