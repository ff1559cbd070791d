#include "argosy/rpc/hello.h"

#include <limits>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::rpc {

namespace {

constexpr std::size_t kLongestSession = 64;

std::string hello_frame(
    FrameKind kind, std::string_view method, std::string head) {
  FrameHeader header{.kind = kind};
  return encode_front(header, method, {std::move(head)});
}

bool is_flag(const std::string& word) {
  return word == "0" || word == "1";
}

} // namespace

std::string encode(const Hello& hello) {
  return hello_frame(
      FrameKind::Hello,
      hello.name,
      str(hello.id, " ", hello.session, " ", hello.rings ? 1 : 0));
}

std::string encode(const Welcome& welcome) {
  return hello_frame(FrameKind::Welcome, "", welcome.known ? "1" : "0");
}

Hello decode_hello(const Frame& frame) {
  const auto words = split(frame.message.head, ' ');
  const auto id = words.size() == 3 ? parse_int(words[0]) : std::nullopt;
  ARGOSY_CHECK(
      frame.header.kind == FrameKind::Hello && id && *id >= 0 &&
          *id <= std::numeric_limits<PeerId>::max() && !words[1].empty() &&
          words[1].size() <= kLongestSession && is_flag(words[2]),
      "[rpc.greet] a peer said \"{}\", expected its number, its session and "
      "whether it shares memory",
      frame.message.head);
  return {
      .id = static_cast<PeerId>(*id),
      .name = frame.method,
      .session = words[1],
      .rings = words[2] == "1"};
}

Welcome decode_welcome(const Frame& frame) {
  ARGOSY_CHECK(
      frame.header.kind == FrameKind::Welcome && is_flag(frame.message.head),
      "[rpc.greet] a peer said \"{}\", expected a welcome",
      frame.message.head);
  return {.known = frame.message.head == "1"};
}

} // namespace argosy::rpc
