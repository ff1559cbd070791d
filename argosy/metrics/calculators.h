#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "argosy/data/slots/records.h"
#include "argosy/metrics/auc_table.h"
#include "argosy/metrics/user_auc.h"

namespace at {
class Tensor;
}
namespace argosy {
class Group;
}

// Metrics of click models, batch by batch, over all workers. Tensors are
// vectors (or columns) with a value for each sample of the batch.
namespace argosy::metrics {

// Places where samples were shown: pairs of cmatch and rank.
class Places {
 public:
  // "222:1,223:4": both; "222,223": cmatch alone. Throws InvalidArgument for
  // other texts.
  explicit Places(std::string_view text);

  // Index of the pair in the text that a sample has; nullopt: none.
  std::optional<std::size_t> index_of(const data::LogKey& key) const;
  std::size_t size() const { return places_.size(); }

 private:
  struct Place {
    std::uint32_t cmatch;
    std::optional<std::uint32_t> rank;
  };
  std::vector<Place> places_;
};

// What a batch has beside predictions and labels.
struct Selection {
  const at::Tensor* mask = nullptr; // samples with 0 do not count
  const std::vector<data::LogKey>* log_keys = nullptr;
};

struct AucOptions {
  std::int64_t num_buckets = 1000000;
  std::optional<Places> places = {}; // only samples that were shown there
};

class AucCalculator {
 public:
  explicit AucCalculator(AucOptions options = {});

  void add(
      const at::Tensor& predictions,
      const at::Tensor& labels,
      const Selection& selection = {});
  // One task for each of the places: samples shown at place i count with their
  // prediction of task i.
  void add(
      const std::vector<at::Tensor>& predictions_of_tasks,
      const at::Tensor& labels,
      const Selection& selection);

  // Of the samples of all members of the group; null: of this worker alone.
  // With a group it is a collective. Does not change what was added.
  AucResult result(const std::shared_ptr<Group>& group = nullptr) const;
  void clear() { table_.clear(); }

 private:
  const std::optional<Places> places_;
  AucTable table_;
};

// See UserAucResult. Keeps all samples.
class UserAucCalculator {
 public:
  void add(
      const at::Tensor& users,
      const at::Tensor& predictions,
      const at::Tensor& labels,
      const Selection& selection = {});

  // As AucCalculator's; samples of a user may be on several workers.
  UserAucResult result(const std::shared_ptr<Group>& group = nullptr) const;
  void clear() { samples_.clear(); }

 private:
  std::vector<UserSample> samples_;
};

} // namespace argosy::metrics
