// LocalFS and HDFSClient: one suite for local folders, WebHDFS and the hadoop
// command, and what the command alone does.
#include "argosy/compat/paddle_fs.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "argosy/common/file.h"
#include "argosy/common/text.h"
#include "tests/fs/peers.h"
#include "tests/support/refusal.h"

namespace argosy::fleet::utils {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A home of Hadoop whose command acts on a folder.
class FakeHadoop {
 public:
  FakeHadoop() {
    std::filesystem::create_directories(folder_.path() / "home/bin");
    std::filesystem::copy_file(
        str(ARGOSY_SOURCE_DIR, "/tests/compat/hadoop"),
        folder_.path() / "home/bin/hadoop");
    std::filesystem::create_directory(data());
    ::setenv("FAKE_HDFS", data().c_str(), 1);
  }
  ~FakeHadoop() { ::unsetenv("FAKE_HDFS"); }

  std::string home() const { return (folder_.path() / "home").string(); }
  std::filesystem::path data() const { return folder_.path() / "data"; }

  // The next commands end with these codes.
  void fail(const std::string& codes) const {
    std::ofstream(data() / ".fail") << codes;
  }
  int num_runs() const {
    const std::string log = read_file(data() / ".log").value_or("");
    return static_cast<int>(std::count(log.begin(), log.end(), '\n'));
  }

 private:
  TempDir folder_;
};

enum class Way { Local, WebHdfs, Command };

class PaddleFs : public ::testing::TestWithParam<Way> {
 protected:
  PaddleFs() {
    switch (GetParam()) {
      case Way::Local:
        root_ = (local_.path() / "root").string();
        fs_ = std::make_unique<LocalFS>();
        break;
      case Way::WebHdfs: {
        testing::Peer& peer = testing::shared_peer(testing::PeerKind::WebHdfs);
        const std::string url = peer.new_folder();
        const std::size_t slash = url.find('/', url.find("://") + 3);
        root_ = url.substr(slash);
        fs_ = std::make_unique<HDFSClient>(
            "",
            HDFSClient::Configs{
                {"fs.default.name", url.substr(0, slash)},
                {"hadoop.job.ugi", "someone,secret"}});
        break;
      }
      case Way::Command:
        root_ = "/root";
        fs_ = std::make_unique<HDFSClient>(
            hadoop_.home(),
            HDFSClient::Configs{{"fs.default.name", "hdfs://host:9000"}});
        break;
    }
    fs_->mkdirs(root_);
  }

  std::string path(const std::string& name) const { return root_ + "/" + name; }
  std::string local(const std::string& name) const {
    return (local_.path() / name).string();
  }
  void put(const std::string& name, const std::string& text) {
    write_file(local("put"), text);
    fs_->upload(local("put"), path(name), 1, true);
  }

