#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "argosy/rpc/hello.h"
#include "argosy/rpc/loop.h"
#include "argosy/rpc/ring.h"
#include "argosy/rpc/socket_channel.h"
#include "argosy/store/greeting.h"

namespace argosy::rpc {

// Somebody who has connected to us and is about to prove that he belongs to the
// job. Until he has, nothing of him is read but the greeting, and descriptors
// that he passes are closed. Used by the loop's thread only.
class Greeter : public Loop::Source,
                public std::enable_shared_from_this<Greeter> {
 public:
  // What became of him: a channel, or why he was turned away.
  struct Outcome {
    Hello hello{};
    std::unique_ptr<Channel> channel{};
    RingChannel* ring = nullptr;
    std::string refusal{};
    bool left = false; // closed the connection himself
  };
  using Done = std::function<void(Greeter&, Outcome)>;

  // What a server shows to all.
  struct Host {
    store::Credentials credentials;
    store::TlsContext tls; // for TCP
    std::string instance;
    int event_fd = -1;
    // Whether the session is known; called once he is proven.
    std::function<bool(const Hello&)> knows;
  };

  Greeter(store::Socket socket, bool is_unix, const Host& host, Done done);

  int fd() const { return is_unix_ ? socket_.fd() : stream_.fd(); }
  Loop::Time limit; // when he is too late
  std::uint64_t watch_id = 0;

  void on_events(std::uint32_t events) override;

 private:
  ssize_t read(std::span<std::byte> room);
  bool advance_greeting();
  bool is_other_user() const;
  void advance_hello();
  void welcome(const Hello& hello);
  bool write(std::string_view bytes);
  void refuse(std::string why);

  const bool is_unix_;
  const Host& host_;
  const Done done_;
  store::Socket socket_; // if it is a Unix socket
  store::Stream stream_; // else
  store::ServerGreeting greeting_;
  std::string in_;
  FrameReader reader_;
  std::vector<store::Socket> descriptors_;
  bool ended_ = false; // done_ was called
};

} // namespace argosy::rpc
