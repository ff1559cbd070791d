// Saving: plan, write, and commit once all ranks have written.

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <exception>
#include <thread>
#include <utility>

#include "argosy/checkpoint/checkpointer.h"
#include "argosy/checkpoint/progress_log.h"
#include "argosy/checkpoint/rank_writer.h"
#include "argosy/checkpoint/save_plan.h"
#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "argosy/common/log.h"
#include "argosy/common/rank_label.h"
#include "argosy/world/world.h"

namespace argosy::checkpoint {

namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32] = {};
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// Training comes first.
void lower_priority() {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), 10);
}

// The ranks that save, with a communicator that nobody else uses: operations of
// training must not mix with those of a save beside it.
Ranks ranks_of(const CheckpointOptions& options) {
  if (options.group != nullptr) {
    return Ranks(options.group);
  }
  const auto world = current_world();
  if (world == nullptr || world->size() == 1) {
    return Ranks();
  }
  return Ranks(new_group({}, "auto", options.timeout));
}

json to_json(const Encryption& encryption) {
  return {
      {"algorithm", encryption.algorithm},
      {"salt", encryption.salt},
      {"check", encryption.check}};
}

Encryption encryption_of(const json& value) {
  return {
      value.at("algorithm").get<std::string>(),
      value.at("salt").get<std::string>(),
      value.at("check").get<std::string>()};
}

} // namespace

// A save from its begin to its end. Made by save(), ended by complete(), which
// another thread may run.
struct SaveRun {
  std::int64_t step = 0;
  std::shared_ptr<const SavePlan> plan;
  json values;
  bool has_folder = false;
  std::shared_ptr<const Cipher> cipher;
  std::unique_ptr<RankWriter> writer;
  std::exception_ptr error; // of this rank, before complete()
  SaveReport report;
  Clock::time_point begin = Clock::now();
  std::optional<ProgressLog> progress;
};

struct Checkpointer::Impl {
  Impl(std::string url, CheckpointOptions its_options)
      : options(std::move(its_options)),
        ranks(ranks_of(options)),
        folder(fs::open(url)) {
    ranks.from_first("save", [&] {
      folder.fs().make_dirs(folder.path(), deadline());
      lock.emplace(folder);
      folder.sweep(deadline());
      return std::string();
    });
  }

  Deadline deadline() const { return Deadline::after(options.timeout); }

  std::unique_ptr<SaveRun> begin(State& state, std::int64_t step);
  void begin_folder(SaveRun& run);
  void copy_or_write(SaveRun& run, const Contents& contents);
  std::function<void(std::uint64_t)> progress_of(SaveRun& run) const;
  void find_last(const SavePlan& plan);
  void complete(SaveRun& run);
  void commit(const SaveRun& run, const std::vector<std::string>& all);
  Manifest manifest_of(
      const SaveRun& run, const std::vector<std::string>& all) const;
  void remember(const SaveRun& run, const Written& written);
  void remove_superfluous();
  void give_up(const SaveRun& run);
  void tell(const SaveReport& its_report);
  void start(std::unique_ptr<SaveRun> run);

  const CheckpointOptions options;
  const Ranks ranks;
  const Folder folder;
  std::optional<FolderLock> lock; // of the first rank
  SavePlanner planner;
  Staging staging;
  WriteBuffers buffers;
  // What this rank wrote last, as a manifest of its own pieces alone.
  std::shared_ptr<const Manifest> last;
  std::string last_name;
  std::optional<SaveReport> report;
  std::exception_ptr failure; // of an asynchronous save
  std::thread thread;         // of the save under way
};

// Collective.
std::unique_ptr<SaveRun> Checkpointer::Impl::begin(
    State& state, std::int64_t step) {
  ARGOSY_CHECK(
      step >= 0, "[checkpoint.save] step {}, expected 0 or more", step);
  auto run = std::make_unique<SaveRun>();
  run->step = step;
  run->report.step = step;
  auto [contents, plan] = planner.prepare(state, ranks, step);
  run->plan = std::move(plan);
  run->values = contents.values();
  find_last(*run->plan);
  // An asynchronous save that writes nothing yet lets training go on first.
  if (!options.async || options.staging_bytes > 0) {
    begin_folder(*run);
  }
  copy_or_write(*run, contents);
  return run;
}

// The first rank makes the folder, and draws the salt of the encryption.
void Checkpointer::Impl::begin_folder(SaveRun& run) {
  const std::string text = ranks.from_first("save", [&] {
    lock->check();
    folder.sweep(deadline());
    folder.begin(folder_name(run.step), deadline());
    return options.key ? to_json(Cipher(*options.key).encryption()).dump()
                       : std::string();
  });
  run.has_folder = true;
  if (!text.empty()) {
    run.cipher = std::make_shared<const Cipher>(
        *options.key, encryption_of(json::parse(text)));
  }
}

