// DeepFM on a log of clicks that comes by days and passes, as long as it comes.
//
//   ./recommender_daily --write log        # makes a log: 3 days of 4 passes
//   argosy run --server-num 2 --trainer-num 2 --max-restarts 3
//     ./recommender_daily --log log --output run
//   ./recommender_daily --log log --serve run     # a plain program
//
// Kill any process of the job: it goes on from the last checkpoint, and ends
// with the same bits. Worker 0 prints, and draws in run/auc.svg, how well each
// pass was predicted before the model was trained on it.

#include <argosy/argosy.h>
#include <argosy/data/slots/in_memory_dataset.h>
#include <argosy/data/slots/slot_batch.h>
#include <argosy/fleet/ps.h>
#include <argosy/metrics/calculators.h>
#include <argosy/online/daily.h>
#include <argosy/online/train_from_dataset.h>
#include <argosy/serving/reader.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "chart.h"
#include "click_log.h"
#include "deep_fm.h"

namespace data = argosy::data;
namespace fleet = argosy::fleet;
namespace online = argosy::online;
namespace ps = argosy::ps;
namespace stdfs = std::filesystem;

struct Settings {
  std::string write;
  std::string log;
  std::string output;
  std::string serve;
  int samples = 20000; // of a pass
};

DeepFm make_model() {
  torch::manual_seed(1);
  return DeepFm(2, kFieldsOfClick);
}

// A row is the first-order weight and the factors of an id. New ids get one
// when they have been seen twice; those that few ask for fade, and go.
ps::SparseConfig id_table() {
  ps::SparseConfig config;
  config.name = "ids";
  config.shard_num = 13;
  config.accessor = ps::Accessor::Sparse;
  config.entry = ps::count_filter_entry(2);
  config.embedx_dim = kDim;
  config.embedx_threshold = 0;
  for (ps::RuleConfig* rule : {&config.embed_rule, &config.embedx_rule}) {
    rule->rule = ps::Rule::Adam;
    rule->learning_rate = 0.03F;
    rule->initial_range = 0.05F;
  }
  config.ctr.nonclk_coeff = 1; // the score counts shows
  config.ctr.base_threshold = 0;
  config.ctr.delta_threshold = 0.5F;
  config.ctr.show_click_decay_rate = 0.5F;
  config.ctr.delete_threshold = 2;
  config.ctr.delete_after_unseen_days = 1;
  return config;
}

torch::Tensor logits(
    DeepFm& model, const torch::Tensor& rows, const data::SlotBatch& batch) {
  return model(
      rows.narrow(2, 0, 1), rows.narrow(2, 1, kDim), batch["hour"].values);
}

// Predictions of a pass, and what the truth would have predicted.
struct Quality {
  argosy::metrics::AucCalculator model{{.num_buckets = 100000}};
  argosy::metrics::AucCalculator best{{.num_buckets = 100000}};

  void add(const torch::Tensor& logits, const data::SlotBatch& batch) {
    model.add(logits.detach().sigmoid(), batch["label"].values);
    best.add(batch["best"].values, batch["label"].values);
  }
};

// The AUC of each pass is a file of its own: a pass that is trained again after
// a failure replaces it.
stdfs::path auc_file(const Settings& settings, const std::string& pass) {
  return stdfs::path(settings.output) / "auc" / pass;
}

void write_auc(
    const Settings& settings, const online::PassPlan& plan, Quality& quality) {
  const auto group = argosy::get_group();
  const double auc = quality.model.result(group).auc;
  const double best = quality.best.result(group).auc;
  if (fleet::is_first_worker()) {
    const auto path = auc_file(
        settings, plan.day.substr(4) + "-" + std::to_string(plan.pass));
    stdfs::create_directories(path.parent_path());
    std::ofstream(path) << auc << ' ' << best << '\n';
  }
}

std::vector<PassAuc> read_aucs(const Settings& settings) {
  std::vector<PassAuc> passes;
  for (const auto& entry : stdfs::directory_iterator(auc_file(settings, ""))) {
    PassAuc pass{entry.path().filename().string()};
    std::ifstream(entry.path()) >> pass.auc >> pass.best;
    passes.push_back(pass);
  }
  std::sort(passes.begin(), passes.end(), [](const auto& a, const auto& b) {
    return a.name < b.name;
  });
  return passes;
}

