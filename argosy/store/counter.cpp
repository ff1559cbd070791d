#include "argosy/store/counter.h"

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/store/error_text.h"

namespace argosy::store {

std::int64_t counter_sum(
    const std::string& key,
    const std::optional<std::string>& held,
    std::int64_t amount) {
  const auto number = parse_int(held.value_or("0"));
  std::int64_t sum = 0;
  if (number && !__builtin_add_overflow(*number, amount, &sum)) {
    return sum;
  }
  throw StoreError(str_format(
      "[store.add] key {} holds {}, expected a decimal number to which {} can "
      "be added",
      quoted_bytes(key),
      quoted_bytes(held.value_or("")),
      amount));
}

} // namespace argosy::store
