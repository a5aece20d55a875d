// examples/workloads/random.hpp -- random numbers that are the same on every machine, and the
// distributions that workloads draw keys from.
// Source:    Zipfian: J. Gray et al., Quickly Generating Billion-Record Synthetic Databases (SIGMOD
//            1994), as the YCSB uses it (B. Cooper et al., Benchmarking Cloud Serving Systems with
//            YCSB, SoCC 2010; its ZipfianGenerator and ScrambledZipfianGenerator).
// Contexts:  plain values, nothing shared.
#pragma once

#include <cmath>
#include <cstdint>

namespace workloads {

// splitmix64: a fixed sequence per seed on every machine, unlike the standard distributions.
class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(seed) {}
  [[nodiscard]] std::uint64_t next() noexcept {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  // In [0, bound); the bias of the plain remainder is below 2^-32 for the bounds used here.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) noexcept { return next() % bound; }
  // In [0, 1).
  [[nodiscard]] double unit() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

// Ranks: 0 is drawn most often, rank r about 1 / (r + 1)^theta as often.
class Zipfian {
 public:
  static constexpr double kYcsbTheta = 0.99;
  // The YCSB scrambles ranks among ten billion, whose zeta it has as a constant, so that it need
  // not be added up.
  static constexpr std::uint64_t kYcsbItems = 10'000'000'000;
  static constexpr double kYcsbZeta = 26.46902820178302;

  // theta in [0, 1); 0: uniform. Adds up `items` terms.
  Zipfian(std::uint64_t items, double theta) : Zipfian(items, theta, zeta(items, theta)) {}
  Zipfian(std::uint64_t items, double theta, double zeta_of_items)
      : items_(items),
        theta_(theta),
        zeta_(zeta_of_items),
        alpha_(1 / (1 - theta)),
        eta_((1 - std::pow(2.0 / static_cast<double>(items), 1 - theta)) /
             (1 - zeta(2, theta) / zeta_of_items)) {}
  [[nodiscard]] std::uint64_t next(Random &random) const {
    if (theta_ == 0) return random.below(items_);
    const double u = random.unit(), uz = u * zeta_;
    if (uz < 1 || items_ == 1) return 0;
    if (uz < 1 + std::pow(0.5, theta_) || items_ == 2) return 1;
    const auto rank = static_cast<std::uint64_t>(static_cast<double>(items_) *
                                                 std::pow(eta_ * u - eta_ + 1, alpha_));
    return rank < items_ ? rank : items_ - 1;
  }

 private:
  [[nodiscard]] static double zeta(std::uint64_t items, double theta) {
    if (theta == 0) return static_cast<double>(items);
    double sum = 0;
    for (std::uint64_t i = 1; i <= items; ++i) sum += 1 / std::pow(static_cast<double>(i), theta);
    return sum;
  }

  std::uint64_t items_;
  double theta_, zeta_, alpha_, eta_;
};

// FNV-1a of the eight bytes, without a sign, as the YCSB's Utils.fnvhash64().
[[nodiscard]] inline std::uint64_t fnv_hash(std::uint64_t value) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (int byte = 0; byte < 8; ++byte, value >>= 8)
    hash = (hash ^ (value & 0xff)) * 1099511628211ULL;
  const auto with_sign = static_cast<std::int64_t>(hash);
  return with_sign < 0 ? 0 - hash : hash;
}

// Popular items lie anywhere among `items`, not side by side: the YCSB's default "zipfian".
class ScrambledZipfian {
 public:
  ScrambledZipfian(std::uint64_t items, double theta)
      : items_(items),
        is_uniform_(theta == 0),
        ranks_(theta == Zipfian::kYcsbTheta
                   ? Zipfian(Zipfian::kYcsbItems, theta, Zipfian::kYcsbZeta)
                   : Zipfian(items, theta)) {}
  [[nodiscard]] std::uint64_t next(Random &random) const {
    return is_uniform_ ? random.below(items_) : fnv_hash(ranks_.next(random)) % items_;
  }

 private:
  std::uint64_t items_;
  bool is_uniform_;
  Zipfian ranks_;
};

}  // namespace workloads
