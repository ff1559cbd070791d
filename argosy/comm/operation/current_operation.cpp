#include "argosy/comm/operation/current_operation.h"

#include "argosy/common/thread_context.h"

namespace argosy::comm {

CurrentOperation& current_operation() {
  return of_thread<CurrentOperation>();
}

} // namespace argosy::comm
