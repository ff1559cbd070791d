#include "argosy/store/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cctype>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::store {

namespace {

void fill_random(unsigned char* bytes, std::size_t count) {
  if (::RAND_bytes(bytes, static_cast<int>(count)) != 1) {
    throw SystemError("[store.secret] OpenSSL has no random numbers");
  }
}

} // namespace

Secret Secret::random() {
  Secret secret;
  fill_random(secret.bytes_.data(), kBytes);
  return secret;
}

Secret Secret::parse(std::string_view text, std::string_view where) {
  std::string digits(trim(text));
  std::ranges::transform(digits, digits.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  const auto bytes = of_hex(digits);
  ARGOSY_CHECK(
      bytes && bytes->size() == kBytes,
      "{} holds {} bytes that are no secret, expected 64 hexadecimal digits, "
      "as of `openssl rand -hex 32`",
      where,
      text.size());
  Secret secret;
  std::copy(bytes->begin(), bytes->end(), secret.bytes_.begin());
  return secret;
}

Secret::~Secret() {
  ::OPENSSL_cleanse(bytes_.data(), bytes_.size());
}

std::string Secret::mac(std::string_view message) const {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  const auto* done = ::HMAC(
      EVP_sha256(),
      bytes_.data(),
      static_cast<int>(bytes_.size()),
      reinterpret_cast<const unsigned char*>(message.data()),
      message.size(),
      digest.data(),
      &size);
  if (done == nullptr) {
    throw SystemError("[store.secret] OpenSSL has no HMAC-SHA256");
  }
  return {reinterpret_cast<const char*>(digest.data()), size};
}

Secret Secret::derived(std::string_view purpose) const {
  const std::string bytes = mac(purpose);
  Secret secret;
  std::copy(bytes.begin(), bytes.end(), secret.bytes_.begin());
  return secret;
}

std::string Secret::hex() const {
  return to_hex({reinterpret_cast<const char*>(bytes_.data()), kBytes});
}

bool Secret::operator==(const Secret& other) const {
  return ::CRYPTO_memcmp(bytes_.data(), other.bytes_.data(), kBytes) == 0;
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  fill_random(reinterpret_cast<unsigned char*>(bytes.data()), count);
  return bytes;
}

bool equal_bytes(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
      ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

} // namespace argosy::store
