// Training on a slot dataset against a plain loop, and what threads do when one
// of them fails.

#include "argosy/online/train_from_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mutex>
#include <set>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/data/slots/in_memory_dataset.h"
#include "argosy/data/slots/queue_dataset.h"
#include "argosy/data/slots/slot_batch.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/refusal.h"
#include "tests/support/thrown_by.h"

namespace argosy::online {
namespace {

using argosy::testing::refusal;
using argosy::testing::thrown_by;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Samples of a line: y = 2 a - b + 0.5.
class TrainFromDataset : public ::testing::Test {
 protected:
  std::string write_samples(int count) const {
    std::string text;
    for (int i = 0; i < count; ++i) {
      const double a = (i * 7 % 20) / 10.0 - 1;
      const double b = (i * 3 % 16) / 8.0 - 1;
      text += str("1 s", i, " 2 ", a, ' ', b, " 1 ", 2 * a - b + 0.5, '\n');
    }
    write_file(path(), text);
    return path();
  }
  std::string path() const { return (dir_.path() / "samples").string(); }

  static data::SlotDatasetOptions options() {
    return {
        .slots =
            {{"x", data::SlotType::Float, {2}},
             {"y", data::SlotType::Float, {1}}},
        .batch_size = 4,
        .format = data::MultiSlotOptions{.has_id = true}};
  }
  std::unique_ptr<data::InMemoryDataset> dataset(int count = 42) const {
    auto made = std::make_unique<data::InMemoryDataset>(options());
    made->set_filelist({write_samples(count)});
    made->load_into_memory();
    return made;
  }

