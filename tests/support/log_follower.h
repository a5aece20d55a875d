// tests/support/log_follower.h -- a tail of a redo log whose transactions count, and what it must
// give.
// Shape:     each transaction of the writers stores the number behind the one before to word 0 of
//            page 0. So the follower's numbers say which transactions it was given.
// Invariant: checked at each entry: numbers follow one another, but for gaps and undone ones that
//            an entry told of; LSNs rise; an entry does not reach behind what shared memory, looked
//            at after it was given, says is durable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>

#include "storage/log/log_tail.h"

namespace tmh::test {

[[nodiscard]] storage::LogIdentity log_identity(const std::string &folder);
// The next number, in an instance of its own; returns it. `words`: so many more words are stored.
std::uint64_t count_up(const Domain &domain, const Segment &segment, Durability durability,
                       std::uint64_t words = 0);

class LogFollower {
 public:
  explicit LogFollower(const std::string &folder, const storage::TailStart &start = {},
                       const std::string &archive = {});

  // All that is durable now. Returns how many entries it was.
  std::size_t take_all();
  // Of the last transaction that still counts; 0: none was given.
  [[nodiscard]] std::uint64_t last() const noexcept {
    return given_.empty() ? 0 : given_.back().number;
  }
  // The first that was given.
  [[nodiscard]] std::uint64_t first() const noexcept {
    return given_.empty() ? 0 : given_.front().number;
  }

  // A gap was told of, and nothing has come behind it.
  [[nodiscard]] bool is_behind_gap() const noexcept { return may_jump_ && !gaps_.empty(); }

  struct Given {
    std::uint64_t number = 0;
    storage::Lsn lsn = 0, end = 0;
    std::uint64_t stamp = 0;
    std::uint32_t generation = 0;
  };
  [[nodiscard]] const std::vector<Given> &given() const noexcept { return given_; }
  [[nodiscard]] const std::vector<storage::TailEntry> &gaps() const noexcept { return gaps_; }
  [[nodiscard]] const std::vector<storage::TailEntry> &undone() const noexcept { return undone_; }
  [[nodiscard]] std::size_t openings() const noexcept { return openings_; }
  [[nodiscard]] storage::LogTail &tail() noexcept { return tail_; }

 private:
  void take(const storage::TailEntry &entry);
  void expect_durable(const storage::TailEntry &entry) const;

  std::string folder_;
  storage::LogTail tail_;
  std::vector<Given> given_;
  std::vector<storage::TailEntry> gaps_, undone_;
  std::size_t openings_ = 0;
  bool may_jump_ = true;  // behind a gap, and at the start
};

}  // namespace tmh::test
