#include "argosy/comm/gloo/gloo_messenger.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <atomic>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "argosy/common/sigpipe.h"

namespace argosy::comm::gloo {

namespace {

using ::gloo::transport::UnboundBuffer;
using message::Messenger;
using message::Transfer;
using StorePtr = c10::intrusive_ptr<::c10d::Store>;

class RendezvousStore final : public ::gloo::rendezvous::Store {
 public:
  RendezvousStore(StorePtr store, Deadline deadline)
      : store_(std::move(store)), deadline_(deadline) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_->set(key, {data.begin(), data.end()});
    fault_point("gloo.published");
  }

  std::vector<char> get(const std::string& key) override {
    wait({key});
    const auto value = store_->get(key);
    return {value.begin(), value.end()};
  }

  void wait(const std::vector<std::string>& keys) override {
    store_->wait(keys, deadline_.remaining(std::chrono::hours(24)));
  }

  void wait(
      const std::vector<std::string>& keys,
      const std::chrono::milliseconds& /*timeout*/) override {
    wait(keys);
  }

 private:
  const StorePtr store_;
  const Deadline deadline_;
};

// A wait of Gloo that is given up ends all connections of its context, and
// says so in these words.
bool is_timeout(const std::string& text) {
  return text.find("Timed out waiting") != std::string::npos;
}

class GlooTransfer final : public Transfer {
 public:
  enum class Way { Send, Receive };

  GlooTransfer(std::unique_ptr<UnboundBuffer> buffer, Way way)
      : buffer_(std::move(buffer)), way_(way) {}

  void wait(Deadline deadline) override {
    const auto limit = deadline.remaining(std::chrono::hours(24));
    try {
      const bool done = way_ == Way::Send ? buffer_->waitSend(nullptr, limit)
                                          : buffer_->waitRecv(nullptr, limit);
      ARGOSY_ASSERT(done);
    } catch (const ::gloo::IoException& error) {
      if (is_timeout(error.what())) {
        throw TimeoutError(str("[comm.gloo] ", error.what()));
      }
      throw PeerLost(str("[comm.gloo] ", error.what()));
    }
  }

 private:
  const std::unique_ptr<UnboundBuffer> buffer_;
  const Way way_;
};

class GlooMessenger final : public Messenger {
 public:
  explicit GlooMessenger(std::shared_ptr<::gloo::Context> context)
      : context_(std::move(context)) {}

  std::string name() const override { return "gloo"; }
  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }

  std::unique_ptr<Transfer> send(
      int peer,
      std::uint64_t tag,
      const void* data,
      std::size_t bytes) override {
    auto buffer = buffer_of(data, bytes);
    post([&] { buffer->send(peer, tag); });
    return std::make_unique<GlooTransfer>(
        std::move(buffer), GlooTransfer::Way::Send);
  }

  std::unique_ptr<Transfer> receive(
      int peer, std::uint64_t tag, void* data, std::size_t bytes) override {
    auto buffer = buffer_of(data, bytes);
    post([&] { buffer->recv(peer, tag); });
    return std::make_unique<GlooTransfer>(
        std::move(buffer), GlooTransfer::Way::Receive);
  }

  // A wait for nothing: when it is given up, Gloo ends all connections, and
  // with them all transfers, those of the peers too.
  void abort(const std::string& /*reason*/) override {
    if (size() == 1 || aborted_.exchange(true)) {
      return;
    }
    const WithoutSigpipe guard;
    try {
      buffer_of(nullptr, 0)->waitRecv(nullptr, std::chrono::milliseconds(1));
    } catch (const std::exception&) {
      // As was meant.
    }
  }

 private:
  std::unique_ptr<UnboundBuffer> buffer_of(
      const void* data, std::size_t bytes) const {
    return context_->createUnboundBuffer(const_cast<void*>(data), bytes);
  }

  template <typename Post>
  static void post(const Post& act) {
    const WithoutSigpipe guard;
    try {
      act();
    } catch (const ::gloo::Exception& error) {
      throw PeerLost(str("[comm.gloo] ", error.what()));
    }
  }

  const std::shared_ptr<::gloo::Context> context_;
  std::atomic<bool> aborted_{false};
};

} // namespace

std::unique_ptr<Messenger> make_gloo_messenger(
    const StorePtr& store,
    int rank,
    int size,
    const std::string& address,
    Deadline deadline) {
  const WithoutSigpipe guard; // also of the device's thread
  try {
    ::gloo::transport::tcp::attr attributes;
    attributes.hostname = address;
    auto device = ::gloo::transport::tcp::CreateDevice(attributes);
    auto context = std::make_shared<::gloo::rendezvous::Context>(rank, size);
    context->setTimeout(deadline.remaining(std::chrono::hours(24)));
    RendezvousStore meeting_place(store, deadline);
    context->connectFullMesh(meeting_place, device);
    return std::make_unique<GlooMessenger>(std::move(context));
  } catch (const ::gloo::Exception& error) {
    const std::string text =
        str("[comm.gloo] rank ", rank, " cannot connect: ", error.what());
    if (deadline.expired()) {
      throw TimeoutError(text);
    }
    throw PeerLost(text);
  }
}

} // namespace argosy::comm::gloo
