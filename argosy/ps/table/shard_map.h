#pragma once

#include <cstdint>

namespace argosy::ps {

// Which server holds a key, and which part of a dense table.
//
// shard = key % shard_num; a server holds ceil(shard_num / servers) consecutive
// shards, the last ones fewer or none. Files are written by shard; the number
// of servers and shard_num may change between save and load.
struct ShardMap {
  int shard_num = 1000;
  int num_servers = 1;

  int shards_per_server() const {
    return (shard_num + num_servers - 1) / num_servers;
  }
  int shard_of(std::uint64_t key) const {
    return static_cast<int>(key % static_cast<std::uint64_t>(shard_num));
  }
  int server_of(std::uint64_t key) const {
    return shard_of(key) / shards_per_server();
  }
  // Shards [first, end) of a server.
  int first_shard(int server) const;
  int end_shard(int server) const;

  bool operator==(const ShardMap&) const = default;
};

// How many shards a table should have: a prime, so that keys at any distance
// from each other go to all servers, and one less than a multiple of them, at
// least 16 for each, so that all but the last have as many.
int default_shard_num(int num_servers);

// Elements [begin, end) of a dense table of `total`: each server has
// total / servers + 1 of them, the last ones fewer or none.
struct DenseRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t size() const { return end - begin; }
  bool operator==(const DenseRange&) const = default;
};
DenseRange dense_range(std::uint64_t total, int num_servers, int server);

} // namespace argosy::ps
