#include "argosy/metrics/calculators.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <charconv>
#include <cstring>
#include <numeric>

#include "argosy/comm/group.h"
#include "argosy/comm/ops.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::metrics {

namespace {

std::optional<std::uint32_t> place_number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size()
      ? std::optional(value)
      : std::nullopt;
}

// A tensor of one value for each sample, as contiguous numbers.
template <typename T>
class Column {
 public:
  Column(const at::Tensor& tensor, at::ScalarType type, const char* name)
      : tensor_(tensor.detach().reshape({-1}).to(type).contiguous()),
        name_(name) {}

  std::size_t size() const { return static_cast<std::size_t>(tensor_.numel()); }
  T operator[](std::size_t i) const {
    return static_cast<const T*>(tensor_.data_ptr())[i];
  }
  void check_size(std::size_t expected) const {
    ARGOSY_CHECK(
        size() == expected,
        "[metrics] {} {} for {} labels, expected as many",
        size(),
        name_,
        expected);
  }

 private:
  const at::Tensor tensor_;
  const char* const name_;
};

using Floats = Column<float>;

// Whether the samples of a batch count.
class Selected {
 public:
  Selected(const Selection& selection, std::size_t size)
      : log_keys_(selection.log_keys) {
    if (selection.mask != nullptr) {
      mask_.emplace(*selection.mask, at::kFloat, "mask values");
      mask_->check_size(size);
    }
    ARGOSY_CHECK(
        log_keys_ == nullptr || log_keys_->size() == size,
        "[metrics] {} log keys for {} labels, expected as many",
        log_keys_ == nullptr ? 0 : log_keys_->size(),
        size);
  }

  bool operator()(std::size_t i) const { return !mask_ || (*mask_)[i] != 0; }
  const data::LogKey& key(std::size_t i) const { return (*log_keys_)[i]; }
  void check_keys() const {
    ARGOSY_CHECK(
        log_keys_ != nullptr,
        "[metrics] samples are selected by place, expected their log keys");
  }

 private:
  std::optional<Floats> mask_;
  const std::vector<data::LogKey>* log_keys_;
};

} // namespace

Places::Places(std::string_view text) {
  for (const std::string& part : split(text, ',')) {
    const auto numbers = split(part, ':');
    const auto cmatch =
        numbers.empty() ? std::nullopt : place_number(trim(numbers[0]));
    const auto rank =
        numbers.size() == 2 ? place_number(trim(numbers[1])) : std::nullopt;
    ARGOSY_CHECK(
        cmatch && numbers.size() <= 2 && (numbers.size() == 1 || rank),
        "[metrics.places] \"{}\" in \"{}\", expected cmatch or cmatch:rank",
        part,
        text);
    places_.push_back({*cmatch, rank});
  }
  ARGOSY_CHECK(
      !places_.empty(), "[metrics.places] no place, expected at least one");
}

std::optional<std::size_t> Places::index_of(const data::LogKey& key) const {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].cmatch == key.cmatch &&
        places_[i].rank.value_or(key.rank) == key.rank) {
      return i;
    }
  }
  return std::nullopt;
}

AucCalculator::AucCalculator(AucOptions options)
    : places_(std::move(options.places)), table_(options.num_buckets) {}

void AucCalculator::add(
    const at::Tensor& predictions,
    const at::Tensor& labels,
    const Selection& selection) {
  const Floats given(predictions, at::kFloat, "predictions");
  const Floats truth(labels, at::kFloat, "labels");
  given.check_size(truth.size());
  const Selected selected(selection, truth.size());
  if (places_) {
    selected.check_keys();
  }
  std::vector<float> kept;
  std::vector<float> kept_labels;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    if (selected(i) && (!places_ || places_->index_of(selected.key(i)))) {
      kept.push_back(given[i]);
      kept_labels.push_back(truth[i]);
    }
  }
  table_.add(kept, kept_labels);
}

void AucCalculator::add(
    const std::vector<at::Tensor>& predictions_of_tasks,
    const at::Tensor& labels,
    const Selection& selection) {
  ARGOSY_CHECK(
      places_ && places_->size() == predictions_of_tasks.size(),
      "[metrics.auc] predictions of {} tasks for {} places, expected as many",
      predictions_of_tasks.size(),
      places_ ? places_->size() : 0);
  const Floats truth(labels, at::kFloat, "labels");
  const Selected selected(selection, truth.size());
  selected.check_keys();
  std::vector<Floats> given;
  for (const at::Tensor& predictions : predictions_of_tasks) {
    given.emplace_back(predictions, at::kFloat, "predictions");
    given.back().check_size(truth.size());
  }
  std::vector<float> kept;
  std::vector<float> kept_labels;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const auto task = places_->index_of(selected.key(i));
    if (selected(i) && task) {
      kept.push_back(given[*task][i]);
      kept_labels.push_back(truth[i]);
    }
  }
  table_.add(kept, kept_labels);
}

