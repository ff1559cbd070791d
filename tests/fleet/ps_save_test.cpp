// What fleet saves and loads of tables, and its utilities for all roles.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "argosy/common/file.h"
#include "argosy/common/text.h"
#include "argosy/ps/worker/saved_tables.h"
#include "tests/fleet/ps_net.h"
#include "tests/fleet/ps_threads.h"
#include "tests/support/refusal.h"

namespace argosy::fleet {
namespace {

using argosy::testing::refusal;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// The first words of all lines of all files of a table.
std::vector<std::string> saved_keys(
    const std::filesystem::path& folder, const char* table) {
  std::vector<std::string> keys;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder / table)) {
    if (!entry.path().filename().string().starts_with("part-")) {
      continue;
    }
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      keys.push_back(line.substr(0, line.find(' ')));
    }
  }
  return keys;
}

// Rows whose shows count: an id is worth as much as it is shown.
ps::SparseConfig shown_rows() {
  ps::SparseConfig config;
  config.name = "shown";
  config.shard_num = 8;
  config.embedx_dim = 2;
  config.embedx_threshold = 0;
  config.ctr.nonclk_coeff = 1;
  config.ctr.show_click_decay_rate = 1;
  config.ctr.delete_threshold = 0;
  config.ctr.delete_after_unseen_days = 0.5f;
  return config;
}

TEST(FleetSave, ModesWriteWhatTheySayAndListThemselves) {
  const TempDir folder;
  const auto at = [&](const char* name) {
    return (folder.path() / name).string();
  };
  PsThreads().run([&](int worker) {
    fleet::init_worker();
    const auto session = fleet::ps_session();
    const auto table = session->add_table(shown_rows());
    // 1, 2 and 3 are shown five times by each worker, 9 once by the first.
    auto ids = torch::arange(1, 4).repeat({5});
    if (worker == 0) {
      ids = torch::cat({ids, torch::tensor({9})});
    }
    session->lookup(table, ids).sum().backward();
    session->step();
    fleet::save_persistables(at("all"));
    fleet::save_persistables(at("delta"), 1);
    fleet::save_persistables(at("nothing"), 1);
    fleet::save_persistables(at("base"), 2);
    fleet::shrink();
    EXPECT_EQ(session->client().stat(table).rows, 4u);
    fleet::save_persistables(at("day"), 3);
    fleet::save_persistables(at("all"));
    fleet::shrink(); // nobody has seen them for a day
    EXPECT_EQ(session->client().stat(table).rows, 0u);
    EXPECT_THAT(
        refusal([&] { fleet::save_persistables(at("x"), 4); }), HasSubstr("4"));
  });
  const auto keys = [&](const char* name) {
    return saved_keys(folder.path() / name, "001");
  };
  EXPECT_THAT(keys("all"), UnorderedElementsAre("1", "2", "3", "9"));
  EXPECT_THAT(keys("delta"), UnorderedElementsAre("1", "2", "3"));
  EXPECT_THAT(keys("nothing"), IsEmpty());
  EXPECT_THAT(keys("base"), UnorderedElementsAre("1", "2", "3"));
  EXPECT_THAT(keys("day"), UnorderedElementsAre("1", "2", "3", "9"));
  EXPECT_EQ(
      read_file(at("delta") + "/donefile"), "{\"mode\": 1, \"steps\": 1}\n");
  EXPECT_EQ(
      read_file(at("all") + "/donefile"),
      "{\"mode\": 0, \"steps\": 1}\n{\"mode\": 0, \"steps\": 1}\n");
  EXPECT_EQ(
      read_file(at("day") + "/donefile"), "{\"mode\": 3, \"steps\": 1}\n");
}

DistributedStrategy strategy() {
  return DistributedStrategy::from_json(
      R"({"ps_configs": {"initial_range": 0.5, "shard_num": 8}})");
}

// Trains the steps [from, to) of a job that loads `load`, and saves `save`.
struct SavedRun {
  int num_servers = 2;
  int from = 0;
  int to = 4;
  std::string load{};
  std::string load_at_servers{};
  std::string save{};
  std::string save_model{};

  // What all workers have in the end.
  Values values() const {
    Values values;
    PsThreads job{.num_servers = num_servers, .strategy = strategy()};
    job.server.load_folder = load_at_servers;
    job.run([&](int worker) {
      Net net;
      auto model = fleet::distributed_model(net);
      torch::optim::Adam adam(net->parameters(), 0.1);
      auto optimizer = fleet::distributed_optimizer(adam);
      if (!load.empty()) {
        fleet::load_model(load);
      }
      for (int step = from; step < to; ++step) {
        loss_of(model, worker, step).backward();
        optimizer.step();
      }
      if (!save.empty()) {
        fleet::save_persistables(save);
      }
      if (!save_model.empty()) {
        fleet::save_inference_model(save_model, *net);
      }
      if (worker == 1) {
        values = values_of(net);
      }
      fleet::barrier_worker();
    });
    return values;
  }
};

