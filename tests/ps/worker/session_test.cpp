// Training against servers, compared with one process.

#include "argosy/ps/worker/session.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/functional/embedding.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <array>
#include <future>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/ps/service/server.h"
#include "argosy/ps/worker/saved_tables.h"
#include "argosy/ps/worker/sparse_embedding.h"
#include "argosy/ps/worker/table_parameters.h"
#include "argosy/store/mem_kv.h"

namespace argosy::ps {
namespace {

constexpr int kDim = 4;
constexpr int kVocabulary = 30;
constexpr float kRate = 0.1f;

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() {
    for (int i = 0; i < 2; ++i) {
      servers_.push_back(std::make_unique<Server>(
          ServerOptions{.server = i, .shape = {2, 1}, .kv = kv_}));
    }
  }

  std::shared_ptr<Session> session(
      int worker, int num_workers, CommunicatorOptions communicator = {}) {
    return std::make_shared<Session>(SessionOptions{
        .client =
            {.worker = worker,
             .job =
                 {.num_workers = num_workers,
                  .sync = communicator.mode == Mode::Sync,
                  .geo = communicator.mode == Mode::Geo},
             .shape = {2, 1},
             .kv = kv_,
             .timeout = std::chrono::seconds(30)},
        .communicator = communicator});
  }

  static SparseEmbeddingOptions items() {
    return {
        .name = "items",
        .dim = kDim,
        .rule = {
            .rule = Rule::Naive,
            .learning_rate = kRate,
            .initial_range = 0.5f}};
  }

  std::shared_ptr<store::Kv> kv_ = std::make_shared<store::MemKv>();
  std::vector<std::unique_ptr<Server>> servers_;
};

torch::Tensor ids_of(int worker, int step) {
  return (torch::arange(24) * (worker * 5 + step * 7 + 3))
      .remainder(kVocabulary)
      .view({6, 4});
}

torch::Tensor loss_of(
    const torch::Tensor& rows, const torch::Tensor& weight, int worker) {
  const auto score = rows.sum(1).matmul(weight);
  return (score - 0.3 * (worker + 1)).pow(2).mean();
}

// In one process: gradients of all workers' batches, added in their order.
struct Alone {
  torch::Tensor table;
  torch::Tensor weight;

