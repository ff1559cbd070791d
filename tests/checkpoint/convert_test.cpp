// Conversions between formats and layouts. The other side is PyTorch, the
// parser of Hugging Face's npm package, and a reader of safetensors in Python.

#include "argosy/checkpoint/convert/convert.h"

#include <gmock/gmock.h>

#include <fstream>

#include "argosy/checkpoint/import/sources.h"
#include "argosy/checkpoint/inspect/diff.h"
#include "argosy/checkpoint/inspect/verify.h"
#include "argosy/common/file.h"
#include "tests/checkpoint/tensor_values.h"
#include "tests/support/command.h"
#include "tests/support/refusal.h"

namespace argosy::checkpoint {
namespace {

using argosy::testing::names_of;
using argosy::testing::refusal;
using argosy::testing::run_command;
using argosy::testing::values_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kData = ARGOSY_SOURCE_DIR "/tests/checkpoint/data/";

fs::Location place(const TempDir& folder, const std::string& name) {
  return fs::open((folder.path() / name).string());
}

// A tensor in memory.
SourceTensor tensor_of(
    const std::string& name, const Shape& shape, std::uint32_t seed) {
  const auto count = static_cast<std::size_t>(dtensor::numel(shape));
  std::string bytes(4 * count, '\0');
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(i) + static_cast<float>(seed);
    std::memcpy(&bytes[4 * i], &value, 4);
  }
  SourceTensor tensor;
  tensor.info = {name, DType::kF32, shape};
  tensor.pieces.push_back(
      {.box = dtensor::whole(shape),
       .source = source_of_bytes(std::move(bytes), name)});
  return tensor;
}

// One with tensors of several blocks and chunks, and of none.
TensorSet sample_set() {
  TensorSet set{.format = Format::Torch, .url = "sample"};
  set.tensors.push_back(tensor_of("model/a", {1100, 1003}, 1));
  set.tensors.push_back(tensor_of("model/b.bias", {5}, 2));
  set.tensors.push_back(tensor_of("model/empty", {0, 4}, 0));
  set.tensors.push_back(tensor_of("model/scalar", {}, 3));
  set.tensors.push_back(tensor_of("optimizer/b.bias.exp_avg", {5}, 4));
  set.tensors.push_back(tensor_of("rank/0/rng", {7}, 5));
  set.step = 12;
  set.values = {{"loss", 0.5}};
  sort_tensors(set);
  return set;
}

void expect_same_values(const TensorSet& a, const TensorSet& b) {
  ASSERT_EQ(names_of(a), names_of(b));
  for (const SourceTensor& tensor : a.tensors) {
    EXPECT_EQ(
        values_of<float>(a, tensor.info.name),
        values_of<float>(b, tensor.info.name))
        << tensor.info.name;
  }
}

TEST(Convert, SplitsAndMergesWithTheSameRoot) {
  const TempDir folder;
  const TensorSet set = sample_set();
  const Manifest one = write_argosy(set, place(folder, "one"), {}, {});
  ASSERT_TRUE(one.root.has_value());
  EXPECT_EQ(one.files.size(), 1u);
  const TensorSet merged = open_tensors((folder.path() / "one").string());
  expect_same_values(merged, set);
  EXPECT_EQ(merged.step, 12);
  EXPECT_EQ(merged.values["loss"], 0.5);
  for (const char* dim : {"a$ -> 0", "a$ -> 1"}) {
    const std::string name = std::string("three") + dim[6];
    const Manifest three = write_argosy(
        merged,
        place(folder, name),
        {.ranks = 3, .dims = NameRules::parse(dim, "dims")},
        {});
    EXPECT_EQ(three.files.size(), 3u);
    EXPECT_EQ(three.find("model/a")->pieces.size(), 3u);
    EXPECT_EQ(three.root, one.root);
    expect_same_values(open_tensors((folder.path() / name).string()), set);
    EXPECT_TRUE(verify_checkpoint(place(folder, name)).damages.empty());
  }
  const Manifest back = write_argosy(
      open_tensors((folder.path() / "three1").string()),
      place(folder, "back"),
      {},
      {});
  EXPECT_EQ(back.root, one.root);
  // A checkpoint whose manifest is lost is still a folder of safetensors.
  std::filesystem::remove(folder.path() / "three1" / kManifestName);
  expect_same_values(open_tensors((folder.path() / "three1").string()), set);
  std::filesystem::remove(folder.path() / "three1/rank-00002-0.safetensors");
  EXPECT_THAT(
      refusal<CheckpointError>(
          [&] { open_tensors((folder.path() / "three1").string()); }),
      HasSubstr("do not cover it; a file is missing"));
}

TEST(Convert, EncryptsAndDecrypts) {
  const TempDir folder;
  const TensorSet set = sample_set();
  const std::vector<std::byte> secret(32, std::byte{7});
  const Cipher cipher{Key(secret)};
  const Manifest manifest =
      write_argosy(set, place(folder, "secret"), {.cipher = &cipher}, {});
  const TensorSet read = open_tensors((folder.path() / "secret").string());
  ASSERT_TRUE(read.encryption.has_value());
  EXPECT_THAT(
      refusal([&] { values_of<float>(read, "model/b.bias"); }),
      HasSubstr("--key"));
  const Cipher again{Key(secret), *read.encryption};
  const Manifest plain =
      write_argosy(read, place(folder, "plain"), {}, {.source_cipher = &again});
  EXPECT_EQ(plain.root, manifest.root);
  EXPECT_TRUE(
      verify_checkpoint(place(folder, "secret"), &again).damages.empty());
}

// Readers of safetensors files go by the header alone.
TEST(Convert, FindsHeadersWithOtherPlaces) {
  const TempDir folder;
  write_argosy(sample_set(), place(folder, "c"), {}, {});
  const auto file = folder.path() / "c" / "rank-00000-0.safetensors";
  std::string bytes = *read_file(file);
  const std::string place_of_piece = R"(saved_offsets\":[0)";
  bytes[bytes.find(place_of_piece) + place_of_piece.size() - 1] = '1';
  write_file(file, bytes);
  const VerifyReport report = verify_checkpoint(place(folder, "c"));
  ASSERT_EQ(report.damages.size(), 1u);
  EXPECT_EQ(report.damages[0].file, "rank-00000-0.safetensors");
  EXPECT_THAT(report.damages[0].what, HasSubstr("DCP_SHARDING_INFO"));
}

TEST(Convert, NamesFileTensorAndByteOfDamage) {
  const TempDir folder;
  write_argosy(sample_set(), place(folder, "c"), {}, {});
  const TensorSet before = open_tensors((folder.path() / "c").string());
  const SourceTensor& tensor = *before.find("model/a");
  const auto file = folder.path() / "c" / "rank-00000-0.safetensors";
  // In the second chunk of 4 MiB.
  const std::uint64_t at = tensor.pieces[0].offset + kChunkBytes + 17;
  {
    std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(at));
    out.put('\x55');
  }
  const VerifyReport report = verify_checkpoint(place(folder, "c"));
  ASSERT_EQ(report.damages.size(), 1u);
  EXPECT_EQ(report.damages[0].file, "rank-00000-0.safetensors");
  EXPECT_EQ(report.damages[0].tensor, "model/a");
  EXPECT_EQ(report.damages[0].byte, tensor.pieces[0].offset + kChunkBytes);
  EXPECT_THAT(
      refusal<CheckpointError>([&] {
        write_safetensors(
            for_export(open_tensors((folder.path() / "c").string()), false),
            place(folder, "out.safetensors"),
            {});
      }),
      AllOf(HasSubstr("rank-00000-0.safetensors"), HasSubstr("tensor a")));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "out.safetensors"));
  std::filesystem::resize_file(file, at);
  const VerifyReport cut = verify_checkpoint(place(folder, "c"));
  ASSERT_FALSE(cut.damages.empty());
  EXPECT_EQ(cut.damages[0].byte, at);
}

