// The client of PMI-1 and managers that do not answer.

#include "argosy/world/pmi_client.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "argosy/common/error.h"
#include "argosy/store/socket.h"
#include "tests/store/expect.h"

namespace argosy::world {
namespace {

using namespace std::chrono_literals;
using argosy::testing::message_of;
using store::Socket;
using ::testing::HasSubstr;

// A manager that is stopped: it listens, and takes no connection. The kernel
// answers until its queue is full.
class StoppedManager {
 public:
  StoppedManager() : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_.fd(), any, size), 0);
    EXPECT_EQ(::listen(listener_.fd(), 0), 0);
    EXPECT_EQ(::getsockname(listener_.fd(), any, &size), 0);
    port_ = ntohs(address.sin_port);
    for (int i = 0; i < 4; ++i) {
      waiting_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
      ::connect(waiting_.back().fd(), any, size);
    }
  }

  int port() const { return port_; }

 private:
  Socket listener_;
  std::vector<Socket> waiting_;
  int port_ = 0;
};

TEST(PmiClient, GivesUpOnAManagerThatTakesNoConnection) {
  const StoppedManager manager;
  const Environment env(
      {{"PMI_PORT", "127.0.0.1:" + std::to_string(manager.port())}});
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THAT(
      message_of<TimeoutError>([&] { PmiClient(env, Deadline::after(300ms)); }),
      HasSubstr("300 ms"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, 10s);
}

TEST(PmiClient, GivesUpOnAManagerThatDoesNotAnswer) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const Socket ours(ends[0]);
  const Socket theirs(ends[1]);
  const Environment env({{"PMI_FD", std::to_string(ours.fd())}});
  EXPECT_THAT(
      message_of<TimeoutError>([&] { PmiClient(env, Deadline::after(200ms)); }),
      HasSubstr("200 ms"));
}

} // namespace
} // namespace argosy::world
