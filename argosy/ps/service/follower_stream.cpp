#include "argosy/ps/service/follower_stream.h"

#include "argosy/common/error.h"
#include "argosy/ps/service/bytes.h"

namespace argosy::ps {

namespace {

// A leader has few messages under way; more is no leader.
constexpr std::size_t kMostEarly = 65536;

} // namespace

rpc::Message encode(StreamMessage message) {
  ByteWriter out;
  out.put(message.region)
      .put(message.epoch)
      .put(message.session)
      .put(message.index)
      .put(message.kind)
      .put(message.table)
      .put(message.number)
      .text(message.message.head);
  return {out.take(), std::move(message.message.parts)};
}

StreamMessage decode_stream(rpc::Message message) {
  ByteReader in(message.head, "replicate");
  StreamMessage result;
  result.region = in.get<std::uint32_t>();
  result.epoch = in.get<std::uint64_t>();
  result.session = in.get<std::uint64_t>();
  result.index = in.get<std::uint64_t>();
  result.kind = in.get<StreamKind>();
  ARGOSY_CHECK(
      result.kind <= StreamKind::Admit,
      "[ps.replicate] a message of kind {}, expected 0 to 4",
      static_cast<int>(result.kind));
  result.table = in.get<std::uint32_t>();
  result.number = in.get<std::uint64_t>();
  result.message.head = in.text();
  in.end();
  const bool has_part =
      result.kind == StreamKind::Header || result.kind == StreamKind::Rows;
  ARGOSY_CHECK(
      !has_part || message.parts.size() == 1,
      "[ps.replicate] {} parts, expected one",
      message.parts.size());
  result.message.parts = std::move(message.parts);
  return result;
}

void FollowerStream::add(StreamMessage message, Call call) {
  if (message.kind == StreamKind::Header && message.session != session_) {
    reset();
    session_ = message.session;
  }
  if (message.session != session_ || message.index < next_index_) {
    return; // the call ends unanswered: the leader hears of it
  }
  ARGOSY_CHECK(
      early_.size() < kMostEarly,
      "[ps.replicate] {} messages before number {}",
      early_.size(),
      next_index_);
  const std::uint64_t index = message.index;
  early_.try_emplace(index, std::move(message), std::move(call));
}

std::optional<std::pair<StreamMessage, FollowerStream::Call>>
FollowerStream::next() {
  const auto found = early_.find(next_index_);
  if (found == early_.end()) {
    return std::nullopt;
  }
  auto result = std::move(found->second);
  early_.erase(found);
  ++next_index_;
  return result;
}

void FollowerStream::reset() {
  session_ = 0;
  next_index_ = 0;
  early_.clear();
}

} // namespace argosy::ps
