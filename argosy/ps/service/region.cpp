#include "argosy/ps/service/region.h"

#include <algorithm>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/ps/service/queries.h"

namespace argosy::ps {

namespace {

// How often a region looks for calls that have waited too long.
constexpr auto kTick = std::chrono::milliseconds(20);
// Tasks between two steps of a job that reads rows beside them.
constexpr int kTasksPerStep = 8;

} // namespace

Region::Region(
    RegionOptions options, rpc::Endpoint& endpoint, Directory& directory)
    : options_(std::move(options)),
      endpoint_(endpoint),
      directory_(directory),
      state_(
          std::make_unique<RegionState>(options_.region, options_.num_regions)),
      log_(options_.log, options_.region) {
  if (log_.position()) {
    number_ = log_.recover(*state_);
    log_position_ = log_.position();
  }
  thread_ = std::thread([this] { loop(); });
}

Region::~Region() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Region::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

std::deque<std::function<void()>> Region::next_tasks() {
  std::unique_lock lock(mutex_);
  const bool job_runs = job_ != nullptr;
  const auto limit = job_runs ? std::chrono::milliseconds(1) : kTick;
  wake_.wait_for(lock, limit, [this] { return !tasks_.empty() || stopping_; });
  return std::exchange(tasks_, {});
}

void Region::loop() {
  while (true) {
    auto tasks = next_tasks();
    int until_step = kTasksPerStep;
    for (auto& task : tasks) {
      run_guarded(task);
      if (--until_step == 0) {
        run_guarded([this] { step_job(); });
        until_step = kTasksPerStep;
      }
    }
    run_guarded([this] { step_job(); });
    run_guarded([this] { check_parked(); });
    const std::lock_guard lock(mutex_);
    if (stopping_ && tasks_.empty()) {
      break;
    }
  }
  job_.reset(); // ends its thread
}

void Region::run_guarded(const std::function<void()>& task) {
  try {
    task();
  } catch (const std::exception& error) {
    log::warn("[ps.server] region {}: {}", options_.region, error.what());
  }
}

void Region::answer(const Call& call, Reply reply) {
  std::move(*call).reply(encode(std::move(reply)));
}

// What goes wrong in an answer goes to the caller.
void Region::guarded(const Call& call, const std::function<void()>& body) {
  try {
    body();
  } catch (...) {
    std::move(*call).fail(std::current_exception());
  }
}

void Region::pull(rpc::IncomingCall call) {
  post([this, shared = std::make_shared<rpc::IncomingCall>(std::move(call))] {
    guarded(shared, [&] { on_pull(shared); });
  });
}

void Region::command(rpc::IncomingCall call) {
  post([this, shared = std::make_shared<rpc::IncomingCall>(std::move(call))] {
    guarded(shared, [&] { on_command(shared); });
  });
}

void Region::query(rpc::IncomingCall call) {
  post([this, shared = std::make_shared<rpc::IncomingCall>(std::move(call))] {
    guarded(shared, [&] { on_query(shared); });
  });
}

bool Region::refuse_unless_leader(const Call& call) {
  if (role_ == Role::Leader) {
    return false;
  }
  answer(call, {.status = Status::NotLeader});
  return true;
}

void Region::park(Parked parked) {
  parked_.push_back(std::move(parked));
}

// Answers calls whose time has come; ends those that nobody waits for.
void Region::check_parked() {
  may_unpark_ = false;
  if (held_until_ && Clock::now() > *held_until_) {
    held_until_.reset();
  }
  if (!held_until_) {
    for (auto& [call, command] : std::exchange(held_, {})) {
      guarded(call, [&] { judge(call, std::move(command)); });
    }
  }
  if (follower_ && !follower_->lost.empty()) {
    drop_follower(follower_->lost); // the store did not answer before
  }
  for (auto it = parked_.begin(); it != parked_.end();) {
    bool done = false;
    guarded(it->call, [&] {
      done = true; // also if it throws
      done = it->try_answer();
    });
    if (!done && it->call->deadline().expired()) {
      std::move(*it->call).fail(std::make_exception_ptr(
          TimeoutError(str_format("[ps.server] {}", it->missing()))));
      done = true;
    }
    it = done ? parked_.erase(it) : std::next(it);
  }
}

void Region::on_pull(const Call& call) {
  if (refuse_unless_leader(call)) {
    return;
  }
  const RowRequest request = decode_pull(call->request());
  if (state_->has_version(request.version)) {
    answer(call, state_->pull(request));
    return;
  }
  const std::int64_t version = request.version;
  park(
      {call,
       [this, call, request] {
         if (role_ != Role::Leader) {
           answer(call, {.status = Status::NotLeader});
           return true;
         }
         if (!state_->has_version(request.version)) {
           return false;
         }
         answer(call, state_->pull(request));
         return true;
       },
       [this, version] {
         return str_format(
             "step {} of region {} waits for workers {}",
             version - 1,
             options_.region,
             state_->missing_workers());
       }});
}

void Region::on_command(const Call& call) {
  if (refuse_unless_leader(call)) {
    return;
  }
  judge(call, decode_command(call->take_request()));
}

void Region::judge(const Call& call, Command command) {
  // Those that are held back come first.
  const bool holds = held_until_ || !held_.empty();
  if (holds && command.kind == CommandKind::Push) {
    held_.emplace_back(call, std::move(command));
    return;
  }
  if (command.number > 0) {
    const auto verdict =
        state_->sequences().judge(command.client, command.number);
    if (verdict == Sequences::Verdict::Gap) {
      answer(
          call,
          {.status = Status::Gap,
           .version = static_cast<std::int64_t>(
               state_->sequences().last(command.client))});
      return;
    }
    if (verdict == Sequences::Verdict::Duplicate) {
      // Perhaps the follower has not confirmed it yet.
      acknowledge(call, state_->repeat(command));
      return;
    }
  }
  try {
    if (command.kind == CommandKind::CreateTable &&
        !options_.load_folder.empty()) {
      create_loaded(call, std::move(command));
      return;
    }
    state_->check(command);
  } catch (...) {
    skip(command);
    throw;
  }
  execute(std::move(command), call);
}

// Uses up the number of a refused command, so that those after it are not too
// early. A synchronous step keeps its number: the worker pushes it again.
void Region::skip(const Command& refused) {
  if (refused.number == 0 || refused.step >= 0) {
    return;
  }
  Command command{
      .kind = CommandKind::Skip,
      .region = refused.region,
      .client = refused.client,
      .number = refused.number};
  command.message = encode(command);
  execute(std::move(command), nullptr);
}

// Log, execute, copy; the order in which all replicas do it.
void Region::execute(Command command, const Call& call) {
  log_.append(number_ + 1, command.message);
  ++number_;
  Reply reply = state_->apply(command);
  may_unpark_ = true;
  if (follower_) {
    send_to_follower(StreamKind::Command, 0, command.message);
  }
  if (call) {
    acknowledge(call, std::move(reply));
  }
  if (log_.wants_snapshot() && !job_ && waiting_jobs_.empty()) {
    waiting_jobs_.push_back(std::make_shared<CompactJob>(log_));
  }
  if (may_unpark_ && !parked_.empty()) {
    check_parked();
  }
}

// Answers when the follower has all that was sent to it until now.
void Region::acknowledge(const Call& call, Reply reply) {
  if (!follower_ || follower_->outstanding.empty()) {
    answer(call, std::move(reply));
    return;
  }
  unconfirmed_.push_back(
      {*follower_->outstanding.rbegin(), call, encode(std::move(reply))});
}

void Region::on_query(const Call& call) {
  if (refuse_unless_leader(call)) {
    return;
  }
  const rpc::Message& request = call->request();
  ByteReader in(request.head, "query");
  in.get<std::uint32_t>(); // the region
  switch (in.get<QueryKind>()) {
    case QueryKind::LastNumber: {
      const auto client = in.get<std::uint64_t>();
      ByteWriter out;
      out.put(state_->sequences().last(client));
      answer(call, {.version = state_->version(), .text = out.take()});
      return;
    }
    case QueryKind::Barrier: {
      const std::string name = in.text();
      const auto generation = in.get<std::int64_t>();
      park(
          {call,
           [this, call, name, generation] {
             if (role_ != Role::Leader) {
               answer(call, {.status = Status::NotLeader});
               return true;
             }
             if (!state_->has_passed(name, generation)) {
               return false;
             }
             answer(call, {.version = state_->version()});
             return true;
           },
           [name] {
             return str_format("barrier '{}' is not complete", name);
           }});
      check_parked();
      return;
    }
    case QueryKind::Stat: {
      const RegionTable& table =
          state_->tables().sparse(in.get<std::uint32_t>());
      const PartitionStat stat = table.sparse->stat();
      ByteWriter out;
      out.put(static_cast<std::uint64_t>(stat.rows))
          .put(static_cast<std::uint64_t>(stat.memory_bytes));
      answer(call, {.version = state_->version(), .text = out.take()});
      return;
    }
    case QueryKind::Hold:
      held_until_ = Clock::now() + std::chrono::seconds(5);
      answer(call, {.version = state_->version()});
      return;
    case QueryKind::Save:
      begin_save(call, in);
      return;
    case QueryKind::Load:
      begin_load(call, in);
      return;
  }
  throw InvalidArgument("[ps.query] a question that does not exist");
}

} // namespace argosy::ps