  void step(int num_workers, int step) {
    torch::Tensor table_sum;
    torch::Tensor weight_sum;
    for (int worker = 0; worker < num_workers; ++worker) {
      const auto t = table.detach().clone().requires_grad_();
      const auto w = weight.detach().clone().requires_grad_();
      loss_of(torch::embedding(t, ids_of(worker, step)), w, worker).backward();
      table_sum = worker == 0 ? t.grad().clone() : table_sum + t.grad();
      weight_sum = worker == 0 ? w.grad().clone() : weight_sum + w.grad();
    }
    const auto count = static_cast<float>(num_workers);
    // Two roundings, as the servers': no fused multiply-add.
    table = table - (table_sum / count) * kRate;
    weight = weight - (weight_sum / count) * kRate;
  }
};

TEST_F(SessionTest, SynchronousWorkersHaveTheBitsOfOneProcess) {
  constexpr int kWorkers = 3;
  constexpr int kSteps = 12;
  const auto start = torch::linspace(-1, 1, kDim);
  torch::Tensor first_rows;
  std::vector<torch::Tensor> rows(kWorkers);
  std::vector<torch::Tensor> weights(kWorkers);
  std::vector<std::thread> threads;
  for (int worker = 0; worker < kWorkers; ++worker) {
    threads.emplace_back([&, worker] {
      const auto own = session(worker, kWorkers);
      SparseEmbedding embedding(own, items());
      const auto weight =
          (worker == 0 ? start.clone() : torch::zeros({kDim})).requires_grad_();
      own->add_dense(
          {weight}, {.rule = DenseRule::Sgd, .learning_rate = kRate});
      const auto all = torch::arange(kVocabulary);
      if (worker == 0) {
        first_rows = own->lookup(embedding->table(), all, {.is_test = true});
      }
      for (int step = 0; step < kSteps; ++step) {
        const auto batch = embedding(ids_of(worker, step));
        if (step + 1 < kSteps) {
          embedding->prefetch(ids_of(worker, step + 1));
        }
        loss_of(batch, weight, worker).backward();
        own->step();
      }
      EXPECT_EQ(own->num_prefetched(), kSteps - 1u);
      rows[worker] = own->lookup(embedding->table(), all, {.is_test = true});
      weights[worker] = weight.detach().clone();
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  Alone alone{first_rows, start};
  for (int step = 0; step < kSteps; ++step) {
    alone.step(kWorkers, step);
  }
  for (int worker = 0; worker < kWorkers; ++worker) {
    EXPECT_TRUE(torch::equal(rows[worker], alone.table)) << worker;
    EXPECT_TRUE(torch::equal(weights[worker], alone.weight)) << worker;
  }
}

TEST_F(SessionTest, PaddingGivesZerosAndGetsNoGradient) {
  const auto own = session(0, 1);
  auto options = items();
  options.padding_idx = 7;
  SparseEmbedding embedding(own, options);
  const auto ids = torch::tensor({1, 7, 1, 2}, torch::kLong);
  const auto rows = embedding(ids);
  EXPECT_EQ(rows.sizes(), (std::vector<std::int64_t>{4, kDim}));
  EXPECT_TRUE(torch::equal(rows[1], torch::zeros({kDim})));
  rows.sum().backward();
  own->step();
  EXPECT_EQ(own->client().stat(embedding->table()).rows, 2u);
  const auto after = own->lookup(embedding->table(), ids, {.is_test = true});
  EXPECT_TRUE(torch::equal(after[0], rows[0].detach() - 2 * kRate));
  EXPECT_THROW(embedding(torch::tensor({-1})), InvalidArgument);
  EXPECT_THROW(embedding(torch::tensor({0.5})), InvalidArgument);
  EXPECT_EQ(embedding(torch::empty({0}, torch::kLong)).numel(), 0);
}

TEST_F(SessionTest, BagsAreThoseOfEmbeddingBag) {
  const auto own = session(0, 1);
  const auto table = SparseEmbedding(own, items())->table();
  const auto all =
      own->lookup(table, torch::arange(kVocabulary), {.is_test = true});
  const auto ids = torch::tensor({3, 4, 3, 9, 20}, torch::kLong);
  const auto offsets = torch::tensor({0, 2, 2}, torch::kLong);
  for (int mode = 0; mode < 3; ++mode) {
    const auto expected =
        std::get<0>(torch::embedding_bag(all, ids, offsets, false, mode));
    EXPECT_TRUE(torch::equal(
        own->lookup_bag(table, ids, offsets, {.mode = mode}), expected));
  }
}

TEST_F(SessionTest, ACacheSavesPullsWithinItsBound) {
  const auto own = session(0, 1, {.mode = Mode::Async});
  auto options = items();
  options.cache = {.rows = 100, .steps = 2};
  SparseEmbedding embedding(own, options);
  const auto ids = torch::arange(10);
  const auto first =
      own->lookup(embedding->table(), ids, {.is_test = true}).clone();
  for (int step = 0; step < 8; ++step) {
    const auto rows = embedding(ids);
    // Each step takes kRate away. Rows of steps 0, 3 and 6 serve two more.
    const float expected = kRate * static_cast<float>(step - step % 3);
    EXPECT_LT(
        (first - expected - rows.detach()).abs().max().item<float>(), 1e-5)
        << step;
    rows.sum().backward();
    own->step();
    own->flush();
  }
  // Every lookup but those of steps 0 (which the first one had filled), 3, 6.
  EXPECT_EQ(own->num_cache_hits(embedding->table()), 60u);
  EXPECT_EQ(own->oldest_cache_hit(embedding->table()), 2);
  own->forget_rows();
  EXPECT_LT(
      (first - 8 * kRate - embedding(ids).detach()).abs().max().item<float>(),
      1e-5);
}

// What another worker pushes is seen after at most as many steps.
TEST_F(SessionTest, ACacheOfOtherWorkersRowsIsBoundedToo) {
  const auto own = session(0, 2, {.mode = Mode::Async});
  const auto other = session(1, 2, {.mode = Mode::Async});
  auto options = items();
  SparseEmbedding theirs(other, options);
  options.cache = {.rows = 3, .steps = 1};
  SparseEmbedding cached(own, options);
  const auto ids = torch::arange(3);
  const auto start = cached(ids).detach().clone();
  for (int step = 0; step < 6; ++step) {
    theirs(ids).sum().backward();
    other->step();
    other->flush();
    own->step(); // without gradients: time passes
    const float lag = (cached(ids).detach() - start)[0][0].item<float>() +
        kRate * static_cast<float>(step + 1);
    EXPECT_LT(lag, 1.5f * kRate) << step;
  }
  EXPECT_GT(own->num_cache_hits(cached->table()), 0u);
  EXPECT_LE(own->oldest_cache_hit(cached->table()), 1);
  // Three rows, so others leave.
  cached(torch::arange(3, 6));
  const auto hits = own->num_cache_hits(cached->table());
  cached(ids);
  EXPECT_EQ(own->num_cache_hits(cached->table()), hits);
}

// A step that others have not pushed yet is not applied with the new rate.
TEST_F(SessionTest, ANewRateWaitsForTheStepsBeforeIt) {
  const auto own = session(0, 2);
  const auto other = session(1, 2);
  SparseEmbedding mine(own, items());
  SparseEmbedding theirs(other, items());
  const auto ids = torch::arange(4);
  const auto start = mine(ids);
  start.sum().backward();
  own->step();
  auto changed = std::async(std::launch::async, [&] {
    own->set_learning_rate(mine->table(), 10 * kRate);
  });
  EXPECT_EQ(
      changed.wait_for(std::chrono::milliseconds(200)),
      std::future_status::timeout);
  theirs(ids).sum().backward();
  other->step();
  changed.get();
  EXPECT_TRUE(torch::equal(
      own->lookup(mine->table(), ids, {.is_test = true}),
      start.detach() - kRate));
}

TEST_F(SessionTest, DenseValuesComeAsOftenAsAsked) {
  const auto own = std::make_shared<Session>(SessionOptions{
      .client =
          {.job = {.num_workers = 1, .sync = false},
           .shape = {2, 1},
           .kv = kv_,
           .timeout = std::chrono::seconds(30)},
      .communicator = {.mode = Mode::Async},
      .dense_pulls = {.every = 3, .beside = true}});
  const auto weight = torch::zeros({5}).requires_grad_();
  own->add_dense({weight}, {.rule = DenseRule::Sgd, .learning_rate = 1});
  auto before = weight.detach().clone();
  for (int step = 1; step <= 12; ++step) {
    weight.sum().backward();
    own->step();
    own->flush();
    // Asked for in steps 3, 6, 9, 12; here one step later.
    const bool changed = !torch::equal(weight.detach(), before);
    EXPECT_EQ(changed, step > 3 && step % 3 == 1) << step;
    before = weight.detach().clone();
  }
  own->pull_dense();
  EXPECT_TRUE(torch::equal(weight.detach(), torch::full({5}, -12.0f)));
  EXPECT_THROW(
      Session(SessionOptions{
          .client =
              {.job = {.num_workers = 1, .sync = false},
               .shape = {2, 1},
               .kv = kv_},
          .communicator = {.mode = Mode::Async},
          .dense_pulls = {.every = 0}}),
      InvalidArgument);
}

TEST_F(SessionTest, CountsHowOftenAnIdIsShown) {
  const auto own = session(0, 1);
  SparseConfig config;
  config.name = "shown";
  config.embedx_dim = 2;
  const auto table = own->add_table(config);
  own->lookup(table, torch::tensor({5, 8, 5, 5}, torch::kLong))
      .sum()
      .backward();
  own->lookup(table, torch::tensor({8, 2}, torch::kLong), {.padding_idx = 2})
      .sum()
      .backward();
  own->step();
  const auto rows = own->lookup(
      table, torch::tensor({5, 8}, torch::kLong), {.is_test = true});
  EXPECT_EQ(rows[0][0].item<float>(), 3); // show is the first column
  EXPECT_EQ(rows[1][0].item<float>(), 2);
  EXPECT_EQ(own->client().stat(table).rows, 2u);
}

TEST_F(SessionTest, GeoTrainsLocallyAndExchanges) {
  const CommunicatorOptions geo{.mode = Mode::Geo, .k_steps = 5};
  std::vector<double> losses(2);
  std::vector<std::thread> threads;
  for (int worker = 0; worker < 2; ++worker) {
    threads.emplace_back([&, worker] {
      const auto own = session(worker, 2, geo);
      auto options = items();
      options.rule.learning_rate = 0.02f;
      SparseEmbedding embedding(own, options);
      const auto weight = torch::ones({kDim}).requires_grad_();
      own->add_dense({weight});
      for (int step = 0; step < 250; ++step) {
        const auto loss =
            loss_of(embedding(ids_of(worker, step % 4)), weight, 0);
        loss.backward();
        {
          const torch::NoGradGuard no_grad;
          weight.sub_(weight.grad(), 0.02);
          weight.mutable_grad().zero_();
        }
        own->step();
        losses[worker] = loss.item<double>();
      }
      own->flush();
      own->client().barrier();
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_LT(losses[0], 0.02);
  EXPECT_LT(losses[1], 0.02);
}

TEST_F(SessionTest, GeoSendsItsPartOfADenseDifferenceAndKeepsItsOwn) {
  const CommunicatorOptions geo{.mode = Mode::Geo, .k_steps = 1};
  const auto weights = std::array{
      torch::zeros({3}).requires_grad_(), torch::zeros({3}).requires_grad_()};
  std::array<std::shared_ptr<Session>, 2> workers;
  std::vector<std::thread> threads;
  for (int worker = 0; worker < 2; ++worker) {
    threads.emplace_back([&, worker] {
      workers[worker] = session(worker, 2, geo);
      workers[worker]->add_dense({weights[worker]});
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  const torch::NoGradGuard no_grad;
  weights[0].fill_(1); // what the worker trained
  workers[0]->step();
  EXPECT_TRUE(torch::equal(weights[0], torch::full({3}, 1.0f)));
  workers[1]->step(); // takes half of it, as one of two
  EXPECT_TRUE(torch::equal(weights[1], torch::full({3}, 0.5f)));
  workers[0]->step(); // the rest of its difference
  EXPECT_TRUE(torch::equal(weights[0], torch::full({3}, 1.0f)));
  workers[1]->step();
  EXPECT_TRUE(torch::equal(weights[1], torch::full({3}, 0.75f)));
}

TEST_F(SessionTest, RowsBeginWithGivenValuesUnlessServersHaveSome) {
  const auto values = torch::randn({700, 2048}); // two chunks
  std::vector<std::thread> threads;
  for (int worker = 0; worker < 2; ++worker) {
    threads.emplace_back([&, worker] {
      const auto own = session(worker, 2);
      auto config = embedding_config(2048, {.rule = Rule::Naive});
      config.name = "wide";
      const auto table = own->add_table(config);
      own->set_rows(table, worker == 0 ? values : torch::Tensor());
      const auto all = torch::arange(700);
      EXPECT_TRUE(
          torch::equal(own->lookup(table, all, {.is_test = true}), values));
      own->client().barrier();
      own->set_rows(table, torch::zeros({700, 2048})); // too late
      EXPECT_TRUE(
          torch::equal(own->lookup(table, all, {.is_test = true}), values));
      own->client().barrier();
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

// A model that knows nothing of servers.
struct PlainModel : torch::nn::Module {
  PlainModel() {
    items = register_module("items", torch::nn::Embedding(1000000, kDim));
    tags = register_module("tags", torch::nn::EmbeddingBag(5000, kDim));
    out = register_module("out", torch::nn::Linear(2 * kDim, 1));
  }
  torch::Tensor forward(const torch::Tensor& ids, const torch::Tensor& bags) {
    return out(torch::cat({items(ids), tags(bags)}, 1)).squeeze(1);
  }
  torch::nn::Embedding items{nullptr};
  torch::nn::EmbeddingBag tags{nullptr};
  torch::nn::Linear out{nullptr};
};

TEST_F(SessionTest, TablesOfAnUnchangedModelTrainOnServers) {
  const auto own = session(0, 1);
  PlainModel model;
  const TableParameterOptions options{
      .rule = {
          .rule = Rule::Naive, .learning_rate = kRate, .initial_range = 0.5f}};
  EXPECT_EQ(
      set_param_ps(model, own, options),
      (std::vector<std::string>{"items.weight", "tags.weight"}));
  EXPECT_THROW(model.items->weight.data_ptr<float>(), InvalidArgument);
  torch::optim::SGD sgd(model.parameters(), kRate);
  const auto ids = torch::tensor({999999, 4, 4}, torch::kLong);
  const auto bags = torch::tensor({{1, 2}, {2, 2}, {7, 9}}, torch::kLong);
  const auto rows_of = [&](const char* name, const torch::Tensor& keys) {
    SparseConfig config;
    config.name = name;
    return own->lookup(own->add_table(config), keys, {.is_test = true});
  };
  double first = 0;
  double last = 0;
  for (int step = 0; step < 20; ++step) {
    // The same in plain tensors.
    const auto i =
        rows_of("items.weight", torch::tensor({4, 999999})).requires_grad_();
    const auto t = rows_of("tags.weight", torch::arange(10)).requires_grad_();
    const auto expected = model.out(torch::cat(
        {torch::embedding(i, torch::tensor({1, 0, 0})),
         t.index({bags}).mean(1)},
        1));
    const auto scores = model.forward(ids, bags);
    ASSERT_TRUE(torch::allclose(scores, expected.squeeze(1)));
    const auto grads = torch::autograd::grad(
        {(expected.squeeze(1) - 1).pow(2).mean()}, {i, t});
    sgd.zero_grad();
    const auto loss = (scores - 1).pow(2).mean();
    loss.backward();
    sgd.step();
    own->step();
    ASSERT_TRUE(torch::allclose(
        rows_of("items.weight", torch::tensor({4, 999999})),
        i.detach() - kRate * grads[0]));
    ASSERT_TRUE(torch::allclose(
        rows_of("tags.weight", torch::arange(10)),
        t.detach() - kRate * grads[1]));
    (step == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_LT(last, first / 2);
  EXPECT_FALSE(model.items->weight.grad().defined());
  EXPECT_TRUE(model.items->weight.sum().is_meta()); // no values here
}

TEST_F(SessionTest, SavedTablesRunWithoutServers) {
  const TempDir folder;
  const auto own = session(0, 1);
  SparseEmbedding embedding(own, items());
  const auto ids = torch::arange(kVocabulary);
  embedding(ids).pow(2).sum().backward();
  own->step();
  own->client().save(
      folder.path().string(),
      SaveMode::Checkpoint,
      -1,
      own->communicator().step());
  write_table_specs(own->client(), folder.path().string());
  SavedTables saved(folder.path().string());
  EXPECT_TRUE(torch::equal(
      saved.lookup("items", ids),
      own->lookup(embedding->table(), ids, {.is_test = true})));
  EXPECT_TRUE(torch::equal(
      saved.lookup("items", torch::tensor({1000})), torch::zeros({1, kDim})));
  EXPECT_THROW(saved.lookup("users", ids), InvalidArgument);
}

} // namespace
} // namespace argosy::ps
