#pragma once

#include <string_view>

namespace argosy::rpc {

// How two workers are connected, the fastest first.
enum class Transport { SharedMemory, Unix, Tcp };

std::string_view to_string(Transport transport);

} // namespace argosy::rpc
