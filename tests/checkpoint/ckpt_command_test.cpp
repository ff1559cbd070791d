// The `argosy ckpt` command, as users run it.

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "argosy/common/file.h"
#include "tests/support/command.h"

namespace argosy::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kData = ARGOSY_SOURCE_DIR "/tests/checkpoint/data/";

struct Answer {
  int code = -1;
  std::string text;

  nlohmann::json json() const { return nlohmann::json::parse(text); }
};

Answer ckpt(const std::string& arguments) {
  const auto done = argosy::testing::run_command(
      std::string(ARGOSY_COMMAND) + " ckpt " + arguments);
  return {done.status.exit_code, done.output};
}

// A folder with three checkpoints, the last of which is not committed.
class CkptCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    make("step-00000010", "--step 10");
    write_file(path("dims"), "columns -> 1\n\\.weight -> 0\n");
    make("step-00000020", "--step 20 --split 3 --dims " + path("dims"));
    std::filesystem::create_directory(run() + "/step-00000030");
    write_file(run() + "/latest", "step-00000020\n");
  }
  void make(const std::string& name, const std::string& options) {
    const Answer made =
        ckpt("convert " + kData + "dcp " + run() + "/" + name + " " + options);
    ASSERT_EQ(made.code, 0) << made.text;
  }
  std::string path(const std::string& name) const {
    return (folder_.path() / name).string();
  }
  std::string run() const { return path("run"); }

  // Changes a byte of the values of a tensor.
  void damage(const std::string& checkpoint) {
    const auto shown =
        ckpt("show --json --filter columns " + checkpoint).json();
    const auto& piece = shown["tensors"][0]["pieces"][0];
    std::fstream file(
        checkpoint + "/" + piece["file"].get<std::string>(),
        std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(piece["byte"].get<std::streamoff>() + 3);
    file.put('\x11');
  }

  TempDir folder_;
};

TEST_F(CkptCommand, ListsCheckpoints) {
  const Answer text = ckpt("ls " + run());
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(
      text.text, AllOf(HasSubstr("step-00000030"), HasSubstr("not committed")));
  const auto json = ckpt("ls --json " + run()).json();
  ASSERT_EQ(json["checkpoints"].size(), 3u);
  EXPECT_EQ(json["checkpoints"][1]["step"], 20);
  EXPECT_EQ(json["checkpoints"][1]["latest"], true);
  EXPECT_EQ(json["checkpoints"][2]["committed"], false);
  // Another layout, the same values.
  EXPECT_EQ(json["checkpoints"][0]["root"], json["checkpoints"][1]["root"]);
  std::filesystem::remove(run() + "/step-00000020/rank-00001-0.safetensors");
  const Answer damaged = ckpt("ls " + run());
  EXPECT_EQ(damaged.code, 1);
  EXPECT_THAT(damaged.text, HasSubstr("rank-00001-0.safetensors is missing"));
}

TEST_F(CkptCommand, ShowsTensorsAndValues) {
  const Answer text = ckpt("show --pieces " + run());
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(
      text.text,
      AllOf(
          HasSubstr("step 20, 6 tensors"),
          HasSubstr("model/columns.weight"),
          HasSubstr("3 pieces"),
          HasSubstr("made by DCP"),
          HasSubstr("rank-00002-0.safetensors from byte")));
  EXPECT_THAT(
      ckpt("show --filter ^optimizer " + run()).text,
      Not(HasSubstr("model/columns")));
  EXPECT_EQ(ckpt("show --filter [ " + run()).code, 2);
}

TEST_F(CkptCommand, VerifiesAndNamesDamage) {
  const Answer good = ckpt("verify --all " + run());
  EXPECT_EQ(good.code, 0) << good.text;
  damage(run() + "/step-00000020");
  const Answer bad = ckpt("verify " + run());
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(
      bad.text,
      AllOf(
          HasSubstr("tensor model/columns.weight, from byte"),
          HasSubstr("DAMAGED in 1 place, ")));
  const auto json = ckpt("verify --all --json " + run()).json();
  EXPECT_EQ(json["good"], false);
  EXPECT_EQ(json["checkpoints"][0]["good"], true);
  EXPECT_EQ(
      json["checkpoints"][1]["damages"][0]["tensor"], "model/columns.weight");
}

// One line, not one for each tensor.
TEST_F(CkptCommand, TellsOfAShortFileOnce) {
  const std::string checkpoint = run() + "/step-00000010";
  std::filesystem::resize_file(checkpoint + "/rank-00000-0.safetensors", 100);
  const Answer bad = ckpt("verify " + checkpoint);
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(
      bad.text,
      AllOf(HasSubstr("has 100 bytes"), HasSubstr("DAMAGED in 1 place, ")));
  const Answer wrong = ckpt("frob " + checkpoint);
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.text, HasSubstr("no command \"frob\""));
}

TEST_F(CkptCommand, ComparesAcrossLayoutsAndFormats) {
  const std::string a = run() + "/step-00000010 ";
  const Answer equal = ckpt("diff " + a + run() + "/step-00000020");
  EXPECT_EQ(equal.code, 0);
  EXPECT_THAT(equal.text, HasSubstr("by their common root"));
  EXPECT_EQ(ckpt("diff --values " + a + kData + "dcp").code, 0);
  const Answer other = ckpt("diff " + a + kData + "state_dict.pt");
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.text, HasSubstr("model/fc.weight: only in"));
  EXPECT_EQ(ckpt("diff " + a + path("absent")).code, 2);
}

