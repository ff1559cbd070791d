#include "argosy/data/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/data/corpora.h"
#include "argosy/data/loader.h"
#include "tests/store/expect.h"
#include "tests/support/command.h"

namespace argosy::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using namespace std::string_literals;

const std::string kImages = "\0\0\10\3\0\0\0\2\0\0\0\2\0\0\0\3abcdefghijkl"s;
const std::string kLabels = "\0\0\10\1\0\0\0\2\7\377"s;

class IdxFiles : public ::testing::Test {
 protected:
  std::filesystem::path file(
      const std::string& name, const std::string& content) const {
    write_file(dir_.path() / name, content);
    return dir_.path() / name;
  }

  std::string error_of_file(const std::string& content) const {
    return message_of<Error>([&] { read_idx(file("x.idx", content)); });
  }

  TempDir dir_;
};

TEST_F(IdxFiles, ReadsPicturesAndLabels) {
  const IdxImages images(file("images", kImages), file("labels", kLabels));
  EXPECT_EQ(images.size(), 2);
  const auto second = images.get(1);
  EXPECT_EQ(second.rows, 2);
  EXPECT_EQ(second.columns, 3);
  EXPECT_EQ(second.label, 255);
  EXPECT_THAT(second.pixels, ElementsAre('g', 'h', 'i', 'j', 'k', 'l'));
  EXPECT_THAT(
      message_of<Error>([&] { images.get(2); }),
      HasSubstr("image 2, expected 0 to 1"));
}

TEST_F(IdxFiles, ReadsCompressedFiles) {
  const auto path = file("images", kImages);
  ASSERT_TRUE(testing::run_command("gzip " + path.string()).status.success());
  const IdxArray array = read_idx(path.string() + ".gz");
  EXPECT_THAT(array.shape, ElementsAre(2, 2, 3));
  EXPECT_EQ(
      std::string(array.values.begin(), array.values.end()), "abcdefghijkl");

  std::string cut = *read_file(path.string() + ".gz");
  cut.resize(cut.size() - 9);
  EXPECT_THAT(error_of_file(cut), HasSubstr("x.idx"));
  std::string flipped = *read_file(path.string() + ".gz");
  flipped[flipped.size() - 6] ^= 1; // in the checksum
  EXPECT_THAT(error_of_file(flipped), HasSubstr("incorrect data check"));
}

TEST_F(IdxFiles, SaysWhatIsWrong) {
  EXPECT_THAT(
      error_of_file("\0\0\15\1\0\0\0\0"s),
      AllOf(HasSubstr("x.idx, offset 0"), HasSubstr("bytes 0 0 13 1")));
  EXPECT_THAT(error_of_file(""), HasSubstr("ends after 0"));
  EXPECT_THAT(error_of_file("\0\0\10\2\0\0"s), HasSubstr("ends after 2"));
  EXPECT_THAT(
      error_of_file(kImages.substr(0, kImages.size() - 1)),
      HasSubstr("ends after 11 bytes of a part, expected 12"));
  EXPECT_THAT(
      error_of_file(kImages + "x"), HasSubstr("has more data after its 12"));
  const std::string huge(12, '\377');
  EXPECT_THAT(error_of_file("\0\0\10\3"s + huge), HasSubstr("overflow"));
  EXPECT_THAT(
      error_of_file("\0\0\10\1\377\377\377\377"s), HasSubstr("ends after 0"));
  EXPECT_THROW(read_idx(dir_.path() / "none"), SystemError);
}

TEST_F(IdxFiles, RefusesFilesThatDoNotBelongTogether) {
  const auto images = file("images", kImages);
  const auto labels = file("labels", "\0\0\10\1\0\0\0\3abc"s);
  EXPECT_THAT(
      message_of<Error>([&] { IdxImages(images, labels); }),
      HasSubstr("3 values, expected a label for each of the 2 images"));
  EXPECT_THAT(
      message_of<Error>([&] { IdxImages(labels, labels); }),
      HasSubstr("1 dimensions, expected 3"));
}

TEST(FashionMnist, IsAllThere) {
  const std::map<Split, std::int64_t> sizes{
      {Split::Train, 60000}, {Split::Test, 10000}};
  for (const auto& [split, size] : sizes) {
    const IdxImages images = fashion_mnist(split);
    ASSERT_EQ(images.size(), size);
    ASSERT_EQ(images.rows(), 28);
    ASSERT_EQ(images.columns(), 28);
    std::map<std::int64_t, std::int64_t> histogram;
    for (std::int64_t i = 0; i < size; ++i) {
      ++histogram[images.get(i).label];
    }
    ASSERT_EQ(histogram.size(), 10);
    for (const auto& [label, count] : histogram) {
      EXPECT_EQ(count, size / 10) << label;
    }
  }
}

// The mean pixel by which users of this data normalise it: 0.2860.
TEST(FashionMnist, GoesThroughALoaderOnTwoRanks) {
  const IdxImages images = fashion_mnist(Split::Train);
  std::int64_t sum = 0;
  std::int64_t count = 0;
  for (int rank = 0; rank < 2; ++rank) {
    DataLoader loader(
        images,
        DistributedBatchSampler(
            images,
            {.batch_size = 64,
             .num_replicas = 2,
             .rank = rank,
             .shuffle = true}));
    while (const auto batch = loader.next()) {
      for (const ImageSample& sample : *batch) {
        sum = std::accumulate(sample.pixels.begin(), sample.pixels.end(), sum);
        ++count;
      }
    }
  }
  EXPECT_EQ(count, 60000);
  EXPECT_NEAR(static_cast<double>(sum) / 60000 / 784 / 255, 0.2860, 5e-5);
}

} // namespace
} // namespace argosy::data
