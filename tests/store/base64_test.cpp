#include "argosy/store/base64.h"

#include <gtest/gtest.h>

namespace argosy::store {
namespace {

TEST(Base64, EncodesKnownText) {
  EXPECT_EQ(base64_encode(""), "");
  EXPECT_EQ(base64_encode("f"), "Zg==");
  EXPECT_EQ(base64_encode("fo"), "Zm8=");
  EXPECT_EQ(base64_encode("foo"), "Zm9v");
  EXPECT_EQ(base64_encode("foob"), "Zm9vYg==");
  EXPECT_EQ(base64_encode("\xff\xfe\xfd"), "//79");
}

TEST(Base64, DecodesWhatItEncodes) {
  std::string bytes;
  for (int i = 0; i < 600; ++i) {
    EXPECT_EQ(base64_decode(base64_encode(bytes)), bytes) << i;
    bytes += static_cast<char>(i * 7);
  }
}

TEST(Base64, RefusesOtherText) {
  for (const char* text :
       {"Z",
        "Zg",
        "Zg=",
        "Zg=a",
        "Z===",
        "Zg=\n",
        "Z g=",
        "=Zg=",
        "Zm9v===="}) {
    EXPECT_EQ(base64_decode(text), std::nullopt) << text;
  }
}

} // namespace
} // namespace argosy::store
