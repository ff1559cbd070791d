#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace argosy::store {

// The secret of a job, 256 bits, by which its processes know each other.
//
// There is deliberately no operator<<: a secret belongs into no message, log or
// command line.
class Secret {
 public:
  static constexpr std::size_t kBytes = 32;

  // From the system's random number generator. Throws SystemError.
  static Secret random();

  // From 64 hexadecimal digits; white space around them is ignored. Throws
  // InvalidArgument that begins with `where` and does not show the text.
  static Secret parse(std::string_view text, std::string_view where);

  // What a process without a secret uses. Everybody knows it.
  static Secret none() { return Secret(); }

  ~Secret();
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;

  // HMAC-SHA256 of `message`, 32 bytes.
  std::string mac(std::string_view message) const;

  // A secret for one purpose: what is proven with it is worth nothing for
  // another.
  Secret derived(std::string_view purpose) const;

  std::string hex() const;

  // Compares in constant time.
  bool operator==(const Secret& other) const;

 private:
  Secret() = default;

  std::array<unsigned char, kBytes> bytes_{};
};

// Random bytes, for nonces. Throws SystemError.
std::string random_bytes(std::size_t count);

// Compares in a time that depends on the sizes only.
bool equal_bytes(std::string_view a, std::string_view b);

} // namespace argosy::store
