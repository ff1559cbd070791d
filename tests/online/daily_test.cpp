// Days and passes on servers: a job that is killed at each step of the protocol
// ends as one that was not, and a folder that grows is trained once.

#include "argosy/online/daily.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <random>
#include <set>

#include "argosy/common/file.h"
#include "argosy/common/text.h"
#include "argosy/data/slots/in_memory_dataset.h"
#include "argosy/data/slots/slot_batch.h"
#include "argosy/online/done_file.h"
#include "argosy/online/train_from_dataset.h"
#include "argosy/serving/reader.h"
#include "tests/fleet/ps_threads.h"
#include "tests/support/command.h"
#include "tests/support/refusal.h"

namespace argosy::online {
namespace {

namespace stdfs = std::filesystem;
using argosy::testing::CommandResult;
using argosy::testing::refusal;
using argosy::testing::run_command;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kDays = 2;
constexpr int kPasses = 3;
constexpr int kFilesOfPass = 3; // not a multiple of the workers
constexpr const char* kFolder = "ARGOSY_TEST_DAILY";

// Clicks on items that come and go: "label item item".
void write_passes(const stdfs::path& folder) {
  std::mt19937 random(5);
  for (int day = 0; day < kDays; ++day) {
    for (int pass = 1; pass <= kPasses; ++pass) {
      for (int file = 0; file < kFilesOfPass; ++file) {
        std::string text;
        for (int i = 0; i < 31; ++i) {
          const unsigned popular = random() % 8 + 6 * (day * kPasses + pass);
          const unsigned item = random() % 40;
          text += str("1 ", item % 2, " 2 ", item + 1000, ' ', popular, '\n');
        }
        const auto name = str(20261118 + day, "/", pass, "-", file);
        stdfs::create_directories((folder / name).parent_path());
        write_file(folder / name, text);
      }
    }
  }
}

DailyOptions daily_options(const stdfs::path& folder) {
  return {
      .schedule =
          {.first_day = "20261118",
           .num_days = kDays,
           .passes_per_day = kPasses,
           .files = (folder / "data/{day}/{pass}-*").string(),
           .export_every = 1},
      .output = folder / "out",
      .exports = folder / "exports",
      .dataset = {
          .slots =
              {{"label", data::SlotType::Float, {1}},
               {"items", data::SlotType::Id, {2}}},
          .batch_size = 8}};
}

// Rows that decay at the end of a day, and go when few saw them.
ps::SparseConfig item_table() {
  ps::SparseConfig config;
  config.name = "items";
  config.shard_num = 5;
  config.accessor = ps::Accessor::Sparse;
  config.embedx_dim = 2;
  config.embedx_threshold = 1;
  config.embedx_rule.initial_range = 0.1F;
  config.ctr.nonclk_coeff = 1;
  config.ctr.base_threshold = 0;
  config.ctr.delta_threshold = 0.5F;
  config.ctr.show_click_decay_rate = 0.5F;
  config.ctr.delete_threshold = 1.5F;
  config.ctr.delete_after_unseen_days = 0.5F;
  return config;
}

// On two servers and two workers. Workers that fail end the servers, too.
void run_workers(const std::function<void(int worker)>& work) {
  fleet::PsThreads{}.run([&](int worker) {
    try {
      fleet::init_worker();
      work(worker);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  });
}

// Workers are threads, which share torch's random numbers.
torch::nn::Linear fixed_linear() {
  const torch::NoGradGuard no_grad;
  torch::nn::Linear linear(6, 1);
  for (const at::Tensor& each : linear->parameters()) {
    each.copy_(torch::linspace(-0.3, 0.4, each.numel()).view_as(each));
  }
  return linear;
}

// One worker's part of the job.
void train_worker(const DailyOptions& options, DailyResult& result) {
  const auto session = fleet::ps_session();
  const auto table = session->add_table(item_table());
  torch::nn::Linear top = fixed_linear();
  session->add_dense(
      top->parameters(), {.rule = ps::DenseRule::Adam, .learning_rate = 0.05F});
  DailyOptions own = options;
  own.dense = top.get();
  result = train_daily(own, [&](const DailyPass& pass) {
    train_from_dataset(
        pass.dataset,
        [&](const data::SlotBatch& batch, const BatchPlace&) {
          const auto rows = session->lookup(table, batch["items"].values);
          torch::binary_cross_entropy_with_logits(
              top(rows.flatten(1)), batch["label"].values)
              .backward();
          session->step();
          return std::vector<double>();
        },
        {.print_period = 0, .min_batches = pass.num_batches, .fill_up = [&] {
           session->step();
         }});
  });
}

DailyResult run_job(const DailyOptions& options) {
  std::vector<DailyResult> results(2);
  run_workers([&](int worker) {
    train_worker(options, results[static_cast<std::size_t>(worker)]);
  });
  EXPECT_EQ(results[0].progress, results[1].progress);
  return results[0];
}

// All files below a folder with their contents; lines in any order, since
// servers write rows in that of their memory.
std::map<std::string, std::multiset<std::string>> contents(
    const stdfs::path& folder) {
  std::map<std::string, std::multiset<std::string>> files;
  for (const auto& entry : stdfs::recursive_directory_iterator(folder)) {
    // fleet's own done files count steps since the start of the processes.
    const std::string name = entry.path().lexically_relative(folder).string();
    if (entry.is_regular_file() && !name.ends_with("/donefile")) {
      const auto lines = split(read_file(entry.path()).value(), '\n');
      files[name] = std::multiset<std::string>(lines.begin(), lines.end());
    }
  }
  return files;
}

std::vector<std::string> hashes(const stdfs::path& exports) {
  std::vector<std::string> result;
  for (const auto& entry : stdfs::directory_iterator(exports)) {
    // Not what a killed writer has left: the next one removes it.
    if (!serving::parse_file_name(entry.path().filename().string())) {
      continue;
    }
    result.push_back(
        str(entry.path().filename().string(),
            ' ',
            serving::ExportFile(entry.path()).hash()));
  }
  std::ranges::sort(result);
  return result;
}

std::uint64_t num_exports(const stdfs::path& exports) {
  return stdfs::exists(exports) ? hashes(exports).size() : 0;
}

struct Folder {
  TempDir dir;
  Folder() { write_passes(dir.path() / "data"); }
  stdfs::path operator/(const char* name) const { return dir.path() / name; }
};

// The processes that the test below starts and kills.
TEST(Daily, DISABLED_Job) {
  run_job(daily_options(std::getenv(kFolder)));
}

CommandResult start_job(const stdfs::path& folder, const std::string& fault) {
  return run_command(str_format(
      "{}={} ARGOSY_FAULT={} {} --gtest_also_run_disabled_tests "
      "--gtest_filter=Daily.DISABLED_Job",
      kFolder,
      folder.string(),
      fault,
      stdfs::read_symlink("/proc/self/exe").string()));
}

TEST(Daily, KilledAtAnyStepItEndsAsOneThatWasNot) {
  const Folder whole;
  const DailyResult result = run_job(daily_options(whole.dir.path()));
  EXPECT_EQ(result.num_passes, kDays * kPasses);
  EXPECT_FALSE(result.resumed);
  EXPECT_EQ(result.progress, (Progress{"20261120", 0, 6}));

  // Each process gets further than the one before. Two workers visit a point
  // each, so the number of a visit is about twice that of the pass.
  const Folder killed;
  int num_killed = 0;
  for (const char* fault :
       {"online.exported:kill:1",     // nothing is done
        "online.saved:kill:1",        // nothing is done
        "online.trained:kill:4",      // pass 1 is
        "serving.written:kill:1",     // pass 2, but not its export
        "online.shrunk:kill:2",       // at the end of the day
        "online.done:kill:1",         // pass 3
        "serving.committed:kill:1",   // its export is there
        "online.published:kill:4"}) { // the next one is, too
    const CommandResult run = start_job(killed.dir.path(), fault);
    EXPECT_EQ(run.status.shell_code(), 137) << fault << '\n' << run.output;
    num_killed += run.status.shell_code() == 137;
    // Nobody sees rows that will be trained again.
    const auto done = DoneFile(killed / "out").read();
    EXPECT_LE(
        num_exports(killed / "exports"),
        done.empty() ? 0 : done.back().progress.num_exports)
        << fault;
  }
  const CommandResult last = start_job(killed.dir.path(), "none:kill");
  EXPECT_TRUE(last.status.success()) << last.output;
  EXPECT_EQ(num_killed, 8);
  EXPECT_EQ(DoneFile(killed / "out").read(), DoneFile(whole / "out").read());
  EXPECT_EQ(contents(killed / "out"), contents(whole / "out"));
  EXPECT_EQ(hashes(killed / "exports"), hashes(whole / "exports"));
}

TEST(Daily, ExportsHaveTheRowsOfTheServersAndExpireThem) {
  const Folder folder;
  DailyOptions options = daily_options(folder.dir.path());
  options.keep = 0;
  run_job(options);
  const serving::Reader reader(
      folder / "exports", {.period = std::chrono::milliseconds(0)});
  const auto model = reader.snapshot();
  EXPECT_EQ(model->number(), 6U);
  EXPECT_EQ(model->info().label, "20261120 0");
  ASSERT_TRUE(model->blob("model.pt"));
  EXPECT_TRUE(model->blob("model.pt")->size() > 100);
  // Items that were popular in the first pass alone are gone; what is always
  // asked for is there.
  EXPECT_EQ(model->find("items", 6), nullptr);
  ASSERT_NE(model->find("items", 1001), nullptr);
  // The rows are those of the last base.
  const auto base = contents(folder / "out/20261120/base");
  std::size_t num_rows = 0;
  for (const auto& [name, lines] : base) {
    if (name.starts_with("001/part-")) {
      for (const std::string& line : lines) {
        num_rows += line.empty() ? 0 : 1;
        if (!line.empty()) {
          const auto key = std::stoull(line.substr(0, line.find(' ')));
          EXPECT_NE(model->find("items", key), nullptr) << line;
        }
      }
    }
  }
  EXPECT_GT(num_rows, 20U);
  const serving::ExportFile last(folder / "exports/00000006.base");
  EXPECT_EQ(last.table("items")->num_rows, num_rows);
  // Deltas are smaller: only what changed.
  const serving::ExportFile delta(folder / "exports/00000005.delta");
  EXPECT_LT(delta.table("items")->num_rows, num_rows);
}

TEST(Daily, AFolderThatGrowsIsTrainedOnce) {
  const Folder folder;
  const auto grown = folder / "grown";
  stdfs::create_directories(grown);
  DailyOptions options = daily_options(folder.dir.path());
  options.schedule.files = (grown / "*").string();
  options.schedule.files_per_pass = 2;
  options.schedule.num_days = 1;
  int number = 0;
  const auto grow = [&](int files) {
    for (int i = 0; i < files; ++i) {
      stdfs::copy(folder / "data/20261118/1-0", grown / str("file-", ++number));
    }
  };
  grow(1);
  std::mutex mutex;
  std::vector<std::int64_t> sizes;
  run_workers([&](int worker) {
    const auto session = fleet::ps_session();
    session->add_table(item_table());
    train_daily(options, [&](const DailyPass& pass) {
      const auto size = pass.dataset.memory_data_size();
      const auto all = fleet::util().all_reduce(size);
      if (worker == 0) {
        sizes.push_back(all);
        grow(3); // while the pass is trained: behind the next, if that is read
      }
    });
  });
  EXPECT_THAT(sizes, ::testing::ElementsAre(31, 62, 31));
  EXPECT_EQ(
      DoneFile(folder / "out").read().back().progress.last_file, "file-4");
}

TEST(Daily, SaysWhatIsMissing) {
  const Folder folder;
  DailyOptions options = daily_options(folder.dir.path());
  stdfs::remove_all(folder / "data/20261118");
  options.file_limit = std::chrono::milliseconds(300);
  std::mutex mutex;
  std::vector<std::string> messages;
  run_workers([&](int) {
    DailyResult result;
    const auto message =
        refusal<TimeoutError>([&] { train_worker(options, result); });
    const std::lock_guard lock(mutex);
    messages.push_back(message);
  });
  EXPECT_THAT(
      messages,
      ::testing::Each(AllOf(
          HasSubstr("pass 1 of 20261118: "),
          HasSubstr("20261118/1-* is not there after 300 ms"))));
  EXPECT_THAT(
      refusal([&] { train_daily({.output = "x"}, {}); }), HasSubstr("day ''"));
}

} // namespace
} // namespace argosy::online
