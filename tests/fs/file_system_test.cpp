// What every file system does alike.
#include <gmock/gmock.h>

#include <thread>

#include "argosy/common/file.h"
#include "argosy/fs/transfer.h"
#include "tests/fs/peers.h"
#include "tests/fs/support.h"
#include "tests/support/refusal.h"

namespace argosy::fs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using testing::bytes_of;
using testing::pattern;
using testing::soon;

class EachFileSystem : public ::testing::TestWithParam<testing::PeerKind> {
 protected:
  EachFileSystem()
      : peer_(testing::shared_peer(GetParam())),
        root_(open(peer_.new_folder(), peer_.environment())) {
    fs().make_dirs(path(""), soon());
  }

  std::string path(const std::string& name) const { return root_.path(name); }
  Location at(const std::string& name) const { return root_.at(name); }
  void put(const std::string& name, const std::string& text) const {
    root_.put(name, text);
  }
  std::string get(const std::string& name) const { return root_.get(name); }
  std::vector<std::string> names(const std::string& folder = "") const {
    return root_.names(folder);
  }
  FileSystem& fs() const { return root_.fs(); }

  testing::Peer& peer_;
  const testing::Folder root_;
};

TEST_P(EachFileSystem, WhatIsWrittenIsReadBack) {
  for (const std::size_t size : {0, 1, 7, 4096, 100'000, 3'000'001}) {
    const std::string text = pattern(size);
    put("file", text);
    EXPECT_TRUE(get("file") == text) << size;
    EXPECT_EQ(fs().stat(path("file"), soon())->bytes, size);
  }
}

TEST_P(EachFileSystem, ReadsAnyRange) {
  const std::string text = pattern(200'000);
  put("file", text);
  const auto reader = fs().open_read(path("file"), {}, soon());
  EXPECT_EQ(reader->size(), text.size());
  for (const auto& [from, count] :
       {std::pair{0, 10},
        {7, 0},
        {100'000, 5000},
        {199'999, 1},
        {0, 200'000}}) {
    std::string part(count, '\0');
    reader->read_at(from, std::as_writable_bytes(std::span(part)), soon());
    EXPECT_EQ(part, text.substr(from, count)) << from << " " << count;
  }
  std::string beyond(2, '\0');
  EXPECT_THROW(
      reader->read_at(
          199'999, std::as_writable_bytes(std::span(beyond)), soon()),
      InvalidArgument);
}

TEST_P(EachFileSystem, SeveralThreadsReadOneFile) {
  const std::string text = pattern(400'000);
  put("file", text);
  const auto reader = fs().open_read(path("file"), {}, soon());
  std::vector<std::string> parts(4, std::string(100'000, '\0'));
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      threads.emplace_back([&, i] {
        reader->read_at(
            i * 100'000, std::as_writable_bytes(std::span(parts[i])), soon());
      });
    }
  }
  EXPECT_EQ(parts[0] + parts[1] + parts[2] + parts[3], text);
}

TEST_P(EachFileSystem, AFileAppearsWithCommit) {
  const std::string text = pattern(3'000'000);
  put("file", "old");
  auto writer = fs().open_write(path("file"), {}, soon());
  for (std::size_t i = 0; i < text.size(); i += 300'000) {
    writer->write(bytes_of(text).subspan(i, 300'000), soon());
    EXPECT_EQ(get("file"), "old");
    EXPECT_THAT(names(), ElementsAre("file"));
  }
  writer->commit(soon());
  EXPECT_TRUE(get("file") == text);
  EXPECT_THAT(names(), ElementsAre("file"));
}

TEST_P(EachFileSystem, AWriterWithoutCommitLeavesNothing) {
  {
    const auto writer = fs().open_write(path("file"), {}, soon());
    writer->write(bytes_of(pattern(3'000'000)), soon());
  }
  EXPECT_EQ(fs().stat(path("file"), soon()), std::nullopt);
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_EQ(peer_.num_leftovers(), 0);
}

TEST_P(EachFileSystem, ListsOneLevelByName) {
  fs().make_dirs(path("b/deep"), soon());
  fs().make_dirs(path("empty"), soon());
  put("c", "12345");
  put("a", "");
  put("b/inside", "1");
  EXPECT_THAT(names(), ElementsAre("a", "b/", "c", "empty/"));
  EXPECT_THAT(names("b"), ElementsAre("deep/", "inside"));
  EXPECT_THAT(names("empty"), IsEmpty());
  EXPECT_THAT(names("absent"), IsEmpty());
  const auto entries = fs().list(path(""), soon());
  EXPECT_EQ(entries[2].bytes, 5);
  EXPECT_LT(
      std::chrono::abs(std::chrono::system_clock::now() - entries[2].modified),
      std::chrono::minutes(10));
  EXPECT_THROW(fs().list(path("c"), soon()), FsError);
}

TEST_P(EachFileSystem, ListsManyEntries) {
  std::vector<std::string> expected;
  for (int i = 100; i < 130; ++i) {
    expected.push_back(str("file", i));
    put(expected.back(), "x");
  }
  EXPECT_EQ(names(), expected);
}

TEST_P(EachFileSystem, TellsFilesFromFolders) {
  put("file", "x");
  fs().make_dirs(path("folder/deep"), soon());
  EXPECT_FALSE(fs().stat(path("file"), soon())->is_dir);
  EXPECT_EQ(fs().stat(path("file"), soon())->name, "file");
  EXPECT_TRUE(fs().stat(path("folder"), soon())->is_dir);
  EXPECT_TRUE(fs().stat(path("folder/deep"), soon())->is_dir);
  EXPECT_EQ(fs().stat(path("fol"), soon()), std::nullopt);
  EXPECT_EQ(fs().stat(path("absent/x"), soon()), std::nullopt);
}

TEST_P(EachFileSystem, MakingAFolderTwiceIsFine) {
  fs().make_dirs(path("folder"), soon());
  put("folder/file", "x");
  fs().make_dirs(path("folder"), soon());
  EXPECT_THAT(names("folder"), ElementsAre("file"));
}

TEST_P(EachFileSystem, AFileIsNoFolder) {
  put("file", "kept");
  EXPECT_THROW(fs().make_dirs(path("file"), soon()), FsError);
  EXPECT_THROW(fs().make_dirs(path("file/below"), soon()), FsError);
  EXPECT_EQ(get("file"), "kept");
}

TEST_P(EachFileSystem, AFolderIsNoFile) {
  fs().make_dirs(path("folder"), soon());
  put("folder/file", "kept");
  EXPECT_THROW(put("folder", "x"), FsError);
  EXPECT_THROW(get("folder"), FsError);
  EXPECT_EQ(get("folder/file"), "kept");
}

TEST_P(EachFileSystem, RemovesFilesAndTrees) {
  fs().make_dirs(path("tree/deep"), soon());
  put("tree/deep/file", "x");
  put("tree/file", "x");
  put("treetop", "x");
  fs().remove(path("tree"), soon());
  EXPECT_THAT(names(), ElementsAre("treetop"));
  fs().remove(path("treetop"), soon());
  EXPECT_THAT(names(), IsEmpty());
  fs().remove(path("absent"), soon());
}

TEST_P(EachFileSystem, RenamesAndReplacesFiles) {
  put("a", "new");
  put("b", "old");
  fs().rename(path("a"), path("b"), soon());
  EXPECT_EQ(get("b"), "new");
  EXPECT_THAT(names(), ElementsAre("b"));
  const std::string error = testing::refusal<FsError>(
      [&] { fs().rename(path("a"), path("c"), soon()); });
  EXPECT_THAT(error, HasSubstr(fs().url(path("a"))));
  EXPECT_THAT(names(), ElementsAre("b"));
}

TEST_P(EachFileSystem, RenamesFolders) {
  fs().make_dirs(path("old/deep"), soon());
  put("old/deep/file", "x");
  put("old/file", "y");
  fs().rename(path("old"), path("new"), soon());
  EXPECT_THAT(names(), ElementsAre("new/"));
  EXPECT_THAT(names("new"), ElementsAre("deep/", "file"));
  EXPECT_EQ(get("new/deep/file"), "x");
}

TEST_P(EachFileSystem, LinksOrSaysThatItCannot) {
  put("a", "first");
  put("b", "second");
  if (!fs().link(path("a"), path("b"), soon())) {
    EXPECT_EQ(get("b"), "second");
    return;
  }
  EXPECT_EQ(get("b"), "first");
  EXPECT_TRUE(fs().link(path("a"), path("b"), soon())); // again
  put("a", "third");
  EXPECT_EQ(get("b"), "first");
  EXPECT_THAT(names(), ElementsAre("a", "b"));
  EXPECT_THROW(fs().link(path("absent"), path("c"), soon()), FsError);
}

TEST_P(EachFileSystem, AnyNameIsAName) {
  for (const std::string name :
       {"with space",
        "per%20cent",
        "plus+amp&eq=",
        "hash#quest?",
        "ümläut",
        "quote'\"<x>",
        "a:b@c,d;e",
        "tilde~!$*()"}) {
    put(name, name);
    EXPECT_EQ(get(name), name);
    EXPECT_THAT(names(), ElementsAre(name));
    fs().rename(path(name), path(name + " 2"), soon());
    EXPECT_EQ(get(name + " 2"), name);
    fs().remove(path(name + " 2"), soon());
  }
}

TEST_P(EachFileSystem, ErrorsNameTheUrlAndTheOperation) {
  const std::string error =
      testing::refusal<FsError>([&] { get("absent.bin"); });
  EXPECT_THAT(error, HasSubstr("[fs.open_read]"));
  EXPECT_THAT(error, HasSubstr(fs().url(path("absent.bin"))));
  try {
    get("absent.bin");
  } catch (const FsError& e) {
    EXPECT_EQ(e.failure(), Failure::NotFound);
  }
}

TEST_P(EachFileSystem, AnExpiredDeadlineIsATimeout) {
  const Deadline past = Deadline::after(std::chrono::seconds(0));
  EXPECT_THROW(fs().stat(path("x"), past), TimeoutError);
  EXPECT_THROW(fs().list(path("x"), past), TimeoutError);
  EXPECT_THROW(fs().make_dirs(path("x"), past), TimeoutError);
  EXPECT_THROW(fs().rename(path("x"), path("y"), past), TimeoutError);
}

TEST_P(EachFileSystem, CopiesTreesToAndFromLocalFolders) {
  const TempDir folder;
  const Location local = open((folder.path() / "source").string());
  local.fs->make_dirs(join_path(local.path, "a/b"), soon());
  const std::string text = pattern(300'000);
  write_text({local.fs, join_path(local.path, "a/b/large")}, text, soon());
  write_text({local.fs, join_path(local.path, "small")}, "x", soon());
  copy(local, at("copy"), {.num_threads = 3}, soon());
  EXPECT_THAT(names("copy"), ElementsAre("a/", "small"));
  const Location back = open((folder.path() / "back").string());
  copy(at("copy"), back, {.num_threads = 2}, soon());
  EXPECT_EQ(
      read_text({back.fs, join_path(back.path, "a/b/large")}, soon()), text);
  EXPECT_EQ(read_text({back.fs, join_path(back.path, "small")}, soon()), "x");
}

TEST_P(EachFileSystem, ACopyThatFailsThrowsAndLeavesNoPart) {
  const Location absent = at("absent");
  EXPECT_THROW(copy(absent, at("to"), {}, soon()), FsError);
  EXPECT_THAT(names(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    ,
    EachFileSystem,
    ::testing::ValuesIn(testing::kAllPeers),
    [](const auto& peer) { return testing::peer_name(peer.param); });

} // namespace
} // namespace argosy::fs
