// Who leads a region: the part of Region that changes its role.

#include <algorithm>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/ps/service/region.h"

namespace argosy::ps {

namespace {

// A store that does not answer for so long is lost, and the job with it.
constexpr auto kStorePatience = std::chrono::seconds(10);

} // namespace

bool Region::can_recover_as(std::uint64_t incarnation) const {
  return log_.belongs_to(incarnation);
}

void Region::prepare_recovery(const Lineup& recorded) {
  std::vector<std::uint64_t> owners = {
      options_.self.incarnation, recorded.leader.incarnation};
  if (recorded.backup) {
    owners.push_back(recorded.backup->incarnation);
  }
  log_.set_owners(std::move(owners), recorded.epoch + 1);
}

void Region::become_leader(const Lineup& lineup) {
  log_.set_owners({options_.self.incarnation}, lineup.epoch);
  role_ = Role::Leader;
  lineup_ = lineup;
  fenced_epoch_ = lineup.epoch;
  catching_up_ = false;
  stream_.reset();
  // A save of the leader before has ended with it.
  state_->tables().end_cut(false);
  log::info(
      "[ps.server] server {} leads region {} in epoch {}, {} steps applied",
      options_.self.server,
      options_.region,
      lineup.epoch,
      state_->version());
}

// Another server leads, as the store says: all who wait here ask there. What
// was read in the store before counts no more.
void Region::step_down(const Lineup& current) {
  const std::string why = str_format("the store says '{}'", to_text(current));
  log::warn(
      "[ps.server] server {} no longer leads region {}: {}",
      options_.self.server,
      options_.region,
      why);
  role_ = Role::Idle;
  lineup_ = current;
  fenced_epoch_ = std::max(fenced_epoch_, current.epoch);
  follower_.reset();
  joining_.reset();
  for (const Unconfirmed& waiting : std::exchange(unconfirmed_, {})) {
    answer(waiting.call, {.status = Status::NotLeader});
  }
  for (const auto& [call, command] : std::exchange(held_, {})) {
    answer(call, {.status = Status::NotLeader});
  }
  held_until_.reset();
  drop_jobs(why);
  drop_loads();
  check_parked();
}

// Who waits for a save asks the leader for one.
void Region::drop_jobs(const std::string& why) {
  auto jobs = std::exchange(waiting_jobs_, {});
  if (job_) {
    jobs.push_front(job_);
  }
  for (const auto& job : jobs) {
    if (const auto* save = dynamic_cast<const SaveJob*>(job.get())) {
      answer(save->call(), {.status = Status::NotLeader});
    }
  }
  end_job(why);
}

void Region::confirm(const Lineup& lineup) {
  post([this, lineup] { on_confirm(lineup); });
}

void Region::on_confirm(const Lineup& lineup) {
  if (lineup.epoch < lineup_.epoch) {
    return; // read before something that we know
  }
  if (lineup.leader == options_.self) {
    if (role_ != Role::Leader) {
      lineup_ = lineup;
      // Nobody follows yet.
      if (!lineup.backup || change_lineup(after_backup_lost)) {
        become_leader(lineup_);
      }
    }
    return;
  }
  if (role_ == Role::Leader) {
    step_down(lineup);
  }
  if (lineup.backup == options_.self) {
    lineup_ = lineup;
    fenced_epoch_ = std::max(fenced_epoch_, lineup.epoch);
  }
}

void Region::take_over(rpc::IncomingCall call, std::uint64_t epoch) {
  post([this,
        epoch,
        shared = std::make_shared<rpc::IncomingCall>(std::move(call))] {
    guarded(shared, [&] { on_take_over(shared, epoch); });
  });
}

void Region::on_take_over(const Call& call, std::uint64_t epoch) {
  const Deadline deadline = call->deadline().earlier(kStorePatience);
  auto recorded = directory_.lineup(options_.region, deadline);
  if (recorded && recorded->epoch == epoch &&
      recorded->backup == options_.self) {
    const Lineup desired = after_leader_lost(*recorded);
    recorded =
        directory_.replace_lineup(options_.region, recorded, desired, deadline);
    if (*recorded == desired) {
      become_leader(desired);
    }
  }
  answer(call, {.text = recorded ? to_text(*recorded) : ""});
}

} // namespace argosy::ps
