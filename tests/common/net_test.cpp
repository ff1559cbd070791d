#include "argosy/common/net.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "argosy/common/error.h"

namespace argosy {
namespace {

// Listens the way c10d's store does; returns the socket, or -1.
int listen_on(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(fd, 1) != 0) {
    ::close(fd);
    return -1;
  }
  return fd;
}

TEST(Endpoint, ParsesAndPrints) {
  EXPECT_EQ(parse_endpoint("h:80", "X"), (Endpoint{"h", 80}));
  EXPECT_EQ(parse_endpoint("[::1]:80", "X"), (Endpoint{"::1", 80}));
  EXPECT_EQ(parse_endpoint("h", "X", 29400), (Endpoint{"h", 29400}));
  EXPECT_EQ((Endpoint{"::1", 80}).text(), "[::1]:80");
  EXPECT_EQ((Endpoint{"h", 80}).text(), "h:80");
}

TEST(Endpoint, NamesWhatItCannotParse) {
  for (const char* bad :
       {"", "h", ":80", "h:", "h:0", "h:65536", "h:x", "[::1"}) {
    try {
      parse_endpoint(bad, "MASTER");
      FAIL() << bad;
    } catch (const InvalidArgument& error) {
      EXPECT_EQ(std::string(error.what()).find("MASTER="), 0u);
    }
  }
}

TEST(ReservedPort, CanBeListenedOnWhileHeld) {
  const ReservedPort reserved;
  const int fd = listen_on(reserved.port());
  EXPECT_GE(fd, 0);
  ::close(fd);
}

TEST(ReservedPort, RefusesAPortInUse) {
  std::uint16_t port = 0;
  {
    const ReservedPort free;
    port = free.port();
  }
  const int fd = listen_on(port);
  ASSERT_GE(fd, 0);
  EXPECT_THROW(ReservedPort{port}, SystemError);
  ::close(fd);
}

TEST(Hosts, KnowsItself) {
  EXPECT_TRUE(is_local_host("127.0.0.1"));
  EXPECT_TRUE(is_local_host("127.1.2.3"));
  EXPECT_TRUE(is_local_host("localhost"));
  EXPECT_FALSE(is_local_host("192.0.2.1")); // reserved for documentation
  EXPECT_FALSE(is_local_host("no-such-host.invalid"));
  EXPECT_EQ(address_towards("127.0.0.1"), "127.0.0.1");
  EXPECT_TRUE(is_local_host(own_address()));
  EXPECT_FALSE(host_name().empty());
}

} // namespace
} // namespace argosy
