// DeepFM with embeddings on parameter servers.
//
//   argosy run --server-num 2 --trainer-num 2 ./recommender --mode sync
//   argosy run --server-num 2 --trainer-num 2 ./recommender --movielens <data>
//   argosy run --server-num 2 --trainer-num 2 ./recommender --save model
//   ./recommender --predict model      # a plain program, without servers
//
// Modes are sync, async and geo. Worker 0 prints
//   sync: AUC 0.8..., best possible 0.8...

#include <argosy/argosy.h>
#include <argosy/fleet/ps.h>
#include <argosy/ps/worker/saved_tables.h>
#include <argosy/ps/worker/sparse_embedding.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "criteo.h"
#include "deep_fm.h"
#include "movielens.h"

namespace fleet = argosy::fleet;
namespace ps = argosy::ps;

struct Settings {
  std::string mode = "sync";
  std::string movielens; // folder of its data; empty: Criteo's format
  std::string save;
  std::string predict;
  int epochs = 2;
  int batch = 256;
  double rate = 0.003; // of the embeddings
};

Data data_of(const Settings& settings, int worker, int workers) {
  return settings.movielens.empty()
      ? criteo_data(worker, workers)
      : MovieLens(settings.movielens).data(worker, workers);
}

void report(
    const std::string& name, const Data& data, const torch::Tensor& scores) {
  std::cout << name << ": AUC " << auc(scores, data.test.labels) << ", "
            << data.reference_name << ' '
            << auc(data.reference, data.test.labels) << std::endl;
}

fleet::DistributedStrategy strategy_of(const std::string& mode) {
  fleet::DistributedStrategy strategy;
  strategy.a_sync = mode != "sync";
  if (mode == "geo") {
    strategy.a_sync_configs.k_steps = 10;
  }
  return strategy;
}

void train(const Settings& settings) {
  fleet::init_worker(); // as the strategy says
  const auto session = fleet::ps_session();
  const Data data =
      data_of(settings, fleet::worker_index(), fleet::worker_num());
  torch::manual_seed(1);
  const ps::RuleConfig adam{
      .rule = ps::Rule::Adam,
      .learning_rate = static_cast<float>(settings.rate),
      .initial_range = 0.01f};
  ps::SparseEmbedding first(
      session,
      ps::SparseEmbeddingOptions{.name = "first", .dim = 1, .rule = adam});
  ps::SparseEmbedding second(
      session,
      ps::SparseEmbeddingOptions{.name = "second", .dim = kDim, .rule = adam});
  DeepFm model(data.numbers(), data.fields());
  session->add_dense(
      model->parameters(),
      {.rule = ps::DenseRule::Adam, .learning_rate = 0.001f});
  // In geo mode workers train on their own between two exchanges.
  torch::optim::Adam local(model->parameters(), 0.001);

  const std::int64_t size = settings.batch;
  for (int epoch = 0; epoch < settings.epochs; ++epoch) {
    for (std::int64_t i = 0; i + size <= data.train.size(); i += size) {
      const Batch batch = data.train.narrow(i, size);
      const auto logits = model(
          first(batch.categories), second(batch.categories), batch.numbers);
      torch::binary_cross_entropy_with_logits(logits, batch.labels).backward();
      if (settings.mode == "geo") {
        local.step();
        local.zero_grad();
      }
      session->step();
    }
  }
  session->flush();
  fleet::barrier_worker();
  session->pull_dense();
  if (fleet::is_first_worker()) {
    const torch::NoGradGuard no_grad;
    first->eval();
    second->eval();
    const auto& ids = data.test.categories;
    report(
        settings.mode, data, model(first(ids), second(ids), data.test.numbers));
  }
  if (!settings.save.empty()) {
    fleet::save_inference_model(settings.save, *model);
  }
  fleet::stop_worker();
}

void predict(const Settings& settings) {
  const Data data = data_of(settings, 0, 1);
  ps::SavedTables tables(settings.predict);
  DeepFm model(data.numbers(), data.fields());
  torch::load(model, settings.predict + "/model.pt");
  const torch::NoGradGuard no_grad;
  const auto& ids = data.test.categories;
  report(
      "predicted",
      data,
      model(
          tables.lookup("first", ids),
          tables.lookup("second", ids),
          data.test.numbers));
}

int main(int argc, char** argv) {
  CLI::App app("DeepFM with parameter servers");
  Settings settings;
  app.add_option("--mode", settings.mode)
      ->check(CLI::IsMember({"sync", "async", "geo"}));
  app.add_option(
      "--movielens", settings.movielens, "folder `data` of r-cran-dslabs");
  app.add_option("--epochs", settings.epochs);
  app.add_option("--batch", settings.batch, "samples of a worker's step");
  app.add_option("--rate", settings.rate, "learning rate of the embeddings");
  app.add_option("--save", settings.save, "folder to save the model to");
  app.add_option("--predict", settings.predict, "folder of a saved model");
  CLI11_PARSE(app, argc, argv);
  torch::set_num_threads(1);
  if (!settings.predict.empty()) {
    predict(settings);
    return 0;
  }
  fleet::init(false, strategy_of(settings.mode));
  if (fleet::is_server()) {
    fleet::init_server();
    fleet::run_server();
  } else if (fleet::is_worker()) {
    train(settings);
  }
}
