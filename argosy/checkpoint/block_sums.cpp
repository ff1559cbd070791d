#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "argosy/checkpoint/boxes.h"
#include "argosy/checkpoint/hash.h"
#include "argosy/checkpoint/hash_kernels.h"
#include "argosy/common/error.h"

// A block is a sequence of 32-bit words (little-endian), in rows of 256. Each
// lane has a random odd key for each row, A(row), and for each place in a row,
// B(column). Its sum is that of word * A(row) * B(column) over all words, and
// of a constant for each byte, modulo 2^64. As it is linear, a part of the
// bytes of a word counts like a word whose other bytes are 0, and parts add up.
//
// A word that changes changes both sums, because keys are odd. Any other change
// leaves a lane as it was with a probability of about 2^-64 (2^-33 if only the
// highest bits of words change), both lanes with the square of that, unless
// someone who knows the keys makes it so: the keys are constants.
namespace argosy::checkpoint {

namespace {

constexpr std::size_t kRows = kBlockBytes / kRowBytes;

// The steps of SplitMix64, whose outputs are the keys.
constexpr std::uint64_t next_random(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15;
  std::uint64_t z = state;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

struct BlockKeys {
  std::array<std::array<std::uint64_t, kRows>, kLanes> rows; // A
  RowKeys columns;                                           // B
  std::array<std::uint64_t, kLanes> of_byte;
};

// Order of the outputs: for each lane the byte's, A(0), A(1), ..., B(0), ...
constexpr BlockKeys make_block_keys() {
  BlockKeys keys{};
  std::uint64_t state = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    keys.of_byte[lane] = next_random(state) | 1;
    for (std::uint64_t& key : keys.rows[lane]) {
      key = next_random(state) | 1;
    }
    for (std::size_t pair = 0; pair < RowKeys::kPairs; ++pair) {
      const std::uint64_t even = next_random(state) | 1;
      const std::uint64_t odd = next_random(state) | 1;
      keys.columns.even[lane][pair] = even;
      keys.columns.odd[lane][pair] = odd;
      keys.columns.even_upper[lane][pair] = even >> 32;
      keys.columns.odd_upper[lane][pair] = odd >> 32;
    }
  }
  return keys;
}

constexpr BlockKeys kBlockKeys = make_block_keys();

using LaneSums = std::array<std::uint64_t, kLanes>;

// Adds up to 8 bytes that begin at byte `at` of a row and lie in one pair.
void add_part_of_pair(
    const unsigned char* data,
    std::size_t at,
    std::size_t bytes,
    const HashKernels& kernels,
    LaneSums& row) {
  unsigned char pair[8] = {};
  std::memcpy(pair + at % 8, data, bytes);
  kernels.sum_pairs(kBlockKeys.columns, at / 8, pair, 1, row.data());
}

// Adds bytes [at, at + bytes) of a row.
LaneSums sum_in_row(
    const unsigned char* data,
    std::size_t at,
    std::size_t bytes,
    const HashKernels& kernels) {
  LaneSums row{};
  if (at % 8 != 0) {
    const std::size_t head = std::min(bytes, 8 - at % 8);
    add_part_of_pair(data, at, head, kernels, row);
    data += head;
    at += head;
    bytes -= head;
  }
  if (bytes >= 8) {
    kernels.sum_pairs(kBlockKeys.columns, at / 8, data, bytes / 8, row.data());
  }
  if (bytes % 8 != 0) {
    const std::size_t done = bytes / 8 * 8;
    add_part_of_pair(data + done, at + done, bytes % 8, kernels, row);
  }
  return row;
}

// Adds bytes [at, at + bytes) of a block.
void add_in_block(
    const unsigned char* data,
    std::size_t at,
    std::size_t bytes,
    Hash128& sum) {
  const HashKernels& kernels = hash_kernels(simd::current_isa());
  sum.low += bytes * kBlockKeys.of_byte[0];
  sum.high += bytes * kBlockKeys.of_byte[1];
  while (bytes > 0) {
    const std::size_t row = at / kRowBytes;
    const std::size_t now = std::min(bytes, kRowBytes - at % kRowBytes);
    const LaneSums part = sum_in_row(data, at % kRowBytes, now, kernels);
    sum.low += part[0] * kBlockKeys.rows[0][row];
    sum.high += part[1] * kBlockKeys.rows[1][row];
    data += now;
    at += now;
    bytes -= now;
  }
}

} // namespace

BlockSums::BlockSums(const TensorInfo& info) : info_(info) {}

void BlockSums::add(
    const Box& box, std::int64_t begin, std::int64_t end, const void* data) {
  ARGOSY_CHECK(
      is_inside(box, info_.shape) && begin >= 0 && end <= box.numel(),
      "[checkpoint.BlockSums] elements {} to {} of {}, expected a part of {}",
      begin,
      end,
      box,
      info_);
  const std::size_t element = element_bytes(info_.dtype);
  const auto* bytes = static_cast<const unsigned char*>(data);
  const auto add_run = [&](const Run& run) {
    const unsigned char* from =
        bytes + static_cast<std::size_t>(run.from - begin) * element;
    auto at = static_cast<std::size_t>(run.to) * element;
    auto left = static_cast<std::size_t>(run.count) * element;
    while (left > 0) {
      const std::size_t in_block = at % kBlockBytes;
      const std::size_t now = std::min(left, kBlockBytes - in_block);
      const auto block = static_cast<std::int64_t>(at / kBlockBytes);
      add_in_block(from, in_block, now, sums_[block]);
      from += now;
      at += now;
      left -= now;
    }
  };
  for_each_run(box, begin, end, dtensor::whole(info_.shape), add_run);
}

void BlockSums::add(const BlockSums& other) {
  ARGOSY_CHECK(
      info_ == other.info_,
      "[checkpoint.BlockSums] sums of {} added to those of {}",
      other.info_,
      info_);
  for (const auto& [block, sum] : other.sums_) {
    sums_[block].low += sum.low;
    sums_[block].high += sum.high;
  }
}

std::int64_t BlockSums::num_blocks() const {
  const auto bytes = static_cast<std::size_t>(dtensor::numel(info_.shape)) *
      element_bytes(info_.dtype);
  return static_cast<std::int64_t>((bytes + kBlockBytes - 1) / kBlockBytes);
}

namespace {

void append_little_endian(std::string& bytes, std::uint64_t value) {
  for (int i = 0; i < 8; ++i) {
    bytes += static_cast<char>(value >> 8 * i & 255);
  }
}

// As the hex digits are: the highest byte first.
void append_hash(std::string& bytes, const Hash128& hash) {
  for (const std::uint64_t half : {hash.high, hash.low}) {
    for (int shift = 56; shift >= 0; shift -= 8) {
      bytes += static_cast<char>(half >> shift & 255);
    }
  }
}

Hash128 hash_text(std::string_view text) {
  return hash_bytes(std::as_bytes(std::span(text)));
}

// Hashes neighbours until one is left; the last of an odd number goes up as it
// is.
Hash128 merkle_root(std::vector<Hash128> level) {
  while (level.size() > 1) {
    std::vector<Hash128> above;
    for (std::size_t i = 0; i + 1 < level.size(); i += 2) {
      std::string both;
      append_hash(both, level[i]);
      append_hash(both, level[i + 1]);
      above.push_back(hash_text(both));
    }
    if (level.size() % 2 == 1) {
      above.push_back(level.back());
    }
    level = std::move(above);
  }
  return level.empty() ? Hash128{} : level[0];
}

} // namespace

Hash128 BlockSums::root() const {
  const std::int64_t blocks = num_blocks();
  const bool complete = static_cast<std::int64_t>(sums_.size()) == blocks &&
      (blocks == 0 ||
       (sums_.begin()->first == 0 && sums_.rbegin()->first == blocks - 1));
  ARGOSY_CHECK(
      complete,
      "[checkpoint.BlockSums] sums of {} blocks of {}, expected all {}",
      sums_.size(),
      info_,
      blocks);
  std::vector<Hash128> leaves;
  for (const auto& [block, sum] : sums_) {
    std::string leaf;
    append_little_endian(leaf, static_cast<std::uint64_t>(block));
    append_hash(leaf, sum);
    leaves.push_back(hash_text(leaf));
  }
  std::string top = str(to_string(info_.dtype), ' ', shape_text(info_.shape));
  append_hash(top, merkle_root(std::move(leaves)));
  return hash_text(top);
}

Hash128 root_of(const std::map<std::string, Hash128>& roots) {
  std::string all;
  for (const auto& [name, root] : roots) {
    append_little_endian(all, name.size());
    all += name;
    append_hash(all, root);
  }
  return hash_text(all);
}

} // namespace argosy::checkpoint
