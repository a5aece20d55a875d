// examples/level_comparison.cpp -- the same transactions at lines only, at pages only, and in a
// hybrid domain that may choose.
// Shape:     most move one unit between two counters; one in a hundred touches every page. Run:
//            level_comparison [folder [transactions]].
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include <tmh/tmh.hpp>

namespace {

constexpr std::uint64_t kPages = 256, kPerPage = tmh::kPageBytes / sizeof(long);
using Counter = tmh::field<long>;  // exactly a long; loads and stores go through the instance

struct Choice {
  const char *name;
  tmh::Levels levels;
  const char *escalation, *capacity;  // what may go from lines to pages, and what fits into lines
};
constexpr Choice kChoices[] = {{"lines", tmh::Levels::kHybrid, "never", "unlimited"},
                               {"pages", tmh::Levels::kPage, "always", "unlimited"},
                               {"hybrid", tmh::Levels::kHybrid, "adaptive", "32KiB/8/64"}};

// False: a unit was lost or made.
bool run(const std::string &folder, const Choice &choice, std::uint64_t transactions) {
  tmh::DomainOptions options;
  options.levels = choice.levels;
  options.policies.capacity = choice.capacity;
  const tmh::Domain domain = tmh::Domain::open(folder + "/" + choice.name, options);
  tmh::SegmentOptions raw;
  raw.layout = tmh::Layout::kRaw;
  raw.size_bytes = kPages * tmh::kPageBytes;
  Counter *counters = reinterpret_cast<Counter *>(domain.map("counters.raw", raw).data());
  const tmh::Site small(domain, "small", choice.escalation);
  const tmh::Site huge(domain, "huge", choice.escalation);

  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < transactions; ++i) {
    if (i % 100 == 0) {
      tmh::atomically(huge, [&](tmh::Fields) {
        for (std::uint64_t page = 0; page < kPages; ++page)
          counters[page * kPerPage] += page % 2 == 0 ? 1 : -1;
      });
    } else {
      Counter &from = counters[i * 7919 % (kPages * kPerPage)],
              &to = counters[i * 104'729 % (kPages * kPerPage)];
      tmh::atomically(small, [&](tmh::Fields) {
        --from;
        ++to;
      });
    }
  }
  const double us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  std::printf("%-7s %6.2f us each", choice.name, us / static_cast<double>(transactions));
  for (const tmh::SiteReport &report : {small.report(), huge.report()})
    std::printf("  %s: %5llu at lines, %5llu at pages", report.name.c_str(),
                1ull * report.line_commits, 1ull * report.page_commits);
  std::printf("\n");
  return tmh::query(domain, [&] {
    long sum = 0;
    for (std::uint64_t i = 0; i < kPages * kPerPage; ++i) sum += counters[i];
    return sum == 0;
  });
}

}  // namespace

int main(int argc, char **argv) {
  try {
    const std::string folder = argc > 1 ? argv[1] : "level_comparison.domain";
    const std::uint64_t transactions = argc > 2 ? std::stoull(argv[2]) : 20'000;
    std::filesystem::create_directories(folder);
    for (const Choice &choice : kChoices)
      if (!run(folder, choice, transactions)) return 1;
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
