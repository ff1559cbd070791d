#include "argosy/comm/message/listen_address.h"

#include <unistd.h>

#include <array>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/net.h"
#include "argosy/common/text.h"

namespace argosy::comm::message {

namespace {

// Tells hosts apart, and containers with networks of their own.
std::string own_network() {
  std::array<char, 64> text{};
  const ssize_t length =
      ::readlink("/proc/self/ns/net", text.data(), text.size() - 1);
  const auto boot = read_file("/proc/sys/kernel/random/boot_id");
  return str(
      trim(boot.value_or(host_name())), "/", length > 0 ? text.data() : "net");
}

} // namespace

std::string listen_address(const GatherStrings& gather_strings) {
  const std::string network = own_network();
  for (const std::string& theirs :
       gather_strings(str(network, " ", own_address()))) {
    const auto words = split(theirs, ' ');
    ARGOSY_ASSERT(words.size() == 2, theirs);
    if (words[0] != network) {
      return address_towards(words[1]);
    }
  }
  return "127.0.0.1";
}

} // namespace argosy::comm::message
