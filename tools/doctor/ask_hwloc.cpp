// tools/doctor/ask_hwloc.cpp -- packages, cores, first-level data cache, by hwloc.
#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "platform/assert.h"
#include "tools/doctor/machine.h"

namespace tmh::tools::doctor {

TopologyPart ask_hwloc() {
  TopologyPart part;
  hwloc_topology_t topology = nullptr;
  if (::hwloc_topology_init(&topology) != 0) {
    part.error = std::string("hwloc: ") + std::strerror(errno);
    return part;
  }
  TMH_ASSERT(topology != nullptr);
  if (::hwloc_topology_load(topology) != 0) {
    part.error = std::string("hwloc: ") + std::strerror(errno);
  } else {
    const auto count = [topology](hwloc_obj_type_t type) {
      return static_cast<std::uint32_t>(std::max(0, ::hwloc_get_nbobjs_by_type(topology, type)));
    };
    part.packages = count(HWLOC_OBJ_PACKAGE);
    part.numa_nodes = count(HWLOC_OBJ_NUMANODE);
    part.cores = count(HWLOC_OBJ_CORE);
    part.threads = count(HWLOC_OBJ_PU);
    if (const hwloc_obj_t cache = ::hwloc_get_obj_by_type(topology, HWLOC_OBJ_L1CACHE, 0);
        cache != nullptr) {
      part.l1d_bytes = cache->attr->cache.size;
      part.line_bytes = cache->attr->cache.linesize;
      // -1: fully; 0: unknown.
      part.l1d_ways = static_cast<std::uint32_t>(std::max(0, cache->attr->cache.associativity));
    }
  }
  ::hwloc_topology_destroy(topology);
  return part;
}

}  // namespace tmh::tools::doctor