TEST(Convert, LeavesWhatExistsAndNothingHalf) {
  const TempDir folder;
  const TensorSet set = sample_set();
  write_file(folder.path() / "taken.pt", "mine");
  EXPECT_THAT(
      refusal([&] { write_torch(set, place(folder, "taken.pt"), {}); }),
      HasSubstr("exists"));
  EXPECT_EQ(read_file(folder.path() / "taken.pt"), "mine");
  write_argosy(set, place(folder, "c"), {}, {});
  EXPECT_THAT(
      refusal([&] { write_argosy(set, place(folder, "c"), {}, {}); }),
      HasSubstr("exists"));
  // Reading fails in the middle: nothing remains.
  TensorSet broken = sample_set();
  broken.tensors[0].pieces[0].source = source_of_bytes("short", "short");
  EXPECT_THROW(
      write_argosy(broken, place(folder, "half"), {}, {}), CheckpointError);
  EXPECT_THROW(
      write_hugging_face(broken, place(folder, "half"), 100, {}),
      CheckpointError);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "half"));
}

TEST(Convert, RenamesAndDrops) {
  const TensorSet set = renamed(
      sample_set(),
      NameRules::parse("^model/b -> model/c\ndrop ^rank/\ndrop empty", "r"));
  EXPECT_THAT(
      names_of(set),
      ElementsAre(
          "model/a",
          "model/c.bias",
          "model/scalar",
          "optimizer/b.bias.exp_avg"));
  EXPECT_THAT(
      refusal<CheckpointError>([] {
        renamed(sample_set(), NameRules::parse("model/.* -> model/x", "r"));
      }),
      HasSubstr("two tensors are called model/x"));
}

