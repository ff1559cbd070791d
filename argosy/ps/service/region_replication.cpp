// Two copies of a region: what the leader sends, and what the follower does
// with it.

#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/ps/service/region.h"
#include "argosy/ps/service/rows_codec.h"

namespace argosy::ps {

namespace {

// A follower that does not answer for so long is lost.
constexpr auto kFollowerPatience = std::chrono::seconds(30);
// Bytes of commands that a follower keeps while it loads the state.
constexpr std::size_t kMostHeldBackBytes = 64u << 20;
constexpr auto kLineupPatience = std::chrono::seconds(10);
// Messages with rows that a new follower may have to work on.
constexpr std::size_t kMostOutstandingRows = 4;

} // namespace

// How a copy of the state reaches a follower.
struct CopyLink {
  std::function<void()> start; // commands follow from now on
  std::function<void(StreamKind, std::uint32_t, rpc::Message)> send;
  std::function<std::size_t()> outstanding; // throws if the follower is lost
  std::function<void()> end;
};

// Copies the state to a follower.
class CopyJob final : public CutJob {
 public:
  explicit CopyJob(CopyLink link) : link_(std::move(link)) {}

  void begin(RegionState& state, std::uint64_t) override {
    link_.start();
    link_.send(
        StreamKind::Header, 0, {"", {rpc::Bytes::owned(state.save_header())}});
  }
  bool is_ready() override {
    return link_.outstanding() < kMostOutstandingRows;
  }
  void add(std::uint32_t table, RowBatch rows) override {
    link_.send(
        StreamKind::Rows, table, {"", {rpc::Bytes::owned(encode_rows(rows))}});
  }
  void end() override {
    link_.send(StreamKind::End, 0, {});
    link_.end();
  }
  void abort(const std::string&) override { link_.end(); }

