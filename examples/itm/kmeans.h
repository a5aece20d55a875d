// examples/itm/kmeans.h -- what kmeans.cpp drives; kmeans_transactions.cpp defines it.
// Shape:     coordinates are whole numbers, so that sums do not depend on the order of threads.
#pragma once

#include <cstdint>

namespace itm {

// Before any thread works; empties what another input has left.
void clusters_open(std::uint64_t clusters, std::uint64_t dimensions);
void clusters_close();

// One transaction each.
void add_point(std::uint64_t cluster, const std::int64_t *point);
// Copies a cluster's sums, and empties it; returns how many points it had.
std::uint64_t take_cluster(std::uint64_t cluster, std::int64_t *sums);
void write_center(std::uint64_t cluster, const std::int64_t *center);
// `centers`: of all clusters, one behind the other.
void read_centers(std::int64_t *centers);
void add_moved(std::uint64_t points);
std::uint64_t take_moved();
void write_is_last(bool is_last);
[[nodiscard]] bool read_is_last();

}  // namespace itm
