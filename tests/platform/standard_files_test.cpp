// tests/platform/standard_files_test.cpp -- programs whose standard input, output and error are
// closed, as some daemons' are.
// Invariants: what such a program prints, or reads, is of no file of a domain: none of them is open
//             under a standard file's number.
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include <tmh/tmh.hpp>

#include "tests/support/durable_folder.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

enum End : int { kFine = 0, kThrew = 10, kWritten = 20 };

int work_and_print(const std::string &folder, const DomainOptions &options) {
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(standard);
  constexpr std::string_view kText =
      "warning: what would be lost if this were a file of the domain\n";
  try {
    const Domain domain = Domain::open(folder, options);
    const Segment segment = domain.map("h.db");
    for (long i = 1; i <= 3; ++i) {
      atomically(domain, [&] { *segment.root<long>("count") = i; });
      for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (::write(standard, kText.data(), kText.size()) >= 0) return kWritten + standard;
      }
    }
  } catch (const std::exception &) {
    return kThrew;
  }
  return kFine;
}

TEST(StandardFiles, WhatAProgramWithoutThemPrintsGetsIntoNoFileOfADomain) {
  for (const Durability durability : {Durability::kNone, Durability::kStrict}) {
    for (const Levels levels : {Levels::kPage, Levels::kHybrid}) {
      const TempFolder folder;
      DomainOptions options =
          durability == Durability::kNone ? DomainOptions() : durable_options(durability);
      options.levels = levels;
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) ::_exit(work_and_print(folder / "domain", options));
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0) << "exit status " << WEXITSTATUS(status);
      const Domain domain = Domain::open(folder / "domain", options);
      const Segment segment = domain.map("h.db");
      EXPECT_EQ(atomically(domain, [&] { return *segment.root<long>("count"); }), 3);
    }
  }
}

}  // namespace
}  // namespace tmh::test
