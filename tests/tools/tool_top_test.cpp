// tests/tools/tool_top_test.cpp -- tmh top: the picture for samples that nobody has measured, plain
// text of live domains, and the terminal.
// Invariants: (1) no line is wider than the terminal, none has a control character, whatever the
//             names are. (2) rates are differences, and never negative. (3) it joins nothing. (4) a
//             damaged, closed or vanished domain is a sentence. (5) however it ends, the terminal
//             is as it was.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>

#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/seed.h"
#include "tests/support/slowdown.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tool.h"
#include "tools/moment.h"
#include "tools/top_view.h"

namespace tmh::test {
namespace {

using tools::top_lines;
using tools::TopLook;
using tools::TopSample;
using tools::TopSort;

std::vector<std::string> lines_of(const std::string &text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string joined(const std::vector<std::string> &lines) {
  std::string text;
  for (const std::string &line : lines) text += line + "\n";
  return text;
}

// The line that begins with these words, blanks aside.
std::string line_of(const std::vector<std::string> &lines, const std::string &begin) {
  for (const std::string &line : lines) {
    const auto at = line.find_first_not_of(' ');
    if (at != std::string::npos && line.compare(at, begin.size(), begin) == 0) return line;
  }
  ADD_FAILURE() << "no line '" << begin << "' in\n" << joined(lines);
  return {};
}

tools::ParticipantCounters participant(std::uint32_t slot, std::int32_t pid,
                                       const std::string &name) {
  tools::ParticipantCounters one;
  one.slot = slot;
  one.pid = pid;
  one.name = name;
  one.is_alive = true;
  return one;
}

// Two processes in a hybrid domain.
TopSample first_sample() {
  TopSample sample;
  sample.monotonic_ns = 1'000'000'000;
  sample.durability = "strict";
  sample.detection = "lazy";
  sample.shared.has_state = sample.shared.is_hybrid = true;
  sample.shared.clock = 100;
  sample.shared.participants = {participant(0, 4711, "teller"), participant(1, 4712, "auditor")};
  return sample;
}

TopSample second_sample() {
  TopSample sample = first_sample();
  sample.monotonic_ns = 3'000'000'000;  // two seconds
  sample.shared.clock = 1'100;
  Counters &total = sample.shared.total;
  total.commits = 2'000;
  total.queries = 10;
  total.line_commits = 4'000'000;
  total.aborts[static_cast<std::size_t>(AbortCause::kValidation)] = 30;
  total.line_aborts[static_cast<std::size_t>(AbortCause::kCapacity)] = 8;
  total.log_bytes = 4 << 20;
  total.log_flushes = 500;
  total.log_commits = 1'000;
  total.versions_live = 12;
  total.versions_bytes = 12 * 4096;
  sample.shared.participants[0].counters.line_commits = 4'000'000;
  sample.shared.participants[0].in_line_mode = true;
  sample.shared.participants[1].counters.commits = 2'000;
  sample.shared.participants[1].instance_us = 3'200'000;
  sample.shared.participants[1].is_query = true;
  sample.shared.participants[1].snapshot = 100;
  LatencySeries series;
  series.slot = 0;
  series.site = "transfer";
  series.level = LatencyLevel::kLines;
  series.histogram.add(100, 990);
  series.histogram.add(1'000'000, 10);
  sample.shared.latencies = {series};
  tools::SegmentSight segment;
  segment.name = "prices.db";
  segment.pages = segment.looked_at = 6;
  segment.pages_in[static_cast<std::size_t>(tools::PageSight::kLines)] = 3;
  segment.pages_in[static_cast<std::size_t>(tools::PageSight::kWritten)] = 2;
  segment.pages_in[static_cast<std::size_t>(tools::PageSight::kIdle)] = 1;
  segment.map = "LLLWWN";
  sample.segments = {segment};
  return sample;
}

TEST(TopView, AHistoryBeginsAtATime) {
  TopSample now = second_sample();
  now.time_ns = *tools::parse_moment("2026-11-21 12:30:05");
  now.shared.total.past_pages = 3;
  now.shared.total.past_horizon = 7;
  const auto versions = [&] {
    return line_of(top_lines(first_sample(), now, TopLook{"shop", 200}), "versions");
  };
  EXPECT_NE(versions().find("past 3 (0 B) from commit 7"), std::string::npos) << versions();
  now.shared.past_since_ns = now.time_ns - 90'000'000'000;
  EXPECT_NE(versions().find("from 12:28:35, 90.00 s ago"), std::string::npos) << versions();
  now.shared.past_since_ns = now.time_ns - 2 * 86'400'000'000'000;
  EXPECT_NE(versions().find("from 2026-11-19 12:30:05, "), std::string::npos) << versions();
  now.shared.past_since_ns = now.time_ns + 1;  // its clock was set back
  EXPECT_NE(versions().find(", 0 us ago"), std::string::npos) << versions();
}

TEST(TopView, RatesAreDifferencesOverTime) {
  const auto lines = top_lines(first_sample(), second_sample(), TopLook{"shop"});
  EXPECT_NE(line_of(lines, "lines").find("2.00M"), std::string::npos) << joined(lines);
  EXPECT_NE(line_of(lines, "pages ").find("1.00k"), std::string::npos);
  EXPECT_NE(line_of(lines, "queries").find(" 5.0"), std::string::npos);
  EXPECT_NE(line_of(lines, "aborts/s:").find("lines:capacity 4.0  pages:validation 15"),
            std::string::npos);
  EXPECT_NE(line_of(lines, "versions").find("log 2.0 MiB/s  commits per fsync 2.00"),
            std::string::npos);
  EXPECT_NE(line_of(lines, "fsyncs").find(" 250 "), std::string::npos);
  EXPECT_NE(line_of(lines, "4711 teller").find(" line "), std::string::npos);
  EXPECT_NE(line_of(lines, "4712 auditor").find("query 3.20 s"), std::string::npos);
  EXPECT_NE(line_of(lines, "slow: 4712 (auditor) query 3.20 s, 1000 commits behind")
                .find("holds up to 48.0 KiB"),
            std::string::npos);
  EXPECT_NE(line_of(lines, "prices.db: 6 pages").find("L 3  N 1  W 2  lines in U 192"),
            std::string::npos);
  EXPECT_EQ(line_of(lines, "LLLWWN"), "LLLWWN");
}

TEST(TopView, NamesWhatSendsInstancesUpWhileItDoes) {
  const auto calm = top_lines(first_sample(), second_sample(), TopLook{"shop"});
  EXPECT_EQ(joined(calm).find("needs pages"), std::string::npos) << joined(calm);
  TopSample before = first_sample(), now = second_sample();
  const auto of = [](TopSample &sample, Need need) -> std::uint64_t & {
    return sample.shared.total.escalations_by_need[static_cast<std::size_t>(need)];
  };
  of(before, Need::kRoot) = of(now, Need::kRoot) = 7;
  of(now, Need::kAllocate) = 2'000;
  of(now, Need::kIrrevocable) = 4;
  const auto lines = top_lines(before, now, TopLook{"shop"});
  EXPECT_EQ(line_of(lines, "needs pages/s:"),
            "needs pages/s:  tmh::Segment::allocate 1.00k  tmh::become_irrevocable 2.0");
}

TEST(TopView, LocksAreShownWhereThereIsATable) {
  TopSample before = first_sample(), now = second_sample();
  EXPECT_EQ(joined(top_lines(before, now, TopLook{"shop"})).find("locks/s"), std::string::npos);
  const auto of = [](TopSample &sample, lock::LockCount which) -> std::uint64_t & {
    return sample.locks.counts[static_cast<std::size_t>(which)];
  };
  before.locks.is_there = now.locks.is_there = true;
  before.locks.wait_times.add(3'000'000'000, 7);
  now.locks.wait_times.add(3'000'000'000, 7);
  now.locks.wait_times.add(1'000'000, 20);
  of(before, lock::LockCount::kLocks) = 1'000;
  of(now, lock::LockCount::kLocks) = 25'000;
  of(now, lock::LockCount::kWaits) = 20;
  of(now, lock::LockCount::kDeadlocks) = 4;
  of(now, lock::LockCount::kCommits) = 600;
  now.locks.rollbacks[static_cast<std::size_t>(lock::UndoneBy::kOwner)] = 6;
  now.locks.rollbacks[static_cast<std::size_t>(lock::UndoneBy::kHeir)] = 2;
  const auto lines = top_lines(before, now, TopLook{"shop"});
  const std::string locks = line_of(lines, "locks/s 12.0k  waits/s 10  mean 1.00 ms  p99 1.0");
  EXPECT_NE(locks.find("  deadlocks/s 2.0"), std::string::npos) << locks;
  EXPECT_EQ(line_of(lines, "with locks:"),
            "with locks: commits/s 300  rollbacks/s 4.0, by heirs 1.0  time-outs/s 0");
  // A life that began anew, two seconds later.
  before.monotonic_ns = 5'000'000'000;
  const auto anew = top_lines(now, before, TopLook{"shop"});
  EXPECT_EQ(line_of(anew, "locks/s 500  waits/s 0  mean 3.00 s").find("-"), std::string::npos);
  EXPECT_EQ(line_of(anew, "with locks:"),
            "with locks: commits/s 0  rollbacks/s 0, by heirs 0  time-outs/s 0");
}

TEST(TopView, LatenciesAreThoseOfTheInterval) {
  TopSample before = first_sample(), now = second_sample();
  before.shared.latencies = now.shared.latencies;
  now.shared.latencies[0].histogram.add(2'000'000, 1'000);
  const auto lines = top_lines(before, now, TopLook{"shop"});
  EXPECT_NE(line_of(lines, "lines").find("2.0"), std::string::npos) << "not the 100 ns of before";
  EXPECT_EQ(line_of(lines, "lines").find(" ns"), std::string::npos) << joined(lines);
  EXPECT_NE(line_of(lines, "transfer").find("lines"), std::string::npos);
}

TEST(TopView, ADomainThatWasOpenedAnewHasNoNegativeRates) {
  const auto lines = top_lines(second_sample(), first_sample(), TopLook{"shop"});
  EXPECT_EQ(joined(lines).find(" -1"), std::string::npos) << joined(lines);
  EXPECT_EQ(joined(lines).find("nan"), std::string::npos);
  TopSample busy = second_sample(), anew = first_sample();
  busy.monotonic_ns = 1'000'000'000;
  anew.monotonic_ns = 2'000'000'000;
  anew.shared.total.commits = 50;
  EXPECT_NE(line_of(top_lines(busy, anew, TopLook{"shop"}), "pages ").find(" 50 "),
            std::string::npos)
      << "what there is since, though there was more before";
}

TEST(TopView, SortsByWhatIsAskedFor) {
  const auto place = [](TopSort sort, const std::string &name) {
    TopLook look{"shop"};
    look.sort = sort;
    const std::string text = joined(top_lines(first_sample(), second_sample(), look));
    return text.find(name, text.find("mode  commits/s"));
  };
  EXPECT_LT(place(TopSort::kCommits, "teller"), place(TopSort::kCommits, "auditor"));
  EXPECT_LT(place(TopSort::kAge, "auditor"), place(TopSort::kAge, "teller"));
  EXPECT_LT(place(TopSort::kPid, "teller"), place(TopSort::kPid, "auditor"));
  EXPECT_EQ(tools::after(TopSort::kPid), TopSort::kCommits);
}

TEST(TopView, FitsEveryTerminalWhateverTheNamesAre) {
  std::mt19937_64 random(seed());
  for (int round = 0; round < 300; ++round) {
    TopSample before = first_sample(), now = second_sample();
    std::string hostile(random() % 80, ' ');
    for (char &c : hostile) c = static_cast<char>(random());
    now.shared.participants[0].name = now.segments[0].name = now.shared.latencies[0].site = hostile;
    for (std::uint32_t i = 0; i < random() % 40; ++i)
      now.shared.participants.push_back(participant(i + 2, static_cast<std::int32_t>(i), hostile));
    now.segments[0].map.assign(random() % 400, 'L');
    now.shared.clock = random();
    now.shared.total.commits = random();
    TopLook look{hostile};
    look.columns = 1 + static_cast<std::uint32_t>(random() % 200);
    look.rows = static_cast<std::uint32_t>(random() % 60);
    look.has_keys = random() % 2 == 0;
    const auto lines = top_lines(before, now, look);
    EXPECT_LE(lines.size(), look.rows == 0 ? ~std::size_t{0} : look.rows);
    for (const std::string &line : lines) {
      EXPECT_LE(line.size(), look.columns);
      EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](char c) {
        return c >= ' ' && c <= '~';
      })) << line;
    }
  }
}

TEST(TopView, ManyParticipantsGiveWayToThePages) {
  TopSample now = second_sample();
  for (std::uint32_t i = 2; i < 40; ++i)
    now.shared.participants.push_back(participant(i, 5000, "worker"));
  TopLook look{"shop"};
  look.rows = 24;
  look.has_keys = true;
  const auto lines = top_lines(first_sample(), now, look);
  EXPECT_LE(lines.size(), 24u);
  EXPECT_NE(joined(lines).find("LLLWWN"), std::string::npos) << joined(lines);
  EXPECT_NE(joined(lines).find("participants more"), std::string::npos) << joined(lines);
  EXPECT_NE(lines.back().find("q quit"), std::string::npos);
}

TEST(TopView, RatesAreShort) {
  for (const double rate :
       {0.0, 0.01, 9.94, 9.96, 10.0, 999.4, 999.6, 1e4, 99'949.0, 99'951.0, 1e6, 123456789.0, 1e14})
    EXPECT_LE(tools::rate_text(rate).size(), 5u) << tools::rate_text(rate);
  EXPECT_EQ(tools::rate_text(1'200'000), "1.20M");
  EXPECT_EQ(tools::rate_text(999.6), "1.00k");
}

class ToolTop : public ::testing::Test {
 protected:
  std::string domain() const { return folder_ / "domain"; }
  ProgramEnd top(std::vector<std::string> words = {"--once"}) {
    words.insert(words.begin(), {"top", domain(), "--interval", "0.01"});
    return run_tmh(words);
  }
  MemoryFolder folder_;
};

TEST_F(ToolTop, BatchShowsTheProcessesOfALiveDomainAndJoinsNothing) {
  DomainOptions options;
  options.levels = Levels::kHybrid;
  options.name = "keeper";
  const Domain open = Domain::open(domain(), options);
  const Segment segment = open.map("a.db", raw_pages(64));
  auto &cell = *reinterpret_cast<field<long> *>(segment.data());
  const Site site(open, "small", "never");
  for (int i = 0; i < 100; ++i) atomically(site, [&](Fields) { cell += 1; });
  commit(open, segment, 3);
  in_domain(domain(), {}, Ending::kKilled,
            [](const Domain &d, const Segment &s) { commit(d, s, 5); });
  const ProgramEnd end = top({"--batch", "3"});
  EXPECT_EQ(end.exit_code, 0) << end.err;
  const auto lines = lines_of(end.out);
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const auto &line) { return line.starts_with("tmh top "); }),
            3);
  EXPECT_EQ(end.out.find('\x1b'), std::string::npos) << "plain text";
  EXPECT_NE(line_of(lines, std::to_string(getpid())).find("keeper"), std::string::npos);
  EXPECT_NE(end.out.find("  dead"), std::string::npos) << "the killed one: " << end.out;
  EXPECT_NE(line_of(lines, "hybrid, durability none, lazy detection; 1 participant;"), "");
  EXPECT_NE(line_of(lines, "a.db: 64 pages"), "");
  for (const ParticipantInfo &one : open.participants()) EXPECT_NE(one.name, "tmh");
  EXPECT_EQ(open.counters().line_commits, 100u);
}

