#pragma once

#include <memory>

#include "argosy/data/slots/sample_format.h"

namespace argosy::data {

// Not installed: see make_format().
std::shared_ptr<const SampleFormat> make_tf_record_format(
    const Slots& slots, const TfRecordOptions& options);

} // namespace argosy::data
