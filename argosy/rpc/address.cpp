#include "argosy/rpc/address.h"

#include <filesystem>
#include <map>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"

namespace argosy::rpc {

std::string_view to_string(Transport transport) {
  switch (transport) {
    case Transport::SharedMemory:
      return "shared memory";
    case Transport::Unix:
      return "Unix socket";
    case Transport::Tcp:
      return "TCP";
  }
  return "?";
}

std::string Address::text() const {
  std::string text = str("host=", host);
  if (!unix_name.empty()) {
    text += str(" unix=", unix_name, " rings=", rings ? 1 : 0);
  }
  if (!tcp.host.empty()) {
    text += str(" tcp=", tcp.text());
  }
  return text;
}

Address parse_address(std::string_view text) {
  std::map<std::string, std::string> fields;
  for (const std::string& word : split(text, ' ')) {
    const std::size_t equals = word.find('=');
    ARGOSY_CHECK(
        equals != std::string::npos &&
            fields.emplace(word.substr(0, equals), word.substr(equals + 1))
                .second,
        "[rpc.address] \"{}\" in \"{}\", expected name=value, each name once",
        word,
        text);
  }
  ARGOSY_CHECK(
      !fields["host"].empty(), "[rpc.address] \"{}\" names no host", text);
  Address address{
      .host = fields["host"],
      .unix_name = fields["unix"],
      .rings = fields["rings"] == "1"};
  if (!fields["tcp"].empty()) {
    address.tcp = parse_endpoint(fields["tcp"], "[rpc.address] tcp");
  }
  return address;
}

std::string own_host() {
  std::error_code ignored;
  const auto boot = read_file("/proc/sys/kernel/random/boot_id").value_or("?");
  return str(
      trim(boot),
      "/",
      std::filesystem::read_symlink("/proc/self/ns/net", ignored).string());
}

Transport choose_transport(const Address& own, const Address& peer) {
  const bool unix_way = own.host == peer.host && !own.unix_name.empty() &&
      !peer.unix_name.empty();
  if (unix_way) {
    return own.rings && peer.rings ? Transport::SharedMemory : Transport::Unix;
  }
  ARGOSY_CHECK(
      !peer.tcp.host.empty(),
      "[rpc.connect] a worker at \"{}\" cannot be reached from \"{}\", "
      "expected "
      "one of this host or one that listens for TCP",
      peer.text(),
      own.text());
  return Transport::Tcp;
}

} // namespace argosy::rpc