namespace {

template <typename T>
void sum_over(
    std::span<T> values,
    at::ScalarType type,
    const std::shared_ptr<Group>& group) {
  all_reduce(
      at::from_blob(
          values.data(), {static_cast<std::int64_t>(values.size())}, type),
      ReduceOp::SUM,
      group);
}

// Sends each sample to a member that its user decides. Not by its lowest bits
// alone: ids are often regular.
std::vector<UserSample> gathered_by_user(
    const std::vector<UserSample>& samples,
    const std::shared_ptr<Group>& group) {
  const auto members = static_cast<std::size_t>(group->nranks());
  const auto member_of = [&](const UserSample& sample) {
    const std::uint64_t spread = sample.user * 0x9e3779b97f4a7c15;
    return static_cast<std::size_t>((spread >> 32) % members);
  };
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(UserSample));
  std::vector<std::vector<UserSample>> to(members);
  for (const UserSample& sample : samples) {
    to[member_of(sample)].push_back(sample);
  }
  RowSplits splits;
  std::vector<UserSample> sent;
  for (const auto& part : to) {
    splits.in.push_back(static_cast<std::int64_t>(part.size()));
    sent.insert(sent.end(), part.begin(), part.end());
  }
  splits.out.resize(members);
  const auto sizes = [&](std::vector<std::int64_t>& of) {
    return at::from_blob(
        of.data(), {static_cast<std::int64_t>(of.size())}, at::kLong);
  };
  alltoall_single(sizes(splits.out), sizes(splits.in), {}, group);
  std::vector<UserSample> received(static_cast<std::size_t>(
      std::accumulate(splits.out.begin(), splits.out.end(), std::int64_t{0})));
  const auto rows = [&](std::vector<UserSample>& of) {
    return at::from_blob(
        of.data(), {static_cast<std::int64_t>(of.size()), kBytes}, at::kByte);
  };
  alltoall_single(rows(received), rows(sent), splits, group);
  return received;
}

} // namespace

AucResult AucCalculator::result(const std::shared_ptr<Group>& group) const {
  if (!group) {
    return table_.result();
  }
  AucTable all = table_;
  sum_over(all.positive(), at::kLong, group);
  sum_over(all.negative(), at::kLong, group);
  sum_over(all.sums(), at::kDouble, group);
  return all.result();
}

void UserAucCalculator::add(
    const at::Tensor& users,
    const at::Tensor& predictions,
    const at::Tensor& labels,
    const Selection& selection) {
  const Floats truth(labels, at::kFloat, "labels");
  const Floats given(predictions, at::kFloat, "predictions");
  const Column<std::int64_t> who(users, at::kLong, "users");
  given.check_size(truth.size());
  who.check_size(truth.size());
  const Selected selected(selection, truth.size());
  for (std::size_t i = 0; i < truth.size(); ++i) {
    ARGOSY_CHECK(
        truth[i] == 0 || truth[i] == 1,
        "[metrics.auc] label {} is {}, expected 0 or 1",
        i,
        truth[i]);
    if (selected(i)) {
      samples_.push_back(
          {static_cast<std::uint64_t>(who[i]), given[i], truth[i]});
    }
  }
}

UserAucResult UserAucCalculator::result(
    const std::shared_ptr<Group>& group) const {
  if (!group) {
    return user_auc(samples_);
  }
  const UserAucResult own = user_auc(gathered_by_user(samples_, group));
  std::vector<double> sums = {
      own.uauc * static_cast<double>(own.num_users),
      own.wuauc * static_cast<double>(own.num_samples)};
  std::vector<std::int64_t> counts = {own.num_users, own.num_samples};
  sum_over(std::span(sums), at::kDouble, group);
  sum_over(std::span(counts), at::kLong, group);
  UserAucResult all{.num_users = counts[0], .num_samples = counts[1]};
  if (all.num_users > 0) {
    all.uauc = sums[0] / static_cast<double>(all.num_users);
    all.wuauc = sums[1] / static_cast<double>(all.num_samples);
  }
  return all;
}

} // namespace argosy::metrics
