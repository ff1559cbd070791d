#include "argosy/checkpoint/cipher.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>

#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kSaltBytes = 32;
constexpr std::size_t kCheckBytes = 16;
constexpr std::size_t kTagBytes = 16;
constexpr std::size_t kNonceBytes = 12;

using Digest = std::array<unsigned char, kKeyBytes>; // of SHA-256

unsigned char* chars(std::span<std::byte> bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

std::string hex_of(std::span<const unsigned char> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// Fills `bytes` from hex digits of either case. Returns whether they are that.
bool read_hex(std::string_view text, std::span<unsigned char> bytes) {
  if (text.size() != 2 * bytes.size()) {
    return false;
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const int high =
        OPENSSL_hexchar2int(static_cast<unsigned char>(text[2 * i]));
    const int low =
        OPENSSL_hexchar2int(static_cast<unsigned char>(text[2 * i + 1]));
    if (high < 0 || low < 0) {
      return false;
    }
    bytes[i] = static_cast<unsigned char>(high << 4 | low);
  }
  return true;
}

void check_openssl(bool succeeded, const char* what) {
  if (!succeeded) {
    throw SystemError(str("[checkpoint.cipher] OpenSSL failed: ", what));
  }
}

Digest hmac_sha256(
    std::span<const std::byte> key, std::span<const unsigned char> text) {
  Digest digest;
  unsigned int size = 0;
  const unsigned char* made = HMAC(
      EVP_sha256(),
      key.data(),
      static_cast<int>(key.size()),
      text.data(),
      text.size(),
      digest.data(),
      &size);
  check_openssl(made != nullptr && size == digest.size(), "HMAC-SHA256");
  return digest;
}

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const {
    EVP_CIPHER_CTX_free(context);
  }
};
using Context = std::unique_ptr<EVP_CIPHER_CTX, FreeContext>;

// Little-endian: the file in 4 bytes, the offset in 8. No two chunks of a
// checkpoint have the same.
std::array<unsigned char, kNonceBytes> nonce_of(
    std::uint32_t file, std::uint64_t offset) {
  std::array<unsigned char, kNonceBytes> nonce;
  for (std::size_t i = 0; i < 4; ++i) {
    nonce[i] = static_cast<unsigned char>(file >> 8 * i);
  }
  for (std::size_t i = 0; i < 8; ++i) {
    nonce[4 + i] = static_cast<unsigned char>(offset >> 8 * i);
  }
  return nonce;
}

int as_int(std::size_t bytes) {
  ARGOSY_CHECK(
      bytes <= static_cast<std::size_t>(std::numeric_limits<int>::max()),
      "[checkpoint.cipher] a chunk of {} bytes, expected less than 2^31",
      bytes);
  return static_cast<int>(bytes);
}

// A tag's bytes are those of the hash's hex digits.
Hash128 hash_of_tag(const std::array<unsigned char, kTagBytes>& tag) {
  return hash_of_hex(hex_of(tag));
}

std::array<unsigned char, kTagBytes> tag_of_hash(const Hash128& hash) {
  std::array<unsigned char, kTagBytes> tag;
  read_hex(to_hex(hash), tag);
  return tag;
}

} // namespace

Key::Key(std::span<const std::byte> bytes)
    : bytes_(new std::byte[kKeyBytes], [](std::byte* kept) {
        OPENSSL_cleanse(kept, kKeyBytes);
        delete[] kept;
      }) {
  ARGOSY_CHECK(
      bytes.size() == kKeyBytes,
      "[checkpoint.Key] {} bytes, expected {}",
      bytes.size(),
      kKeyBytes);
  std::ranges::copy(bytes, bytes_.get());
}

Key::~Key() = default;

std::span<const std::byte> Key::bytes() const {
  return {bytes_.get(), kKeyBytes};
}

namespace {

// Bytes of a key that do not stay in memory.
struct KeyBuffer {
  std::array<unsigned char, 2 * kKeyBytes + 2> bytes;
  std::size_t size = 0;

  ~KeyBuffer() { OPENSSL_cleanse(bytes.data(), bytes.size()); }
};

// Reads a key file, which only its owner may read.
void read_key_file(const std::string& path, KeyBuffer& buffer) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ARGOSY_CHECK(
      file >= 0, "[checkpoint.Key] {}", with_errno(str("cannot open ", path)));
  struct stat status {};
  const bool known = fstat(file, &status) == 0;
  ssize_t got = 0;
  while (buffer.size < buffer.bytes.size() &&
         (got = read(
              file,
              buffer.bytes.data() + buffer.size,
              buffer.bytes.size() - buffer.size)) > 0) {
    buffer.size += static_cast<std::size_t>(got);
  }
  const std::string error =
      got < 0 ? with_errno(str("cannot read ", path)) : "";
  close(file);
  ARGOSY_CHECK(error.empty(), "[checkpoint.Key] {}", error);
  ARGOSY_CHECK(
      known && (status.st_mode & 077) == 0,
      "[checkpoint.Key] others can read or write {}, expected a file that only "
      "its owner can: chmod 600",
      path);
}

} // namespace

