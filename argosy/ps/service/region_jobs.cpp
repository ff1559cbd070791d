// What a region does beside its traffic: saves, loads, snapshots for the log,
// copies for followers.

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/ps/service/region.h"
#include "argosy/ps/service/rows_codec.h"
#include "argosy/ps/table/save.h"

namespace argosy::ps {

namespace {

// Rows that a job takes at a time: about the time of a small pull.
constexpr std::size_t kRowsPerStep = 2048;
// Commands of a load that the follower may have to work on.
constexpr std::size_t kMostUnconfirmedLoads = 8;

} // namespace

// Reads saved files and turns them into commands.
struct LoadJob {
  std::vector<std::shared_ptr<rpc::IncomingCall>> calls; // who waits for it
  std::string folder;
  std::vector<std::uint32_t> rest{}; // tables to read, the next one last
  std::unique_ptr<ShardFilesReader> reader{};
};

void Region::start_next_job() {
  if (job_ || waiting_jobs_.empty() || state_->tables().has_cut()) {
    return;
  }
  // Held here, too: it may end while it begins, when this server must not lead
  // any more.
  const std::shared_ptr<CutJob> job = waiting_jobs_.front();
  waiting_jobs_.pop_front();
  job_ = job;
  job_has_rows_ = true;
  try {
    if (job->mode() == SaveMode::Checkpoint) {
      state_->tables().begin_cut(SaveMode::Checkpoint);
    } else {
      // The end of this save changes rows: followers must know of the cut.
      Command command{
          .kind = CommandKind::SaveBegin,
          .region = static_cast<std::uint32_t>(options_.region),
          .step = static_cast<std::int64_t>(job->mode())};
      command.message = encode(command);
      state_->check(command);
      execute(std::move(command), nullptr);
    }
    if (job_ == job) {
      job->begin(*state_, number_);
    }
  } catch (const std::exception& error) {
    end_job(error.what());
  }
}

void Region::step_job() {
  step_load();
  start_next_job();
  if (!job_) {
    return;
  }
  try {
    std::uint32_t table = 0;
    RowBatch rows;
    while (job_has_rows_ && job_->is_ready()) {
      if (state_->tables().next_rows(kRowsPerStep, table, rows)) {
        job_->add(table, std::move(rows));
        return; // other work comes first
      }
      job_has_rows_ = false;
      job_->end();
    }
    if (!job_has_rows_ && job_->is_finished()) {
      end_job("");
    }
  } catch (const std::exception& error) {
    end_job(error.what());
  }
}

void Region::end_job(const std::string& error) {
  if (!job_) {
    return;
  }
  const auto job = std::exchange(job_, nullptr);
  const auto* save = dynamic_cast<const SaveJob*>(job.get());
  const bool changes_rows = job->mode() != SaveMode::Checkpoint;
  if (!changes_rows || role_ != Role::Leader) {
    state_->tables().end_cut(false);
  }
  if (!error.empty()) {
    log::warn("[ps.server] region {}: {}", options_.region, error);
    job->abort(error);
  }
  const bool saved = save != nullptr && error.empty();
  if (role_ == Role::Leader && (changes_rows || saved)) {
    // One command for both: rows change, and the save counts as done for a
    // client that asks again.
    Command command{
        .kind = CommandKind::SaveEnd,
        .region = static_cast<std::uint32_t>(options_.region),
        .client = saved ? save->request().client : 0,
        .number = saved ? save->request().number : 0,
        .step = error.empty() ? 1 : 0};
    command.message = encode(command);
    execute(std::move(command), saved ? save->call() : nullptr);
  }
}

void Region::begin_save(const Call& call, ByteReader& in) {
  const auto version = in.get<std::int64_t>();
  SaveRequest request;
  request.folder = in.text();
  request.mode = save_mode(in.get<std::int32_t>());
  request.table = in.get<std::int32_t>();
  request.client = in.get<std::uint64_t>();
  request.number = in.get<std::uint64_t>();
  if (state_->has_version(version)) {
    start_save(call, request);
    return;
  }
  park(
      {call,
       [this, call, version, request] {
         if (!refuse_unless_leader(call)) {
           if (!state_->has_version(version)) {
             return false;
           }
           start_save(call, request);
         }
         return true;
       },
       [this, version] {
         return str_format(
             "a save after {} steps waits for workers {}",
             version,
             state_->missing_workers());
       }});
}

void Region::start_save(const Call& call, const SaveRequest& request) {
  // Asked again, since the answer was lost.
  if (state_->sequences().judge(request.client, request.number) ==
      Sequences::Verdict::Duplicate) {
    acknowledge(call, {.version = state_->version()});
    return;
  }
  waiting_jobs_.push_back(std::make_shared<SaveJob>(request, call));
  start_next_job();
  held_until_.reset(); // the cut is made: pushes go on
}

void Region::begin_load(const Call& call, ByteReader& in) {
  auto load = std::make_shared<LoadJob>();
  load->calls.push_back(call);
  load->folder = in.text();
  const auto only = in.get<std::int32_t>();
  for (auto& [id, table] : state_->tables().all()) {
    if (only < 0 || only == static_cast<int>(id)) {
      load->rest.push_back(id);
    }
  }
  loads_.push_back(std::move(load));
}

// A new table begins with what was saved; whoever makes it waits.
void Region::create_loaded(const Call& call, Command command) {
  const TableSpec spec = decode_table(command.text);
  const auto id = static_cast<std::uint32_t>(spec.id());
  for (const auto& load : loads_) {
    if (std::find(load->rest.begin(), load->rest.end(), id) !=
        load->rest.end()) {
      load->calls.push_back(call);
      execute(std::move(command), nullptr);
      return;
    }
  }
  const bool is_new = !state_->tables().all().contains(id);
  state_->check(command);
  if (!is_new || spec.is_dense) {
    execute(std::move(command), call);
    return;
  }
  execute(std::move(command), nullptr);
  auto load = std::make_shared<LoadJob>();
  load->calls.push_back(call);
  load->folder = options_.load_folder;
  load->rest.push_back(id);
  loads_.push_back(std::move(load));
}

// Another server leads: who waits asks there.
void Region::drop_loads() {
  for (const auto& load : std::exchange(loads_, {})) {
    for (const Call& call : load->calls) {
      answer(call, {.status = Status::NotLeader});
    }
  }
}

void Region::step_load() {
  if (loads_.empty() ||
      (follower_ && follower_->outstanding.size() > kMostUnconfirmedLoads)) {
    return;
  }
  const auto load = loads_.front();
  try {
    if (!load->rest.empty()) {
      load_next_rows(*load);
      return;
    }
    loads_.pop_front();
    for (const Call& call : load->calls) {
      acknowledge(call, {.version = state_->version()});
    }
  } catch (...) {
    loads_.pop_front();
    for (const Call& call : load->calls) {
      std::move(*call).fail(std::current_exception());
    }
  }
}

void Region::load_next_rows(LoadJob& load) {
  const std::uint32_t id = load.rest.back();
  const Deadline deadline = load.calls.front()->deadline();
  RegionTable& table = state_->tables().find(id);
  Command command{
      .region = static_cast<std::uint32_t>(options_.region), .table = id};
  if (table.dense) {
    DenseTable loaded(table.spec.dense, table.dense->size());
    const DenseRange range = dense_range(
        table.spec.dense_size, options_.num_regions, options_.region);
    load_dense(
        loaded, load.folder, range.begin, table.spec.dense_size, deadline);
    command.kind = CommandKind::SetDenseState;
    command.text = encode_dense(loaded);
    load.rest.pop_back();
  } else {
    if (!load.reader) {
      load.reader = std::make_unique<ShardFilesReader>(
          *table.sparse, load.folder, deadline);
    }
    RowBatch rows;
    if (!load.reader->next(kRowsPerStep, rows, deadline)) {
      load.reader.reset();
      load.rest.pop_back();
      return;
    }
    command.kind = CommandKind::ImportRows;
    command.text = encode_rows(rows);
  }
  command.message = encode(command);
  execute(std::move(command), nullptr);
}

} // namespace argosy::ps
