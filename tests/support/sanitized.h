#pragma once

namespace argosy::testing {

// Whether a sanitizer watches: everything is several times slower, and takes
// terabytes of addresses.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

} // namespace argosy::testing
