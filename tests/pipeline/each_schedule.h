#pragma once

#include <gtest/gtest.h>

#include "argosy/common/error.h"
#include "argosy/pipeline/schedules/schedules.h"

namespace argosy::pipeline {

// Calls `body` for all names, 1 to 6 stages, 1 to 12 microbatches, and 1 to 3
// chunks where the schedule takes any.
template <typename Body>
void for_each_schedule(Body body) {
  for (const std::string& name : schedule_names()) {
    const int chunks = name == "gpipe" || name == "interleaved" ? 3 : 1;
    for (int v = 1; v <= chunks; ++v) {
      for (int p = 1; p <= 6; ++p) {
        for (int m = 1; m <= 12; ++m) {
          SCOPED_TRACE(str(name, " p ", p, " m ", m, " v ", v));
          body(make_schedule(name, p, m, v));
        }
      }
    }
  }
}

} // namespace argosy::pipeline
