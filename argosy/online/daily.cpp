#include "argosy/online/daily.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <filesystem>
#include <thread>
#include <utility>

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "argosy/common/log.h"
#include "argosy/common/text.h"
#include "argosy/data/slots/in_memory_dataset.h"
#include "argosy/fleet/fleet.h"
#include "argosy/fleet/ps.h"
#include "argosy/fs/file_system.h"
#include "argosy/online/done_file.h"
#include "argosy/online/pass_files.h"
#include "argosy/online/write_export.h"
#include "argosy/ps/worker/saved_tables.h"

namespace argosy::online {

namespace {

constexpr std::chrono::milliseconds kFilePeriod{200};
constexpr std::chrono::seconds kListLimit{60};
constexpr std::chrono::hours kExportLimit{1};
// Modes of fleet::save_persistables().
constexpr int kCheckpoint = 0;
constexpr int kDelta = 1;
constexpr int kBase = 2;
constexpr int kEndOfDay = 3;

// What the first worker's action returns, on all workers. If it fails, all
// throw.
std::string from_first(const std::function<std::string()>& action) {
  std::pair<std::string, std::string> own; // result, failure
  std::exception_ptr failure;
  if (fleet::is_first_worker()) {
    try {
      own.first = action();
    } catch (const std::exception& error) {
      failure = std::current_exception();
      own.second = error.what();
    }
  }
  const std::string result = fleet::util().all_gather(own.first).front();
  const std::string failed = fleet::util().all_gather(own.second).front();
  if (failure) {
    std::rethrow_exception(failure);
  }
  if (!failed.empty()) {
    throw Error(str("[online.daily] worker 0: ", failed));
  }
  return result;
}

void on_first(const std::function<void()>& action) {
  from_first([&] {
    action();
    return std::string();
  });
}

std::uint64_t seed_of(std::uint64_t seed, const PassPlan& plan) {
  const auto day = static_cast<std::uint64_t>(parse_int(plan.day).value_or(0));
  return (seed * 1000003 + day) * 1000003 +
      static_cast<std::uint64_t>(plan.pass);
}

// A pass whose files are being read, or have been.
struct Loading {
  PassPlan plan;
  std::unique_ptr<data::InMemoryDataset> dataset;
};

class DailyRun {
 public:
  DailyRun(
      const DailyOptions& options,
      const std::function<void(const DailyPass&)>& train)
      : options_(options),
        train_(train),
        output_(options.output),
        done_(output_) {}

  DailyResult run() {
    resume();
    std::optional<Loading> now = begin_next();
    while (now) {
      if (!now->dataset) {
        begin(*now, wait_for_files(now->plan));
      }
      now->dataset->wait_preload_done();
      result_.progress = now->plan.after;
      std::optional<Loading> next = begin_next();
      train(*now);
      now->dataset.reset(); // frees its memory
      save(now->plan);
      ++result_.num_passes;
      now = std::move(next);
    }
    return result_;
  }

 private:
  void resume() {
    on_first([&] { std::filesystem::create_directories(output_); });
    result_.progress = first_progress(options_.schedule);
    const std::string last = from_first([&] {
      const auto records = done_.read();
      return records.empty() ? std::string() : to_json(records.back());
    });
    if (last.empty()) {
      return;
    }
    const DoneRecord record = done_record_of_json(last);
    log::info(
        "[online.daily] goes on behind pass {} of {}",
        record.progress.pass,
        record.progress.day);
    fleet::load_model(output_ / record.checkpoint);
    publish(record);
    result_.progress = record.progress;
    result_.resumed = true;
  }

  // The pass behind result_.progress; its files are being read if they are
  // there. nullopt: there is none.
  std::optional<Loading> begin_next() {
    auto plan = next_pass(options_.schedule, result_.progress);
    if (!plan) {
      return std::nullopt;
    }
    Loading next{std::move(*plan), nullptr};
    if (options_.preload) {
      const PassFiles found = look_for_files(next.plan);
      if (found.missing.empty()) {
        begin(next, found.files);
      }
    }
    return next;
  }

  // All workers get what the first one sees: a folder may grow meanwhile.
  PassFiles look_for_files(const PassPlan& plan) const {
    const std::string text = from_first([&] {
      const PassFiles found =
          find_files(options_.schedule, plan, Deadline::after(kListLimit));
      return found.missing + "\n" + join(found.files, "\n");
    });
    std::vector<std::string> lines = split(text, '\n');
    PassFiles found{.missing = lines.front()};
    lines.erase(lines.begin());
    std::erase(lines, "");
    found.files = std::move(lines);
    return found;
  }

