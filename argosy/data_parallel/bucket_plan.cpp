#include "argosy/data_parallel/bucket_plan.h"

#include <algorithm>
#include <iterator>
#include <ostream>

#include "argosy/common/error.h"

namespace argosy::data_parallel {

namespace {

void check_order(
    const std::vector<std::size_t>& order, std::size_t num_parameters) {
  std::vector<std::size_t> sorted = order;
  std::ranges::sort(sorted);
  bool is_permutation = sorted.size() == num_parameters;
  for (std::size_t i = 0; is_permutation && i < sorted.size(); ++i) {
    is_permutation = sorted[i] == i;
  }
  ARGOSY_CHECK(
      is_permutation,
      "[data_parallel.plan_buckets] the order has {} entries, expected each of "
      "{} parameters once",
      order.size(),
      num_parameters);
}

void check_starts(
    const std::vector<std::size_t>& starts, std::size_t num_parameters) {
  for (std::size_t i = 0; i < starts.size(); ++i) {
    ARGOSY_CHECK(
        starts[i] < num_parameters && starts[i] > (i == 0 ? 0 : starts[i - 1]),
        "[data_parallel.plan_buckets] a bucket starts at {}, expected "
        "ascending places in (0, {})",
        starts[i],
        num_parameters);
  }
}

// Fills buckets up to a limit, in the order of the calls. A bucket is one flat
// tensor, so it holds one type: one bucket of each type is open at a time, and
// gradients of mixed types do not close each other's buckets. A gradient that
// is larger than the limit gets a bucket of its own. So does every sparse
// gradient, whose size is not known before backward.
class Filler {
 public:
  explicit Filler(const std::vector<ParameterInfo>& parameters)
      : parameters_(parameters) {}

  void add(std::size_t index, std::size_t limit_bytes) {
    const ParameterInfo& parameter = parameters_[index];
    Bucket* bucket = open_bucket(parameter);
    if (bucket == nullptr ||
        bucket->bytes() + parameter.bytes() > limit_bytes) {
      close(parameter.type);
      filled_.push_back(training::bucket_for(parameter));
      open_.push_back(filled_.size() - 1);
      bucket = &filled_.back();
    }
    training::append(*bucket, index, parameter);
    if (parameter.sparse || bucket->bytes() >= limit_bytes) {
      close(parameter.type);
    }
  }

  void close_all() { open_.clear(); }

  std::vector<Bucket> take() { return std::move(filled_); }

 private:
  Bucket* open_bucket(const ParameterInfo& parameter) {
    for (const std::size_t index : open_) {
      if (filled_[index].type == parameter.type && !parameter.sparse) {
        return &filled_[index];
      }
    }
    return nullptr;
  }

  void close(const std::string& type) {
    std::erase_if(
        open_, [&](std::size_t index) { return filled_[index].type == type; });
  }

