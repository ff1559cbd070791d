#include "argosy/comm/message/sub_messenger.h"

#include <algorithm>
#include <utility>

#include "argosy/common/error.h"

namespace argosy::comm::message {

namespace {

class SubMessenger final : public Messenger {
 public:
  SubMessenger(
      std::shared_ptr<Messenger> whole,
      std::vector<int> ranks,
      std::uint64_t first_tag)
      : whole_(std::move(whole)),
        ranks_(std::move(ranks)),
        first_tag_(first_tag) {
    const auto own = std::ranges::find(ranks_, whole_->rank());
    ARGOSY_ASSERT(own != ranks_.end(), whole_->rank());
    rank_ = static_cast<int>(own - ranks_.begin());
  }

  std::string name() const override { return whole_->name(); }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }

  std::unique_ptr<Transfer> send(
      int peer,
      std::uint64_t tag,
      const void* data,
      std::size_t bytes) override {
    return whole_->send(in_whole(peer), first_tag_ + tag, data, bytes);
  }

  std::unique_ptr<Transfer> receive(
      int peer, std::uint64_t tag, void* data, std::size_t bytes) override {
    return whole_->receive(in_whole(peer), first_tag_ + tag, data, bytes);
  }

  // Ends the other groups of the same messenger too: they fail together.
  void abort(const std::string& reason) override { whole_->abort(reason); }

 private:
  int in_whole(int peer) const {
    return ranks_[static_cast<std::size_t>(peer)];
  }

  const std::shared_ptr<Messenger> whole_;
  const std::vector<int> ranks_;
  const std::uint64_t first_tag_;
  int rank_ = 0;
};

} // namespace

std::unique_ptr<Messenger> make_sub_messenger(
    std::shared_ptr<Messenger> whole,
    std::vector<int> ranks,
    std::uint64_t first_tag) {
  return std::make_unique<SubMessenger>(
      std::move(whole), std::move(ranks), first_tag);
}

} // namespace argosy::comm::message