TEST_F(ToolTop, AnInstanceThatRunsHasItsPages) {
  DomainOptions options;
  options.levels = Levels::kHybrid;
  const Domain open = Domain::open(domain(), options);
  const Segment segment = open.map("a.db", raw_pages(4));
  atomically(open, [&] {
    word_of(segment, 1) = 1;
    const auto lines = lines_of(top().out);
    (void)line_of(lines, "LW");  // some tracking takes the pages behind it ahead
  });
  EXPECT_EQ(line_of(lines_of(top().out), "L").size(), 4u);
}

TEST_F(ToolTop, WhatIsNotThereOrClosedIsASentence) {
  EXPECT_EQ(top().exit_code, 3);
  EXPECT_NE(top().err.find("no such folder"), std::string::npos) << top().err;
  in_domain(domain(), {}, Ending::kClosed,
            [](const Domain &d, const Segment &s) { commit(d, s, 5); });
  EXPECT_EQ(top().exit_code, 0);
  EXPECT_NE(top().out.find("closed: nobody has the domain open"), std::string::npos);
  in_domain(domain(), {}, Ending::kKilled,
            [](const Domain &d, const Segment &s) { commit(d, s, 5); });
  EXPECT_NE(top().out.find("everybody died"), std::string::npos);
  const ProgramEnd none = run_tmh({"top", domain()});
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_NE(none.err.find("--batch"), std::string::npos)
      << "says what to do without a terminal: " << none.err;
  for (const std::vector<std::string> &words : {std::vector<std::string>{"top"},
                                                {"top", domain(), "--batch", "0"},
                                                {"top", domain(), "--interval", "0"},
                                                {"top", domain(), "--once", "--batch", "2"}})
    EXPECT_EQ(run_tmh(words).exit_code, 64) << words.back();
}

