// tests/death/containers/worker.cpp -- one process of kill_containers_test: a program of its own,
// so that the system puts its statics elsewhere each time.
// Usage:     worker table | address
//            worker work ROW FOLDER NUMBER SEED   until standard input ends; writes a byte to
//                                                 standard output every kStepsPerByte steps
//            worker check ROW FOLDER SEED         what all workers have left
//            worker make|use ROW FOLDER           one process makes a container, another uses it
// Exit:      0; 1: an error, told; 2: usage; kNotFound; kAbsent: the row's library is not there.
// Invariant: what a worker's keys hold is a function of the number of its steps, which lies in the
//            segment, too, and is stored in the same instances.
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <random>
#include <string>

#include "tests/death/containers/rows.h"
#include "tests/death/containers/worker.h"

namespace tmh::test {
namespace {

constexpr long kKeysEach = 24;

struct Step {
  long key = 0, value = 0;
  bool erases = false;
};
Step step_of(long number, std::uint64_t seed, long step) {
  std::mt19937_64 random(seed + static_cast<std::uint64_t>(number) * 1'000'003 +
                         static_cast<std::uint64_t>(step));
  const auto key = static_cast<long>(random() % kKeysEach);
  return {number + kWorkers * key, step, random() % 5 < 2};
}

struct Place {
  Place(const std::string &folder, const Play &play_of_row)
      : domain(Domain::open(folder)), play(play_of_row) {
    SegmentOptions heap;
    heap.size_bytes = 4u << 20;
    segment = domain.map("heap", heap);
    container = atomically(domain, [&] { return play.make(segment); });
    for (long number = 0; number < kWorkers; ++number)
      steps[number] = segment.root<long>("steps " + std::to_string(number));
  }
  Domain domain;
  Segment segment;
  const Play &play;
  void *container = nullptr;
  long *steps[kWorkers] = {};
};

bool is_told_to_stop() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) == 1;
}

int work(Place &place, long number, std::uint64_t seed) {
  long *done = place.steps[number];
  for (long count = 1; !is_told_to_stop(); ++count) {
    atomically(place.domain, [&] {
      const Step step = step_of(number, seed, ++*done);
      if (step.erases)
        place.play.erase(place.container, step.key);
      else
        place.play.set(place.container, step.key, step.value);
    });
    if (count % kStepsPerByte == 0 && ::write(STDOUT_FILENO, ".", 1) != 1) return 1;
  }
  place.domain.close();
  return 0;
}

int check(Place &place, std::uint64_t seed) {
  std::map<long, long> expected;
  const auto found = query(place.domain, [&] {
    expected.clear();
    for (long number = 0; number < kWorkers; ++number) {
      for (long done = 1; done <= *place.steps[number]; ++done) {
        const Step step = step_of(number, seed, done);
        if (step.erases)
          expected.erase(step.key);
        else
          expected[step.key] = step.value;
      }
    }
    return place.play.content(place.container);
  });
  if (found == expected && !found.empty()) return 0;
  std::fprintf(stderr, "%zu keys, of %zu\n", found.size(), expected.size());
  for (const auto &[key, value] : expected)
    if (!found.contains(key) || found.at(key) != value)
      std::fprintf(stderr, "key %ld is not %ld\n", key, value);
  return 1;
}

constexpr long kFilled = 200;

// Erases keys that a container has, or looks for them in an empty one.
void erase_all(Place &place) {
  atomically(place.domain, [&] {
    for (long key = 0; key < kFilled; ++key) place.play.erase(place.container, key);
  });
}
long size_of(Place &place) {
  return query(place.domain, [&] { return std::ssize(place.play.content(place.container)); });
}

// An empty one is what kDies is about.
int make(Place &place, Verdict verdict) {
  const bool is_filled = verdict != Verdict::kDies;
  if (is_filled) {
    atomically(place.domain, [&] {
      for (long key = 0; key < kFilled; ++key) place.play.set(place.container, key, key);
    });
  } else {
    erase_all(place);
  }
  if (size_of(place) != (is_filled ? kFilled : 0)) return kNotFound;
  place.domain.close();
  return 0;
}
int use(Place &place) {
  erase_all(place);
  return size_of(place) > kFilled / 2 ? kNotFound : 0;
}

void print_table() {
  std::puts("| container | in a segment | remark |\n|---|---|---|");
  for (const Row &row : kRows) {
    const char *verdict = row.verdict == Verdict::kWorks  ? "works"
                          : row.verdict == Verdict::kDies ? "no: the next process dies of SIGSEGV"
                                                          : "no: the next process finds nothing";
    std::printf("| %.*s | %s |%s%.*s |\n", static_cast<int>(row.container.size()),
                row.container.data(), verdict, row.remark.empty() ? "" : " ",
                static_cast<int>(row.remark.size()), row.remark.data());
  }
}

const Row *row_of(std::string_view id) {
  for (const Row &row : kRows)
    if (row.id == id) return &row;
  return nullptr;
}

int run(int count, char **words) {
  const std::string_view what = count > 1 ? words[1] : "";
  static const int somewhere = 0;
  if (what == "table") return print_table(), 0;
  if (what == "address") return std::printf("%p\n", static_cast<const void *>(&somewhere)), 0;
  const Row *row = count > 3 ? row_of(words[2]) : nullptr;
  if (row == nullptr) return 2;
  Plays plays;
  add_std_plays(plays);
  add_boost_plays(plays);
  add_other_plays(plays);
  const auto play = plays.find(row->id);
  if (play == plays.end()) return kAbsent;
  Place place(words[3], play->second);
  if (what == "work" && count == 6)
    return work(place, std::atol(words[4]), std::strtoull(words[5], nullptr, 10));
  if (what == "check" && count == 5) return check(place, std::strtoull(words[4], nullptr, 10));
  if (what == "make") return make(place, row->verdict);
  if (what == "use") return use(place);
  return 2;
}

}  // namespace
}  // namespace tmh::test

int main(int count, char **words) try {
  return tmh::test::run(count, words);
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
