#include "argosy/elastic/job.h"

#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "argosy/comm/objects.h"
#include "argosy/common/environment.h"
#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "argosy/common/log.h"
#include "argosy/common/no_restart_note.h"
#include "argosy/elastic/epoch_watch.h"
#include "argosy/elastic/image.h"
#include "argosy/elastic/meeting.h"
#include "argosy/store/credentials.h"
#include "argosy/store/mem_kv.h"
#include "argosy/store/open_kv.h"
#include "argosy/world/epoch_world.h"
#include "argosy/world/init.h"
#include "argosy/world/world.h"

namespace argosy::elastic {

namespace {

using std::chrono::milliseconds;

// What each rank had after it computed a step, by rank: known to all, so that
// the replacement of a dead rank continues where that one was.
using Records = std::vector<std::string>;

// Unwinds the body when its world has ended and the ranks have met again. Not
// an exception that anybody else handles.
struct WorldEnded {};

// All that run() of one rank needs from the place where it was started.
struct Place {
  LaunchInfo info = launch_info();
  milliseconds timeout = default_timeout(Environment::of_process());
  std::string space = str("argosy/", info.run_id, "/", info.restart_count, "/");
  std::shared_ptr<store::Kv> kv;
};

std::shared_ptr<store::Kv> open_store(
    const LaunchInfo& info, Deadline deadline) {
  if (info.size == 1) {
    return std::make_shared<store::MemKv>();
  }
  ARGOSY_CHECK(
      !info.serves_store && info.rank >= 0 && !info.store_url.empty(),
      "[elastic.run] the store where the ranks meet ends with rank 0 ({}), "
      "expected one that the launcher serves: argosy run --restart-policy "
      "worker",
      info.store_url);
  return store::open_kv(
      info.store_url,
      deadline,
      store::credentials_of(Environment::of_process()));
}

Place find_place() {
  Place place;
  place.kv = open_store(place.info, Deadline::after(place.timeout));
  return place;
}

// To start a rank again does not help any more.
void tell_launcher() {
  if (const auto dir = Environment::of_process().find("ARGOSY_FLIGHT_DIR")) {
    write_no_restart_note(*dir);
  }
}

// Why the world cannot go on, if it was that what ended `action`.
std::optional<std::string> failure_of(const std::function<void()>& action) {
  try {
    action();
    return std::nullopt;
  } catch (const PeerLost& error) {
    return error.what();
  } catch (const TimeoutError& error) {
    return error.what();
  }
}

} // namespace

// What a rank keeps over all worlds of a job.
class Job::Impl {
 public:
  Impl(checkpoint::State& state, const Options& options, Place place)
      : state_(state),
        options_(options),
        place_(std::move(place)),
        meeting_(place_.kv, place_.space, place_.info.rank, place_.info.size) {}

  void run(const std::function<void(Job&)>& body);
  void train(
      std::int64_t num_steps,
      const std::function<void()>& compute,
      const std::function<void()>& update);

  std::int64_t step() const { return std::max<std::int64_t>(applied_, 0); }
  std::int64_t epoch() const { return met_.epoch; }

 private:
  bool run_world(const std::function<void(Job&)>& body);
  void meet(milliseconds limit);
  void check_deaths();
  void check_progress(const std::string& reason);
  void open_world();
  void give_state();
  void begin_training();
  void agree(std::int64_t step);
  void apply(const std::function<void()>& update);
  void end_world(const std::string& reason);
  void recover(
      const std::string& reason,
      bool has_computed,
      const std::function<void()>& update);

  int rank() const { return place_.info.rank; }
  int size() const { return place_.info.size; }

  checkpoint::State& state_;
  const Options options_;
  const Place place_;
  Meeting meeting_;

  Met met_; // of the present world
  std::shared_ptr<World> world_;
  bool is_running_ = false; // the present world has not ended

