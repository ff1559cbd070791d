#pragma once

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "argosy/ps/table/pages.h"
#include "argosy/ps/table/partition.h"
#include "bench/harness.h"
#include "bench/ps_stores.h"

// What benches of the parameter server's tables share: keys, and how fast a
// store goes through them.
namespace argosy::bench {

using Keys = std::vector<std::uint64_t>;

constexpr std::size_t kBatch = 4096; // keys of a call

// Keys that do not follow each other, one for each row.
inline std::uint64_t key_of(std::uint64_t row) {
  return (row + 1) * 0x9e3779b97f4a7c15u;
}

enum class Choice { Uniform, Zipfian, Hotspot };
std::string to_string(Choice choice);

// More rows than caches hold; Zipfian: with probability ~ 1 / rank^1.05;
// Hotspot: every second one is the same.
Keys choose_rows(std::uint64_t rows, Choice choice);
Keys choose_keys(std::uint64_t rows, Choice choice);

class OurStore : public Store {
 public:
  explicit OurStore(const ps::SparseConfig& config) : table(config) {}

  void pull(
      std::span<const std::uint64_t> keys, std::span<float> values) override {
    table.pull(keys, values);
  }
  void push(
      std::span<const std::uint64_t> keys,
      std::span<const float> gradients) override {
    table.push(keys, gradients);
  }

  ps::Partition table;
};

// Rows in an array, by number: what memory gives to one who knows where each
// row is and asks for it early enough. Keys are row numbers here.
class ArrayStore : public Store {
 public:
  ArrayStore(std::uint64_t rows, int dim);

  void pull(
      std::span<const std::uint64_t> rows, std::span<float> values) override;
  void push(
      std::span<const std::uint64_t> rows,
      std::span<const float> gradients) override;

 private:
  template <typename F>
  void each(std::span<const std::uint64_t> rows, const F& f);

  std::size_t dim_;
  std::size_t stride_;
  ps::Pages pages_;
};

struct Work {
  Keys keys; // a multiple of kBatch
  std::size_t pull_dim = 0;
  std::vector<float> gradients; // of a batch
  bool pushes = false;
};

// Goes through the keys for at least `milliseconds`; millions of keys a second.
double run_work(Store& store, const Work& work, double milliseconds = 200);

double million_keys_a_second(std::size_t keys, double milliseconds);

// How long batches of `batch` new rows took.
struct Filled {
  double longest_ms = 0;
  double passed_ms = 0;
};
Filled fill(
    Store& store,
    std::uint64_t rows,
    std::size_t push_dim,
    std::size_t batch = kBatch);

// "10^7", "2x10^6".
std::string rows_text(std::uint64_t rows);

// A row without peers.
Row figure(
    const std::string& what,
    const std::string& unit,
    double value,
    Better better = Better::Lower);

} // namespace argosy::bench
