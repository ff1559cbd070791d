#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The protocol between TcpKv and KvServer, after the greeting (greeting.h).
//
// The client sends one frame per request and reads one frame per reply,
// sequentially. A frame is a 4-byte length followed by the payload: first the
// Op or Status, then the fields. Integers are little-endian; a text is a 4-byte
// length and its bytes; an optional text is a byte 1 and the text, or a byte 0.
namespace argosy::store {

inline constexpr std::size_t kLengthBytes = 4;
inline constexpr std::size_t kLongestFrame = 64u << 20;
inline constexpr std::size_t kLongestKey = 64u << 10;
inline constexpr std::size_t kMostKeys = 1u << 20; // of one wait

enum class Op : std::uint8_t {
  Set = 1,
  Get,
  Add,
  CompareSet,
  Wait,
  Erase,
  List,
  Grant,
  Renew,
  Revoke
};

enum class Status : std::uint8_t {
  Ok,
  Missing, // a wait timed out; the missing keys follow
  Refused  // the reason follows
};

class WireWriter {
 public:
  explicit WireWriter(Op op) { u8(static_cast<std::uint8_t>(op)); }
  explicit WireWriter(Status status) { u8(static_cast<std::uint8_t>(status)); }

  WireWriter& u8(std::uint8_t value);
  WireWriter& u32(std::uint32_t value);
  WireWriter& i64(std::int64_t value);
  WireWriter& text(std::string_view value);
  WireWriter& optional_text(const std::optional<std::string>& value);
  WireWriter& texts(const std::vector<std::string>& values);

  const std::string& body() const { return body_; }

 private:
  std::string body_;
};

// Throws StoreError when the frame ends too early, or what it announces is
// longer than the frame or the limits above. Allocates nothing before.
class WireReader {
 public:
  explicit WireReader(std::string_view body) : body_(body) {}

  std::uint8_t u8();
  std::uint32_t u32();
  std::int64_t i64();
  std::string text();
  std::string key(); // a text of at most kLongestKey bytes
  std::optional<std::string> optional_text();
  std::vector<std::string> keys();

  // A number of elements, each of which takes at least `bytes_each`.
  std::size_t count(std::size_t bytes_each);

  // Throws StoreError unless the frame ends here.
  void end() const;

 private:
  std::string_view take(std::size_t count);

  std::string_view body_;
};

// Returns the header of a frame of `size` bytes.
std::string frame_header(std::size_t size);

// Decodes the size from a header of kLengthBytes.
std::size_t frame_size(std::string_view header);

} // namespace argosy::store
