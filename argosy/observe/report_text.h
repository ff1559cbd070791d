#pragma once

#include <string>
#include <vector>

#include "argosy/observe/report.h"

namespace argosy::observe {

// "12", "4.2k", "1.3M": at most three digits before the unit.
std::string short_number(double value);

// "83 ms", "1.31 s", "940 us".
std::string duration_text(double seconds);

// "0:07", "1:02:07", "3d 01:02:07".
std::string clock_text(double seconds);

// "step 12/100  loss 2.3456  1.2k samples/s  83 ms/step  eta 0:07
// slowest rank 3: 1.31 x median  lr 0.001". Of the report's values, only those
// in `shown` are included. Unknown parts are omitted.
std::string report_text(
    const Report& report, const std::vector<std::string>& shown = {});

} // namespace argosy::observe