TEST_F(ToolTop, HostileBytesAreASentenceOrAPicture) {
  DomainOptions options = durable_options();
  options.levels = Levels::kHybrid;
  in_domain(domain(), options, Ending::kKilled, [](const Domain &d, const Segment &s) {
    const Site site(d, "small");
    auto &cell = *reinterpret_cast<field<long> *>(s.data());
    for (int i = 0; i < 50; ++i) atomically(site, [&](Fields) { cell += 1; });
    commit(d, s, 50);
  });
  std::mt19937_64 random(seed());
  // Of files that are large and sparse, their beginning.
  constexpr std::size_t kPatchedMax = 1u << 17;
  for (const char *name :
       {"tmh.state", "tmh.participants", "tmh.line.state", "tmh.contexts", "tmh.directory.0",
        "tmh.pages.0", "tmh.latency", "tmh.log.state", "tmh.control"}) {
    const std::string path = domain() + "/" + name;
    const std::uint64_t size = std::filesystem::file_size(path);
    for (int round = 0; round < 6; ++round) {
      // Behind the identity, which would be refused, in every second round.
      const std::size_t from = round % 2 == 0 ? 64 : 0,
                        to = std::min<std::uint64_t>(size, kPatchedMax);
      std::string before(to, '\0');
      const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
      ASSERT_EQ(::pread(fd, before.data(), to, 0), static_cast<ssize_t>(to));
      std::string bytes = before;
      for (int i = 0; i < 2000; ++i)
        bytes[from + random() % (to - from)] = static_cast<char>(random());
      ASSERT_EQ(::pwrite(fd, bytes.data(), to, 0), static_cast<ssize_t>(to));
      const ProgramEnd end = top();
      EXPECT_TRUE(end.exit_code == 0 || end.exit_code == 2 || end.exit_code == 3)
          << name << " " << end.exit_code;
      EXPECT_EQ(end.err.empty(), end.exit_code == 0) << name << ": " << end.err;
      ASSERT_EQ(::pwrite(fd, before.data(), to, 0), static_cast<ssize_t>(to));
      ::close(fd);
    }
    std::filesystem::resize_file(path, size / 3);
    const ProgramEnd end = top();
    EXPECT_TRUE(end.exit_code == 0 || end.exit_code == 2 || end.exit_code == 3)
        << name << " cut: " << end.exit_code;
    std::filesystem::resize_file(path, size);
  }
}