Key Key::of_file(const std::string& path) {
  KeyBuffer buffer;
  read_key_file(path, buffer);
  std::span<unsigned char> text(buffer.bytes.data(), buffer.size);
  if (text.size() != kKeyBytes) {
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) {
      text = text.first(text.size() - 1);
    }
    KeyBuffer key;
    ARGOSY_CHECK(
        read_hex(
            {reinterpret_cast<const char*>(text.data()), text.size()},
            std::span(key.bytes).first(kKeyBytes)),
        "[checkpoint.Key] {} has {} bytes, expected {} or {} hex digits",
        path,
        buffer.size,
        kKeyBytes,
        2 * kKeyBytes);
    return Key(std::as_bytes(std::span(key.bytes).first(kKeyBytes)));
  }
  return Key(std::as_bytes(text));
}

struct Cipher::Impl {
  Impl(const Key& main, std::span<const unsigned char> salt)
      : key(hmac_sha256(main.bytes(), salt)) {}
  ~Impl() { OPENSSL_cleanse(key.data(), key.size()); }

  // Of the derived key, so that it tells nothing about it.
  std::string check() const {
    constexpr std::string_view kText = "argosy checkpoint key";
    const Digest digest = hmac_sha256(
        std::as_bytes(std::span(key)),
        {reinterpret_cast<const unsigned char*>(kText.data()), kText.size()});
    return hex_of(std::span(digest).first(kCheckBytes));
  }

  Context start(std::uint32_t file, std::uint64_t offset, int encrypts) const {
    Context context(EVP_CIPHER_CTX_new());
    check_openssl(context != nullptr, "a new context");
    const auto nonce = nonce_of(file, offset);
    check_openssl(
        EVP_CipherInit_ex(
            context.get(),
            EVP_aes_256_gcm(),
            nullptr,
            key.data(),
            nonce.data(),
            encrypts) == 1,
        "AES-256-GCM");
    return context;
  }

  Digest key;
  Encryption encryption;
};

Cipher::Cipher(const Key& key) {
  std::array<unsigned char, kSaltBytes> salt;
  check_openssl(
      RAND_bytes(salt.data(), static_cast<int>(salt.size())) == 1,
      "random bytes");
  impl_ = std::make_unique<Impl>(key, salt);
  impl_->encryption.salt = hex_of(salt);
  impl_->encryption.check = impl_->check();
}

Cipher::Cipher(const Key& key, const Encryption& encryption) {
  std::array<unsigned char, kSaltBytes> salt;
  if (encryption.algorithm != Encryption().algorithm ||
      !read_hex(encryption.salt, salt)) {
    throw CheckpointError(
        str("[checkpoint.Cipher] ",
            encryption.algorithm,
            " with a salt of ",
            encryption.salt.size(),
            " digits, expected ",
            Encryption().algorithm,
            " with ",
            2 * kSaltBytes));
  }
  impl_ = std::make_unique<Impl>(key, salt);
  impl_->encryption = encryption;
  if (impl_->check() != encryption.check) {
    throw CheckpointError(
        "[checkpoint.Cipher] the checkpoint was written with another key");
  }
}

Cipher::~Cipher() = default;

const Encryption& Cipher::encryption() const {
  return impl_->encryption;
}

Hash128 Cipher::encrypt(
    std::uint32_t file,
    std::uint64_t offset,
    std::span<std::byte> bytes) const {
  const Context context = impl_->start(file, offset, 1);
  std::array<unsigned char, kTagBytes> tag;
  int size = 0;
  const bool done = EVP_EncryptUpdate(
                        context.get(),
                        chars(bytes),
                        &size,
                        chars(bytes),
                        as_int(bytes.size())) == 1 &&
      EVP_EncryptFinal_ex(context.get(), chars(bytes), &size) == 1 &&
      EVP_CIPHER_CTX_ctrl(
          context.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes, tag.data()) == 1;
  check_openssl(done, "encrypting");
  return hash_of_tag(tag);
}

void Cipher::decrypt(
    std::uint32_t file,
    std::uint64_t offset,
    std::span<std::byte> bytes,
    const Hash128& tag) const {
  const Context context = impl_->start(file, offset, 0);
  std::array<unsigned char, kTagBytes> expected = tag_of_hash(tag);
  int size = 0;
  const bool set =
      EVP_CIPHER_CTX_ctrl(
          context.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, expected.data()) == 1;
  check_openssl(set, "setting a tag");
  const bool valid = EVP_DecryptUpdate(
                         context.get(),
                         chars(bytes),
                         &size,
                         chars(bytes),
                         as_int(bytes.size())) == 1 &&
      EVP_DecryptFinal_ex(context.get(), chars(bytes), &size) == 1;
  if (!valid) {
    throw CheckpointError(
        str("[checkpoint.Cipher] ",
            bytes.size(),
            " bytes from byte ",
            offset,
            " of file ",
            file,
            " on are not what was encrypted: they or their tag changed"));
  }
}

} // namespace argosy::checkpoint