  std::int64_t applied_ = kNoState; // steps
  int futile_ = 0;                  // failures of the next step, nobody dead
  Records records_;                 // after `applied_` steps
  // What the next step's compute will change: of after `applied_` steps.
  Image boundary_;
};

void Job::Impl::run(const std::function<void(Job&)>& body) {
  meet(
      Environment::of_process().find("ARGOSY_WORKER_RESTARTS").value_or("0") ==
              "0"
          ? place_.timeout
          : options_.replacement_timeout);
  check_deaths();
  while (!met_.is_over && !run_world(body)) {
  }
}

// Whether the job is done; else the ranks have met again.
bool Job::Impl::run_world(const std::function<void(Job&)>& body) {
  try {
    open_world();
    const EpochWatch watch(
        [this, epoch = met_.epoch] { return meeting_.has_ended(epoch); },
        [world = world_] { world->abort("another rank is gone"); });
    give_state();
    Job job(*this);
    body(job);
    is_running_ = false;
    if (meeting_.finish(met_.epoch, Deadline::after(place_.timeout))) {
      return true;
    }
    recover("a rank is gone", false, nullptr);
  } catch (const WorldEnded&) {
  } catch (const PeerLost& error) {
    recover(error.what(), false, nullptr);
  } catch (const TimeoutError& error) {
    if (!is_running_) {
      throw; // of a meeting
    }
    recover(error.what(), false, nullptr);
  }
  return false;
}

void Job::Impl::meet(milliseconds limit) {
  fault_point("elastic.meet");
  try {
    met_ =
        meeting_.meet(applied_, comm::encode(records_), Deadline::after(limit));
  } catch (const Error&) {
    tell_launcher();
    throw;
  }
  log::info("[elastic.meet] epoch ", met_.epoch, ": ", met_.plan);
}

// Called by a process that has just started.
void Job::Impl::check_deaths() {
  const auto restarts =
      Environment::of_process().find("ARGOSY_WORKER_RESTARTS").value_or("0");
  if (restarts == "0") {
    return;
  }
  const std::int64_t step = std::max<std::int64_t>(met_.plan.step, 0);
  const std::int64_t deaths = meeting_.count_death(step);
  if (deaths >= options_.deaths_at_step) {
    tell_launcher();
    throw RankFailed(
        rank(),
        str_format(
            "[elastic.run] rank {} died {} times in step {}, expected fewer "
            "than {}",
            rank(),
            deaths,
            step + 1,
            options_.deaths_at_step));
  }
}

void Job::Impl::open_world() {
  world_ = make_epoch_world(
      place_.info,
      place_.kv,
      str(place_.space, "epoch/", met_.epoch),
      place_.timeout);
  is_running_ = true;
}

// Newcomers get the state of the plan's source, and what their predecessors
// alone had from the records.
void Job::Impl::give_state() {
  const RecoveryPlan& plan = met_.plan;
  const bool is_new = applied_ == kNoState;
  if (plan.source < 0 || plan.newcomers.empty() ||
      !(is_new || plan.source == rank())) {
    return;
  }
  std::vector<int> members = plan.newcomers;
  members.push_back(plan.source);
  fault_point("elastic.give");
  Image image = is_new ? Image() : Image::of_all(state_, rank());
  image.broadcast(plan.source, shared_group(world_, std::move(members)));
  if (is_new) {
    const auto records = comm::decode<Records>(met_.records);
    image.take_record(records.at(static_cast<std::size_t>(rank())));
    image.put_into(state_, rank(), size());
    records_ = records;
    boundary_ = Image::of_compute(state_, rank());
    applied_ = plan.step;
  }
}

// Wrappers that the body made have changed buffers; samplers drew numbers.
void Job::Impl::begin_training() {
  if (applied_ == kNoState) {
    agree(0);
    applied_ = 0;
    boundary_ = Image::of_compute(state_, rank());
  } else {
    boundary_.put_into(state_, rank(), size());
  }
  log::info("[elastic.run] continues after step ", applied_);
}

// When it returns, all ranks have computed the step, and all can apply it.
void Job::Impl::agree(std::int64_t step) {
  fault_point("elastic.agree");
  using Item = std::pair<std::int64_t, std::string>;
  std::vector<Item> items;
  all_gather_object(
      items, Item{step, Image::of_compute(state_, rank()).record()});
  if (fault_fails("elastic.agreed")) {
    throw PeerLost("[elastic.run] as if a rank had died in the agreement");
  }
  Records records;
  for (Item& item : items) {
    ARGOSY_ASSERT(
        item.first == step,
        "ranks agree on step {} and on step {}",
        step,
        item.first);
    records.push_back(std::move(item.second));
  }
  records_ = std::move(records);
}

void Job::Impl::apply(const std::function<void()>& update) {
  update();
  ++applied_;
  futile_ = 0;
  fault_point("elastic.applied");
  boundary_ = Image::of_compute(state_, rank());
}

void Job::Impl::train(
    std::int64_t num_steps,
    const std::function<void()>& compute,
    const std::function<void()>& update) {
  const auto check = [&](const std::optional<std::string>& failure,
                         bool has_computed) {
    if (failure) {
      recover(*failure, has_computed, update);
      throw WorldEnded();
    }
  };
  check(failure_of([&] { begin_training(); }), false);
  while (applied_ < num_steps) {
    fault_point("elastic.compute");
    check(failure_of(compute), false);
    check(failure_of([&] { agree(applied_ + 1); }), true);
    apply(update);
  }
}

void Job::Impl::end_world(const std::string& reason) {
  is_running_ = false;
  log::warn("[elastic.run] after step {}: {}; meeting again", step(), reason);
  meeting_.end(met_.epoch);
  world_->abort(str("rank ", rank(), " leaves the world: ", reason));
}

void Job::Impl::recover(
    const std::string& reason,
    bool has_computed,
    const std::function<void()>& update) {
  end_world(reason);
  meet(options_.replacement_timeout);
  if (met_.is_over || applied_ == kNoState) {
    return;
  }
  if (applied_ == met_.plan.step) {
    check_progress(reason);
    boundary_.put_into(state_, rank(), size()); // before others get the state
    return;
  }
  ARGOSY_ASSERT(
      has_computed,
      "others have applied step {}, which this rank has not computed",
      met_.plan.step);
  // Before the update: whoever dies now, this rank has what all had.
  records_ = comm::decode<Records>(met_.records);
  apply(update);
}

// A step that fails though all are there (a loader whose time is up) fails
// again.
void Job::Impl::check_progress(const std::string& reason) {
  futile_ = met_.plan.newcomers.empty() ? futile_ + 1 : 0;
  if (futile_ >= options_.deaths_at_step) {
    tell_launcher();
    throw Error(str_format(
        "[elastic.run] step {} failed {} times though no rank died: {}",
        applied_ + 1,
        futile_,
        reason));
  }
}

void Job::train(
    std::int64_t num_steps,
    const std::function<void()>& compute,
    const std::function<void()>& update) {
  impl_.train(num_steps, compute, update);
}

std::int64_t Job::step() const {
  return impl_.step();
}

std::int64_t Job::epoch() const {
  return impl_.epoch();
}

void run(
    checkpoint::State& state,
    const Options& options,
    const std::function<void(Job&)>& body) {
  ARGOSY_CHECK(
      !is_initialized(),
      "[elastic.run] this thread has a world already, expected none: run() "
      "makes it");
  Job::Impl(state, options, find_place()).run(body);
}

} // namespace argosy::elastic
