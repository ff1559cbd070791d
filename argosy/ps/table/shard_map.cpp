#include "argosy/ps/table/shard_map.h"

#include <algorithm>

namespace argosy::ps {

int ShardMap::first_shard(int server) const {
  return std::min(shard_num, server * shards_per_server());
}

int ShardMap::end_shard(int server) const {
  return first_shard(server + 1);
}

int default_shard_num(int num_servers) {
  const auto is_prime = [](int number) {
    for (int factor = 2; factor * factor <= number; ++factor) {
      if (number % factor == 0) {
        return false;
      }
    }
    return true;
  };
  int shards = 16 * num_servers - 1;
  while (!is_prime(shards)) {
    shards += num_servers;
  }
  return shards;
}

DenseRange dense_range(std::uint64_t total, int num_servers, int server) {
  const std::uint64_t each =
      total / static_cast<std::uint64_t>(num_servers) + 1;
  const auto index = static_cast<std::uint64_t>(server);
  return {std::min(total, index * each), std::min(total, (index + 1) * each)};
}

} // namespace argosy::ps
