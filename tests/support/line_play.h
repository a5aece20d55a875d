// tests/support/line_play.h -- random instances of level 1 on a few cells, recorded for the history
// checker.
// Shape:     cell c lies 24 bytes after cell c - 1: some share a line, others do not.
// Invariant: as tests/histories/history.h asks: written values are unique, a cell is read before it
//            is written.
#pragma once

#include <cstdint>
#include <random>

#include "tests/support/line_rig.h"
#include "tests/support/recorder.h"

namespace tmh::test {

inline constexpr std::uint64_t kLineCells = 16;

class LinePlayer {
 public:
  // jostles: gives its core away in the middle of instances, so that they meet where there are
  // fewer cores than players.
  LinePlayer(LineRig &rig, Lane lane, std::uint64_t seed, bool jostles)
      : rig_(rig), thread_(rig), lane_(lane), random_(seed), jostles_(jostles) {}

  // One random transaction, attempted until it commits or, sometimes, given up.
  void step();
  // A query that reads every cell.
  void audit();
  [[nodiscard]] bool has_room() const { return lane_.has_room(20'000); }
  [[nodiscard]] line::SoftwareThread &thread() noexcept { return thread_; }
  [[nodiscard]] std::uint64_t aborts() const noexcept { return aborts_; }

 private:
  struct GivenUp {};
  [[nodiscard]] std::uint64_t *cell(std::uint64_t number) const {
    return rig_.words() + 3 * number;
  }
  std::uint64_t read(std::uint64_t number);
  void write(std::uint64_t number);
  template <class Body>
  void run(bool is_query, const Body &body);

  LineRig &rig_;
  RigThread thread_;
  Lane lane_;
  std::mt19937_64 random_;
  bool jostles_;
  std::uint64_t aborts_ = 0;
};

}  // namespace tmh::test