online::DailyOptions daily_options(const Settings& settings) {
  return {
      .schedule =
          {.first_day = "20261118",
           .num_days = kDays,
           .passes_per_day = kPassesOfDay,
           .files = settings.log + "/{day}/{pass}-*.txt",
           .export_every = 1},
      .output = settings.output,
      .exports = settings.output + "/exports",
      .dataset = {.slots = click_slots(), .batch_size = 64}};
}

void train_pass(
    const online::DailyPass& pass,
    DeepFm& model,
    std::uint32_t table,
    Quality& quality) {
  const auto session = fleet::ps_session();
  online::train_from_dataset(
      pass.dataset,
      [&](const data::SlotBatch& batch, const online::BatchPlace&) {
        const auto rows = session->lookup(table, batch["ids"].values);
        const auto predicted = logits(model, rows, batch);
        quality.add(predicted, batch);
        const auto loss = torch::binary_cross_entropy_with_logits(
            predicted, batch["label"].values.squeeze(1));
        loss.backward();
        session->step();
        return std::vector<double>{loss.item<double>()};
      },
      {.fetch = {"loss"},
       .print_period = fleet::is_first_worker() ? 100 : 0,
       .min_batches = pass.num_batches, // workers make as many steps
       .fill_up = [&] { session->step(); }});
}

void train(const Settings& settings) {
  fleet::init_worker();
  const auto session = fleet::ps_session();
  const auto table = session->add_table(id_table());
  DeepFm model = make_model();
  session->add_dense(
      model->parameters(),
      {.rule = ps::DenseRule::Adam, .learning_rate = 0.003F});
  online::DailyOptions options = daily_options(settings);
  options.dense = model.get();
  online::train_daily(options, [&](const online::DailyPass& pass) {
    Quality quality;
    train_pass(pass, model, table, quality);
    write_auc(settings, pass.plan, quality);
  });
  if (fleet::is_first_worker()) {
    const auto passes = read_aucs(settings);
    Chart(passes).write(stdfs::path(settings.output) / "auc.svg");
    for (const PassAuc& pass : passes) {
      std::cout << pass.name << ": AUC " << pass.auc << ", best possible "
                << pass.best << std::endl;
    }
  }
  fleet::stop_worker();
}

// What a server of predictions does: it follows the exports, and needs neither
// the job nor its servers.
void serve(const Settings& settings) {
  argosy::serving::Reader reader(settings.serve + "/exports");
  const auto exported = reader.snapshot();
  DeepFm model = make_model();
  const auto weights = *exported->blob("model.pt");
  torch::load(
      model, reinterpret_cast<const char*>(weights.data()), weights.size());
  data::InMemoryDataset last({.slots = click_slots(), .batch_size = 256});
  last.set_filelist({settings.log + "/20261120/4-0.txt"});
  last.load_into_memory();
  Quality quality;
  online::infer_from_dataset(
      last, [&](const data::SlotBatch& batch, const online::BatchPlace&) {
        const auto ids = batch["ids"].values.contiguous();
        const auto count = static_cast<std::size_t>(ids.numel());
        auto rows = torch::empty({batch.size, kFieldsOfClick, 1 + kDim});
        exported->lookup(
            "ids",
            {reinterpret_cast<const std::uint64_t*>(ids.data_ptr()), count},
            {rows.data_ptr<float>(), count * (1 + kDim)});
        quality.add(logits(model, rows, batch), batch);
        return std::vector<double>();
      });
  std::cout << "export " << exported->number() << " of "
            << exported->info().label << ": AUC " << quality.model.result().auc
            << " on what it was trained on last" << std::endl;
}

int main(int argc, char** argv) {
  CLI::App app("DeepFM on a log that goes on");
  Settings settings;
  app.add_option("--write", settings.write, "folder to write a log to");
  app.add_option("--samples", settings.samples, "of a pass that is written");
  app.add_option("--log", settings.log, "folder of the log");
  app.add_option("--output", settings.output, "folder of all results");
  app.add_option("--serve", settings.serve, "results of a job to predict with");
  CLI11_PARSE(app, argc, argv);
  torch::set_num_threads(1);
  if (!settings.write.empty()) {
    ClickLog().write(settings.write, settings.samples);
    return 0;
  }
  if (!settings.serve.empty()) {
    serve(settings);
    return 0;
  }
  return argosy::record([&] {
    fleet::init(false);
    if (fleet::is_server()) {
      fleet::init_server();
      fleet::run_server();
    } else {
      train(settings);
    }
  });
}