  const TempDir dir_;
};

torch::nn::Linear linear() {
  torch::manual_seed(1);
  return torch::nn::Linear(2, 1);
}

double train_on(
    torch::nn::Linear& net,
    torch::optim::Optimizer& optimizer,
    const data::SlotBatch& batch) {
  optimizer.zero_grad();
  const auto loss = torch::mse_loss(net(batch["x"].values), batch["y"].values);
  loss.backward();
  optimizer.step();
  return loss.item<double>();
}

TEST_F(TrainFromDataset, OneThreadHasTheBitsOfAPlainLoop) {
  const auto samples = dataset();
  auto plain = linear();
  torch::optim::Adam plain_adam(plain->parameters(), 0.01);
  double sum = 0;
  for (int pass = 0; pass < 3; ++pass) {
    const auto batches = samples->start_pass();
    while (const auto batch = batches->next()) {
      sum += train_on(plain, plain_adam, *batch);
    }
  }
  auto net = linear();
  torch::optim::Adam adam(net->parameters(), 0.01);
  std::vector<std::string> lines;
  const auto result = train_from_dataset(
      *samples,
      [&](const data::SlotBatch& batch, const BatchPlace&) {
        return std::vector<double>{train_on(net, adam, batch), 7};
      },
      {.num_passes = 3,
       .fetch = {"loss", "seven"},
       .print_period = 5,
       .print = [&](const std::string& line) { lines.push_back(line); }});
  EXPECT_TRUE(torch::equal(net->weight, plain->weight));
  EXPECT_TRUE(torch::equal(net->bias, plain->bias));
  EXPECT_EQ(result.num_batches, 33);
  EXPECT_EQ(result.num_samples, 126);
  EXPECT_THAT(result.fetched, ElementsAre(sum / 33, 7));
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_THAT(
      lines[3],
      AllOf(
          StartsWith("pass 2 of 3, batch 10, "),
          HasSubstr(" samples/s: loss "),
          HasSubstr(", seven 7")));
}

TEST_F(TrainFromDataset, ThreadsTrainSharedWeightsWithoutLocks) {
  const auto samples = dataset(400);
  auto net = linear();
  constexpr int kThreads = 3;
  std::vector<torch::nn::Linear> replicas;
  std::vector<torch::optim::SGD> optimizers;
  for (int i = 0; i < kThreads; ++i) {
    replicas.emplace_back(2, 1);
    share_parameters(*net, *replicas.back());
    EXPECT_EQ(replicas.back()->weight.data_ptr(), net->weight.data_ptr());
    optimizers.emplace_back(replicas.back()->parameters(), 0.05);
  }
  std::mutex mutex;
  std::set<std::string> ids;
  std::set<std::thread::id> threads;
  const auto result = train_from_dataset(
      *samples,
      [&](const data::SlotBatch& batch, const BatchPlace& place) {
        const auto i = static_cast<std::size_t>(place.thread);
        const double loss = train_on(replicas[i], optimizers[i], batch);
        const std::lock_guard lock(mutex);
        ids.insert(batch.ids.begin(), batch.ids.end());
        threads.insert(std::this_thread::get_id());
        return std::vector<double>{loss};
      },
      {.num_threads = kThreads,
       .num_passes = 5,
       .fetch = {"loss"},
       .print_period = 0});
  EXPECT_EQ(result.num_batches, 500);
  EXPECT_EQ(ids.size(), 400U);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
  EXPECT_TRUE(
      torch::allclose(net->weight, torch::tensor({{2.0F, -1.0F}}), 0, 0.01));
  EXPECT_FALSE(net->weight.grad().defined());
}

TEST_F(TrainFromDataset, ThreadsBelongToTheWorldOfTheirRank) {
  const auto samples = dataset();
  argosy::testing::run_ranks(2, [&](World& world) {
    train_from_dataset(
        *samples,
        [&](const data::SlotBatch&, const BatchPlace&) {
          EXPECT_EQ(current_world().get(), &world);
          EXPECT_TRUE(torch::GradMode::is_enabled());
          return std::vector<double>();
        },
        {.num_threads = 2, .print_period = 0});
  });
}

TEST_F(TrainFromDataset, AnErrorEndsAllThreadsAndSaysWhere) {
  const auto samples = dataset(400);
  std::atomic<int> steps = 0;
  const auto train = [&](int threads, const std::function<void()>& fail) {
    train_from_dataset(
        *samples,
        [&](const data::SlotBatch&, const BatchPlace& place) {
          ++steps;
          if (place.batch == 3) {
            fail();
          }
          if (threads > 1) { // so that no thread is through before the error is
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
          }
          return std::vector<double>();
        },
        {.num_threads = threads, .num_passes = 2, .print_period = 0});
  };
  EXPECT_THAT(
      thrown_by<TimeoutError>(
          [&] { train(1, [] { throw TimeoutError("[x] too late"); }); }),
      "[online.train] thread 0, pass 1, batch 3 (samples 's12' to 's15'): "
      "[x] too late");
  EXPECT_EQ(steps, 4);
  EXPECT_THAT(
      thrown_by<Error>(
          [&] { train(3, [] { throw std::out_of_range("at"); }); }),
      HasSubstr("(samples 's12' to 's15'): at"));
  EXPECT_LT(steps, 150); // of 200
  EXPECT_THAT(
      thrown_by<Error>([&] { train(1, [] { torch::ones({2}).view({3}); }); }),
      AllOf(HasSubstr("batch 3 (samples 's12'"), HasSubstr("shape '[3]'")));
  EXPECT_THAT(
      thrown_by<InvalidArgument>([&] {
        train_from_dataset(
            *samples,
            [](const data::SlotBatch&, const BatchPlace&) {
              return std::vector<double>{1};
            },
            {});
      }),
      HasSubstr("returned 1 values, expected 0"));
}

TEST_F(TrainFromDataset, ErrorsOfTheDataNameFileAndLine) {
  data::QueueDataset queue(options());
  write_file(path(), "1 s0 2 1 1 1 1\n1 s1 2 1 x 1 1\n");
  queue.set_filelist({path()});
  EXPECT_THAT(
      thrown_by<InvalidArgument>([&] {
        train_from_dataset(
            queue,
            [](const data::SlotBatch&, const BatchPlace&) {
              return std::vector<double>();
            },
            {.num_threads = 2});
      }),
      AllOf(HasSubstr(path()), HasSubstr("2")));
}

TEST_F(TrainFromDataset, EndsAtTheLimit) {
  const auto samples = dataset();
  int steps = 0;
  EXPECT_THAT(
      thrown_by<TimeoutError>([&] {
        train_from_dataset(
            *samples,
            [&](const data::SlotBatch&, const BatchPlace&) {
              ++steps;
              std::this_thread::sleep_for(std::chrono::milliseconds(30));
              return std::vector<double>();
            },
            {.num_passes = 2, .limit = std::chrono::milliseconds(20)});
      }),
      HasSubstr("20 ms are over in pass 1 of 2, after 1 batches"));
  EXPECT_EQ(steps, 1);
}

TEST_F(TrainFromDataset, InfersWithoutGradients) {
  const auto samples = dataset();
  auto net = linear();
  for (const int threads : {1, 2}) {
    const auto result = infer_from_dataset(
        *samples,
        [&](const data::SlotBatch& batch, const BatchPlace&) {
          const auto out = net(batch["x"].values);
          EXPECT_FALSE(out.requires_grad());
          return std::vector<double>{out.sum().item<double>()};
        },
        {.num_threads = threads, .fetch = {"sum"}});
    EXPECT_EQ(result.num_samples, 42);
  }
  EXPECT_TRUE(torch::GradMode::is_enabled());
}

TEST_F(TrainFromDataset, FillsPassesUp) {
  const auto samples = dataset();
  int filled = 0;
  const auto step = [](const data::SlotBatch&, const BatchPlace&) {
    return std::vector<double>();
  };
  train_from_dataset(
      *samples, step, {.num_passes = 2, .min_batches = 14, .fill_up = [&] {
                         ++filled;
                       }});
  EXPECT_EQ(filled, 6);
  EXPECT_THAT(
      refusal([&] { train_from_dataset(*samples, step, {.min_batches = 1}); }),
      HasSubstr("and fill_up()"));
  EXPECT_THAT(
      refusal([&] { train_from_dataset(*samples, step, {.num_threads = 0}); }),
      HasSubstr("0 threads"));
}

TEST(ShareParameters, RefusesOtherModules) {
  const torch::nn::Linear shared(2, 1);
  torch::nn::Linear wider(3, 1);
  torch::nn::Linear without(torch::nn::LinearOptions(2, 1).bias(false));
  EXPECT_THAT(
      refusal([&] { share_parameters(*shared, *wider); }),
      HasSubstr("'weight' is not the same"));
  EXPECT_THAT(
      refusal([&] { share_parameters(*shared, *without); }),
      HasSubstr("2 parameters and 1"));
}

} // namespace
} // namespace argosy::online