  std::vector<std::string> wait_for_files(const PassPlan& plan) const {
    const Deadline deadline = Deadline::after(options_.file_limit);
    PassFiles found = look_for_files(plan);
    while (!found.missing.empty()) {
      const bool late = !from_first([&] {
                           return std::string(deadline.expired() ? "late" : "");
                         }).empty();
      if (late) {
        throw TimeoutError(str_format(
            "[online.daily] pass {} of {}: {} is not there after {}",
            plan.pass,
            plan.day,
            found.missing,
            deadline.limit_text()));
      }
      std::this_thread::sleep_for(kFilePeriod);
      found = look_for_files(plan);
    }
    return found.files;
  }

  void begin(Loading& loading, const std::vector<std::string>& files) {
    if (options_.schedule.files_per_pass > 0) {
      loading.plan.after.last_file = fs::base_name(files.back());
    }
    data::SlotDatasetOptions dataset = options_.dataset;
    // Of the pass, so that it is shuffled alike after a restart.
    dataset.seed = seed_of(dataset.seed, loading.plan);
    loading.dataset = std::make_unique<data::InMemoryDataset>(dataset);
    loading.dataset->set_filelist(fleet::util().get_file_shard(files));
    loading.dataset->preload_into_memory();
  }

  void train(Loading& pass) {
    if (options_.shuffle == PassShuffle::Global) {
      pass.dataset->global_shuffle();
    } else if (options_.shuffle == PassShuffle::Local) {
      pass.dataset->local_shuffle();
    }
    const std::int64_t batch = options_.dataset.batch_size;
    const std::int64_t size = pass.dataset->memory_data_size();
    const std::int64_t own =
        (size + (options_.dataset.drop_last ? 0 : batch - 1)) / batch;
    train_(
        {.plan = pass.plan,
         .dataset = *pass.dataset,
         .num_batches = fleet::util().all_reduce(own, "max")});
    fault_point("online.trained");
  }

  void save(const PassPlan& plan) {
    if (plan.ends_day) {
      fleet::shrink();
      fault_point("online.shrunk");
    }
    if (plan.exported) {
      save_rows(*plan.exported);
    }
    if (plan.checkpoint.empty()) {
      return;
    }
    begin_folder(plan.checkpoint);
    fleet::save_persistables(
        output_ / plan.checkpoint, plan.ends_day ? kEndOfDay : kCheckpoint);
    fault_point("online.saved");
    const DoneRecord record{plan.checkpoint, plan.after, plan.exported};
    on_first([&] { done_.append(record); });
    fault_point("online.done");
    publish(record);
    remove_old();
  }

  // What an attempt that was killed has left there is not mixed in.
  void begin_folder(const std::string& path) {
    on_first([&] { std::filesystem::remove_all(output_ / path); });
  }

  void save_rows(const PlannedExport& planned) {
    begin_folder(planned.path);
    const std::filesystem::path folder = output_ / planned.path;
    fleet::save_persistables(folder, planned.is_base ? kBase : kDelta);
    on_first([&] {
      const auto session = fleet::ps_session();
      ps::write_table_specs(session->client(), folder);
      if (options_.dense != nullptr) {
        session->pull_dense();
        ps::save_dense_weights(*options_.dense, folder / kDenseWeights);
      }
    });
    fault_point("online.exported");
  }

  // Also after a restart: what the line says must be there.
  void publish(const DoneRecord& record) {
    if (!record.exported) {
      return;
    }
    const PlannedExport& planned = *record.exported;
    on_first([&] {
      write_export(
          {.saved = output_ / planned.path,
           .exports = options_.exports,
           .planned = planned,
           .label =
               str_format("{} {}", record.progress.day, record.progress.pass)},
          Deadline::after(kExportLimit));
    });
    fault_point("online.published");
  }

  void remove_old() {
    if (options_.keep == 0) {
      return;
    }
    on_first([&] {
      const auto records = done_.read();
      for (std::size_t i = 0;
           i + static_cast<std::size_t>(options_.keep) < records.size();
           ++i) {
        std::filesystem::remove_all(output_ / records[i].checkpoint);
        if (records[i].exported) {
          std::filesystem::remove_all(output_ / records[i].exported->path);
        }
      }
    });
  }

  const DailyOptions& options_;
  const std::function<void(const DailyPass&)>& train_;
  const std::filesystem::path output_;
  const DoneFile done_;
  DailyResult result_;
};

void check(const DailyOptions& options) {
  check(options.schedule);
  ARGOSY_CHECK(!options.output.empty(), "[online.daily] no output folder");
  ARGOSY_CHECK(
      options.schedule.export_every == 0 || !options.exports.empty(),
      "[online.daily] an export every {} passes and no folder for them",
      options.schedule.export_every);
  ARGOSY_CHECK(
      options.keep >= 0,
      "[online.daily] keep {} checkpoints, expected 0 (all) or more",
      options.keep);
}

} // namespace

DailyResult train_daily(
    const DailyOptions& options,
    const std::function<void(const DailyPass&)>& train) {
  check(options);
  return DailyRun(options, train).run();
}

} // namespace argosy::online
