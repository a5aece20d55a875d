// tests/tools/tool_stat_test.cpp -- tmh stat, policies and completion.
// Invariants: (1) stat's totals are the library's. (2) it joins nothing and changes nothing. (3)
//             every value that an option accepts is listed by policies, and nothing else. (4) bash
//             completes every subcommand and option, and the values of those that have a few.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>

#include "levels/line/capacity.h"
#include "programs/json.h"
#include "storage/participants.h"
#include "tests/support/durable_folder.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tool.h"

namespace tmh::test {
namespace {

using programs::Json;
namespace fs = std::filesystem;

std::vector<std::string> lines_of(const std::string &text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class ToolStat : public ::testing::Test {
 protected:
  std::string domain() const { return folder_ / "domain"; }
  Json stat() {
    const ProgramEnd end = run_tmh({"stat", domain(), "--json"});
    EXPECT_EQ(end.exit_code, 0) << end.err;
    const Json document = Json::parse(end.out);
    expect_valid("stat", document.dump());
    return document;
  }
  MemoryFolder folder_;
};

TEST_F(ToolStat, TotalsAreTheLibrarysAndTheReaderJoinsNothing) {
  const Domain open = Domain::open(domain(), durable_options());
  const Segment segment = open.map("a.db", raw_pages(64));
  commit(open, segment, 30);
  (void)query(open, [&] { return word_of(segment, 1); });
  EXPECT_THROW(atomically(open, [&] { throw std::runtime_error("rolled back"); }),
               std::runtime_error);
  const Json document = stat();
  const Counters counters = open.counters();
  EXPECT_EQ(document.at("open"), true);
  const Json &total = document.at("total");
  EXPECT_EQ(total.at("begins"), counters.begins);
  EXPECT_EQ(total.at("commits"), counters.commits);
  EXPECT_GE(counters.commits, 30u);
  EXPECT_EQ(total.at("queries"), counters.queries);
  EXPECT_EQ(total.at("aborts").at("user"),
            counters.aborts[static_cast<std::size_t>(AbortCause::kUser)]);
  EXPECT_EQ(total.at("aborts").at("user"), 1);
  EXPECT_EQ(total.at("pages_written"), counters.pages_written);
  EXPECT_EQ(total.at("log_bytes"), counters.log_bytes);
  EXPECT_EQ(total.at("log_commits"), counters.log_commits);
  ASSERT_EQ(document.at("participants").size(), 1u) << "the reader is none";
  EXPECT_EQ(document.at("participants")[0].at("pid"), getpid());
  EXPECT_EQ(document.at("participants")[0].at("alive"), true);
  EXPECT_EQ(document.at("participants")[0].at("counters").at("commits"), counters.commits);
  EXPECT_EQ(open.participants().size(), 1u);
}

TEST_F(ToolStat, TotalsOfLevelOneAreTheLibrarys) {
  DomainOptions options;
  options.levels = Levels::kHybrid;
  const Domain open = Domain::open(domain(), options);
  const Segment segment = open.map("a.db", raw_pages(64));
  const Site at_lines(open, "lines", "never"), goes_up(open, "up", "on-capacity");
  const auto add = [&] {
    reinterpret_cast<field<std::uint64_t> &>(word_of(segment, 0)) += std::uint64_t{1};
  };
  for (int i = 0; i < 20; ++i) atomically(at_lines, [&](Fields) { return add(); });
  EXPECT_THROW(atomically(at_lines, [](Fields) { throw std::runtime_error("rolled back"); }),
               std::runtime_error);
  atomically(goes_up, [&](Fields) {
    become_irrevocable();  // not at level 1
    add();
  });
  const Counters counters = open.counters();
  const Json total = stat().at("total");
  EXPECT_EQ(counters.line_commits, 20u);
  EXPECT_EQ(counters.line_aborts[static_cast<std::size_t>(AbortCause::kUser)], 1u);
  EXPECT_EQ(counters.line_aborts[static_cast<std::size_t>(AbortCause::kNeedsPages)], 1u);
  EXPECT_EQ(counters.line_begins, counters.line_commits + counters.line_aborts_total());
  EXPECT_EQ(counters.commits, 1u);
  EXPECT_EQ(counters.escalations_needs_pages, 1u);
  EXPECT_EQ(total.at("line_begins"), counters.line_begins);
  EXPECT_EQ(total.at("line_commits"), counters.line_commits);
  EXPECT_EQ(total.at("line_aborts").at("user"), 1);
  EXPECT_EQ(total.at("escalations_needs_pages"), 1);
  const auto irrevocable = static_cast<std::size_t>(Need::kIrrevocable);
  EXPECT_EQ(counters.escalations_by_need[irrevocable], 1u);
  const Json &needs = total.at("escalations_by_need");
  EXPECT_EQ(needs.size(), kNeedCount);
  EXPECT_EQ(needs.at("become_irrevocable"), 1);
  EXPECT_EQ(needs.at("segment_allocate"), 0);
  const std::string text = run_tmh({"stat", domain()}).out;
  EXPECT_NE(text.find(" 1 escalations_needs_pages\n                   1   "
                      "tmh::become_irrevocable\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("allocate"), std::string::npos) << "what is 0 is left out";
  const std::string csv = run_tmh({"stat", domain(), "--csv"}).out;
  EXPECT_NE(csv.find(",escalations_by_need_become_irrevocable,"), std::string::npos) << csv;
  EXPECT_EQ(total.at("rtm").at("commits"), counters.hardware_commits);
}

// Of a process that has gone, too; and what it did not count itself is not counted for it.
TEST_F(ToolStat, TheNeedsOfProcessesAddUp) {
  DomainOptions options;
  options.levels = Levels::kHybrid;
  options.line = LineChoice::kSoftware;
  const Domain open = Domain::open(domain(), options);
  const auto go_up = [&](const Domain &in, int times) {
    const Site site(in, "up", "on-capacity");
    for (int i = 0; i < times; ++i) atomically(site, [](Fields) { become_irrevocable(); });
  };
  go_up(open, 2);
  for (const Ending ending : {Ending::kClosed, Ending::kKilled})
    in_domain(domain(), options, ending, [&](const Domain &d, const Segment &s) {
      go_up(d, 1);
      const Site site(d, "inside", "on-capacity");
      atomically(site, [&](Fields) { atomically(d, [&] { word_of(s, 1) = 1; }); });
    });
  const Json total = stat().at("total");
  EXPECT_EQ(total.at("escalations_by_need").at("become_irrevocable"), 4);
  EXPECT_EQ(total.at("escalations_by_need").at("atomically_domain"), 2);
  EXPECT_EQ(total.at("escalations_needs_pages"), 6);
}

TEST_F(ToolStat, WhoLeavesTakesNothingAway) {
  const Domain open = Domain::open(domain());
  in_domain(domain(), {}, Ending::kClosed,
            [](const Domain &d, const Segment &s) { commit(d, s, 5); });
  in_domain(domain(), {}, Ending::kKilled,
            [](const Domain &d, const Segment &s) { commit(d, s, 5); });
  EXPECT_EQ(stat().at("total").at("commits"), 10);
  (void)open.collect();
  EXPECT_EQ(stat().at("total").at("commits"), 10);
  EXPECT_EQ(stat().at("total").at("participants_reaped"), 1);
  in_domain(domain(), {}, Ending::kClosed, [](const Domain &d, const Segment &s) {
    commit(d, s, 1);  // in a slot that another one had
    EXPECT_EQ(d.participants().back().counters.commits, 1u);
  });
  EXPECT_EQ(open.counters().commits, 11u);
}

TEST_F(ToolStat, ARunningInstanceIsShown) {
  const Domain open = Domain::open(domain());
  const Segment segment = open.map("a.db", raw_pages(64));
  (void)query(open, [&] {
    const Json one = stat().at("participants")[0];
    EXPECT_GT(one.at("instance_us"), 0);
    EXPECT_EQ(one.at("query"), true);
    return 0;
  });
  EXPECT_EQ(stat().at("participants")[0].at("instance_us"), 0);
}

TEST_F(ToolStat, ClosedAndKilledDomainsAreTold) {
  in_domain(domain(), {}, Ending::kClosed,
            [](const Domain &d, const Segment &s) { commit(d, s, 5); });
  Json document = stat();
  EXPECT_EQ(document.at("open"), false);
  EXPECT_EQ(document.at("shared_memory"), false);
  EXPECT_EQ(document.at("total").at("commits"), 0);
  in_domain(domain(), {}, Ending::kKilled,
            [](const Domain &d, const Segment &s) { commit(d, s, 5); });
  document = stat();
  EXPECT_EQ(document.at("open"), false);
  EXPECT_EQ(document.at("shared_memory"), true);
  EXPECT_GE(document.at("total").at("commits"), 5) << "what it had counted is there";
  EXPECT_EQ(document.at("participants")[0].at("alive"), false);
  EXPECT_NE(run_tmh({"stat", domain()}).out.find("everybody died"), std::string::npos);
}

TEST_F(ToolStat, SamplesAreRowsAndDocuments) {
  const Domain open = Domain::open(domain());
  const Segment segment = open.map("a.db", raw_pages(64));
  commit(open, segment, 3);
  const std::vector<std::string> csv =
      lines_of(run_tmh({"stat", domain(), "0.01", "--count", "3", "--csv"}).out);
  ASSERT_EQ(csv.size(), 4u);
  const auto columns = [](const std::string &line) {
    return std::count(line.begin(), line.end(), ',');
  };
  for (const std::string &line : csv) EXPECT_EQ(columns(line), columns(csv[0])) << line;
  EXPECT_NE(csv[0].find(",aborts_validation,"), std::string::npos) << csv[0];
  const ProgramEnd documents = run_tmh({"stat", domain(), "0.01", "--count", "2", "--json"});
  EXPECT_EQ(lines_of(documents.out).size(), 2u);
  expect_valid("stat", documents.out);
  const std::vector<std::string> text =
      lines_of(run_tmh({"stat", domain(), "0.01", "--count", "2"}).out);
  EXPECT_NE(text.back().find('1'), std::string::npos) << "one participant";
}

TEST_F(ToolStat, NamesThatAreDamagedReachNoTerminal) {
  const Domain open = Domain::open(domain());
  // Red, no UTF-8, e with an accent, half of one.
  const std::string damaged = "\x1b[31m\xff\xc3\xa9\xc3";
  const std::string shown = "\\x1b[31m\\xff\xc3\xa9\\xc3";
  patch_file(domain() + "/tmh.participants", offsetof(storage::Participant, name),
             damaged + std::string(1, '\0'));
  EXPECT_EQ(stat().at("participants").at(0).at("name"), shown);
  EXPECT_NE(run_tmh({"stat", domain()}).out.find("(" + shown + ")"), std::string::npos);
  EXPECT_EQ(
      Json::parse(run_tmh({"info", domain(), "--json"}).out).at("participants").at(0).at("name"),
      shown);
  const std::string top = run_tmh({"top", domain(), "--once", "--interval", "0.01"}).out;
  EXPECT_NE(top.find("\\x1b[31m\\xff"), std::string::npos) << top;
  EXPECT_EQ(top.find('\x1b'), std::string::npos) << top;
}

TEST_F(ToolStat, WhatCannotBeReadIsRefused) {
  const auto code = [&] {
    return Json::parse(run_tmh({"stat", domain(), "--json"}).out).value("error", "");
  };
  EXPECT_EQ(run_tmh({"stat", domain()}).exit_code, 3);
  EXPECT_EQ(code(), "kNotADomain");
  in_domain(domain(), {}, Ending::kKilled,
            [](const Domain &d, const Segment &s) { commit(d, s, 5); });
  const std::string state = domain() + "/tmh.state";
  const std::string whole = read_file(state);
  patch_file(state, 8, std::string(1, 'x'));  // the version
  EXPECT_EQ(code(), "kForeignVersion");
  // Made anew at the next open, so nothing is lost.
  write_file(state, std::string(whole.size(), 'x'));
  EXPECT_EQ(stat().at("shared_memory"), false);
  fs::resize_file(state, 10);
  EXPECT_EQ(stat().at("shared_memory"), false);
  write_file(state, whole);
  fs::resize_file(domain() + "/tmh.participants", 700);
  EXPECT_EQ(stat().at("shared_memory"), true);
  if (geteuid() != 0) {
    fs::permissions(state, fs::perms::none);
    EXPECT_EQ(code(), "kPermission");
  }
  for (const std::vector<std::string> &words : {std::vector<std::string>{"stat", domain(), "0"},
                                                {"stat", domain(), "-1"},
                                                {"stat", domain(), "nan"},
                                                {"stat", domain(), "--count", "3"},
                                                {"stat", domain(), "1", "--json", "--csv"},
                                                {"stat"}})
    EXPECT_EQ(run_tmh(words).exit_code, 64) << words.back();
}

// The spelling tables speak: what is listed parses, and what the messages about wrong values name
// is listed.
TEST(ToolPolicies, ListsWhatTheOptionsAccept) {
  const Json document = Json::parse(run_tmh({"policies", "--json"}).out);
  const Json lab = Json::parse(run_tmh({"policies", "--lab", "--json"}).out);
  std::map<std::string, std::set<std::string>> listed;
  std::map<std::string, unsigned> defaults;
  for (const Json &one : document.at("policies")) {
    const std::string variable = one.at("variable"), value = one.at("value");
    EXPECT_TRUE(listed[variable].insert(value).second) << variable << " " << value;
    defaults[variable] += one.at("default").get<bool>() ? 1u : 0u;
    EXPECT_FALSE(one.at("meaning").get<std::string>().empty()) << value;
  }
  EXPECT_EQ(lab.at("policies").size(), 5U);
  const auto expect_all = [&](const std::string &variable, auto *out, const std::string &values) {
    for (const Json &one : lab.at("policies"))
      if (one.at("variable") == variable) {
        EXPECT_EQ(parse(one.at("value").get<std::string>(), out), Errc::kOk) << one;
        EXPECT_FALSE(one.at("default").get<bool>());
        EXPECT_FALSE(listed[variable].contains(one.at("value"))) << one;
      }
    for (const std::string &value : listed[variable])
      EXPECT_EQ(parse(value, out), Errc::kOk) << variable << " " << value;
    std::string words = values;
    for (char &c : words)
      if (c == ',' || c == ';' || c == ':') c = ' ';
    std::istringstream stream(words);
    std::size_t named = 0;
    for (std::string word; stream >> word;) named += listed[variable].contains(word) ? 1u : 0u;
    EXPECT_GE(named, std::min<std::size_t>(2, listed[variable].size())) << values;
  };
  Detection detection{};
  Tracking tracking{};
  Policy policy;
  Durability durability{};
  GroupCommit group;
  Levels levels{};
  LineChoice line_choice{};
  CrossPolicy cross{};
  Latency latency{};
  ThreadViewUse thread_views{};
  EarlyRelease early_release{};
  PageCache page_cache;
  expect_all("TMH_DETECTION", &detection, detection_values());
  expect_all("TMH_TRACKING", &tracking, tracking_values());
  expect_all("TMH_POLICY", &policy, policy_values());
  expect_all("TMH_DURABILITY", &durability, durability_values());
  expect_all("TMH_LEVELS", &levels, levels_values());
  expect_all("TMH_LINE", &line_choice, line_values());
  expect_all("TMH_CROSS", &cross, cross_policy_values());
  expect_all("TMH_LATENCY", &latency, latency_values());
  expect_all("TMH_THREAD_VIEWS", &thread_views, thread_view_values());
  expect_all("TMH_PAGE_CACHE", &page_cache, page_cache_values());
  expect_all("TMH_EARLY_RELEASE", &early_release, early_release_values());
  for (const std::string &value : listed["TMH_POLICIES"]) {
    Policies policies;
    EXPECT_EQ(parse(value, &policies), Errc::kOk) << value;
  }
  for (const std::string &value : listed["TMH_GROUP_COMMIT"])
    EXPECT_EQ(parse(value, &group), Errc::kOk) << value;
  for (const std::string &value : listed["TMH_ESCALATION"]) {
    Escalation escalation;
    EXPECT_EQ(parse(value, &escalation), Errc::kOk) << value;
  }
  for (const std::string &value : listed["TMH_CAPACITY"]) {
    line::CapacityModel model;
    const Errc error = line::parse(value, &model);
    EXPECT_TRUE(error == Errc::kOk || (value == "l1d" && error == Errc::kBadArgument)) << value;
  }
  for (const auto &[variable, count] : defaults)
    EXPECT_EQ(count, variable == "TMH_POLICY" ? 3u : 1u) << variable;
}

// What bash offers after `words`, the last of which is being typed.
std::set<std::string> completed(const std::vector<std::string> &words, const std::string &folder) {
  std::string script = "cd '" + folder + "'; source <('" TMH_TOOL "' completion); COMP_WORDS=(tmh";
  for (const std::string &word : words) script += " '" + word + "'";
  script += "); COMP_CWORD=" + std::to_string(words.size()) +
            "; _tmh; printf '%s\\n' \"${COMPREPLY[@]}\"";
  const ProgramEnd end = run_program({"/bin/bash", "--norc", "-c", script});
  EXPECT_EQ(end.exit_code, 0) << end.err;
  EXPECT_EQ(end.err, "");
  const auto lines = lines_of(end.out);
  return {lines.begin(), lines.end()};
}

TEST(ToolCompletion, BashCompletesSubcommandsOptionsAndFolders) {
  if (access("/bin/bash", X_OK) != 0) GTEST_SKIP() << "/bin/bash is not there";
  const MemoryFolder folder;
  fs::create_directory(folder / "a shop");
  using Set = std::set<std::string>;
  EXPECT_EQ(completed({"ch"}, folder.path()), (Set{"checkpoint", "check"}));
  EXPECT_EQ(completed({"log", ""}, folder.path()), (Set{"dump", "follow", "verify", "--help"}));
  EXPECT_EQ(completed({"log", "dump", "--p"}, folder.path()), (Set{"--pages"}));
  EXPECT_EQ(completed({"recover", "--until-"}, folder.path()),
            (Set{"--until-lsn", "--until-time"}));
  EXPECT_EQ(completed({"recover", "--logs", ""}, folder.path()), (Set{"a shop"}));
  EXPECT_TRUE(completed({"info", ""}, folder.path()).contains("a shop"));
  EXPECT_EQ(completed({"info", "a shop", "--js"}, folder.path()), (Set{"--json"}));
  // Every subcommand that --help names is offered.
  EXPECT_EQ(completed({"run", "b"}, folder.path()), (Set{"bank"}));
  EXPECT_EQ(completed({"run", "bank", "--domain", ""}, folder.path()), (Set{"a shop"}));
  EXPECT_EQ(completed({"kill-stuck", "--"}, folder.path()),
            (Set{"--help", "--json", "--pid", "--older-than", "--grace", "--kill"}));
  EXPECT_EQ(completed({"run", "bank", "--processes", ""}, folder.path()), (Set{""})) << "a number";
  const Set offered = completed({""}, folder.path());
  const std::string help = run_tmh({"--help"}).out;
  std::size_t named = 0;
  for (const std::string &line : lines_of(help.substr(help.find("Subcommands:") + 13))) {
    if (!line.starts_with("  ") || line[2] == ' ') break;
    EXPECT_TRUE(offered.contains(line.substr(2, line.find(' ', 2) - 2))) << line;
    ++named;
  }
  EXPECT_GE(named, 11u);
}

// What is offered is what the option accepts: each value is tried.
TEST(ToolCompletion, BashCompletesValues) {
  if (access("/bin/bash", X_OK) != 0) GTEST_SKIP() << "/bin/bash is not there";
  const MemoryFolder folder;
  using Set = std::set<std::string>;
  const auto values = [&](const std::string &option, const std::string &word) {
    return completed({"run", "bank", option, word}, folder.path());
  };
  EXPECT_EQ(values("--level", ""), (Set{"line", "page", "hybrid"}));
  EXPECT_EQ(values("--durability", ""), (Set{"none", "buffered", "strict"}));
  EXPECT_EQ(values("--escalation", ""),
            (Set{"never", "always", "on-capacity", "after-n", "after-wasted-time", "adaptive"}));
  EXPECT_EQ(
      values("--conflict", ""),
      (Set{"self-abort", "oldest-wins", "selfish-abort", "youngest-wins", "keep-age", "fresh-age",
           "backoff=none", "backoff=exponential", "backoff=adaptive", "isolation=serializable",
           "isolation=snapshot", "page-cache=adaptive", "page-cache=all", "page-cache=scan"}));
  EXPECT_EQ(values("--conflict", "oldest-wins,f"), (Set{"oldest-wins,fresh-age"}));
  EXPECT_EQ(values("--cross", "re"), (Set{"recall-and-wait"}));
  EXPECT_EQ(values("--capacity", ""), (Set{"unlimited", "l1d"}));
  for (const char *option :
       {"--line-mode", "--group-commit", "--tracking", "--detection", "--thread-views"})
    EXPECT_FALSE(values(option, "").contains("")) << option;
  // bash gives three words where "=" is typed, and puts in the third.
  EXPECT_EQ(completed({"run", "bank", "--level", "=", "hy"}, folder.path()), (Set{"hybrid"}));
  EXPECT_EQ(completed({"run", "bank", "--level", "="}, folder.path()),
            (Set{"line", "page", "hybrid"}));
  EXPECT_EQ(completed({"run", "bank", "--conflict", "keep-age,backoff", "=", "ex"}, folder.path()),
            (Set{"exponential"}));
  for (const char *option :
       {"--level", "--durability", "--conflict", "--escalation", "--cross", "--tracking"}) {
    for (const std::string &value : values(option, ""))
      EXPECT_NE(run_tmh({"run", "bank", option, value, "--operations", "1"}).exit_code, 64)
          << option << ' ' << value;
  }
}

}  // namespace
}  // namespace tmh::test