std::function<void(std::uint64_t)> Checkpointer::Impl::progress_of(
    SaveRun& run) const {
  run.progress.emplace(
      str("[checkpoint.save] step ", run.step), ranks.is_first(), run.begin);
  return [this, &run](std::uint64_t left) {
    const std::uint64_t bytes = run.report.bytes - left;
    run.progress->tell(bytes, run.report.bytes);
    if (options.on_progress != nullptr) {
      options.on_progress(
          {.step = run.step, .bytes = bytes, .total_bytes = run.report.bytes});
    }
  };
}

// A job that starts again links the files that the job before has written. It
// can do without: what cannot be read is no reason not to save. Collective.
void Checkpointer::Impl::find_last(const SavePlan& plan) {
  const std::vector<bool>& frozen = plan.inventory.frozen;
  if (last != nullptr ||
      std::find(frozen.begin(), frozen.end(), true) == frozen.end()) {
    return;
  }
  const std::string text = ranks.from_first("save", [&]() -> std::string {
    try {
      const auto newest = folder.newest(deadline());
      return newest
          ? str(newest->name,
                '\n',
                to_text(folder.read_manifest(newest->name, deadline())))
          : "";
    } catch (const Error& error) {
      log::warn("[checkpoint.save] cannot link files: {}", error.what());
      return "";
    }
  });
  if (!text.empty()) {
    const std::size_t line = text.find('\n');
    last_name = text.substr(0, line);
    last = std::make_shared<const Manifest>(
        parse_manifest(text.substr(line + 1), folder.url(last_name)));
  }
}

// Leaves nothing that refers to the user's memory. Errors wait for complete(),
// where ranks tell one another.
void Checkpointer::Impl::copy_or_write(SaveRun& run, const Contents& contents) {
  try {
    run.writer = std::make_unique<RankWriter>(
        folder,
        run.plan,
        contents,
        WriteSettings{
            .name = folder_name(run.step),
            .last = last,
            .last_name = last_name,
            .deadline = deadline(),
            .on_progress = progress_of(run)},
        buffers);
    run.report.bytes = run.writer->bytes();
    if (!options.async) {
      return; // complete() writes from the user's memory
    }
    if (options.staging_bytes > 0) {
      run.writer->encrypt_with(run.cipher);
      run.writer->write_until_left(options.staging_bytes);
    }
    run.writer->stage(staging);
  } catch (...) {
    run.error = std::current_exception();
  }
}

// Collective.
void Checkpointer::Impl::complete(SaveRun& run) {
  Written written;
  std::vector<std::string> all;
  try {
    if (!run.has_folder) {
      begin_folder(run);
    }
    all = ranks.all_gather("save", [&] {
      if (run.error != nullptr) {
        std::rethrow_exception(run.error);
      }
      fault_point("checkpoint.begun");
      run.writer->encrypt_with(run.cipher);
      written = run.writer->finish();
      return encode(written);
    });
    ranks.from_first("save", [&] {
      commit(run, all);
      return std::string();
    });
  } catch (const std::exception& error) {
    give_up(run);
    run.report.error = without_rank_label(error.what());
    throw;
  }
  remember(run, written);
  run.report.linked_bytes = written.linked_bytes;
  run.report.seconds = seconds_since(run.begin);
}

void Checkpointer::Impl::commit(
    const SaveRun& run, const std::vector<std::string>& all) {
  folder.commit(folder_name(run.step), manifest_of(run, all), deadline());
  fault_point("checkpoint.committed");
  remove_superfluous();
}

Manifest Checkpointer::Impl::manifest_of(
    const SaveRun& run, const std::vector<std::string>& all) const {
  const std::vector<TensorInfo>& tensors = run.plan->inventory.tensors;
  Manifest manifest;
  manifest.step = run.step;
  manifest.created = now_text();
  manifest.values = run.values;
  manifest.layout = {{"ranks", ranks.size()}};
  std::vector<BlockSums> sums;
  for (const TensorInfo& info : tensors) {
    manifest.tensors.push_back({.info = info, .pieces = {}, .root = {}});
    sums.emplace_back(info);
  }
  for (const std::string& bytes : all) {
    Written written = decode_written(bytes, tensors);
    manifest.files.insert(
        manifest.files.end(), written.files.begin(), written.files.end());
    for (Written::Piece& piece : written.pieces) {
      manifest.tensors[piece.tensor].pieces.push_back(std::move(piece.record));
    }
    for (const auto& [tensor, part] : written.sums) {
      sums[tensor].add(part);
    }
  }
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    manifest.tensors[t].root = sums[t].root();
  }
  manifest.root = root_of(manifest);
  if (run.cipher != nullptr) {
    manifest.encryption = run.cipher->encryption();
  }
  return manifest;
}