 private:
  CopyLink link_;
};

void Region::join(rpc::IncomingCall call, const Member& follower) {
  post([this,
        follower,
        shared = std::make_shared<rpc::IncomingCall>(std::move(call))] {
    guarded(shared, [&] { on_join(shared, follower); });
  });
}

void Region::on_join(const Call& call, const Member& member) {
  if (refuse_unless_leader(call)) {
    return;
  }
  const bool known =
      (follower_ && follower_->member == member) || joining_ == member;
  if (!known) {
    const std::uint64_t session =
        directory_.next_incarnation(call->deadline().earlier(kLineupPatience));
    joining_ = member;
    waiting_jobs_.push_back(
        std::make_shared<CopyJob>(copy_link(member, session)));
  }
  answer(call, {.text = to_text(lineup_)});
}

CopyLink Region::copy_link(const Member& member, std::uint64_t session) {
  const auto is_current = [this, session] {
    return follower_ && follower_->session == session;
  };
  return {
      .start =
          [this, member, session] {
            if (follower_) {
              drop_follower(str_format("server {} came", member.server));
            }
            ARGOSY_CHECK(
                role_ == Role::Leader && !follower_,
                "[ps.server] this server cannot copy the region now");
            follower_ = Follower{.member = member, .session = session};
          },
      .send =
          [this, is_current](
              StreamKind kind, std::uint32_t table, rpc::Message message) {
            if (is_current()) {
              send_to_follower(kind, table, std::move(message));
            }
          },
      .outstanding = [this, is_current]() -> std::size_t {
        ARGOSY_CHECK(is_current(), "[ps.server] the follower is lost");
        return follower_->outstanding.size();
      },
      .end =
          [this, is_current] {
            joining_.reset();
            if (is_current()) {
              follower_->copied = true;
            }
          }};
}

void Region::send_to_follower(
    StreamKind kind, std::uint32_t table, rpc::Message message) {
  Follower& follower = *follower_;
  const std::uint64_t index = follower.next_index++;
  const std::uint64_t session = follower.session;
  follower.outstanding.insert(index);
  StreamMessage sent{
      .region = static_cast<std::uint32_t>(options_.region),
      .epoch = lineup_.epoch,
      .session = session,
      .index = index,
      .kind = kind,
      .table = table,
      .number = number_,
      .message = std::move(message)};
  endpoint_
      .call(
          follower.member.server,
          kReplicateMethod,
          encode(std::move(sent)),
          {.deadline = Deadline::after(kFollowerPatience)})
      .then([this, session, index](const rpc::Result<rpc::Message>& result) {
        std::string error;
        try {
          if (decode_reply(result.value()).status != Status::Ok) {
            error = "it follows another leader";
          }
        } catch (const std::exception& failure) {
          error = failure.what();
        }
        post([this, session, index, error] {
          on_follower_answer(session, index, error);
        });
      });
}

void Region::on_follower_answer(
    std::uint64_t session, std::uint64_t index, const std::string& error) {
  if (!follower_ || follower_->session != session) {
    return;
  }
  if (!error.empty()) {
    follower_->lost = error;
    drop_follower(error);
    return;
  }
  follower_->outstanding.erase(index);
  confirm_acknowledged();
  if (follower_->copied && !follower_->in_sync &&
      follower_->outstanding.empty()) {
    admit_follower();
  }
}

// Answers what the follower has.
void Region::confirm_acknowledged() {
  while (!unconfirmed_.empty() &&
         (!follower_ || follower_->outstanding.empty() ||
          unconfirmed_.front().index < *follower_->outstanding.begin())) {
    std::move(*unconfirmed_.front().call)
        .reply(std::move(unconfirmed_.front().reply));
    unconfirmed_.pop_front();
  }
}

// Changes the lineup of this leader in the store; steps down, and returns
// false, if another server leads there.
bool Region::change_lineup(const std::function<Lineup(const Lineup&)>& change) {
  while (true) {
    const Lineup desired = change(lineup_);
    const Lineup current = directory_.replace_lineup(
        options_.region, lineup_, desired, Deadline::after(kLineupPatience));
    const bool own = current.leader == options_.self;
    if (!own || (current != desired && current.epoch <= lineup_.epoch)) {
      step_down(current);
      return false;
    }
    lineup_ = current; // perhaps an own change, whose answer was lost
    if (current == desired) {
      return true;
    }
  }
}

// Goes on alone. If the follower was a backup the store has to know first: it
// could have taken over.
void Region::drop_follower(const std::string& why) {
  if (leaving_.load()) {
    return;
  }
  log::warn(
      "[ps.server] region {}: server {} no longer follows: {}",
      options_.region,
      follower_->member.server,
      why);
  if (follower_->in_sync || follower_->offered) {
    if (!change_lineup(after_backup_lost)) {
      return;
    }
    log_.set_owners({options_.self.incarnation}, lineup_.epoch);
  }
  follower_.reset();
  confirm_acknowledged();
}

// The follower has everything: from now on it may lead.
void Region::admit_follower() {
  follower_->offered = true; // even if the store's answer is lost
  const bool changed = change_lineup([this](const Lineup& lineup) {
    return with_backup(lineup, follower_->member);
  });
  if (!changed) {
    return;
  }
  follower_->in_sync = true;
  log_.set_owners({options_.self.incarnation}, lineup_.epoch);
  log::info(
      "[ps.server] region {}: server {} is the backup in epoch {}",
      options_.region,
      follower_->member.server,
      lineup_.epoch);
  send_to_follower(StreamKind::Admit, 0, {});
}

void Region::replicate(rpc::IncomingCall call) {
  post([this, shared = std::make_shared<rpc::IncomingCall>(std::move(call))] {
    guarded(shared, [&] { on_replicate(shared); });
  });
}

void Region::on_replicate(const Call& call) {
  StreamMessage message = decode_stream(call->take_request());
  if (message.epoch < fenced_epoch_ || role_ == Role::Leader) {
    answer(call, {.status = Status::NotLeader});
    return;
  }
  stream_.add(std::move(message), call);
  while (auto next = stream_.next()) {
    take_stream_message(std::move(next->first), next->second);
  }
}

void Region::take_stream_message(StreamMessage message, const Call& call) {
  guarded(call, [&] {
    switch (message.kind) {
      case StreamKind::Header:
        begin_loading(message);
        break;
      case StreamKind::Rows: {
        const std::string_view bytes = message.message.parts[0].text();
        log_.add_rows(message.table, bytes);
        state_->tables()
            .sparse(message.table)
            .sparse->partition(0)
            .import_rows(decode_rows(bytes));
        break;
      }
      case StreamKind::End:
        finish_loading();
        break;
      case StreamKind::Command:
        if (catching_up_) {
          hold_back(std::move(message), call);
          return;
        }
        follow_command(std::move(message.message), message.number);
        break;
      case StreamKind::Admit:
        fenced_epoch_ = message.epoch;
        log_.set_owners({options_.self.incarnation}, message.epoch);
        break;
    }
    answer(call, {.version = state_->version()});
  });
}

void Region::begin_loading(const StreamMessage& message) {
  role_ = Role::Follower;
  catching_up_ = true;
  held_back_.clear();
  held_back_bytes_ = 0;
  log_.set_owners({}, message.epoch); // what it has is worth nothing now
  log_.clear();
  state_ = std::make_unique<RegionState>(options_.region, options_.num_regions);
  const std::string_view header = message.message.parts[0].text();
  number_ = message.number;
  log_.begin_snapshot(number_);
  log_.add_header(header);
  state_->load_header(header);
}

void Region::finish_loading() {
  state_->finish_load();
  log_.commit_snapshot();
  catching_up_ = false;
  held_back_bytes_ = 0;
  for (HeldBack& held : std::exchange(held_back_, {})) {
    follow_command(std::move(held.command), held.number);
    answer(held.call, {.version = state_->version()});
  }
  log_.set_owners({options_.self.incarnation}, fenced_epoch_);
}

// Keeps a command until the state before it is there. The leader goes on, but
// not for ever: it waits for answers when much is kept.
void Region::hold_back(StreamMessage message, const Call& call) {
  held_back_bytes_ += message.message.bytes();
  held_back_.push_back({message.number, std::move(message.message), call});
  if (held_back_bytes_ < kMostHeldBackBytes) {
    answer(call, {.version = state_->version()});
  }
}

void Region::follow_command(rpc::Message message, std::uint64_t number) {
  ARGOSY_CHECK(
      number == number_ + 1,
      "[ps.replicate] command {} after {}",
      number,
      number_);
  log_.append(number, message);
  number_ = number;
  state_->replay(decode_command(std::move(message)));
}

} // namespace argosy::ps