TEST(Diff, ComparesByRootsThenBlocksThenValues) {
  const TempDir folder;
  write_argosy(sample_set(), place(folder, "a"), {}, {});
  TensorSet other = sample_set();
  std::string bytes(4 * 1100 * 1003, '\0');
  other.tensors[0].pieces[0].source->read(
      0, std::as_writable_bytes(std::span(bytes)));
  const float changed = 3.5f;
  std::memcpy(&bytes[4 * 300'001], &changed, 4);
  other.tensors[0].pieces[0].source = source_of_bytes(bytes, "changed");
  write_argosy(
      other,
      place(folder, "b"),
      {.ranks = 2, .dims = NameRules::parse("a$ -> 1", "d")},
      {});
  const TensorSet a = open_tensors((folder.path() / "a").string());
  const TensorSet b = open_tensors((folder.path() / "b").string());
  EXPECT_TRUE(diff_checkpoints(a, a, DiffDepth::Values, {}, {}).by_root);
  const DiffReport roots = diff_checkpoints(a, b, DiffDepth::Roots, {}, {});
  ASSERT_EQ(roots.differing.size(), 1u);
  EXPECT_EQ(roots.differing[0].name, "model/a");
  EXPECT_EQ(roots.bytes, 0u);
  EXPECT_EQ(roots.equal, 4u);
  const DiffReport blocks = diff_checkpoints(a, b, DiffDepth::Blocks, {}, {});
  EXPECT_THAT(
      blocks.differing[0].blocks,
      ElementsAre(std::pair<std::int64_t, std::int64_t>(262'144, 524'288)));
  const DiffReport values = diff_checkpoints(a, b, DiffDepth::Values, {}, {});
  EXPECT_EQ(values.differing[0].elements, 1);
  EXPECT_EQ(values.differing[0].first, 300'001);
  EXPECT_EQ(values.differing[0].largest, 300'002 - 3.5);
  // Formats without roots are read.
  const DiffReport foreign =
      diff_checkpoints(sample_set(), a, DiffDepth::Roots, {}, {});
  EXPECT_TRUE(foreign.differing.empty());
  EXPECT_GT(foreign.bytes, 0u);
}

std::string torch_reads(const std::string& path) {
  const auto done = run_command(
      "/usr/bin/python3 " ARGOSY_SOURCE_DIR
      "/tests/checkpoint/torch_peer.py read " +
      path);
  EXPECT_TRUE(done.status.success()) << done.output;
  return done.output;
}

TEST(ConvertForPyTorch, WritesWhatTorchLoadReadsWithWeightsOnly) {
  const TempDir folder;
  TensorSet set = sample_set();
  set.tensors.erase(set.tensors.begin()); // the large one
  write_torch(for_export(set, false), place(folder, "model.pt"), {});
  EXPECT_EQ(
      torch_reads((folder.path() / "model.pt").string()),
      "b.bias float32 [5] 2.0 3.0 4.0 5.0 6.0\n"
      "empty float32 [0, 4] \n"
      "scalar float32 [] 3.0\n");
  write_torch(for_export(set, true), place(folder, "all.pt"), {});
  EXPECT_EQ(
      torch_reads((folder.path() / "all.pt").string()),
      "model/b.bias float32 [5] 2.0 3.0 4.0 5.0 6.0\n"
      "model/empty float32 [0, 4] \n"
      "model/scalar float32 [] 3.0\n"
      "optimizer/b.bias.exp_avg float32 [5] 4.0 5.0 6.0 7.0 8.0\n"
      "rank/0/rng float32 [7] 5.0 6.0 7.0 8.0 9.0 10.0 11.0\n"
      "step 12\n");
  expect_same_values(
      open_tensors((folder.path() / "model.pt").string()),
      renamed(set, NameRules::parse("drop ^(optimizer|rank)/", "r")));
}

// Read back by the reader that reads what DCP writes (import_test).
TEST(ConvertForPyTorch, WritesFoldersOfDcp) {
  const TempDir folder;
  const TensorSet set = sample_set();
  write_dcp(for_export(set, true), place(folder, "all"), {});
  const TensorSet all = open_tensors((folder.path() / "all").string());
  EXPECT_EQ(all.format, Format::Dcp);
  EXPECT_EQ(all.step, set.step);
  EXPECT_EQ(names_of(all), names_of(set));
  expect_same_values(all, set);
  write_dcp(for_export(set, false), place(folder, "model"), {});
  expect_same_values(
      open_tensors((folder.path() / "model").string()),
      renamed(set, NameRules::parse("drop ^(optimizer|rank)/", "r")));
  TensorSet broken = sample_set();
  broken.tensors[0].pieces[0].source = source_of_bytes("short", "short");
  EXPECT_THROW(write_dcp(broken, place(folder, "half"), {}), CheckpointError);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "half"));
}

TEST(ConvertForPyTorch, KeepsTypesThatHaveNoStorageClass) {
  const TempDir folder;
  const TensorSet set = for_export(open_tensors(kData + "views.pt"), false);
  write_torch(set, place(folder, "views.pt"), {});
  const TensorSet read = open_tensors((folder.path() / "views.pt").string());
  EXPECT_EQ(read.find("model/float8")->info.dtype, DType::kF8E4M3);
  EXPECT_THAT(
      values_of<std::uint16_t>(read, "model/words"), ElementsAre(1, 65535));
}

// What Hugging Face's own parser finds in a folder.
std::string hub_reads(const std::string& folder) {
  const std::string peers = ARGOSY_SOURCE_DIR "/tests/peers";
  if (!std::filesystem::exists(peers + "/node_modules")) {
    throw SystemError(
        "tests/peers/node_modules is missing: run tools/setup tests");
  }
  const auto done = run_command("node " + peers + "/safetensors.mjs " + folder);
  EXPECT_TRUE(done.status.success()) << done.output;
  return done.output;
}

// Reads a safetensors file by its definition, with Python's own modules.
std::string python_reads(const std::string& path) {
  const auto done = run_command(
      "/usr/bin/python3 " ARGOSY_SOURCE_DIR
      "/tests/checkpoint/safetensors_peer.py " +
      path);
  EXPECT_TRUE(done.status.success()) << done.output;
  return done.output;
}

TEST(ConvertForHuggingFace, WritesOneFileOrShardsWithAnIndex) {
  const TempDir folder;
  const TensorSet set = for_export(sample_set(), false);
  write_hugging_face(set, place(folder, "one"), 1 << 30, {});
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "one" / kIndexName));
  EXPECT_THAT(
      python_reads((folder.path() / "one/model.safetensors").string()),
      AllOf(
          HasSubstr("b.bias F32 [5] 2.0 3.0 4.0 5.0 6.0\n"),
          HasSubstr("scalar F32 [] 3.0\n"),
          HasSubstr("empty F32 [0, 4] \n"),
          HasSubstr("metadata format=pt\n")));
  write_hugging_face(set, place(folder, "shards"), 1000, {});
  const auto index =
      nlohmann::json::parse(*read_file(folder.path() / "shards" / kIndexName));
  EXPECT_EQ(index["metadata"]["total_size"], 4 * (1100 * 1003 + 5 + 1));
  EXPECT_EQ(index["weight_map"]["a"], "model-00001-of-00002.safetensors");
  EXPECT_EQ(index["weight_map"]["scalar"], "model-00002-of-00002.safetensors");
  // It counts a scalar as no parameter.
  EXPECT_EQ(
      hub_reads((folder.path() / "one").string()),
      "a F32 [1100,1003] model.safetensors\n"
      "b.bias F32 [5] model.safetensors\n"
      "empty F32 [0,4] model.safetensors\n"
      "scalar F32 [] model.safetensors\n"
      "parameters {\"F32\":1103305}\n");
  EXPECT_EQ(
      hub_reads((folder.path() / "shards").string()),
      "a F32 [1100,1003] model-00001-of-00002.safetensors\n"
      "b.bias F32 [5] model-00002-of-00002.safetensors\n"
      "empty F32 [0,4] model-00002-of-00002.safetensors\n"
      "scalar F32 [] model-00002-of-00002.safetensors\n"
      "parameters {\"F32\":1103305}\n");
  const TensorSet expected =
      renamed(sample_set(), NameRules::parse("drop ^(optimizer|rank)/", "r"));
  for (const char* name : {"one", "shards"}) {
    expect_same_values(open_tensors((folder.path() / name).string()), expected);
  }
  std::filesystem::remove(
      folder.path() / "shards/model-00002-of-00002.safetensors");
  EXPECT_THAT(
      refusal<CheckpointError>(
          [&] { open_tensors((folder.path() / "shards").string()); }),
      HasSubstr("model-00002-of-00002.safetensors"));
}

} // namespace
} // namespace argosy::checkpoint
