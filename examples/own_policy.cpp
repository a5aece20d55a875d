// examples/own_policy.cpp -- an escalation policy of the program's own, beside the built-in one.
//
// Four threads count in one word. An update that other updates undo goes up when it has failed
// three times, but only while the site does well at level 2: where attempts fail there, too, going
// up helps no instance.
#include <cstdio>
#include <thread>
#include <vector>

#include <tmh/tmh.hpp>

namespace {

constexpr unsigned kThreads = 4, kUpdates = 500;

tmh::NextLevel go_up_where_it_helps(const tmh::FailedAttempts &failed) noexcept {
  const bool pages_do_well = failed.page_aborts <= failed.page_commits;
  return failed.attempts >= 3 && pages_do_well ? tmh::NextLevel::kGoUp : tmh::NextLevel::kStay;
}

}  // namespace

int main(int argc, char **argv) {
  tmh::DomainOptions options;
  options.levels = tmh::Levels::kHybrid;
  const tmh::Domain domain = tmh::Domain::open(argc > 1 ? argv[1] : "own_policy.tmh", options);
  tmh::SegmentOptions raw;
  raw.layout = tmh::Layout::kRaw;
  raw.size_bytes = tmh::kPageBytes;
  auto &count = *reinterpret_cast<tmh::field<long> *>(domain.map("count.raw", raw).data());

  const tmh::Site own(domain, "own", go_up_where_it_helps);
  const tmh::Site built_in(domain, "built-in", "after-n=3");
  for (const tmh::Site *site : {&own, &built_in}) {
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([&] {
        for (unsigned i = 0; i < kUpdates; ++i)
          tmh::atomically(*site, [&](tmh::Fields) { count += 1; });
      });
    for (std::thread &thread : threads) thread.join();
    const tmh::SiteReport report = site->report();
    std::printf("%-8s at lines %5llu  at pages %5llu\n", report.name.c_str(),
                static_cast<unsigned long long>(report.line_commits),
                static_cast<unsigned long long>(report.page_commits));
  }
  const long all = tmh::query(domain, [&] { return count.load(); });
  std::printf("count %ld\n", all);
  return all == 2L * kThreads * kUpdates ? 0 : 1;
}
