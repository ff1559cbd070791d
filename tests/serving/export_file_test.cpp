// What is written is what is read, and nothing that is damaged is.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "argosy/common/error.h"
#include "argosy/serving/export_file.h"
#include "tests/serving/exports.h"
#include "tests/support/refusal.h"

namespace argosy::serving {
namespace {

using argosy::testing::refusal;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ExportFile, HasTheRowsOfAMap) {
  const TempDir folder;
  std::mt19937_64 random(3);
  std::map<std::uint64_t, std::vector<float>> rows;
  for (int i = 0; i < 5000; ++i) {
    const auto value = static_cast<float>(random() % 1000);
    // Regular keys, as ids are, and any.
    rows[i % 2 == 0 ? static_cast<std::uint64_t>(i) << 32 : random()] = {
        value, -value};
  }
  ExportWriter writer(
      folder.path(), {.name = {7}, .label = "20261118 3"}, soon());
  writer.begin_table("empty", 4);
  writer.begin_table("rows", 2);
  for (const auto& [key, row] : rows) {
    writer.add_row(key, row);
  }
  const std::string hash = writer.commit();

  const ExportFile file(folder.path() / "00000007.base");
  EXPECT_EQ(file.hash(), hash);
  EXPECT_EQ(file.info().label, "20261118 3");
  ASSERT_NE(file.table("rows"), nullptr);
  const ExportTable& table = *file.table("rows");
  EXPECT_EQ(table.num_rows, rows.size());
  for (const auto& [key, row] : rows) {
    const float* found = file.find(table, key);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(std::vector<float>(found, found + 2), row);
  }
  for (int i = 0; i < 5000; ++i) {
    const std::uint64_t key = random();
    EXPECT_EQ(file.find(table, key) != nullptr, rows.contains(key));
  }
  EXPECT_EQ(file.key(table, 3), std::next(rows.begin(), 3)->first);
  EXPECT_EQ(file.row(table, 3)[1], std::next(rows.begin(), 3)->second[1]);
  EXPECT_EQ(file.find(*file.table("empty"), 0), nullptr);
  EXPECT_EQ(file.table("other"), nullptr);
  EXPECT_FALSE(file.blob("other"));
}

TEST(ExportFile, MayBeEmpty) {
  const TempDir folder;
  ExportWriter(folder.path(), {.name = {1}}, soon()).commit();
  EXPECT_TRUE(ExportFile(folder.path() / "00000001.base").tables().empty());
  ExportWriter writer(folder.path(), {.name = {2}}, soon());
  writer.begin_table("rows", 64);
  writer.commit();
  const ExportFile file(folder.path() / "00000002.base");
  EXPECT_EQ(file.find(*file.table("rows"), 7), nullptr);
}

TEST(ExportFile, EveryDamagedByteIsFound) {
  const TempDir folder;
  write_numbered(folder.path(), {1}, "", 3);
  const auto path = folder.path() / "00000001.base";
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path));
  for (std::int64_t at = 0; at < size; ++at) {
    damage(path, at);
    EXPECT_THAT(
        refusal<CheckpointError>([&] { const ExportFile file(path); }),
        HasSubstr(path.string()))
        << "byte " << at;
    damage(path, at);
  }
  EXPECT_NO_THROW(const ExportFile file(path));
}

// Without the hash a damaged directory must not lead out of the file.
TEST(ExportFile, UnverifiedBytesStayInsideOfTheFile) {
  const TempDir folder;
  write_numbered(folder.path(), {1}, "", 3);
  const auto path = folder.path() / "00000001.base";
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path));
  for (std::int64_t at = 0; at < size; ++at) {
    damage(path, at);
    refusal<CheckpointError>([&] {
      const ExportFile file(path, false);
      for (const ExportTable& table : file.tables()) {
        for (std::uint64_t key = 0; key < 5; ++key) {
          const float* row = file.find(table, key);
          if (row != nullptr) {
            EXPECT_EQ(row[0], row[0]);
          }
        }
      }
    });
    damage(path, at);
  }
}

