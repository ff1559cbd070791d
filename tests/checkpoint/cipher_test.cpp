#include "argosy/checkpoint/cipher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <set>
#include <thread>

#include "argosy/common/file.h"
#include "tests/support/refusal.h"

namespace argosy::checkpoint {
namespace {

using ::testing::HasSubstr;
using testing::refusal;
using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::size_t count, std::size_t step, std::size_t first = 0) {
  Bytes bytes;
  for (std::size_t i = 0; i < count; ++i) {
    bytes.push_back(static_cast<std::byte>(i * step + first));
  }
  return bytes;
}

Key sample_key() {
  return Key(bytes_of(32, 1));
}

std::string hex_text(const Bytes& bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[std::to_integer<std::size_t>(byte) >> 4];
    text += kDigits[std::to_integer<std::size_t>(byte) & 15];
  }
  return text;
}

// Computed with Python's cryptography and hmac.
TEST(Cipher, IsAesGcmWithADerivedKey) {
  const Encryption encryption{
      "AES-256-GCM",
      hex_text(bytes_of(32, 5, 1)),
      "2a777ac03f91509956b1dbe1030270ac"};
  const Cipher cipher(sample_key(), encryption);
  Bytes bytes = bytes_of(37, 11);
  const Hash128 tag = cipher.encrypt(7, 0x123456789a, bytes);
  EXPECT_EQ(
      hex_text(bytes),
      "352cbb974e9ca44b51a567add55f40d8417f0efba145d36305e5f5a5a9619e0541711442"
      "43");
  EXPECT_EQ(to_hex(tag), "1aecfd12f6e8a3e4630f10a8348a0657");
  cipher.decrypt(7, 0x123456789a, bytes, tag);
  EXPECT_EQ(bytes, bytes_of(37, 11));
}

TEST(Cipher, AnotherCipherOfTheSameKeyDecrypts) {
  const Cipher writer(sample_key());
  const Cipher reader(sample_key(), writer.encryption());
  for (const std::size_t count : {0, 1, 16, 4096, 1 << 20}) {
    Bytes bytes = bytes_of(count, 3);
    const Hash128 tag = writer.encrypt(1, count, bytes);
    EXPECT_TRUE(count < 16 || bytes != bytes_of(count, 3));
    reader.decrypt(1, count, bytes, tag);
    EXPECT_EQ(bytes, bytes_of(count, 3));
  }
  EXPECT_NE(Cipher(sample_key()).encryption().salt, writer.encryption().salt);
}

TEST(Cipher, NoTwoChunksAreEncryptedAlike) {
  const Cipher cipher(sample_key());
  std::set<std::string> seen;
  for (std::uint32_t file = 0; file < 3; ++file) {
    for (const std::uint64_t offset : {0, 1, 256, 4096}) {
      Bytes zeros(32);
      (void)cipher.encrypt(file, offset, zeros);
      seen.insert(hex_text(zeros));
    }
  }
  EXPECT_EQ(seen.size(), 12u);
}

TEST(Cipher, RefusesWhatWasChanged) {
  const Cipher cipher(sample_key());
  const Bytes plain = bytes_of(40, 1);
  Bytes good = plain;
  const Hash128 tag = cipher.encrypt(2, 8192, good);
  const auto refuses =
      [&](std::uint32_t file, std::uint64_t offset, Bytes bytes, Hash128 of) {
        return refusal<CheckpointError>(
            [&] { cipher.decrypt(file, offset, bytes, of); });
      };
  EXPECT_EQ(refuses(2, 8192, good, tag), "");
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_THAT(refuses(2, 8192, bad, tag), HasSubstr("byte 8192 of file 2"));
  }
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t mask = std::uint64_t{1} << bit;
    EXPECT_NE(refuses(2, 8192, good, {tag.low ^ mask, tag.high}), "");
    EXPECT_NE(refuses(2, 8192, good, {tag.low, tag.high ^ mask}), "");
  }
  EXPECT_NE(refuses(3, 8192, good, tag), "");
  EXPECT_NE(refuses(2, 8193, good, tag), "");
  EXPECT_NE(refuses(2, 8192, Bytes(good.begin(), good.end() - 1), tag), "");
  Bytes longer = good;
  longer.push_back({});
  EXPECT_NE(refuses(2, 8192, longer, tag), "");
}

TEST(Cipher, TellsAWrongKeyFromDamage) {
  const Encryption encryption = Cipher(sample_key()).encryption();
  const auto refuses = [](const Key& key, const Encryption& of) {
    return refusal<CheckpointError>([&] { (void)Cipher(key, of); });
  };
  EXPECT_EQ(refuses(sample_key(), encryption), "");
  EXPECT_THAT(
      refuses(Key(bytes_of(32, 2)), encryption), HasSubstr("another key"));
  Encryption bad = encryption;
  bad.salt[5] = bad.salt[5] == 'a' ? 'b' : 'a';
  EXPECT_THAT(refuses(sample_key(), bad), HasSubstr("another key"));
  bad.salt = "xyz";
  EXPECT_THAT(refuses(sample_key(), bad), HasSubstr("3 digits"));
  bad = encryption;
  bad.algorithm = "none";
  EXPECT_THAT(refuses(sample_key(), bad), HasSubstr("none"));
}

TEST(Cipher, ServesThreadsAtOnce) {
  const Cipher cipher(sample_key());
  std::vector<std::jthread> threads;
  std::atomic<int> right = 0;
  for (std::uint32_t file = 0; file < 4; ++file) {
    threads.emplace_back([&, file] {
      for (std::uint64_t offset = 0; offset < 50; ++offset) {
        Bytes bytes = bytes_of(1000, offset);
        const Hash128 tag = cipher.encrypt(file, offset, bytes);
        cipher.decrypt(file, offset, bytes, tag);
        right += bytes == bytes_of(1000, offset) ? 1 : 0;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(right, 200);
}

TEST(Key, OfAFileThatOthersCannotRead) {
  const TempDir folder;
  const std::string path = folder.path() / "key";
  const auto write = [&](const std::string& content) {
    write_file(path, content);
    std::filesystem::permissions(path, std::filesystem::perms(0600));
  };
  const auto refuses = [&] {
    return refusal([&] { (void)Key::of_file(path); });
  };
  const Bytes expected = bytes_of(32, 1);
  write({reinterpret_cast<const char*>(expected.data()), expected.size()});
  EXPECT_TRUE(std::ranges::equal(Key::of_file(path).bytes(), expected));
  write(hex_text(expected) + "\n");
  EXPECT_TRUE(std::ranges::equal(Key::of_file(path).bytes(), expected));
  for (const std::string& bad :
       {std::string(),
        std::string(31, 'x'),
        std::string(64, 'x'),
        hex_text(expected) + "00"}) {
    write(bad);
    EXPECT_THAT(refuses(), HasSubstr(path)) << bad;
  }
  write(hex_text(expected));
  std::filesystem::permissions(path, std::filesystem::perms(0640));
  EXPECT_THAT(refuses(), HasSubstr("chmod 600"));
  std::filesystem::remove(path);
  EXPECT_THAT(refuses(), HasSubstr("cannot open"));
  EXPECT_NE(refusal([] { (void)Key(Bytes(31)); }), "");
}

} // namespace
} // namespace argosy::checkpoint
