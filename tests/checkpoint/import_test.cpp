// Checkpoints of other programs: files that PyTorch 1.13 writes while the test
// runs, and files of PyTorch 2.6 in data/ (data/make.py made them).

#include <gmock/gmock.h>

#include <fstream>

#include "argosy/checkpoint/import/sources.h"
#include "argosy/common/file.h"
#include "tests/checkpoint/tensor_values.h"
#include "tests/support/command.h"
#include "tests/support/refusal.h"

namespace argosy::checkpoint {
namespace {

using argosy::testing::counting;
using argosy::testing::names_of;
using argosy::testing::values_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kData = ARGOSY_SOURCE_DIR "/tests/checkpoint/data/";

const std::vector<std::string> kModelNames{
    "model/bn.bias",
    "model/bn.num_batches_tracked",
    "model/bn.running_mean",
    "model/bn.running_var",
    "model/bn.weight",
    "model/fc.bias",
    "model/fc.weight"};

TEST(ImportOfPyTorch26, ReadsAStateDict) {
  const TensorSet set = open_tensors(kData + "state_dict.pt");
  EXPECT_EQ(set.format, Format::Torch);
  EXPECT_EQ(names_of(set), kModelNames);
  EXPECT_EQ(values_of<float>(set, "model/fc.weight"), counting<float>(6));
  EXPECT_EQ(values_of<float>(set, "model/fc.bias"), counting<float>(2, 10));
  EXPECT_EQ(
      values_of<std::int64_t>(set, "model/bn.num_batches_tracked"),
      counting<std::int64_t>(1, 60));
}

TEST(ImportOfPyTorch26, ReadsViewsAndTypesWithoutStorageClasses) {
  const TensorSet set = open_tensors(kData + "views.pt");
  EXPECT_THAT(
      values_of<float>(set, "model/transposed"),
      ElementsAre(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  EXPECT_EQ(values_of<float>(set, "model/row"), counting<float>(4, 4));
  EXPECT_THAT(
      values_of<float>(set, "model/every_second"),
      ElementsAre(0, 2, 4, 6, 8, 10, 12, 14));
  EXPECT_EQ(
      values_of<float>(set, "model/expanded"), std::vector<float>(6, 1.0f));
  EXPECT_EQ(set.find("model/float8")->info.dtype, DType::kF8E4M3);
  EXPECT_EQ(
      values_of<std::uint8_t>(set, "model/float8"),
      std::vector<std::uint8_t>(4, 0x38));
  EXPECT_EQ(set.find("model/words")->info.dtype, DType::kU16);
  EXPECT_THAT(
      values_of<std::uint16_t>(set, "model/words"), ElementsAre(1, 65535));
  EXPECT_EQ(set.find("model/empty")->info.shape, Shape({0, 3}));
}

TEST(ImportOfPyTorch26, ReadsADistributedCheckpoint) {
  const TensorSet set = open_tensors(kData + "dcp");
  EXPECT_EQ(set.format, Format::Dcp);
  EXPECT_THAT(
      names_of(set),
      ElementsAre(
          "model/columns.weight",
          "model/norm.bias",
          "model/plain",
          "model/rows.weight",
          "optimizer/rows.weight.exp_avg",
          "optimizer/rows.weight.step"));
  EXPECT_EQ(set.find("model/rows.weight")->pieces.size(), 2u);
  EXPECT_EQ(values_of<float>(set, "model/rows.weight"), counting<float>(15));
  EXPECT_EQ(
      values_of<float>(set, "model/columns.weight"), counting<float>(24, 100));
  EXPECT_EQ(
      values_of<std::int64_t>(set, "model/plain"),
      counting<std::int64_t>(4, 300));
  EXPECT_EQ(
      values_of<float>(set, "optimizer/rows.weight.exp_avg"),
      counting<float>(15, 400));
  EXPECT_EQ(set.find("model/norm.bias")->info.dtype, DType::kBF16);
  EXPECT_EQ(set.step, 7);
  EXPECT_EQ(set.values["note"]["text"], "made by DCP");
  EXPECT_EQ(set.values["optimizer"]["param_groups"]["0"]["lr"], 0.125);
}

TEST(ImportOfPyTorch26, SaysWhichPartOfADistributedCheckpointIsMissing) {
  const TempDir folder;
  for (const char* name : {".metadata", "__0_0.distcp"}) {
    write_file(folder.path() / name, *read_file(kData + "dcp/" + name));
  }
  EXPECT_THAT(
      argosy::testing::refusal<CheckpointError>(
          [&] { open_tensors(folder.path()); }),
      HasSubstr("__1_0.distcp"));
}

// Files that this machine's PyTorch writes.
class ImportOfPyTorch : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TempDir>();
    const auto done = argosy::testing::run_command(
        "/usr/bin/python3 " ARGOSY_SOURCE_DIR
        "/tests/checkpoint/torch_peer.py write " +
        folder_->path().string());
    ASSERT_TRUE(done.status.success()) << done.output;
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string path(const std::string& name) {
    return (folder_->path() / name).string();
  }

  static std::unique_ptr<TempDir> folder_;
};
std::unique_ptr<TempDir> ImportOfPyTorch::folder_;

TEST_F(ImportOfPyTorch, ReadsStateDictsOfAllForms) {
  for (const char* name :
       {"state_dict.pt", "legacy.pt", "protocol4.pt", "deflated.pt"}) {
    const TensorSet set = open_tensors(path(name));
    EXPECT_EQ(set.tensors.size(), 8u) << name;
    EXPECT_EQ(values_of<float>(set, "model/fc.weight"), counting<float>(6));
    EXPECT_EQ(
        values_of<float>(set, "model/bn.running_var"), counting<float>(2, 50));
    EXPECT_EQ(
        values_of<float>(set, "model/out.weight"), counting<float>(8, 70));
  }
}

TEST_F(ImportOfPyTorch, NamesOptimizerStatesByTheirParameters) {
  const TensorSet set = open_tensors(path("training.pt"));
  EXPECT_EQ(set.step, 12);
  ASSERT_NE(set.find("optimizer/out.weight.exp_avg"), nullptr);
  EXPECT_EQ(
      set.find("optimizer/out.weight.exp_avg")->info.shape, Shape({4, 2}));
  EXPECT_EQ(
      set.find("optimizer/fc.weight.exp_avg_sq")->info.shape, Shape({2, 3}));
  EXPECT_EQ(
      values_of<float>(set, "optimizer/fc.weight.step"), counting<float>(1, 1));
  EXPECT_EQ(values_of<float>(set, "state/parameter"), counting<float>(2, 5));
  EXPECT_EQ(set.values["optimizer"]["param_groups"][0]["lr"], 0.5);
  EXPECT_EQ(set.values["flags"].size(), 2u);
  // Without the model nobody knows the names.
  EXPECT_NE(
      open_tensors(path("optimizer.pt")).find("optimizer/state.0.exp_avg"),
      nullptr);
}

TEST_F(ImportOfPyTorch, ReadsViews) {
  const TensorSet set = open_tensors(path("views.pt"));
  const auto transposed = values_of<float>(set, "model/transposed");
  const auto columns = values_of<float>(set, "model/columns");
  const auto last = values_of<float>(set, "model/channels_last");
  ASSERT_EQ(transposed.size(), 60'000u);
  for (std::size_t i = 0; i < 200; ++i) {
    for (std::size_t j = 0; j < 300; ++j) {
      ASSERT_EQ(transposed[i * 300 + j], static_cast<float>(j * 200 + i));
    }
  }
  for (std::size_t i = 0; i < columns.size(); ++i) {
    ASSERT_EQ(
        columns[i], static_cast<float>(i / 100 * 200 + 2 * (i % 100) + 1));
  }
  EXPECT_EQ(last, counting<float>(120));
  EXPECT_EQ(values_of<float>(set, "model/scalar"), std::vector<float>{7});
  EXPECT_EQ(set.find("model/half")->info.dtype, DType::kF16);
}

TEST_F(ImportOfPyTorch, RefusesAPickledModel) {
  EXPECT_THAT(
      argosy::testing::refusal<CheckpointError>(
          [&] { open_tensors(path("whole_model.pt")); }),
      AllOf(
          HasSubstr("torch.nn.modules.container.Sequential"),
          HasSubstr("whole_model.pt, byte ")));
}

TEST_F(ImportOfPyTorch, NamesThePlaceOfDamage) {
  std::string bytes = *read_file(path("state_dict.pt"));
  const std::string cut = path("cut.pt");
  write_file(cut, bytes.substr(0, bytes.size() / 2));
  EXPECT_THAT(
      argosy::testing::refusal<CheckpointError>([&] { open_tensors(cut); }),
      AllOf(HasSubstr("cut.pt, byte "), HasSubstr("truncated")));
  const std::string flipped = path("flipped.pt");
  bytes[bytes.find("fc.weight")] ^= 1; // in the pickle
  write_file(flipped, bytes);
  EXPECT_THAT(
      argosy::testing::refusal<CheckpointError>([&] { open_tensors(flipped); }),
      AllOf(HasSubstr("data.pkl"), HasSubstr("checksum")));
}

} // namespace
} // namespace argosy::checkpoint