  const std::vector<ParameterInfo>& parameters_;
  std::vector<Bucket> filled_;
  std::vector<std::size_t> open_; // indices into filled_
};

// Where in the order the small last bucket begins. No backward is left to hide
// its reduction, so every rank waits for it in full: it takes as many of the
// last gradients as fit, but at least one.
std::size_t last_bucket_start(
    const std::vector<ParameterInfo>& parameters,
    const std::vector<std::size_t>& order,
    std::size_t last_bytes) {
  std::size_t place = order.size();
  std::size_t bytes = 0;
  while (place > 0) {
    const ParameterInfo& parameter = parameters[order[place - 1]];
    bytes += parameter.bytes();
    if (bytes > last_bytes) {
      break;
    }
    --place;
  }
  return std::min(place, order.size() - 1);
}

BucketPlan by_size(
    const std::vector<ParameterInfo>& parameters,
    const std::vector<std::size_t>& order,
    const Fusion& fusion) {
  Filler filler(parameters);
  const std::size_t last =
      last_bucket_start(parameters, order, fusion.last_bytes);
  for (std::size_t place = 0; place < order.size(); ++place) {
    if (place == last) {
      filler.close_all();
    }
    filler.add(
        order[place],
        place < last ? fusion.bytes
                     : std::max(fusion.last_bytes, std::size_t{1}));
  }
  return {filler.take()};
}

BucketPlan by_index(
    const std::vector<ParameterInfo>& parameters,
    const std::vector<std::size_t>& order,
    const std::vector<std::size_t>& starts) {
  check_starts(starts, order.size());
  Filler filler(parameters);
  auto next = starts.begin();
  for (std::size_t place = 0; place < order.size(); ++place) {
    if (next != starts.end() && *next == place) {
      filler.close_all();
      ++next;
    }
    // No limit: here only `starts` and types separate buckets.
    filler.add(order[place], static_cast<std::size_t>(-1));
  }
  return {filler.take()};
}

std::size_t total_bytes(const std::vector<ParameterInfo>& parameters) {
  std::size_t bytes = 0;
  for (const ParameterInfo& parameter : parameters) {
    bytes += parameter.bytes();
  }
  return bytes;
}

} // namespace

Fusion auto_fusion(std::size_t total, std::size_t num_buckets) {
  // Keeps the buckets of small models from shrinking to sizes at which the
  // latency of a call outweighs the bytes that it moves.
  constexpr std::size_t kLeast = std::size_t{256} << 10;
  Fusion fusion;
  fusion.bytes =
      std::max(total / std::max<std::size_t>(num_buckets, 1), kLeast);
  fusion.last_bytes = std::max(fusion.bytes / 8, kLeast);
  return fusion;
}

namespace {

// Of gradients without fusion ids.
BucketPlan plan_rest(
    const std::vector<ParameterInfo>& parameters,
    const std::vector<std::size_t>& order,
    const Fusion& fusion) {
  if (order.empty()) {
    return {};
  }
  switch (fusion.mode) {
    case Fusion::Mode::Index:
      return by_index(parameters, order, fusion.starts);
    case Fusion::Mode::Auto:
      return by_size(parameters, order, auto_fusion(total_bytes(parameters)));
    case Fusion::Mode::None:
      return by_size(parameters, order, {.bytes = 1, .last_bytes = 0});
    case Fusion::Mode::Size:
      break;
  }
  return by_size(parameters, order, fusion);
}

// When the last gradient of a bucket arrives.
std::size_t last_place(
    const Bucket& bucket, const std::vector<std::size_t>& order) {
  std::size_t last = 0;
  for (const BucketEntry& entry : bucket.entries) {
    const auto place = std::ranges::find(order, entry.parameter);
    last = std::max(last, static_cast<std::size_t>(place - order.begin()));
  }
  return last;
}

} // namespace

BucketPlan plan_buckets(
    const std::vector<ParameterInfo>& parameters,
    const std::vector<std::size_t>& order,
    const Fusion& fusion) {
  check_order(order, parameters.size());
  const auto sets = training::fusion_sets(parameters, order);
  BucketPlan plan = plan_rest(parameters, sets.rest, fusion);
  if (sets.together.empty()) {
    return plan;
  }
  Filler filler(parameters);
  for (const auto& together : sets.together) {
    filler.close_all();
    for (const std::size_t index : together) {
      filler.add(index, static_cast<std::size_t>(-1));
    }
  }
  std::ranges::move(filler.take(), std::back_inserter(plan.buckets));
  // A bucket is reduced when it is full and those before it have been.
  std::ranges::stable_sort(plan.buckets, {}, [&](const Bucket& bucket) {
    return last_place(bucket, order);
  });
  return plan;
}

std::ostream& operator<<(std::ostream& out, const BucketPlan& plan) {
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
    const Bucket& bucket = plan.buckets[i];
    out << "bucket " << i << ": " << bucket.entries.size() << " of "
        << bucket.type << (bucket.sparse ? " (sparse), " : ", ")
        << bucket.bytes() << " bytes:";
    for (const BucketEntry& entry : bucket.entries) {
      out << " " << entry.parameter;
    }
    out << "\n";
  }
  return out;
}

} // namespace argosy::data_parallel
