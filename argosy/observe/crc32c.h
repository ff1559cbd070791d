#pragma once

#include <cstdint>
#include <string_view>

namespace argosy::observe {

// CRC-32C (Castagnoli); crc32c("123456789") == 0xe3069283.
std::uint32_t crc32c(std::string_view bytes);

// As records of TensorFlow have it: a CRC of data that contains CRCs would be
// weak.
std::uint32_t masked_crc32c(std::string_view bytes);

} // namespace argosy::observe
