#include "argosy/pipeline/layer_desc.h"

#include <c10/util/Type.h>

namespace argosy::pipeline::detail {

std::string class_name(const std::type_info& type) {
  return c10::demangle(type.name());
}

} // namespace argosy::pipeline::detail
