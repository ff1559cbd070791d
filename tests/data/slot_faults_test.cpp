// Slot datasets whose files, commands and consumers fail: nothing hangs, and
// memory stays small.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/data/slots/in_memory_dataset.h"
#include "argosy/data/slots/queue_dataset.h"
#include "argosy/fs/error.h"
#include "tests/data/slot_dataset_fixture.h"
#include "tests/support/command.h"
#include "tests/support/peak_memory.h"
#include "tests/support/thrown_by.h"

namespace argosy::data {
namespace {

using namespace std::chrono_literals;
using argosy::testing::PeakMemory;
using argosy::testing::run_command;
using argosy::testing::thrown_by;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Clock = std::chrono::steady_clock;

class SlotFaults : public SlotDatasets {
 protected:
  // What both kinds of dataset throw for such files.
  template <typename ErrorType>
  std::vector<std::string> errors_of(
      const std::vector<std::string>& files, const SlotFileOptions& how) {
    auto all = options();
    all.files = how;
    QueueDataset queue(all);
    queue.set_filelist(files);
    InMemoryDataset memory(all);
    memory.set_filelist(files);
    return {
        thrown_by<ErrorType>([&] { users_of(queue); }),
        thrown_by<ErrorType>([&] {
          memory.preload_into_memory();
          memory.wait_preload_done();
        })};
  }
};

TEST_F(SlotFaults, FilesThatVanishAreNamed) {
  const std::string good = write_samples(0, 100);
  const std::string gone = write_samples(100, 100);
  std::filesystem::remove(gone);
  for (const int threads : {1, 2}) {
    for (const std::string& error :
         errors_of<fs::FsError>({good, gone, good}, {.num_threads = threads})) {
      EXPECT_THAT(error, HasSubstr(gone));
    }
  }
}

TEST_F(SlotFaults, CommandsThatFailOrHangAreNamed) {
  const std::string file = write_samples(0, 100);
  for (const std::string& error :
       errors_of<SystemError>({file}, {.pipe_command = "cat; exit 7"})) {
    EXPECT_THAT(
        error,
        AllOf(
            HasSubstr(file), HasSubstr("'cat; exit 7'"), HasSubstr("code 7")));
  }
  for (const std::string& error : errors_of<TimeoutError>(
           {file}, {.pipe_command = "cat; sleep 1000", .read_limit = 200ms})) {
    EXPECT_THAT(
        error, AllOf(HasSubstr(file), HasSubstr("wrote nothing for 200 ms")));
  }
}

TEST_F(SlotFaults, CompressedFilesThatAreCutAreNamed) {
  const std::string file = write_samples(0, 5000);
  for (const char* const command : {"gzip -k ", "zstd -q -k "}) {
    ASSERT_TRUE(run_command(command + file).status.success());
    const std::string packed = file + (command[0] == 'g' ? ".gz" : ".zst");
    const std::string bytes = *read_file(packed);
    write_file(packed, bytes.substr(0, bytes.size() / 2));
    for (const std::string& error : errors_of<fs::FsError>({packed}, {})) {
      EXPECT_THAT(
          error, AllOf(HasSubstr(packed), HasSubstr("ends in the middle")));
    }
    // The command sees only what came before.
    for (const std::string& error :
         errors_of<fs::FsError>({packed}, {.pipe_command = "grep -v x"})) {
      EXPECT_THAT(error, HasSubstr("ends in the middle"));
    }
  }
}

// The queue is full then, and the command writes for ever.
TEST_F(SlotFaults, ConsumersMayStopAtAnyTime) {
  auto how = options();
  how.files = {.num_threads = 2, .pipe_command = "yes 1 1 1 0 1 0"};
  const std::vector<std::string> files(3, write("nothing", ""));
  QueueDataset queue(how);
  queue.set_filelist(files);
  const auto began = Clock::now();
  for (const int batches : {0, 1, 20'000}) {
    const auto pass = queue.start_pass();
    for (int i = 0; i < batches; ++i) {
      ASSERT_TRUE(pass->next());
    }
  }
  {
    InMemoryDataset memory(how);
    memory.set_filelist(files);
    memory.preload_into_memory();
  }
  EXPECT_LT(Clock::now() - began, 20s);
}

// 250 MB of text pass through a queue.
TEST_F(SlotFaults, QueuesNeedLittleMemory) {
  std::string tags = "100";
  for (int i = 0; i < 100; ++i) {
    tags += " 1234567";
  }
  auto how = options(100);
  how.files = {
      .num_threads = 2,
      .pipe_command = str("yes '1 1 1 0 ", tags, "' | head -n 150000")};
  QueueDataset queue(how);
  queue.set_filelist({write("nothing", ""), write("nothing", "")});
  const PeakMemory peak;
  std::int64_t samples = 0;
  const auto pass = queue.start_pass();
  while (const auto batch = pass->next()) {
    samples += batch->size;
  }
  EXPECT_EQ(samples, 300'000);
  EXPECT_LT(peak.grown_bytes(), 24'000'000);
}

} // namespace
} // namespace argosy::data
