// examples/itm/kmeans.cpp -- k-means clustering: threads share the points out, and add each to the
// sums of its nearest center in a transaction.
// Shape:     an operation is one point of one iteration. An iteration ends when one thread has made
//            centers of the sums; the last one is when few points moved.
// Checks:    in each iteration all clusters together have all points, and their sums are those of
//            all points; at the end each point is with its nearest center.
// Source:    STAMP (kmeans).
#include "examples/itm/kmeans.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "examples/itm/support/report.h"

namespace {

constexpr std::int64_t kSide = 1 << 16;

struct Sizes {
  std::uint64_t points = 16'384, dimensions = 16, clusters = 15, iterations = 20;
  double threshold = 0.005;
};

struct Input {
  std::vector<std::int64_t> points, sums;
};

// Points around centers, more often near than far.
Input make_input(const Sizes &sizes, itm::Random &random) {
  Input input;
  std::vector<std::int64_t> centers(sizes.clusters * sizes.dimensions);
  for (std::int64_t &each : centers) each = static_cast<std::int64_t>(random.below(kSide));
  input.points.reserve(sizes.points * sizes.dimensions);
  input.sums.resize(sizes.dimensions);
  for (std::uint64_t i = 0; i < sizes.points; ++i) {
    const std::uint64_t center = random.below(sizes.clusters) * sizes.dimensions;
    for (std::uint64_t d = 0; d < sizes.dimensions; ++d) {
      std::int64_t distance = -kSide / 2;
      for (int dice = 0; dice < 4; ++dice)
        distance += static_cast<std::int64_t>(random.below(kSide / 4));
      input.points.push_back(centers[center + d] + distance);
      input.sums[d] += input.points.back();
    }
  }
  return input;
}

std::uint32_t nearest(const Sizes &sizes, const std::vector<std::int64_t> &centers,
                      const std::int64_t *point) {
  std::uint32_t found = 0;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::uint32_t cluster = 0; cluster < sizes.clusters; ++cluster) {
    const std::int64_t *const center = centers.data() + cluster * sizes.dimensions;
    std::int64_t squares = 0;
    for (std::uint64_t d = 0; d < sizes.dimensions; ++d)
      squares += (point[d] - center[d]) * (point[d] - center[d]);
    if (squares >= least) continue;
    least = squares;
    found = cluster;
  }
  return found;
}

// One input.
class Clustering {
 public:
  Clustering(const Sizes &sizes, const Input &input)
      : sizes_(&sizes), input_(&input), cluster_of_(sizes.points, UINT32_MAX) {
    itm::clusters_open(sizes.clusters, sizes.dimensions);
    for (std::uint64_t cluster = 0; cluster < sizes.clusters; ++cluster)
      itm::write_center(cluster, point(cluster));
  }
  ~Clustering() { itm::clusters_close(); }
  Clustering(const Clustering &) = delete;
  Clustering &operator=(const Clustering &) = delete;

  void work(itm::Worker &worker) {
    const std::uint64_t first = sizes_->points * worker.index() / worker.threads();
    const std::uint64_t last = sizes_->points * (worker.index() + 1) / worker.threads();
    std::vector<std::int64_t> centers(sizes_->clusters * sizes_->dimensions);
    do {
      itm::read_centers(centers.data());
      std::uint64_t moved = 0;
      for (std::uint64_t i = first; i < last; ++i) {
        const std::uint32_t cluster = nearest(*sizes_, centers, point(i));
        if (cluster != cluster_of_[i]) ++moved;
        cluster_of_[i] = cluster;
        itm::add_point(cluster, point(i));
      }
      worker.add(last - first);
      itm::add_moved(moved);
      worker.meet();
      if (worker.index() == 0) make_centers(centers);
      worker.meet();
    } while (!itm::read_is_last());
  }
  // After the threads.
  [[nodiscard]] bool every_point_is_at_its_nearest() const {
    for (std::uint64_t i = 0; i < sizes_->points; ++i) {
      if (cluster_of_[i] != nearest(*sizes_, last_centers_, point(i))) return false;
    }
    return true;
  }
  [[nodiscard]] bool lost_points() const { return lost_points_; }
  [[nodiscard]] bool lost_sums() const { return lost_sums_; }
  [[nodiscard]] std::uint64_t iterations() const { return iterations_; }

 private:
  [[nodiscard]] const std::int64_t *point(std::uint64_t number) const {
    return input_->points.data() + number * sizes_->dimensions;
  }
  // By one thread, while the others wait. `centers`: those that points were compared with.
  void make_centers(const std::vector<std::int64_t> &centers) {
    std::vector<std::int64_t> sums(sizes_->dimensions), all(sizes_->dimensions);
    std::uint64_t points = 0;
    for (std::uint64_t cluster = 0; cluster < sizes_->clusters; ++cluster) {
      const std::uint64_t count = itm::take_cluster(cluster, sums.data());
      points += count;
      for (std::uint64_t d = 0; d < sizes_->dimensions; ++d) {
        all[d] += sums[d];
        if (count > 0) sums[d] /= static_cast<std::int64_t>(count);
      }
      if (count > 0) itm::write_center(cluster, sums.data());  // an empty one stays
    }
    if (points != sizes_->points) lost_points_ = true;
    if (all != input_->sums) lost_sums_ = true;
    const auto moved = static_cast<double>(itm::take_moved());
    const bool is_last = ++iterations_ == sizes_->iterations ||
                         moved <= sizes_->threshold * static_cast<double>(sizes_->points);
    if (is_last) last_centers_ = centers;
    itm::write_is_last(is_last);
  }

  const Sizes *sizes_;
  const Input *input_;
  std::vector<std::uint32_t> cluster_of_;
  // Written by make_centers().
  std::vector<std::int64_t> last_centers_;
  std::uint64_t iterations_ = 0;
  bool lost_points_ = false, lost_sums_ = false;
};

}  // namespace

int main(int argc, char **argv) {
  Sizes sizes;
  itm::Options options("kmeans", "k-means clustering of random points; an operation is one point",
                       itm::Amount::kInputs);
  options.add("--points", sizes.points, "points", 1, 1u << 26);
  options.add("--dimensions", sizes.dimensions, "of a point", 1, 64);
  options.add("--clusters", sizes.clusters, "clusters", 1, 4096);
  options.add("--iterations", sizes.iterations, "at most", 1, 10'000);
  options.add("--threshold", sizes.threshold, "of all points: fewer moved in the last iteration", 0,
              1);
  if (!options.parse(argc, argv)) return options.status();
  if (sizes.points < sizes.clusters) return options.refuse("--clusters must be at most --points");

  const itm::Common &common = options.common();
  itm::Report report(options);
  itm::Work work;
  std::uint64_t iterations = 0;
  const std::uint64_t inputs = itm::run_rounds(common, work, [&](std::uint64_t round) {
    itm::Random random(itm::seed_of(common.seed, round));
    const Input input = make_input(sizes, random);
    Clustering clustering(sizes, input);
    work += itm::run_threads(common, [&](itm::Worker &worker) { clustering.work(worker); });
    iterations += clustering.iterations();
    report.require(!clustering.lost_points(), "clusters have lost or won points");
    report.require(!clustering.lost_sums(), "sums of clusters are not those of all points");
    report.require(clustering.every_point_is_at_its_nearest(),
                   "a point is not with its nearest center");
    return report.is_ok();
  });
  report.detail("points", sizes.points);
  report.detail("dimensions", sizes.dimensions);
  report.detail("clusters", sizes.clusters);
  report.detail("inputs", inputs);
  report.detail("iterations", iterations);
  return report.print(work);
}