void Checkpointer::Impl::remember(const SaveRun& run, const Written& written) {
  auto own = std::make_shared<Manifest>();
  own->files = written.files;
  std::map<std::uint32_t, std::vector<PieceRecord>> by_tensor;
  for (const Written::Piece& piece : written.pieces) {
    PieceRecord record = piece.record;
    record.file -= run.plan->first_file;
    by_tensor[piece.tensor].push_back(std::move(record));
  }
  for (auto& [tensor, pieces] : by_tensor) {
    own->tensors.push_back(
        {run.plan->inventory.tensors[tensor], std::move(pieces), {}});
  }
  if (run.cipher != nullptr) {
    own->encryption = run.cipher->encryption();
  }
  last = std::move(own);
  last_name = folder_name(run.step);
}

// The new checkpoint is there already: a failure here loses nothing.
void Checkpointer::Impl::remove_superfluous() {
  if (options.keep.last <= 0) {
    return;
  }
  try {
    std::vector<Rated> rated;
    for (const FoundCheckpoint& each : folder.list(deadline())) {
      if (!each.committed) {
        continue;
      }
      Rated rating{.step = each.step, .metric = {}};
      if (options.keep.best > 0) {
        const json values = folder.read_manifest(each.name, deadline()).values;
        const auto found = values.find(options.keep.metric);
        if (found != values.end() && found->is_number()) {
          rating.metric = found->get<double>();
        }
      }
      rated.push_back(rating);
    }
    for (const std::int64_t step : superfluous(rated, options.keep)) {
      folder.remove(folder_name(step), deadline());
    }
  } catch (const Error& error) {
    log::warn("[checkpoint.save] cannot remove old ones: {}", error.what());
  }
}

void Checkpointer::Impl::give_up(const SaveRun& run) {
  if (!ranks.is_first()) {
    return;
  }
  try {
    const std::string name = folder_name(run.step);
    for (const FoundCheckpoint& each : folder.list(deadline())) {
      if (each.name == name && !each.committed) {
        folder.remove(name, deadline());
      }
    }
  } catch (const Error&) {
    // The next save sweeps it.
  }
}

void Checkpointer::Impl::tell(const SaveReport& its_report) {
  report = its_report;
  if (its_report.error.empty()) {
    log::info(
        "[checkpoint.save] step {}: {} bytes of this rank in {} s, of which "
        "training waited {} s",
        its_report.step,
        its_report.bytes,
        its_report.seconds,
        its_report.stall_seconds);
  }
  if (options.on_saved != nullptr) {
    options.on_saved(its_report);
  }
}

// Completes a save beside training.
void Checkpointer::Impl::start(std::unique_ptr<SaveRun> run) {
  thread = std::thread(
      [this, run = std::shared_ptr(std::move(run)), world = current_world()] {
        std::optional<WorldScope> scope;
        if (world != nullptr) {
          scope.emplace(world);
        }
        lower_priority();
        try {
          complete(*run);
        } catch (const std::exception& error) {
          failure = std::current_exception();
          log::error(
              "[checkpoint.save] step {} was not saved: {}",
              run->step,
              without_rank_label(error.what()));
        }
        tell(run->report);
      });
}

Checkpointer::Checkpointer(std::string url, CheckpointOptions options)
    : impl_(std::make_unique<Impl>(std::move(url), std::move(options))) {}

Checkpointer::~Checkpointer() {
  if (impl_ != nullptr && impl_->thread.joinable()) {
    impl_->thread.join();
  }
}

Checkpointer::Checkpointer(Checkpointer&&) noexcept = default;

void Checkpointer::save(State& state, std::int64_t step) {
  wait();
  const auto begin = Clock::now();
  auto run = impl_->begin(state, step);
  if (impl_->options.async) {
    run->report.stall_seconds = seconds_since(begin);
    impl_->start(std::move(run));
    return;
  }
  impl_->complete(*run);
  run->report.stall_seconds = seconds_since(begin);
  impl_->tell(run->report);
}

void Checkpointer::wait() {
  if (impl_->thread.joinable()) {
    impl_->thread.join();
  }
  if (const auto failure = std::exchange(impl_->failure, nullptr)) {
    std::rethrow_exception(failure);
  }
}

std::optional<std::int64_t> Checkpointer::newest_step() {
  wait();
  return step_of(impl_->ranks.from_first("load", [&] {
    const auto newest = impl_->folder.newest(impl_->deadline());
    return newest ? newest->name : std::string();
  }));
}

std::optional<LoadReport> Checkpointer::load_newest(
    State& state, LoadOptions options) {
  options.step = newest_step();
  if (!options.step) {
    return std::nullopt;
  }
  options.group = impl_->ranks.group();
  if (!options.key) {
    options.key = impl_->options.key;
  }
  return load(impl_->folder.url(), state, options);
}

const std::optional<SaveReport>& Checkpointer::last_report() const {
  return impl_->report;
}

SaveReport save(
    const std::string& url,
    State& state,
    std::int64_t step,
    CheckpointOptions options) {
  options.async = false;
  // Nothing runs beside it, so it needs no communicator of its own.
  if (options.group == nullptr && current_world() != nullptr) {
    options.group = get_group(0);
  }
  Checkpointer saver(url, std::move(options));
  saver.save(state, step);
  return *saver.last_report();
}

} // namespace argosy::checkpoint
