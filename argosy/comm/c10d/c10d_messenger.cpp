#include "argosy/comm/c10d/c10d_messenger.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

// After c10d: clang 14 wants IValue complete before tensors.
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <atomic>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/sigpipe.h"

namespace argosy::comm {

namespace {

using message::Messenger;
using message::Transfer;
using WorkPtr = c10::intrusive_ptr<::c10d::Work>;

at::Tensor bytes_at(const void* data, std::size_t bytes) {
  return at::from_blob(
      const_cast<void*>(data), {static_cast<std::int64_t>(bytes)}, at::kByte);
}

class C10dTransfer final : public Transfer {
 public:
  explicit C10dTransfer(WorkPtr work) : work_(std::move(work)) {}

  void wait(Deadline deadline) override {
    try {
      work_->wait(deadline.remaining(std::chrono::hours(24)));
    } catch (const std::exception& error) {
      const std::string text = str("[comm.c10d] ", error.what());
      if (text.find("Timed out waiting") != std::string::npos) {
        throw TimeoutError(text);
      }
      throw PeerLost(text);
    }
  }

 private:
  const WorkPtr work_;
};

class C10dMessenger final : public Messenger {
 public:
  explicit C10dMessenger(c10::intrusive_ptr<::c10d::ProcessGroup> group)
      : group_(std::move(group)) {}

  std::string name() const override {
    return "c10d:" + group_->getBackendName();
  }
  int rank() const override { return group_->getRank(); }
  int size() const override { return group_->getSize(); }

  std::unique_ptr<Transfer> send(
      int peer,
      std::uint64_t tag,
      const void* data,
      std::size_t bytes) override {
    std::vector<at::Tensor> tensors = {bytes_at(data, bytes)};
    return post(
        [&] { return group_->send(tensors, peer, static_cast<int>(tag)); });
  }

  std::unique_ptr<Transfer> receive(
      int peer, std::uint64_t tag, void* data, std::size_t bytes) override {
    std::vector<at::Tensor> tensors = {bytes_at(data, bytes)};
    return post(
        [&] { return group_->recv(tensors, peer, static_cast<int>(tag)); });
  }

  // Gloo's group ends all its connections, and with them all transfers, when
  // the time of one is up. So we wait, very briefly, for what nobody sends.
  void abort(const std::string& /*reason*/) override {
    if (aborted_.exchange(true)) {
      return;
    }
    const WithoutSigpipe guard;
    constexpr int kNobodysTag = 1 << 30;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) {
        continue;
      }
      try {
        std::vector<at::Tensor> nothing = {at::empty({1}, at::kByte)};
        group_->recv(nothing, peer, kNobodysTag)
            ->wait(std::chrono::milliseconds(1));
      } catch (const std::exception&) {
        // As was meant; those that are already closed throw too.
      }
    }
  }

 private:
  template <typename Post>
  static std::unique_ptr<Transfer> post(const Post& act) {
    const WithoutSigpipe guard;
    try {
      return std::make_unique<C10dTransfer>(act());
    } catch (const std::exception& error) {
      throw PeerLost(str("[comm.c10d] ", error.what()));
    }
  }

  const c10::intrusive_ptr<::c10d::ProcessGroup> group_;
  std::atomic<bool> aborted_{false};
};

} // namespace

std::unique_ptr<Messenger> make_c10d_messenger(
    c10::intrusive_ptr<::c10d::ProcessGroup> group) {
  return std::make_unique<C10dMessenger>(std::move(group));
}

} // namespace argosy::comm