  TempDir local_;
  FakeHadoop hadoop_;
  std::string root_;
  std::unique_ptr<FS> fs_;
};

TEST_P(PaddleFs, ListsTellsAndMakes) {
  EXPECT_EQ(fs_->ls_dir(path("absent")), FS::Listing{});
  fs_->mkdirs(path("a/b"));
  fs_->mkdirs(path("a/b"));
  fs_->touch(path("file"));
  EXPECT_THAT(fs_->ls_dir(root_).dirs, ElementsAre("a"));
  EXPECT_THAT(fs_->ls_dir(root_).files, ElementsAre("file"));
  EXPECT_THAT(fs_->list_dirs(path("a")), ElementsAre("b"));
  EXPECT_TRUE(fs_->is_dir(path("a")));
  EXPECT_FALSE(fs_->is_file(path("a")));
  EXPECT_TRUE(fs_->is_file(path("file")));
  EXPECT_TRUE(fs_->is_exist(path("file")));
  EXPECT_FALSE(fs_->is_exist(path("absent")));
  EXPECT_THROW(fs_->mkdirs(path("file")), FSFileExistsError);
  EXPECT_EQ(fs_->need_upload_download(), GetParam() != Way::Local);
}

TEST_P(PaddleFs, Touches) {
  put("file", "kept");
  fs_->touch(path("file"));
  EXPECT_EQ(fs_->cat(path("file")), "kept");
  EXPECT_THROW(fs_->touch(path("file"), false), FSFileExistsError);
  EXPECT_EQ(fs_->cat(path("absent")), "");
}

TEST_P(PaddleFs, Moves) {
  put("a", "first");
  put("b", "second");
  EXPECT_THROW(
      fs_->mv(path("absent"), path("c"), false, true), FSFileNotExistsError);
  EXPECT_THROW(fs_->mv(path("a"), path("b"), false, true), FSFileExistsError);
  EXPECT_EQ(fs_->cat(path("b")), "second");
  fs_->mv(path("a"), path("b"), true);
  EXPECT_EQ(fs_->cat(path("b")), "first");
  fs_->rename(path("b"), path("c"));
  EXPECT_THAT(fs_->ls_dir(root_).files, ElementsAre("c"));
}

TEST_P(PaddleFs, Removes) {
  fs_->mkdirs(path("a/b"));
  fs_->touch(path("a/b/file"));
  fs_->remove(path("a"));
  fs_->remove(path("a"));
  EXPECT_THAT(fs_->ls_dir(root_).dirs, IsEmpty());
}

TEST_P(PaddleFs, CopiesThereAndBack) {
  std::filesystem::create_directories(local("tree/deep"));
  write_file(local("tree/x"), "12345");
  write_file(local("tree/deep/y"), "1");
  EXPECT_THROW(fs_->upload(local("absent"), path("t")), FSFileNotExistsError);
  fs_->upload(local("tree"), path("t"), 2);
  EXPECT_THROW(fs_->upload(local("tree"), path("t")), FSFileExistsError);
  fs_->upload_dir(local("tree"), path("t"), true);
  EXPECT_EQ(fs_->cat(path("t/deep/y")), "1");
  EXPECT_EQ(
      fs_->list_files_info({path("t"), path("absent"), path("t/deep/y")}),
      (std::vector<FS::FileInfo>{{path("t/x"), 5}, {path("t/deep/y"), 1}}));
  EXPECT_THROW(
      fs_->download(path("absent"), local("back")), FSFileNotExistsError);
  fs_->download(path("t"), local("back"), 2);
  EXPECT_EQ(read_file(local("back/x")), "12345");
  EXPECT_THROW(fs_->download(path("t"), local("back")), FSFileExistsError);
  fs_->download(path("t"), local("back"), 1, true);
  EXPECT_EQ(read_file(local("back/deep/y")), "1");
}

std::string way_name(const ::testing::TestParamInfo<Way>& way) {
  const std::vector<std::string> names = {"Local", "WebHdfs", "Command"};
  return names[static_cast<std::size_t>(way.param)];
}

INSTANTIATE_TEST_SUITE_P(
    ,
    PaddleFs,
    ::testing::Values(Way::Local, Way::WebHdfs, Way::Command),
    &way_name);

TEST(LocalFs, MovesLookInAnyCase) {
  const TempDir folder;
  const auto path = [&](const std::string& name) {
    return (folder.path() / name).string();
  };
  LocalFS fs;
  EXPECT_THROW(fs.mv(path("a"), path("b")), FSFileNotExistsError);
  fs.touch(path("a"));
  fs.touch(path("b"));
  EXPECT_THROW(fs.mv(path("a"), path("b")), FSFileExistsError);
}

TEST(HadoopCommand, RunsAgainAfterFailures) {
  const FakeHadoop hadoop;
  HDFSClient client(hadoop.home(), {}, 20'000, 1);
  std::filesystem::create_directory(hadoop.data() / "x");
  std::ofstream(hadoop.data() / "x/file") << "text";
  // -test answers 1 for "no", so only cat and what follows see the rest.
  hadoop.fail("255\n255\n255\n");
  EXPECT_EQ(client.cat("/x/file"), "text");
  EXPECT_EQ(hadoop.num_runs(), 6);
}

TEST(HadoopCommand, AnAbortOfJavaIsNotTriedAgain) {
  const FakeHadoop hadoop;
  HDFSClient client(hadoop.home(), {}, 20'000, 1);
  hadoop.fail("134\n134\n134\n");
  EXPECT_THAT(
      testing::refusal<FSShellCmdAborted>([&] { client.is_dir("/x"); }),
      HasSubstr("hadoop fs -test -d /x: the Java machine aborted"));
  EXPECT_EQ(hadoop.num_runs(), 1);
}

TEST(HadoopCommand, FailuresEndWithTheTimeOut) {
  const FakeHadoop hadoop;
  HDFSClient client(hadoop.home(), {}, 300, 1);
  std::string codes;
  for (int i = 0; i < 10'000; ++i) {
    codes += "255\n";
  }
  hadoop.fail(codes);
  EXPECT_THAT(
      testing::refusal<FSTimeOut>([&] { client.rename("/x", "/y"); }),
      HasSubstr("as told"));
  EXPECT_GT(hadoop.num_runs(), 2);
}

TEST(HadoopCommand, ACommandThatHangsIsKilledAtTheTimeOut) {
  const FakeHadoop hadoop;
  std::ofstream(hadoop.home() + "/bin/hadoop") << "#!/bin/sh\nsleep 100\n";
  HDFSClient client(hadoop.home(), {}, 300, 1);
  EXPECT_THAT(
      testing::refusal<FSTimeOut>([&] { client.remove("/x"); }),
      HasSubstr("did not end within 300 ms"));
}

TEST(HdfsClient, NeedsAWayToHdfs) {
  EXPECT_THAT(
      testing::refusal([] { HDFSClient("/absent", {}); }),
      HasSubstr("/absent/bin/hadoop does not exist"));
}

} // namespace
} // namespace argosy::fleet::utils
