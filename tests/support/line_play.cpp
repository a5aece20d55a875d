// tests/support/line_play.cpp -- the instances.
#include "tests/support/line_play.h"

#include <sched.h>

namespace tmh::test {

std::uint64_t LinePlayer::read(std::uint64_t number) {
  const std::uint64_t value = thread_.load(cell(number));
  lane_.read(number, value);
  if (jostles_ && random_() % 8 == 0) sched_yield();
  return value;
}

void LinePlayer::write(std::uint64_t number) {
  read(number);
  const std::uint64_t value = lane_.fresh_value();
  lane_.write(number, value);
  thread_.store(cell(number), value);
}

template <class Body>
void LinePlayer::run(bool is_query, const Body &body) {
  constexpr ConflictPolicy kPolicies[] = {ConflictPolicy::kSelfAbort, ConflictPolicy::kOldestWins,
                                          ConflictPolicy::kSelfishAbort,
                                          ConflictPolicy::kYoungestWins};
  line::Begin options;
  options.is_query = is_query;
  options.policy.conflict = kPolicies[random_() % 4];
  for (;; ++options.attempt) {
    lane_.begin(is_query ? history::Kind::kQuery : history::Kind::kUpdate);
    try {
      const Status status = line::attempt(thread_, options, body);
      lane_.end(status == Status::kCommitted ? history::Outcome::kCommitted
                                             : history::Outcome::kAborted);
      if (status == Status::kCommitted) return;
      ++aborts_;
    } catch (const GivenUp &) {
      lane_.end(history::Outcome::kAborted);
      return;
    }
  }
}

void LinePlayer::step() {
  const std::uint64_t dice = random_();
  const std::uint64_t first = dice % kLineCells, second = dice / 16 % kLineCells,
                      third = dice / 256 % kLineCells;
  switch (dice / 4096 % 8) {
    case 0:
      return audit();
    case 1:  // reads here, writes there: what write skew is made of
      return run(false, [&] {
        read(first);
        read(second);
        write(third);
      });
    case 2:
      return run(false, [&] {
        write(first);
        write(second);
        throw GivenUp{};
      });
    case 3:
      return run(true, [&] {
        read(first);
        read(second);
        read(third);
      });
    case 4:
      return run(false, [&] {
        for (std::uint64_t number = 0; number < kLineCells; number += 2) write(number);
        read(first);
      });
    default:
      return run(false, [&] {
        write(first);
        read(second);
        write(third);
        read(first);
      });
  }
}

void LinePlayer::audit() {
  run(true, [&] {
    for (std::uint64_t number = 0; number < kLineCells; ++number) read(number);
  });
}

}  // namespace tmh::test
