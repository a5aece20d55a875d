// tests/support/thread_table.h -- a table of words for threads with views of their own, and threads
// whose failures are the test's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>
#include <tmh/lab.hpp>
#include <tmh/tmh.hpp>

#include "tests/support/modes.h"

namespace tmh::test {

inline constexpr std::uint64_t kTablePages = 16;
inline constexpr std::uint64_t kWordsPerPage = kPageBytes / sizeof(std::uint64_t);

[[nodiscard]] inline DomainOptions threaded(const Mode &mode,
                                            ThreadViewUse use = lab::kOwnViewAlways) {
  DomainOptions options = options_for(mode);
  options.policies.thread_views = use;
  return options;
}

[[nodiscard]] inline SegmentOptions words_options(std::uint64_t pages = kTablePages) {
  SegmentOptions raw;
  raw.layout = Layout::kRaw;
  raw.size_bytes = raw.max_bytes = pages * kPageBytes;
  return raw;
}

// A raw segment of words, and a site whose instances run at level 2.
struct Table {
  Table(const std::string &folder, const DomainOptions &options)
      : domain(Domain::open(folder, options)),
        segment(domain.map("words.raw", words_options())),
        site(domain, "pages", "always") {}
  [[nodiscard]] field<std::uint64_t> &word(std::uint64_t page, std::uint64_t index = 0) const {
    return reinterpret_cast<field<std::uint64_t> *>(segment.data())[page * kWordsPerPage + index];
  }
  // As plain code reads, on the process's view.
  [[nodiscard]] std::uint64_t committed(std::uint64_t page, std::uint64_t index = 0) const {
    return query(domain, [&] { return word(page, index).load(); });
  }
  Domain domain;
  Segment segment;
  Site site;
};

// In a thread of its own; what it throws fails the test.
class Thread {
 public:
  explicit Thread(std::function<void()> body)
      : thread_([body = std::move(body)] {
          try {
            body();
          } catch (const std::exception &error) {
            ADD_FAILURE() << error.what();
          }
        }) {}
  ~Thread() { join(); }
  Thread(const Thread &) = delete;
  Thread &operator=(const Thread &) = delete;
  void join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::thread thread_;
};

}  // namespace tmh::test
