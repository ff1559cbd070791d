#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <numeric>
#include <string>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/data/slots/slot_batch.h"
#include "argosy/data/slots/slot_dataset.h"

namespace argosy::data {

// Files of samples of which each can be told to be whole.
class SlotDatasets : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    write_file(dir_.path() / name, content);
    return (dir_.path() / name).string();
  }
  // A file with the samples `first` to `first + count - 1`: the user is the
  // sample's number, and it has one to three tags that begin with it.
  std::string write_samples(int first, int count) {
    std::string text;
    for (int i = first; i < first + count; ++i) {
      text += str("1 ", i % 2, " 1 ", i, " ", 1 + i % 3);
      for (int tag = 0; tag <= i % 3; ++tag) {
        text += str(" ", 10 * i + tag);
      }
      text += "\n";
    }
    return write(str("from-", first, "-", count), text);
  }
  static SlotDatasetOptions options(std::int64_t batch_size = 4) {
    return {
        .slots =
            {{"label", SlotType::Float, {1}},
             {"user", SlotType::Id, {1}},
             {"tags", SlotType::Id, {}}},
        .batch_size = batch_size};
  }
  // The users of a pass, after checking that each sample is whole.
  static std::vector<std::int64_t> users_of(SlotDataset& dataset) {
    std::vector<std::int64_t> users;
    const auto pass = dataset.start_pass();
    while (const auto batch = pass->next()) {
      add_users(*batch, users);
    }
    return users;
  }
  static void add_users(
      const SlotBatch& batch, std::vector<std::int64_t>& users) {
    const at::Tensor& tags = batch["tags"].values;
    const at::Tensor& offsets = batch["tags"].offsets;
    ASSERT_EQ(offsets.size(0), batch.size);
    for (std::int64_t i = 0; i < batch.size; ++i) {
      const auto user = batch["user"].values[i][0].item<std::int64_t>();
      const auto first = offsets[i].item<std::int64_t>();
      const auto end = i + 1 < batch.size ? offsets[i + 1].item<std::int64_t>()
                                          : tags.size(0);
      EXPECT_EQ(end - first, 1 + user % 3);
      for (std::int64_t k = first; k < end; ++k) {
        EXPECT_EQ(tags[k].item<std::int64_t>(), 10 * user + k - first);
      }
      EXPECT_EQ(batch["label"].values[i][0].item<float>(), float(user % 2));
      users.push_back(user);
    }
  }
  static std::vector<std::int64_t> numbers(std::int64_t n) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  TempDir dir_;
};

} // namespace argosy::data
