#include "argosy/launch/cpu_binding.h"

#include <hwloc.h>

#include <algorithm>
#include <memory>

#include "argosy/common/error.h"

namespace argosy::launch {

std::string to_string(BindTo bind) {
  switch (bind) {
    case BindTo::None:
      return "none";
    case BindTo::Core:
      return "core";
    case BindTo::Numa:
      return "numa";
    case BindTo::Socket:
      return "socket";
  }
  return "unknown";
}

namespace {

using HwTopology =
    std::unique_ptr<hwloc_topology, decltype(&::hwloc_topology_destroy)>;
using HwBitmap =
    std::unique_ptr<hwloc_bitmap_s, decltype(&::hwloc_bitmap_free)>;

HwTopology load_topology() {
  hwloc_topology_t raw = nullptr;
  if (::hwloc_topology_init(&raw) != 0) {
    throw SystemError("[launch.binding] hwloc cannot start");
  }
  HwTopology topology(raw, &::hwloc_topology_destroy);
  if (::hwloc_topology_load(raw) != 0) {
    throw SystemError(with_errno("[launch.binding] hwloc"));
  }
  return topology;
}

// Returns the index of the first object of `type` that shares a CPU with
// `core`. hwloc 2 keeps NUMA nodes beside the tree of cores, so that a core has
// none among its parents; comparing CPU sets works for both types.
int domain_of(
    hwloc_topology_t topology,
    hwloc_const_bitmap_t core,
    hwloc_obj_type_t type) {
  const int depth = ::hwloc_get_type_depth(topology, type);
  const unsigned count = ::hwloc_get_nbobjs_by_depth(topology, depth);
  for (unsigned i = 0; i < count; ++i) {
    const hwloc_obj_t object = ::hwloc_get_obj_by_depth(topology, depth, i);
    if (::hwloc_bitmap_intersects(object->cpuset, core)) {
      return static_cast<int>(i);
    }
  }
  return 0;
}

Core describe_core(
    hwloc_topology_t topology,
    hwloc_const_bitmap_t core,
    hwloc_const_bitmap_t allowed) {
  Core described;
  for (int cpu = ::hwloc_bitmap_first(core); cpu >= 0;
       cpu = ::hwloc_bitmap_next(core, cpu)) {
    if (::hwloc_bitmap_isset(allowed, cpu)) {
      described.cpus.push_back(cpu);
    }
  }
  described.numa = domain_of(topology, core, HWLOC_OBJ_NUMANODE);
  described.socket = domain_of(topology, core, HWLOC_OBJ_PACKAGE);
  return described;
}

// Returns contiguous range `index` of `count` over `size` elements; not empty
// unless `size` is 0.
std::pair<std::size_t, std::size_t> share(
    std::size_t size, std::size_t index, std::size_t count) {
  const std::size_t begin = size * index / count;
  return {begin, std::max(begin + 1, size * (index + 1) / count)};
}

bool same_domain(const Core& a, const Core& b, BindTo bind) {
  return bind == BindTo::Socket ? a.socket == b.socket : a.numa == b.numa;
}

} // namespace

Topology read_topology() {
  const HwTopology topology = load_topology();
  const HwBitmap allowed(::hwloc_bitmap_alloc(), &::hwloc_bitmap_free);
  if (::hwloc_get_cpubind(
          topology.get(), allowed.get(), HWLOC_CPUBIND_THREAD) != 0) {
    throw SystemError(with_errno("[launch.binding] cannot read the affinity"));
  }
  Topology cores;
  const int depth =
      ::hwloc_get_type_or_below_depth(topology.get(), HWLOC_OBJ_CORE);
  const unsigned count = ::hwloc_get_nbobjs_by_depth(topology.get(), depth);
  for (unsigned i = 0; i < count; ++i) {
    const hwloc_obj_t object =
        ::hwloc_get_obj_by_depth(topology.get(), depth, i);
    Core core = describe_core(topology.get(), object->cpuset, allowed.get());
    // A batch system may have given us only some cores of the machine.
    if (!core.cpus.empty()) {
      cores.push_back(std::move(core));
    }
  }
  return cores;
}

// With Core, ranks get disjoint, contiguous shares of the cores, as equal as
// possible; with more ranks than cores, some share a core. With Numa and
// Socket, a rank gets the whole domain in which its share begins, so that ranks
// of one domain may move within it but stay near their memory.
std::vector<std::vector<int>> bind_ranks(
    const Topology& topology, BindTo bind, int num_ranks) {
  std::vector<std::vector<int>> sets(num_ranks);
  if (bind == BindTo::None || topology.empty()) {
    return sets;
  }
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto [begin, end] = share(topology.size(), rank, num_ranks);
    for (std::size_t i = 0; i < topology.size(); ++i) {
      const bool taken = bind == BindTo::Core
          ? i >= begin && i < end
          : same_domain(topology[i], topology[begin], bind);
      if (taken) {
        const auto& cpus = topology[i].cpus;
        sets[rank].insert(sets[rank].end(), cpus.begin(), cpus.end());
      }
    }
    std::ranges::sort(sets[rank]);
  }
  return sets;
}

} // namespace argosy::launch
