// tests/tools/tool_perf_test.cpp -- tmh perf as a program.
// Invariants: (1) the exit status is the program's, as a shell tells it. (2) the program's own
//             output is not touched; the report is on standard error or in the file. (3) an event
//             that cannot be counted is named with its cause and changes nothing else. (4) it does
//             not leave the program behind when it is told to end.
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "programs/json.h"
#include "tests/support/children.h"
#include "tests/support/program.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tool.h"

namespace tmh::test {
namespace {

using programs::Json;
using Words = std::vector<std::string>;

ProgramEnd perf(Words words) {
  words.insert(words.begin(), {TMH_TOOL, "perf"});
  ProgramEnd end = run_program(words);
  EXPECT_FALSE(end.hung);
  EXPECT_EQ(end.signal, 0) << end.err;
  return end;
}

Json event_of(const Json &document, const std::string &name) {
  for (const Json &event : document.at("events"))
    if (event.at("event") == name) return event;
  return {};
}

TEST(ToolPerf, CountsAProgramAndKeepsItsOutputApart) {
  const ProgramEnd end = perf({"-e", "page-faults,context-switches", "-e", "task-clock", "--json",
                               "--", "echo", "-n", "hello"});
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_EQ(end.out, "hello");
  const Json document = Json::parse(end.err, Json::IfBroken::kDiscard);
  ASSERT_TRUE(document.is_object()) << end.err;
  EXPECT_EQ(document["document"], "tmh-perf-1");
  EXPECT_EQ(document["program"], (Json{"echo", "-n", "hello"}));
  EXPECT_EQ(document["events"].size(), 3u);
  const Json faults = event_of(document, "page-faults");
  if (!faults.contains("missing")) {
    EXPECT_GT(faults["value"], 0);
  }
}

TEST(ToolPerf, CountsDescendantsToo) {
  const auto faults = [](const std::string &script) {
    const ProgramEnd end = perf({"-e", "page-faults", "--json", "--", "sh", "-c", script});
    return event_of(Json::parse(end.err, Json::IfBroken::kDiscard), "page-faults");
  };
  const Json alone = faults("true"),
             with_children = faults("cat /dev/null; cat /dev/null; cat /dev/null; true");
  if (alone.contains("missing")) GTEST_SKIP() << alone["missing"];
  EXPECT_GT(with_children["value"].get<int>(), alone["value"].get<int>() + 100);
}

TEST(ToolPerf, ExitStatusIsTheProgramsAsAShellTellsIt) {
  EXPECT_EQ(perf({"--", "false"}).exit_code, 1);
  EXPECT_EQ(perf({"--", "sh", "-c", "exit 42"}).exit_code, 42);
  EXPECT_EQ(run_program({"/usr/bin/env", "--ignore-signal=CHLD", TMH_TOOL, "perf", "--", "false"})
                .exit_code,
            1);
  const ProgramEnd killed = perf({"--", "sh", "-c", "kill -9 $$"});
  EXPECT_EQ(killed.exit_code, 128 + 9);
  EXPECT_NE(killed.err.find("killed by signal 9"), std::string::npos) << killed.err;
  const ProgramEnd missing = perf({"--", "/no/such/program"});
  EXPECT_EQ(missing.exit_code, 127);
  EXPECT_EQ(missing.err, "tmh: /no/such/program: No such file or directory (exit code 127)\n");
  const TempFolder folder;
  EXPECT_EQ(perf({"--", folder / "."}).exit_code, 126);
}

TEST(ToolPerf, WhatEndsItEndsTheProgramAndIsReported) {
  for (const int signal : {SIGTERM, SIGHUP}) {
    const TempFolder folder;
    const std::string pid_file = folder / "pid";
    Children children;
    const std::size_t child = children.spawn("tmh perf", [&] {
      // Read when it is whole: it is renamed then.
      const std::string script = "echo $$ > " + pid_file + ".new && mv " + pid_file + ".new " +
                                 pid_file + " && exec sleep 1000";
      become_tmh({"perf", "-o", folder / "report", "--", "sh", "-c", script}, folder / "out");
    });
    pid_t program = 0;
    ASSERT_TRUE(poll_until([&] { return static_cast<bool>(std::ifstream(pid_file) >> program); }));
    children.kill(child, signal);
    EXPECT_EQ(children.wait(child).exit_code, 128 + signal);
    EXPECT_EQ(::kill(program, 0), -1) << "it still runs";
    std::stringstream report;
    report << std::ifstream(folder / "report").rdbuf();
    EXPECT_NE(report.str().find("killed by signal " + std::to_string(signal)), std::string::npos)
        << report.str();
    if (::kill(program, 0) == 0) (void)::kill(program, SIGKILL);
  }
}

TEST(ToolPerf, WhatCannotBeCountedIsNamedAndTheRunGoesOn) {
  const ProgramEnd end = perf({"-e", "no-such-event,page-faults", "--", "true"});
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_NE(end.err.find("not counted: no-such-event\n    cause: libpfm4 knows no such event"),
            std::string::npos)
      << end.err;
}

TEST(ToolPerf, EveryEventOfTheSetsHasAValueOrACause) {
  const Json document = Json::parse(perf({"--json", "--", "true"}).err, Json::IfBroken::kDiscard);
  ASSERT_TRUE(document.is_object());
  EXPECT_EQ(document["events"].size(), 26u);
  for (const Json &event : document["events"])
    EXPECT_NE(event.contains("value"), event.contains("missing")) << event;
}

TEST(ToolPerf, WritesCsvToAFile) {
  const TempFolder folder;
  const ProgramEnd end =
      perf({"--csv", "-o", folder / "report", "-e", "page-faults,no-such-event", "--", "true"});
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_EQ(end.err, "");
  std::ifstream file(folder / "report");
  std::string line;
  std::vector<std::string> lines;
  while (std::getline(file, line)) lines.push_back(line);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "event,group,value,counted,enabled_ns,running_ns,scaled,user_only,missing");
  EXPECT_EQ(lines[1].substr(0, 16), "\"page-faults\",0,");
  EXPECT_EQ(lines[2].substr(0, 33), "\"no-such-event\",0,,,,,,,\"libpfm4 ");
}

TEST(ToolPerf, WrongCommandLinesAreRefused) {
  for (const Words &words : {Words{},
                             {"--"},
                             {"-e", "cycles"},
                             {"-e", "", "--", "true"},
                             {"-e", "cycles,rtm", "--", "true"},
                             {"--json", "--csv", "--", "true"},
                             {"--encodings", "--", "true"},
                             {"--no-such-option", "--", "true"}}) {
    const ProgramEnd end = perf(words);
    EXPECT_EQ(end.exit_code, 64) << testing::PrintToString(words) << end.err;
    EXPECT_NE(end.err, "");
  }
  const ProgramEnd end =
      perf({"-o", "/no/such/folder/report", "--", "touch", "/no/such/folder/ran"});
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_NE(end.err.find("/no/such/folder/report"), std::string::npos) << end.err;
}

TEST(ToolPerf, EncodingsOfNineProcessorsArePrinted) {
  const Json document = Json::parse(perf({"--encodings", "--json"}).out, Json::IfBroken::kDiscard);
  ASSERT_TRUE(document.is_object());
  ASSERT_EQ(document["processors"].size(), 9u);
  for (const Json &processor : document["processors"]) {
    EXPECT_EQ(event_of(processor, "rtm-commit")["config"], "0x2c9");
    EXPECT_FALSE(processor["source"].get<std::string>().empty());
  }
  const ProgramEnd table = perf({"--encodings"});
  for (const char *name :
       {"hsw", "bdw", "skl", "clx", "icl", "icx", "spr", "emr", "gnr", "tx-capacity-read"})
    EXPECT_NE(table.out.find(name), std::string::npos) << name;
  EXPECT_NE(perf({"--encodings", "--csv"}).out.find("\ngnr,load-walks,0xe12,"), std::string::npos);
}

}  // namespace
}  // namespace tmh::test