TEST(FleetSave, LoadsOnAnyNumberOfServersWithTheOptimizersState) {
  const TempDir folder;
  const std::string saved = (folder.path() / "saved").string();
  const Values half = SavedRun{.to = 4, .save = saved}.values();
  const Values whole = SavedRun{.from = 4, .to = 8, .load = saved}.values();
  EXPECT_FALSE(same_bits(half, whole));
  for (const int servers : {1, 3}) {
    EXPECT_TRUE(same_bits(
        SavedRun{.num_servers = servers, .from = 4, .to = 8, .load = saved}
            .values(),
        whole));
  }
  // Servers that begin with saved rows; dense values are the first worker's.
  const Values begun =
      SavedRun{.num_servers = 3, .to = 0, .load_at_servers = saved}.values();
  EXPECT_TRUE(torch::equal(begun[0], half[0]));
  EXPECT_TRUE(torch::equal(begun[1], half[1]));
  EXPECT_FALSE(torch::equal(begun[2], half[2]));
}

TEST(FleetSave, APlainModelRunsWhatWasSaved) {
  const TempDir folder;
  const std::string saved = (folder.path() / "model").string();
  const Values trained = SavedRun{.save_model = saved}.values();
  Net plain; // no servers, no fleet
  ps::load_inference_model(saved, *plain);
  EXPECT_TRUE(same_bits(values_of(plain), trained));
  Net expected;
  set_values(expected, trained);
  EXPECT_TRUE(torch::equal(
      plain(ids_of(0, 9), bags_of(0, 9)),
      expected(ids_of(0, 9), bags_of(0, 9))));
  EXPECT_THAT(
      refusal<CheckpointError>([&] {
        torch::nn::Linear other(3, 3);
        ps::load_inference_model(saved, *other);
      }),
      HasSubstr("model.pt"));
}

// Without steps in between, what is loaded is what was saved.
TEST(FleetSave, GeoWorkersForgetWhatTheyKeptWhenTablesAreLoaded) {
  const TempDir folder;
  const std::string saved = (folder.path() / "geo").string();
  PsThreads{
      .strategy = DistributedStrategy::from_json(
          R"({"a_sync": true, "a_sync_configs": {"k_steps": 2},
              "ps_configs": {"initial_range": 0.5, "shard_num": 8}})")}
      .run([&](int worker) {
        Net net;
        auto model = fleet::distributed_model(net);
        torch::optim::Adam adam(net->parameters(), 0.1);
        auto optimizer = fleet::distributed_optimizer(adam);
        const auto step_on = [&](int steps) {
          for (int step = 0; step < steps; ++step) {
            loss_of(model, worker, step).backward();
            optimizer.step();
          }
        };
        step_on(4);
        fleet::save_persistables(saved);
        step_on(4);
        fleet::load_model(saved);
        const Values loaded = values_of(net);
        fleet::barrier_worker();
        fleet::load_model(saved);
        EXPECT_TRUE(same_bits(values_of(net), loaded));
        const auto all =
            fleet::util().all_gather(loaded[0].sum().item<double>());
        EXPECT_EQ(all[0], all[1]);
        step_on(1); // goes on
      });
}

TEST(FleetSave, AllWorkersLearnOfAFailure) {
  PsThreads().run([&](int) {
    fleet::init_worker();
    fleet::ps_session()->add_table(shown_rows());
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_NE(refusal<Error>([] { fleet::load_model("/nowhere/at/all"); }), "");
    EXPECT_NE(
        refusal<Error>([] { fleet::save_persistables("/proc/nowhere"); }), "");
    EXPECT_LT(
        std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  });
}

TEST(FleetUtil, IsForServersToo) {
  std::atomic<int> served = 0;
  PsThreads job{.num_servers = 2, .num_workers = 3};
  const auto meet_all = [](const std::string& own) {
    EXPECT_THAT(
        fleet::util().all_gather(own, "all"),
        ElementsAre("w0", "w1", "w2", "s0", "s1"));
    EXPECT_EQ(fleet::util().all_reduce(2, "sum", "all"), 10);
    EXPECT_EQ(fleet::util().all_reduce(1.5, "max", "all"), 1.5);
    fleet::util().barrier("all");
  };
  job.server_init = [&] {
    const int index = fleet::server_index();
    EXPECT_EQ(fleet::util().all_reduce(index + 1, "sum", "server"), 3);
    EXPECT_EQ(fleet::util().all_reduce(index, "max"), 1);
    EXPECT_THAT(fleet::util().all_gather(index, "server"), ElementsAre(0, 1));
    fleet::util().barrier("server");
    EXPECT_EQ(
        fleet::util().get_file_shard({"a", "b"}).front(),
        index == 0 ? "a" : "b");
    meet_all(str("s", index));
  };
  job.server_done = [&] { ++served; };
  std::atomic<int> arrived = 0;
  job.run([&](int worker) {
    meet_all(str("w", worker));
    EXPECT_THAT(
        refusal([] { fleet::util().barrier("server"); }),
        HasSubstr("comm_world server of a worker"));
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      fleet::barrier_worker();
      EXPECT_GE(arrived, 3 * round);
      fleet::barrier_worker();
      EXPECT_LE(arrived, 3 * round + 2);
    }
    fleet::init_worker();
  });
  EXPECT_EQ(served, 2);
}

} // namespace
} // namespace argosy::fleet