TEST_F(CkptCommand, ConvertsThereAndBack) {
  write_file(
      path("rules"), "drop ^model/(plain|norm)\n^model/rows -> model/r\n");
  for (const char* target : {"m.pt", "m.safetensors", "hf"}) {
    const std::string to = path(target);
    const bool folder = std::string(target) == "hf";
    const Answer made = ckpt(
        "convert " + run() + " " + to + " --rules " + path("rules") +
        (folder ? " --to hf --max-shard-size 64B" : ""));
    EXPECT_EQ(made.code, 0) << made.text;
    const auto shown = ckpt("show --json " + to).json();
    ASSERT_EQ(shown["tensors"].size(), 2u) << target;
    EXPECT_EQ(shown["tensors"][1]["name"], "model/r.weight");
    // Without an ending that would ask for a file.
    const std::string back = path(
        "back-" +
        std::string(target).substr(std::string(target).find('.') + 1));
    EXPECT_EQ(ckpt("convert " + to + " " + back).code, 0);
    EXPECT_EQ(ckpt("verify " + back).code, 0);
    EXPECT_EQ(ckpt("diff --values " + to + " " + back).code, 0);
  }
  EXPECT_TRUE(std::filesystem::exists(path("hf/model.safetensors.index.json")));
}

TEST_F(CkptCommand, EncryptsWithAKeyFile) {
  write_file(path("key"), std::string(64, 'a'));
  std::filesystem::permissions(path("key"), std::filesystem::perms::owner_read);
  const std::string secret = path("secret");
  EXPECT_EQ(
      ckpt("convert " + run() + " " + secret + " --encrypt " + path("key"))
          .code,
      0);
  EXPECT_EQ(ckpt("verify " + secret).code, 0);
  EXPECT_EQ(ckpt("verify --key " + path("key") + " " + secret).code, 0);
  const Answer refused = ckpt("convert " + secret + " " + path("open"));
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.text, HasSubstr("--key"));
  EXPECT_EQ(
      ckpt("convert " + secret + " " + path("open") + " --key " + path("key"))
          .code,
      0);
  EXPECT_EQ(ckpt("diff " + path("open") + " " + run()).code, 0);
}

// A job that is killed after it has committed a checkpoint leaves `latest` as
// it was.
TEST_F(CkptCommand, TakesTheNewestCommitted) {
  write_file(run() + "/latest", "step-00000010\n");
  EXPECT_EQ(ckpt("show --json " + run()).json()["step"], 20);
  const auto verified = ckpt("verify --json " + run()).json();
  ASSERT_EQ(verified["checkpoints"].size(), 1u);
  EXPECT_THAT(verified.dump(), HasSubstr("step-00000020"));
  const auto listed = ckpt("ls --json " + run()).json()["checkpoints"];
  EXPECT_EQ(listed[0]["latest"], false);
  EXPECT_EQ(listed[1]["latest"], true);
  ASSERT_EQ(ckpt("convert " + run() + " " + path("copy")).code, 0);
  EXPECT_EQ(ckpt("show --json " + path("copy")).json()["step"], 20);
  EXPECT_EQ(ckpt("diff " + run() + " " + run() + "/step-00000020").code, 0);
  // Without the file, too.
  std::filesystem::remove(run() + "/latest");
  EXPECT_EQ(ckpt("show --json " + run()).json()["step"], 20);
}

TEST_F(CkptCommand, PrunesByPolicies) {
  make("step-00000040", "--step 40");
  const Answer dry = ckpt("prune --last 1 --dry-run " + run());
  EXPECT_EQ(dry.code, 0);
  EXPECT_THAT(
      dry.text,
      AllOf(
          HasSubstr("remove step-00000010"),
          HasSubstr("keep step-00000020: named by latest"),
          HasSubstr("keep step-00000040: the newest good one"),
          HasSubstr("would free")));
  EXPECT_TRUE(std::filesystem::exists(run() + "/step-00000010"));
  EXPECT_EQ(ckpt("prune --last 1 --uncommitted " + run()).code, 0);
  EXPECT_FALSE(std::filesystem::exists(run() + "/step-00000010"));
  EXPECT_FALSE(std::filesystem::exists(run() + "/step-00000030"));
  EXPECT_TRUE(std::filesystem::exists(run() + "/step-00000020"));
  EXPECT_EQ(ckpt("verify --all " + run()).code, 0);
}

// The newest that can be loaded, not the newest that looks as if it could.
TEST_F(CkptCommand, PruningKeepsTheNewestWithAllItsBytes) {
  make("step-00000040", "--step 40");
  damage(run() + "/step-00000040");
  std::filesystem::remove(run() + "/latest");
  const Answer done = ckpt("prune --last 1 " + run());
  EXPECT_EQ(done.code, 0);
  EXPECT_THAT(
      done.text,
      AllOf(
          HasSubstr("remove step-00000010"),
          HasSubstr("keep step-00000020: the newest good one"),
          HasSubstr("keep step-00000040: damaged: ")));
  EXPECT_EQ(ckpt("verify " + run() + "/step-00000020").code, 0);
}

TEST(CkptUsage, MistakesExitWith2) {
  EXPECT_EQ(ckpt("").code, 2);
  EXPECT_EQ(ckpt("frobnicate").code, 2);
  EXPECT_EQ(ckpt("ls /nowhere/at/all").code, 2);
  EXPECT_EQ(ckpt("prune " ARGOSY_SOURCE_DIR "/docs").code, 2);
  EXPECT_EQ(ckpt("convert a b --to zip").code, 2);
  EXPECT_EQ(ckpt("convert a b.pt --split 3").code, 2);
  const Answer help = ckpt("convert --help");
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(
      help.text, AllOf(HasSubstr("--max-shard-size"), HasSubstr("--rules")));
}

} // namespace
} // namespace argosy::checkpoint
