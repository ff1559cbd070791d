#pragma once

namespace argosy::ps {

// The parts that all tables are divided into. Workers and servers must have the
// same.
struct Shape {
  int num_servers = 1;
  int regions_per_server = 1; // each has a thread

  int num_regions() const { return num_servers * regions_per_server; }
  // The server that leads a region first, and the one that follows it.
  int home_of(int region) const { return region / regions_per_server; }
  int second_of(int region) const {
    return (home_of(region) + 1) % num_servers;
  }

  bool operator==(const Shape&) const = default;
};

} // namespace argosy::ps
