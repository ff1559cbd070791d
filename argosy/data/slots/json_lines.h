#pragma once

#include <memory>

#include "argosy/data/slots/sample_format.h"

namespace argosy::data {

// Not installed: see make_format().
std::shared_ptr<const SampleFormat> make_json_lines_format(
    const Slots& slots, const JsonLinesOptions& options);

} // namespace argosy::data
