// DeepFM on data in Criteo's format, with embeddings on parameter servers.
//
//   argosy run --server-num 2 --trainer-num 2 ./recommender --mode sync
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

namespace fleet = argosy::fleet;
namespace nn = torch::nn;
namespace ps = argosy::ps;

constexpr int kDim = 4;
constexpr int kTrainSamples = 80000;
constexpr int kTestSamples = 10000;
constexpr int kBatch = 256;

// The dense part: first-order terms, factorization machine and a small network
// on the same embeddings. Where rows come from is the caller's business.
struct DeepFmImpl : nn::Module {
  DeepFmImpl() {
    numbers = register_module("numbers", nn::Linear(kNumbers, 1));
    deep = register_module(
        "deep",
        nn::Sequential(
            nn::Linear(kFields * kDim + kNumbers, 16),
            nn::ReLU(),
            nn::Linear(16, 1)));
  }

  torch::Tensor forward(
      const torch::Tensor& first,
      const torch::Tensor& rows,
      const torch::Tensor& values) {
    const auto pairs = (rows.sum(1).pow(2) - rows.pow(2).sum(1)).sum(1) * 0.5;
    const auto all = torch::cat({rows.flatten(1), values}, 1);
    return first.sum({1, 2}) + pairs + numbers(values).squeeze(1) +
        deep->forward(all).squeeze(1);
  }

  nn::Linear numbers{nullptr};
  nn::Sequential deep{nullptr};
};
TORCH_MODULE(DeepFm);

Batch batch_of(const Generator& generator, int first, int count, int stride) {
  std::vector<std::string> lines;
  for (int i = 0; i < count; ++i) {
    lines.push_back(
        generator.sample(static_cast<std::uint64_t>(first + i * stride)).line);
  }
  return parse_criteo(lines);
}

double best_auc(const Generator& generator, const torch::Tensor& labels) {
  std::vector<double> logits;
  for (int i = 0; i < kTestSamples; ++i) {
    logits.push_back(
        generator.sample(static_cast<std::uint64_t>(kTrainSamples + i)).logit);
  }
  return auc(torch::tensor(logits, torch::kDouble), labels);
}

void report(
    const std::string& name, const Batch& test, const torch::Tensor& scores) {
  std::cout << name << ": AUC " << auc(scores, test.labels)
            << ", best possible " << best_auc(Generator(7), test.labels)
            << std::endl;
}

ps::Mode mode_of(const std::string& name) {
  return name == "geo"  ? ps::Mode::Geo
      : name == "async" ? ps::Mode::Async
                        : ps::Mode::Sync;
}

void train(
    const std::string& mode,
    int epochs,
    double rate,
    const std::string& folder) {
  fleet::init_worker({.communicator = {.mode = mode_of(mode), .k_steps = 10}});
  const auto session = fleet::ps_session();
  torch::manual_seed(1);
  const ps::RuleConfig adam{
      .rule = ps::Rule::Adam,
      .learning_rate = static_cast<float>(rate),
      .initial_range = 0.01f};
  ps::SparseEmbedding first(
      session,
      ps::SparseEmbeddingOptions{.name = "first", .dim = 1, .rule = adam});
  ps::SparseEmbedding second(
      session,
      ps::SparseEmbeddingOptions{.name = "second", .dim = kDim, .rule = adam});
  DeepFm model;
  session->add_dense(
      model->parameters(),
      {.rule = ps::DenseRule::Adam, .learning_rate = 0.001f});
  // In geo mode workers train on their own between two exchanges.
  torch::optim::Adam local(model->parameters(), 0.001);

  const Generator generator(7);
  const int workers = fleet::worker_num();
  const Batch all = batch_of(
      generator, fleet::worker_index(), kTrainSamples / workers, workers);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (std::int64_t i = 0; i + kBatch <= all.labels.size(0); i += kBatch) {
      const auto ids = all.categories.narrow(0, i, kBatch);
      const auto logits =
          model(first(ids), second(ids), all.numbers.narrow(0, i, kBatch));
      torch::binary_cross_entropy_with_logits(
          logits, all.labels.narrow(0, i, kBatch))
          .backward();
      if (mode == "geo") {
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
    const Batch test = batch_of(generator, kTrainSamples, kTestSamples, 1);
    report(
        mode,
        test,
        model(first(test.categories), second(test.categories), test.numbers));
  }
  if (!folder.empty()) {
    fleet::save_inference_model(folder, *model);
  }
  fleet::stop_worker();
}

void predict(const std::string& folder) {
  ps::SavedTables tables(folder);
  DeepFm model;
  torch::load(model, folder + "/model.pt");
  const torch::NoGradGuard no_grad;
  const Batch test = batch_of(Generator(7), kTrainSamples, kTestSamples, 1);
  report(
      "predicted",
      test,
      model(
          tables.lookup("first", test.categories),
          tables.lookup("second", test.categories),
          test.numbers));
}

int main(int argc, char** argv) {
  CLI::App app("DeepFM with parameter servers");
  std::string mode = "sync";
  std::string save;
  std::string saved;
  int epochs = 2;
  double rate = 0.003;
  app.add_option("--mode", mode)
      ->check(CLI::IsMember({"sync", "async", "geo"}));
  app.add_option("--epochs", epochs);
  app.add_option("--rate", rate, "learning rate of the embeddings");
  app.add_option("--save", save, "folder to save the trained model to");
  app.add_option("--predict", saved, "folder of a saved model");
  CLI11_PARSE(app, argc, argv);
  torch::set_num_threads(1);
  if (!saved.empty()) {
    predict(saved);
    return 0;
  }
  fleet::init(false);
  if (fleet::is_server()) {
    fleet::init_server();
    fleet::run_server();
  } else if (fleet::is_worker()) {
    train(mode, epochs, rate, save);
  }
}
