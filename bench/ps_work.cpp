#include "bench/ps_work.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "argosy/common/error.h"

namespace argosy::bench {
namespace {

constexpr std::size_t kStream = 1u << 22; // more than caches hold

// Rows with probability ~ 1 / rank^1.05, by rejection (Hoermann, Derflinger).
class Zipf {
 public:
  explicit Zipf(std::uint64_t rows)
      : rows_(rows),
        low_(integral(1.5) - 1),
        high_(integral(static_cast<double>(rows) + 0.5)) {}

  std::uint64_t operator()(std::mt19937_64& random) const {
    std::uniform_real_distribution<double> uniform(low_, high_);
    while (true) {
      const double u = uniform(random);
      const double x = std::pow(1 - kPower * u, -1 / kPower);
      const double rank =
          std::clamp(std::round(x), 1.0, static_cast<double>(rows_));
      const double below = std::pow(rank, -kExponent);
      if (u >= integral(rank + 0.5) - below) {
        // The most frequent rows are not neighbours.
        return static_cast<std::uint64_t>(rank - 1) * 0x2545f491u % rows_;
      }
    }
  }

 private:
  static constexpr double kExponent = 1.05;
  static constexpr double kPower = kExponent - 1;
  static double integral(double x) {
    return (1 - std::pow(x, -kPower)) / kPower;
  }

  std::uint64_t rows_;
  double low_;
  double high_;
};

} // namespace

std::string to_string(Choice choice) {
  constexpr const char* kChoices[] = {"uniform", "zipfian", "half one key"};
  return kChoices[static_cast<int>(choice)];
}

Keys choose_rows(std::uint64_t rows, Choice choice) {
  std::mt19937_64 random(7);
  const Zipf zipf(rows);
  Keys chosen(kStream);
  for (std::uint64_t& row : chosen) {
    row = random() % rows;
    if (choice == Choice::Zipfian) {
      row = zipf(random);
    } else if (choice == Choice::Hotspot && random() % 2 == 0) {
      row = rows / 2; // every second key is the same
    }
  }
  return chosen;
}

Keys choose_keys(std::uint64_t rows, Choice choice) {
  Keys keys = choose_rows(rows, choice);
  std::transform(keys.begin(), keys.end(), keys.begin(), key_of);
  return keys;
}

ArrayStore::ArrayStore(std::uint64_t rows, int dim)
    : dim_(static_cast<std::size_t>(dim)),
      stride_(sizeof(std::uint64_t) + (dim_ + 1) * sizeof(float)),
      pages_(rows * stride_) {
  pages_.want_huge_pages();
  std::memset(pages_.data(), 0, pages_.size());
}

template <typename F>
void ArrayStore::each(std::span<const std::uint64_t> rows, const F& f) {
  constexpr std::size_t kAhead = 32;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::byte* const next =
        pages_.data() + rows[std::min(i + kAhead, rows.size() - 1)] * stride_;
    for (std::size_t byte = 0; byte < stride_; byte += 64) {
      __builtin_prefetch(next + byte, 1);
    }
    __builtin_prefetch(next + stride_ - 1, 1);
    f(i, reinterpret_cast<float*>(pages_.data() + rows[i] * stride_ + 8));
  }
}

void ArrayStore::pull(
    std::span<const std::uint64_t> rows, std::span<float> values) {
  each(rows, [&](std::size_t i, float* row) {
    std::memcpy(&values[i * dim_], row, dim_ * sizeof(float));
  });
}

void ArrayStore::push(
    std::span<const std::uint64_t> rows, std::span<const float> gradients) {
  each(rows, [&](std::size_t i, float* row) {
    for (std::size_t j = 0; j < dim_; ++j) {
      row[j] -= gradients[i * dim_ + j];
    }
  });
}

double million_keys_a_second(std::size_t keys, double milliseconds) {
  return static_cast<double>(keys) / milliseconds / 1000;
}

double run_work(Store& store, const Work& work, double milliseconds) {
  std::vector<float> values(kBatch * work.pull_dim);
  std::size_t done = 0;
  double passed = 0;
  while (passed < milliseconds) {
    const std::size_t from = done % work.keys.size();
    const auto batch = std::span(work.keys).subspan(from, kBatch);
    passed += milliseconds_of([&] {
      work.pushes ? store.push(batch, work.gradients)
                  : store.pull(batch, values);
    });
    done += kBatch;
  }
  return million_keys_a_second(done, passed);
}

Filled fill(
    Store& store, std::uint64_t rows, std::size_t push_dim, std::size_t batch) {
  const std::vector<float> gradients(batch * push_dim, 0.01f);
  Keys keys(batch);
  Filled filled;
  for (std::uint64_t row = 0; row < rows; row += keys.size()) {
    keys.resize(std::min<std::uint64_t>(batch, rows - row));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      keys[i] = key_of(row + i);
    }
    const double took = milliseconds_of([&] {
      store.push(keys, std::span(gradients).first(keys.size() * push_dim));
    });
    filled.longest_ms = std::max(filled.longest_ms, took);
    filled.passed_ms += took;
  }
  return filled;
}

std::string rows_text(std::uint64_t rows) {
  const int exponent = static_cast<int>(std::log10(static_cast<double>(rows)));
  const auto factor = static_cast<double>(rows) / std::pow(10, exponent);
  return factor < 1.01 ? str("10^", exponent) : str(factor, "x10^", exponent);
}

Row figure(
    const std::string& what,
    const std::string& unit,
    double value,
    Better better) {
  Row row;
  row.what = what;
  row.unit = unit;
  row.better = better;
  row.ours = value;
  return row;
}

} // namespace argosy::bench
