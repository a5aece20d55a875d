// tests/support/durable_folder.cpp -- children that make domains.
#include "tests/support/durable_folder.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include <gtest/gtest.h>

#include "storage/control.h"
#include "tests/support/children.h"

namespace tmh::test {

DomainOptions durable_options(Durability durability) {
  DomainOptions options;
  options.durability = durability;
  options.log_file_bytes = kSmallLogBytes;
  return options;
}

SegmentOptions raw_pages(std::uint64_t pages) {
  SegmentOptions options;
  options.layout = Layout::kRaw;
  options.size_bytes = pages * kPageBytes;
  return options;
}

std::uint64_t &word_of(const Segment &segment, std::uint64_t page, std::uint64_t index) {
  return reinterpret_cast<std::uint64_t *>(segment.data() + page * kPageBytes)[index];
}

std::uint64_t read_word(const Domain &domain, const Segment &segment, std::uint64_t page,
                        std::uint64_t index) {
  return query(domain, [&] { return word_of(segment, page, index); });
}

void in_domain(const std::string &folder, const DomainOptions &options, Ending ending,
               const std::function<void(const Domain &, const Segment &)> &body) {
  const ChildEnd end = run_in_child("domain maker", [&] {
    auto *domain = new Domain(Domain::open(folder, options));  // a killed child never closes it
    {
      const Segment segment = domain->map("a.db", raw_pages(64));
      body(*domain, segment);
    }
    if (ending != Ending::kClosed) die_unless_failed();
    domain->close();
    delete domain;
  });
  ASSERT_FALSE(end.hung);
  if (ending == Ending::kClosed) {
    ASSERT_TRUE(end.succeeded());
  } else {
    ASSERT_EQ(end.signal, SIGKILL);
  }
  if (ending == Ending::kPowerCut) lose_shared_memory(folder);
}

void lose_shared_memory(const std::string &folder) {
  constexpr std::string_view kRebuildable[] = {
      "tmh.state",    "tmh.log.state",  "tmh.versions.",  "tmh.commits", "tmh.participants",
      "tmh.accesses", "tmh.pages.",     "tmh.line.state", "tmh.latency", "tmh.contexts",
      "tmh.lines.",   "tmh.directory.", "tmh.home.",      "tmh.changes."};
  for (const auto &entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (std::any_of(std::begin(kRebuildable), std::end(kRebuildable),
                    [&](auto lost) { return name.starts_with(lost); }))
      std::filesystem::remove(entry.path());
  }
  forget_this_boot(folder);
}

void forget_this_boot(const std::string &folder) {
  std::fstream control(folder + "/tmh.control", std::ios::in | std::ios::out | std::ios::binary);
  constexpr auto kAt = static_cast<std::streamoff>(offsetof(storage::ControlHeaderV1, open_mark));
  std::uint64_t mark = 0;
  control.seekg(kAt).read(reinterpret_cast<char *>(&mark), sizeof mark);
  mark ^= 1;
  control.seekp(kAt).write(reinterpret_cast<const char *>(&mark), sizeof mark);
  ASSERT_TRUE(control.good());
}

void commit(const Domain &domain, const Segment &segment, std::uint64_t count) {
  for (std::uint64_t i = 1; i <= count; ++i)
    atomically(domain, [&] { word_of(segment, i % 64) = i; });
}

}  // namespace tmh::test
