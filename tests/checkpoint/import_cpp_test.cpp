// What C++'s torch::save and Argosy's own save() write.

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "argosy/checkpoint/checkpointer.h"
#include "argosy/checkpoint/import/sources.h"
#include "argosy/checkpoint/inspect/folder_list.h"
#include "argosy/checkpoint/inspect/verify.h"
#include "argosy/common/file.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/checkpoint/tensor_values.h"

namespace argosy::checkpoint {
namespace {

using argosy::testing::names_of;
using argosy::testing::values_of;

struct SavedNet : torch::nn::Module {
  SavedNet() {
    fc = register_module("fc", torch::nn::Linear(3, 2));
    norm = register_module("norm", torch::nn::BatchNorm1d(2));
    layers = register_module(
        "layers",
        torch::nn::Sequential(torch::nn::Linear(2, 2), torch::nn::ReLU()));
    scale = register_parameter("scale", torch::rand({2}));
    index = register_buffer("index", torch::arange(4));
  }
  torch::Tensor forward(torch::Tensor x) {
    return layers->forward(norm(fc(x))) * scale;
  }

  torch::nn::Linear fc{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Sequential layers{nullptr};
  torch::Tensor scale, index;
};

std::vector<float> floats(const torch::Tensor& tensor) {
  const auto flat = tensor.detach().contiguous();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

TEST(ImportOfTorchSave, NamesParametersOfModules) {
  const TempDir folder;
  torch::manual_seed(0);
  const auto net = std::make_shared<SavedNet>();
  torch::save(net, (folder.path() / "net.pt").string());
  const TensorSet set = open_tensors((folder.path() / "net.pt").string());
  std::vector<std::string> expected;
  for (const auto& item : net->named_parameters()) {
    expected.push_back("model/" + item.key());
    EXPECT_EQ(values_of<float>(set, expected.back()), floats(item.value()));
  }
  for (const auto& item : net->named_buffers()) {
    expected.push_back("model/" + item.key());
  }
  EXPECT_THAT(names_of(set), ::testing::UnorderedElementsAreArray(expected));
  EXPECT_EQ(
      values_of<std::int64_t>(set, "model/index"),
      argosy::testing::counting<std::int64_t>(4));
}

TEST(ImportOfTorchSave, NumbersStatesOfOptimizers) {
  const TempDir folder;
  torch::manual_seed(0);
  SavedNet net;
  torch::optim::Adam optimizer(net.parameters());
  net.forward(torch::rand({4, 3})).sum().backward();
  optimizer.step();
  const std::string path = (folder.path() / "optimizer.pt").string();
  torch::save(optimizer, path);
  const TensorSet set = open_tensors(path);
  const auto parameters = net.parameters();
  ASSERT_EQ(set.tensors.size(), 2 * parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& state =
        static_cast<torch::optim::AdamParamState&>(*optimizer.state().at(
            c10::guts::to_string(parameters[i].unsafeGetTensorImpl())));
    EXPECT_EQ(
        values_of<float>(
            set, "optimizer/state." + std::to_string(i) + ".exp_avg"),
        floats(state.exp_avg()));
  }
}

TEST(ImportOfTorchSave, ReadsTensorsAndVectors) {
  const TempDir folder;
  const std::string path = (folder.path() / "tensors.pt").string();
  torch::save(
      std::vector<torch::Tensor>{
          torch::arange(6.0f).view({2, 3}).t(), torch::ones(2)},
      path);
  const TensorSet set = open_tensors(path);
  EXPECT_EQ(
      values_of<float>(set, "model/0"), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values_of<float>(set, "model/1"), std::vector<float>(2, 1.0f));
}

// The command's reader and verification against the saver.
TEST(InspectionOfSavedCheckpoints, FindsWhatRanksSaved) {
  const std::vector<std::byte> secret(32, std::byte{9});
  for (const bool encrypted : {false, true}) {
    const TempDir folder;
    std::vector<float> expected;
    argosy::testing::run_ranks(3, [&](World& world) {
      torch::nn::Linear net(700, 900);
      const torch::NoGradGuard no_grad;
      net->weight.copy_(torch::arange(700.0f * 900).view({900, 700}).mul(0.5));
      State state{net};
      CheckpointOptions options;
      if (encrypted) {
        options.key = Key(secret);
      }
      save(folder.path().string(), state, 7, options);
      if (world.rank() == 0) {
        expected = floats(net->weight);
      }
    });
    const auto entries = list_checkpoints(fs::open(folder.path().string()));
    ASSERT_EQ(entries.size(), 1u);
    EXPECT_TRUE(entries[0].good() && entries[0].latest);
    const TensorSet set = open_tensors(folder.path().string());
    EXPECT_EQ(set.step, 7);
    std::optional<Cipher> cipher;
    if (encrypted) {
      cipher.emplace(Key(secret), set.encryption.value());
    } else {
      EXPECT_EQ(values_of<float>(set, "model/weight"), expected);
    }
    const VerifyReport report = verify_checkpoint(
        fs::open((folder.path() / entries[0].name).string()),
        cipher ? &*cipher : nullptr);
    EXPECT_TRUE(report.damages.empty()) << report.damages[0].what;
    EXPECT_GT(report.roots, 2u);
    EXPECT_GT(set.find("model/weight")->pieces.size(), 1u);
  }
}

} // namespace
} // namespace argosy::checkpoint
