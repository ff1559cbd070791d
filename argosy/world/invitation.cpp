#include "argosy/world/invitation.h"

#include "argosy/common/error.h"
#include "argosy/common/net.h"

namespace argosy::world {

namespace {

constexpr char kFailureMark = '!';
constexpr std::size_t kLongestInvitation = 4096;

} // namespace

// One word without '=', since it may travel over PMI: "address,secret". Only a
// failure has spaces.
std::string to_text(const Invitation& invitation) {
  if (!invitation.failure.empty()) {
    return str(kFailureMark, invitation.failure);
  }
  return str(
      invitation.address,
      ",",
      invitation.secret ? invitation.secret->hex() : "");
}

Invitation parse_invitation(const std::string& text) {
  if (text.starts_with(kFailureMark)) {
    const std::string failure = text.substr(1, kLongestInvitation);
    return {.failure = failure.empty() ? "it did not say why" : failure};
  }
  const std::size_t comma = text.rfind(',');
  try {
    ARGOSY_CHECK(
        comma != std::string::npos && text.size() <= kLongestInvitation,
        "{} bytes",
        text.size());
    Invitation invitation;
    const std::string digits = text.substr(comma + 1);
    invitation.address =
        parse_endpoint(text.substr(0, comma), "its address").text();
    if (!digits.empty()) {
      invitation.secret = store::Secret::parse(digits, "its secret");
    }
    return invitation;
  } catch (const InvalidArgument& error) {
    throw StoreError(str_format(
        "[world.init] rank 0 sent something that is no invitation: {}, "
        "expected host:port,secret",
        error.what()));
  }
}

} // namespace argosy::world
