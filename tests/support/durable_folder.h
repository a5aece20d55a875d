// tests/support/durable_folder.h -- durable domains for tests that look at files: made by a child
// that closes or is killed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <tmh/tmh.hpp>

namespace tmh::test {

inline constexpr std::uint64_t kSmallLogBytes = 1u << 20;  // the smallest log file

[[nodiscard]] DomainOptions durable_options(Durability durability = Durability::kStrict);
[[nodiscard]] SegmentOptions raw_pages(std::uint64_t pages);
[[nodiscard]] std::uint64_t &word_of(const Segment &segment, std::uint64_t page,
                                     std::uint64_t index = 0);
// The same word, as a query of its own finds it.
[[nodiscard]] std::uint64_t read_word(const Domain &domain, const Segment &segment,
                                      std::uint64_t page, std::uint64_t index = 0);

enum class Ending : std::uint8_t {
  kClosed,
  kKilled,   // with everything open
  kPowerCut  // and what is only in shared memory is gone; all that was written is there
};
// What is rebuildable does not survive a power cut; everything that was written did, in these
// tests.
void lose_shared_memory(const std::string &folder);
// What its control file says of shared memory is of another boot of the machine.
void forget_this_boot(const std::string &folder);
// In a child: opens `folder`, maps "a.db" (64 raw pages), runs body, ends.
void in_domain(const std::string &folder, const DomainOptions &options, Ending ending,
               const std::function<void(const Domain &, const Segment &)> &body);
// `count` transactions that store i to page i % 64.
void commit(const Domain &domain, const Segment &segment, std::uint64_t count);

}  // namespace tmh::test
