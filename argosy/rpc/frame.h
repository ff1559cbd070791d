#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/rpc/buffer_pool.h"
#include "argosy/rpc/message.h"

// The bytes of calls and replies. Pure: no sockets, no clocks.
//
// A frame is a header of kHeaderBytes, the method's name, the sizes of the
// parts (8 bytes each), the head and the parts. Numbers are little-endian.
//
//   bytes  field
//   4      kMagic
//   1      kind
//   1      flags
//   2      length of the method's name
//   4      number of parts
//   4      0
//   8      sequence: the caller's number of the call
//   8      confirmed: the caller has the results of all exactly-once calls
//   below 8      what is left of the deadline, in microseconds 8      length of
//   the head 8      length of all parts together
namespace argosy::rpc {

inline constexpr std::size_t kHeaderBytes = 56;
inline constexpr std::size_t kLongestMethod = 1024;
inline constexpr std::size_t kMostParts = 65536;

enum class FrameKind : std::uint8_t {
  Hello = 1, // client to server: who calls
  Welcome,   // the server's answer
  Call,      // client to server: method, arguments
  Cancel,    // client to server: nobody waits for this call any more
  Confirm,   // client to server: only the field `confirmed` matters
  Reply,     // server to client: the result
  Thrown,    // server to client: method is the exception's type, head its text
  Refused    // server to client: the call did not run; head tells why
};

inline constexpr std::uint8_t kExactlyOnce = 1; // a flag of calls
inline constexpr std::uint8_t kRepeated = 2;    // a call that is sent again

struct FrameHeader {
  FrameKind kind = FrameKind::Call;
  std::uint8_t flags = 0;
  std::uint16_t method_bytes = 0;
  std::uint32_t num_parts = 0;
  std::uint64_t sequence = 0;
  std::uint64_t confirmed = 0;
  std::int64_t time_left_us = 0;
  std::uint64_t head_bytes = 0;
  std::uint64_t body_bytes = 0;

  bool operator==(const FrameHeader&) const = default;

  // Of head and parts, in memory.
  std::uint64_t message_bytes() const { return head_bytes + body_bytes; }
};

struct Frame {
  FrameHeader header;
  std::string method;
  Message message;
};

// Everything of a frame that comes before its parts. Sets the lengths in
// `header`. Throws InvalidArgument for a name or a number of parts beyond the
// limits above.
std::string encode_front(
    FrameHeader& header, std::string_view method, const Message& message);

// The same, behind what `out` has. Throws before it changes anything.
void append_front(
    FrameHeader& header,
    std::string_view method,
    const Message& message,
    std::string& out);

// Throws InvalidArgument that names the field: not a frame, an unknown kind, or
// more than `longest_message` bytes.
FrameHeader decode_header(
    std::span<const std::byte, kHeaderBytes> bytes,
    std::size_t longest_message);

// Assembles frames from bytes that arrive in pieces. Tells where the next bytes
// belong, so that large parts need no copy, and takes memory for a message only
// when it is admitted.
class FrameReader {
 public:
  enum class Wants {
    Bytes,     // fill room() and advance()
    Admission, // header() is known: admit() it when there is memory
    Nothing    // take() the frame
  };

  FrameReader(std::size_t longest_message, std::shared_ptr<BufferPool> buffers);

  Wants wants() const { return wants_; }
  std::span<std::byte> room();

  // Throws InvalidArgument for bytes that are no frame; the reader is of no use
  // afterwards.
  void advance(std::size_t count);
  const FrameHeader& header() const { return frame_.header; }
  void admit();
  Frame take();

  // Whether a frame has begun and not ended.
  bool halfway() const { return stage_ != Stage::Header || filled_ > 0; }

 private:
  enum class Stage { Header, Names, Head, Parts };

  std::span<std::byte> target();
  void next_stage();
  void read_names();
  void allocate_parts();

  const std::size_t longest_message_;
  const std::shared_ptr<BufferPool> buffers_;
  Stage stage_ = Stage::Header;
  Wants wants_ = Wants::Bytes;
  std::size_t filled_ = 0; // bytes of target()
  std::size_t part_ = 0;   // the part that is being filled
  std::byte header_[kHeaderBytes];
  std::vector<std::byte> names_; // method and sizes
  std::vector<std::byte*> memory_;
  Frame frame_;
};

} // namespace argosy::rpc
