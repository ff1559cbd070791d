#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "argosy/data/slots/field_sample.h"

namespace argosy::data {

struct ByteFault {
  std::size_t offset = 0; // of the byte where it is wrong, from 0
  std::string what;
};

// Adds the sample of a serialized tf.train.Example to `into`, or says why not.
// Not installed.
std::optional<ByteFault> add_tf_example(
    std::string_view bytes, FieldSample& sample, Records& into);

} // namespace argosy::data
