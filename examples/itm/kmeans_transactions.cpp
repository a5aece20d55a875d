// examples/itm/kmeans_transactions.cpp -- sums of the points of each cluster, in lines of its own.
#include "examples/itm/kmeans.h"

#include <cstdlib>

#include "examples/itm/support/section.h"

namespace itm {

namespace {

// Sizes and addresses: no worker writes them while threads work.
struct Shared {
  std::uint64_t clusters, dimensions;
  // Words from one cluster's sums to the next one's: whole lines. The count comes first.
  std::uint64_t stride;
  std::int64_t *sums, *centers;
};
alignas(128) Shared shared;
alignas(128) std::uint64_t moved;
alignas(128) std::uint64_t is_last_iteration;

std::int64_t *zeros(std::uint64_t words) {
  constexpr std::uint64_t kBytes = 128;
  const std::uint64_t bytes = (words * sizeof(std::int64_t) + kBytes - 1) / kBytes * kBytes;
  auto *const memory = static_cast<std::int64_t *>(std::aligned_alloc(kBytes, bytes));
  if (memory == nullptr) std::abort();
  for (std::uint64_t i = 0; i < words; ++i) memory[i] = 0;
  return memory;
}

}  // namespace

void clusters_open(std::uint64_t clusters, std::uint64_t dimensions) {
  constexpr std::uint64_t kWordsPerLine = 8;
  const std::uint64_t stride = (1 + dimensions + kWordsPerLine - 1) / kWordsPerLine * kWordsPerLine;
  shared = {clusters, dimensions, stride, zeros(clusters * stride), zeros(clusters * dimensions)};
  moved = 0;
  is_last_iteration = 0;
}
void clusters_close() {
  std::free(shared.sums);
  std::free(shared.centers);
}

void add_point(std::uint64_t cluster, const std::int64_t *point) {
  std::int64_t *const sums = shared.sums + cluster * shared.stride;
  const std::uint64_t dimensions = shared.dimensions;
  atomically([&] {
    ++sums[0];
    for (std::uint64_t i = 0; i < dimensions; ++i) sums[1 + i] += point[i];
  });
}
std::uint64_t take_cluster(std::uint64_t cluster, std::int64_t *copy) {
  std::int64_t *const sums = shared.sums + cluster * shared.stride;
  const std::uint64_t dimensions = shared.dimensions;
  return atomically([&] {
    const std::int64_t points = sums[0];
    sums[0] = 0;
    for (std::uint64_t i = 0; i < dimensions; ++i) {
      copy[i] = sums[1 + i];
      sums[1 + i] = 0;
    }
    return static_cast<std::uint64_t>(points);
  });
}
void write_center(std::uint64_t cluster, const std::int64_t *center) {
  const std::uint64_t dimensions = shared.dimensions;
  std::int64_t *const to = shared.centers + cluster * dimensions;
  atomically([&] {
    for (std::uint64_t i = 0; i < dimensions; ++i) to[i] = center[i];
  });
}
void read_centers(std::int64_t *centers) {
  const std::uint64_t words = shared.clusters * shared.dimensions;
  const std::int64_t *const from = shared.centers;
  atomically([&] {
    for (std::uint64_t i = 0; i < words; ++i) centers[i] = from[i];
  });
}
void add_moved(std::uint64_t points) {
  atomically([&] { moved += points; });
}
std::uint64_t take_moved() {
  return atomically([&] {
    const std::uint64_t points = moved;
    moved = 0;
    return points;
  });
}
void write_is_last(bool is_last) {
  atomically([&] { is_last_iteration = is_last ? 1 : 0; });
}
bool read_is_last() {
  return atomically([&] { return is_last_iteration != 0; });
}

}  // namespace itm