TEST(ExportFile, RefusesADirectoryThatLeadsOutOfTheFile) {
  const TempDir folder;
  write_numbered(folder.path(), {1}, "", 3);
  const auto path = folder.path() / "00000001.base";
  const std::string whole = read_file(path).value();
  for (const auto& [field, value] : std::map<std::string, const char*>{
           {R"("num_rows":3)", "9"},  // more than slots
           {R"("num_slots":8)", "9"}, // no power of two
           {R"("rows_at":0)", "9"},   // not aligned
           {R"("dim":1)", "0"},
           {R"("num_bytes":1)", "9"}}) { // the blob is the last section
    std::string other = whole;
    other.replace(other.find(field) + field.size() - 1, 1, value);
    write_file(path, other);
    EXPECT_THAT(
        refusal<CheckpointError>([&] { const ExportFile file(path, false); }),
        HasSubstr("is not inside of the file"))
        << field;
  }
}

TEST(ExportFile, RefusesWhatIsCutOffOrRenamed) {
  const TempDir folder;
  write_numbered(folder.path(), {1}, "");
  const auto path = folder.path() / "00000001.base";
  const auto other = folder.path() / "00000002.base";
  std::filesystem::copy(path, other);
  EXPECT_THAT(
      refusal<CheckpointError>([&] { const ExportFile file(other); }),
      HasSubstr("is 00000001.base by its content"));
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{20}, std::size_t{500}}) {
    std::filesystem::resize_file(path, size);
    EXPECT_THAT(
        refusal<CheckpointError>([&] { const ExportFile file(path); }),
        HasSubstr(path.string()));
  }
  EXPECT_THAT(
      refusal<CheckpointError>(
          [&] { const ExportFile file(folder.path() / "00000009.base"); }),
      HasSubstr("00000009.base"));
}

TEST(ExportWriter, RefusesWhatAReaderCouldNotUse) {
  const TempDir folder;
  const auto writer = [&] {
    return ExportWriter(folder.path(), {.name = {1}}, soon());
  };
  EXPECT_THAT(
      refusal([&] {
        ExportWriter(folder.path(), {{2, ExportKind::Delta}}, soon());
      }),
      HasSubstr("00000002.delta with parent ''"));
  EXPECT_THAT(
      refusal([&] { writer().begin_table("a", 0); }), HasSubstr("dim 0"));
  EXPECT_THAT(
      refusal([&] {
        auto one = writer();
        one.begin_table("a", 2);
        one.add_row(7, std::vector<float>{1});
      }),
      HasSubstr("1 floats for key 7 of table 'a', expected 2"));
  EXPECT_THAT(
      refusal([&] {
        auto one = writer();
        one.begin_table("a", 1);
        one.add_row(7, std::vector<float>{1});
        one.add_row(7, std::vector<float>{1});
        one.commit();
      }),
      HasSubstr("key 7 comes twice in table 'a'"));
  EXPECT_THAT(
      refusal([&] {
        auto one = writer();
        one.begin_table("a", 1);
        one.begin_table("a", 1);
      }),
      HasSubstr("table 'a' comes twice"));
  EXPECT_THAT(
      refusal([&] { writer().add_row(1, std::vector<float>{1}); }),
      HasSubstr("before begin_table()"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(ExportName, IsReadAsItIsWritten) {
  for (const ExportName& name :
       {ExportName{1},
        ExportName{12, ExportKind::Delta},
        ExportName{123456789012, ExportKind::Delta}}) {
    EXPECT_EQ(parse_file_name(file_name(name)), name);
  }
  EXPECT_EQ(file_name({12, ExportKind::Delta}), "00000012.delta");
  for (const char* other :
       {"12.delta",
        "00000000.base",
        "0000001a.base",
        "00000001",
        ".base",
        "00000001.base.partial",
        "-0000001.base"}) {
    EXPECT_FALSE(parse_file_name(other)) << other;
  }
}

} // namespace
} // namespace argosy::serving