// tmh top in a terminal of its own.
class OnTerminal {
 public:
  OnTerminal(const std::string &domain, unsigned short columns, unsigned short rows) {
    winsize size{rows, columns, 0, 0};
    int slave = -1;
    if (openpty(&master_, &slave, nullptr, nullptr, &size) != 0)
      throw std::runtime_error("openpty");
    (void)tcgetattr(slave, &before_);
    slave_ = slave;
    std::vector<std::string> words{TMH_TOOL, "top", domain, "--interval", "0.02"};
    std::vector<char *> argv;
    for (std::string &word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      (void)login_tty(slave);
      ::close(master_);
      execv(argv[0], argv.data());
      _exit(127);
    }
  }
  ~OnTerminal() {
    if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
    ::close(master_);
    ::close(slave_);
  }
  OnTerminal(const OnTerminal &) = delete;
  OnTerminal &operator=(const OnTerminal &) = delete;

  // Reads until the text has come; what has come since the last one.
  std::string await(const std::string &text) {
    std::string seen;
    const auto give_up = std::chrono::steady_clock::now() + hang_deadline();
    while (seen.find(text) == std::string::npos && std::chrono::steady_clock::now() < give_up) {
      pollfd ready{master_, POLLIN, 0};
      char bytes[4096];
      if (poll(&ready, 1, 100) > 0) {
        const ssize_t got = ::read(master_, bytes, sizeof bytes);
        if (got <= 0) break;
        seen.append(bytes, static_cast<std::size_t>(got));
      }
    }
    EXPECT_NE(seen.find(text), std::string::npos) << "'" << text << "' in " << seen;
    return seen;
  }
  void type(const std::string &keys) {
    ASSERT_EQ(::write(master_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  void signal(int number) { kill(pid_, number); }
  void resize(unsigned short columns, unsigned short rows) {
    winsize size{rows, columns, 0, 0};
    (void)ioctl(master_, TIOCSWINSZ, &size);
  }
  // Exit status; -1: a signal. The terminal is as it was.
  int end() {
    await("\x1b[?1049l");
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    termios now{};
    (void)tcgetattr(slave_, &now);
    EXPECT_EQ(now.c_lflag, before_.c_lflag);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  int master_ = -1, slave_ = -1;
  pid_t pid_ = -1;
  termios before_{};
};

TEST_F(ToolTop, KeysAndSizesOnATerminal) {
  const Domain open = Domain::open(domain());
  const Segment segment = open.map("a.db", raw_pages(64));
  OnTerminal terminal(domain(), 80, 24);
  terminal.await("\x1b[?1049h");
  terminal.await("sort: commits");
  terminal.type("s");
  terminal.await("sort: aborts");
  terminal.type(" ");
  terminal.await("PAUSED");
  terminal.type(" ");
  terminal.await("space pause");
  terminal.resize(30, 8);
  terminal.await("q quit  space pause  s sort: a\x1b");
  terminal.type("q");
  EXPECT_EQ(terminal.end(), 0);
}

TEST_F(ToolTop, SignalsGiveTheTerminalBack) {
  const Domain open = Domain::open(domain());
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    OnTerminal terminal(domain(), 80, 24);
    terminal.await("sort: commits");
    if (number == SIGINT)
      terminal.type("\x03");
    else
      terminal.signal(number);
    EXPECT_EQ(terminal.end(), 0) << number;
  }
}

TEST_F(ToolTop, ADomainThatVanishesIsToldOnTheTerminalThatWas) {
  Domain open = Domain::open(domain());
  OnTerminal terminal(domain(), 80, 24);
  terminal.await("sort: commits");
  open.close();
  terminal.await("closed: nobody has the domain open");
  std::filesystem::remove_all(domain());
  EXPECT_EQ(terminal.end(), 3);
}

}  // namespace
}  // namespace tmh::test
