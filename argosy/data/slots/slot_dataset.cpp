#include "argosy/data/slots/slot_dataset.h"

#include "argosy/common/error.h"

namespace argosy::data {

void check_options(const SlotDatasetOptions& options) {
  check_slots(options.slots);
  ARGOSY_CHECK(
      options.batch_size > 0,
      "[data.slots] batch_size is {}, expected at least 1",
      options.batch_size);
}

} // namespace argosy::data
