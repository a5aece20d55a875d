// tests/tools/tool_test.cpp -- the tmh command on good domains, and on requests that it must
// refuse.
// Invariants: (1) exit codes are those of tools/exit_code.h. (2) an error is one line on standard
//             error that names the Errc and the exit code. (3) --json always prints documents that
//             parse. (4) info, log dump and log verify change nothing.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <tmh/tmh.hpp>

#include "programs/json.h"
#include "tests/support/durable_folder.h"
#include "tests/support/program.h"
#include "tests/support/temp_folder.h"
#include "tools/failure.h"
#include "tools/moment.h"

namespace tmh::test {
namespace {

using programs::Json;
using Words = std::vector<std::string>;

class Tool : public ::testing::Test {
 protected:
  static ProgramEnd tmh(Words words) {
    words.insert(words.begin(), TMH_TOOL);
    ProgramEnd end = run_program(words);
    EXPECT_FALSE(end.hung) << words[1];
    EXPECT_EQ(end.signal, 0) << words[1] << ": " << end.err;
    return end;
  }
  static Json tmh_json(Words words) {
    words.emplace_back("--json");
    const ProgramEnd end = tmh(words);
    EXPECT_EQ(end.exit_code, 0) << end.err;
    return Json::parse(end.out, Json::IfBroken::kDiscard);
  }
  static void expect_refused(const Words &words, const std::string &errc, int exit_code) {
    const ProgramEnd plain = tmh(words);
    EXPECT_EQ(plain.exit_code, exit_code) << words[0] << ": " << plain.err;
    EXPECT_NE(plain.err.find("(" + errc + ", exit code " + std::to_string(exit_code) + ")\n"),
              std::string::npos)
        << words[0] << ": " << plain.err;
    EXPECT_EQ(std::count(plain.err.begin(), plain.err.end(), '\n'), 1) << plain.err;
    Words with_json = words;
    with_json.emplace_back("--json");
    const ProgramEnd machine = tmh(with_json);
    EXPECT_EQ(machine.exit_code, exit_code);
    EXPECT_EQ(Json::parse(machine.out, Json::IfBroken::kDiscard).value("error", ""), errc)
        << machine.out;
  }
  // All but the folder given by `domain`.
  Words to_command(const std::string &name, const std::string &domain) const {
    if (name == "log dump" || name == "log verify") return {"log", name.substr(4), domain};
    if (name == "archive" || name == "backup" || name == "copy")
      return {name, domain, folder_ / "to"};
    return {name, domain};
  }
  std::string domain() const { return folder_ / "domain"; }

  MemoryFolder folder_;
};

const std::vector<std::string> kAll = {"recover", "checkpoint", "archive",    "backup",
                                       "copy",    "log dump",   "log verify", "info",
                                       "check",   "stat",       "locks"};

std::vector<Json> lines_of(const std::string &text) {
  std::vector<Json> documents;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) documents.push_back(Json::parse(line));
  return documents;
}

std::map<std::string, std::string> content_of(const std::string &folder) {
  std::map<std::string, std::string> files;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files[entry.path()] = read_file(entry.path());
  return files;
}

TEST(ToolText, EveryErrcHasItsOwnName) {
  std::set<std::string> names;
  for (int code = 0; code <= static_cast<int>(Errc::kNotLocked); ++code) {
    const std::string name = tools::errc_name(static_cast<Errc>(code));
    EXPECT_EQ(name[0], 'k') << code;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_STREQ(tools::errc_name(static_cast<Errc>(static_cast<int>(Errc::kNotLocked) + 1)),
               "unknown");
}

TEST(ToolText, MomentsAreSecondsOrLocalTime) {
  setenv("TZ", "UTC", 1);
  tzset();
  constexpr std::uint64_t kSecond = 1'000'000'000;
  EXPECT_EQ(tools::parse_moment("0"), 0u);
  EXPECT_EQ(tools::parse_moment("1732193280"), 1732193280 * kSecond);
  EXPECT_EQ(tools::parse_moment("1732193280.25"), 1732193280 * kSecond + kSecond / 4);
  EXPECT_EQ(tools::parse_moment("1732193280.000000001"), 1732193280 * kSecond + 1);
  EXPECT_EQ(tools::parse_moment("2024-11-21 12:48:00"), 1732193280 * kSecond);
  EXPECT_EQ(tools::parse_moment("2024-11-21T12:48:00.5"), 1732193280 * kSecond + kSecond / 2);
  EXPECT_EQ(tools::parse_moment("2024-02-29 00:00:00"), 1709164800 * kSecond);
  for (const char *wrong : {"",
                            ".",
                            "1.",
                            ".5",
                            "-1",
                            "+1",
                            "1e9",
                            "1.0000000001",
                            "18446744074",
                            "2024-11-21",
                            "now",
                            "2024-11-31 12:00:00",
                            "2023-02-29 00:00:00",
                            "2024-13-01 00:00:00",
                            "2024-11-21 24:00:00",
                            "2024-11-21 12:60:00",
                            "2024-11-21 12:48:60",
                            "24-11-21 12:48:00",
                            "2024-11-21 12:48:00Z",
                            "2024-11-21  12:48:00",
                            "1960-01-01 00:00:00",
                            "2024-11-21 12:48:0x",
                            "2024/11/21 12:48:00"})
    EXPECT_EQ(tools::parse_moment(wrong), std::nullopt) << '"' << wrong << '"';
  EXPECT_EQ(tools::moment_text(1732193280 * kSecond + 1000), "2024-11-21 12:48:00.000001");
  EXPECT_EQ(tools::moment_text(0), "-");
  const auto latest = ~std::uint64_t{0};
  EXPECT_EQ(tools::moment_text(latest).substr(0, 4), "2554");
}

TEST(ToolText, SizesAndDurationsKeepThreeDigits) {
  EXPECT_EQ(tools::bytes_text(0), "0 B");
  EXPECT_EQ(tools::bytes_text(1023), "1023 B");
  EXPECT_EQ(tools::bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(tools::bytes_text((1u << 20) - 1), "1.0 MiB");
  EXPECT_EQ(tools::bytes_text(~0ull), "16.0 EiB");
  EXPECT_EQ(tools::duration_text(999), "999 us");
  EXPECT_EQ(tools::duration_text(1500), "1.5 ms");
  EXPECT_EQ(tools::duration_text(999'990), "1.00 s");
  EXPECT_EQ(tools::counted(1, "page"), "1 page");
  EXPECT_EQ(tools::counted(0, "page"), "0 pages");
}

TEST_F(Tool, WrongCommandLinesEndWith64) {
  const std::vector<Words> wrong = {{},
                                    {"unknown"},
                                    {"recover"},
                                    {"checkpoint"},
                                    {"archive", domain()},
                                    {"backup", domain()},
                                    {"copy", domain()},
                                    {"log"},
                                    {"log", "unknown", domain()},
                                    {"log", "dump"},
                                    {"info"},
                                    {"info", domain(), "more"},
                                    {"info", domain(), "--unknown"},
                                    {"log", "dump", domain(), "--from", "first"},
                                    {"log", "dump", domain(), "--from", "-1"},
                                    {"recover", domain(), "--threads", "-1"},
                                    {"recover", domain(), "--until-lsn", "99999999999999999999"},
                                    {"recover", domain(), "--until-time", "yesterday"},
                                    {"recover", domain(), "--until-lsn", "1", "--until-time", "1"}};
  for (const Words &words : wrong) {
    const ProgramEnd end = tmh(words);
    EXPECT_EQ(end.exit_code, 64) << ::testing::PrintToString(words);
    EXPECT_FALSE(end.err.empty()) << ::testing::PrintToString(words);
  }
  EXPECT_FALSE(std::filesystem::exists(domain()));
}

TEST_F(Tool, AWordThatIsNotKnownIsNamed) {
  for (const Words &words :
       std::vector<Words>{{"unknown"}, {"log", "unknown"}, {"stat", "--unknown"}})
    EXPECT_NE(tmh(words).err.find("unknown"), std::string::npos) << ::testing::PrintToString(words);
  EXPECT_NE(tmh({}).err.find("subcommand is required"), std::string::npos);
}

TEST_F(Tool, NamesOfSegmentsDoNothingToTheTerminal) {
  {
    const Domain opened = Domain::open(domain());
    (void)opened.map("\x1b[31m\nred.db");
  }
  for (const char *command : {"info", "check"}) {
    const ProgramEnd end = tmh({command, domain()});
    EXPECT_EQ(end.out.find('\x1b'), std::string::npos) << end.out;
    EXPECT_NE(end.out.find("\\x1b[31m\\x0ared.db"), std::string::npos) << end.out;
  }
  EXPECT_EQ(tmh_json({"info", domain()})["segments"][0]["name"], "\x1b[31m\nred.db");
}

TEST_F(Tool, NamesInChangesProblemsAndErrorsDoNothingToTheTerminalEither) {
  {
    const Domain opened = Domain::open(domain(), durable_options());
    const Segment segment = opened.map("\x1b[31m\nred.db", raw_pages(64));
    commit(opened, segment, 1);
  }
  std::filesystem::remove(domain() + "/\x1b[31m\nred.db");
  for (const Words &words : {Words{"log", "dump", domain(), "--from", "0", "--pages"},
                             {"info", domain()},
                             {"check", domain()},
                             {"recover", domain()},
                             {"checkpoint", domain()}}) {
    const ProgramEnd end = tmh(words);
    EXPECT_EQ((end.out + end.err).find('\x1b'), std::string::npos) << end.out << end.err;
    EXPECT_NE((end.out + end.err).find("\\x1b[31m\\x0ared.db"), std::string::npos)
        << end.out << end.err;
  }
}

TEST_F(Tool, HelpHasAnExampleAndTheExitCodes) {
  for (const std::string &name : kAll) {
    Words words = to_command(name, domain());
    words.emplace_back("--help");
    const ProgramEnd end = tmh(words);
    EXPECT_EQ(end.exit_code, 0) << name;
    EXPECT_NE(end.out.find("Example: tmh " + name), std::string::npos) << name << end.out;
    EXPECT_NE(end.out.find("Exit code: 0"), std::string::npos) << name;
  }
  const std::string perf = tmh({"perf", "--help"}).out;
  EXPECT_NE(perf.find("Exit code: PROGRAM's own; 128 + N"), std::string::npos) << perf;
  EXPECT_EQ(tmh({"--help"}).exit_code, 0);
  EXPECT_EQ(tmh({"--version"}).out.substr(0, 6), "tmh 0.");
}

TEST_F(Tool, WhatIsNoDomainIsRefusedAndNothingIsMade) {
  for (const std::string &name : kAll) {
    expect_refused(to_command(name, domain()), "kNotADomain", 3);
    expect_refused(to_command(name, folder_.path()), "kNotADomain", 3);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(Tool, AVolatileDomainIsLookedAtAndNothingElse) {
  in_domain(domain(), DomainOptions{}, Ending::kClosed, [](const Domain &, const Segment &) {});
  for (const std::string &name : kAll) {
    if (name != "info" && name != "check" && name != "stat" && name != "locks")
      expect_refused(to_command(name, domain()), "kNotDurable", 3);
    // Who is refused has not opened it, or it would look as if everybody in it had died.
    EXPECT_FALSE(std::filesystem::exists(domain() + "/tmh.state")) << name;
  }
  const Json info = tmh_json({"info", domain()});
  EXPECT_EQ(info["durability"], "none");
  EXPECT_EQ(info["segments"][0]["name"], "a.db");
  EXPECT_FALSE(info.contains("log"));
}

TEST_F(Tool, InfoOfAnOpenHybridDomainCountsRtm) {
  DomainOptions options;
  options.levels = Levels::kHybrid;
  const Domain open = Domain::open(domain(), options);
  SegmentOptions raw;
  raw.layout = Layout::kRaw;
  raw.size_bytes = kPageBytes;
  const Segment segment = open.map("a.db", raw);
  const Site site(open, "plain");
  for (int i = 0; i < 1000; ++i) atomically(site, [&] { ++word_of(segment, 0); });
  const Json info = tmh_json({"info", domain()});
  EXPECT_EQ(info["hardware"]["pages_opened"], open.counters().hardware_opened);
  EXPECT_EQ(info["hardware"]["commits"], open.counters().hardware_commits);
  const bool is_shown = tmh({"info", domain()}).out.find("pages_opened") != std::string::npos;
  EXPECT_EQ(is_shown, open.counters().hardware_opened > 0) << "RTM is used here, or it is not";
}

TEST_F(Tool, ReadingChangesNothing) {
  in_domain(domain(), durable_options(), Ending::kKilled,
            [](const Domain &d, const Segment &s) { commit(d, s, 100); });
  const auto before = content_of(domain());
  for (const char *name : {"log dump", "log verify", "info", "check", "stat"})
    EXPECT_EQ(tmh(to_command(name, domain())).exit_code, 0);
  EXPECT_TRUE(content_of(domain()) == before);
}

TEST_F(Tool, DumpHasALinePerTransaction) {
  in_domain(domain(), durable_options(), Ending::kKilled, [](const Domain &d, const Segment &s) {
    commit(d, s, 10);
    atomically(d, [&] {  // in parts: more than one record holds
      for (std::uint64_t page = 0; page < 64; ++page)
        for (std::uint64_t i = 0; i < 512; ++i) word_of(s, page, i) = page * i + 1000;
    });
    atomically(d, [&] {
      word_of(s, 5, 8) = 1;
      word_of(s, 5, 24) = word_of(s, 5, 25) = 2;
    });
  });
  const ProgramEnd end = tmh({"log", "dump", domain(), "--json", "--pages"});
  ASSERT_EQ(end.exit_code, 0) << end.err;
  const std::vector<Json> lines = lines_of(end.out);
  ASSERT_EQ(lines.size(), 14u);  // the generation opens, 12 transactions, the end
  EXPECT_EQ(lines.front()["type"], "open");
  for (std::size_t i = 1; i <= 12; ++i) {
    EXPECT_EQ(lines[i]["type"], "transaction");
    EXPECT_EQ(lines[i]["stamp"], lines[1]["stamp"].get<std::uint64_t>() + i - 1);
    EXPECT_EQ(lines[i]["changes"].size(), lines[i]["pages"]);
    EXPECT_GT(lines[i]["time_ns"], 1'600'000'000'000'000'000u);
    if (i > 1) {
      EXPECT_GE(lines[i]["lsn"], lines[i - 1]["end"]);
    }
  }
  EXPECT_EQ(lines[11]["pages"], 64);
  EXPECT_GT(lines[11]["records"], 1);
  EXPECT_EQ(lines[12]["changes"][0],
            Json::parse(R"({"segment":0,"name":"a.db","page":5,"lines":"1,3","words":3})"));
  EXPECT_EQ(lines.back()["state"], "clean");
  EXPECT_EQ(lines.back()["lsn"], lines[12]["end"]);
  // The same as text, and its last two transactions alone.
  const std::string text = tmh({"log", "dump", domain()}).out;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 15);
  const auto from = std::to_string(lines[11]["lsn"].get<std::uint64_t>());
  EXPECT_EQ(lines_of(tmh({"log", "dump", domain(), "--from", from, "--json"}).out).size(), 3u);
  EXPECT_NE(tmh({"log", "dump", domain(), "--pages"}).out.find("page 5, lines 1,3: 3 words"),
            std::string::npos);
}

TEST_F(Tool, DumpReadsFromWhereverThereAreFiles) {
  in_domain(domain(), durable_options(), Ending::kClosed,
            [](const Domain &d, const Segment &s) { commit(d, s, 10); });
  EXPECT_EQ(lines_of(tmh({"log", "dump", domain(), "--json"}).out).size(), 1u)
      << "the checkpoint is behind everything";
  EXPECT_EQ(lines_of(tmh({"log", "dump", domain(), "--from", "0", "--json"}).out).size(), 12u);
  // Whoever has read up to the end asks for what is new; behind it there is nothing, and there
  // never was.
  const std::uint64_t end = lines_of(tmh({"log", "dump", domain(), "--json"}).out).back()["lsn"];
  EXPECT_EQ(
      lines_of(tmh({"log", "dump", domain(), "--from", std::to_string(end), "--json"}).out).size(),
      1u);
  for (const std::string &beyond : {std::to_string(end + 1), std::string("18446744073709551615")})
    expect_refused({"log", "dump", domain(), "--from", beyond}, "kBadArgument", 3);
  for (const auto &entry : std::filesystem::directory_iterator(domain()))
    if (entry.path().filename().string().starts_with("tmh.log.0"))
      std::filesystem::remove(entry.path());
  expect_refused({"log", "dump", domain(), "--from", "0"}, "kBadArgument", 3);
}

TEST_F(Tool, ZerosInFrontOfANumberMakeItNoOctalOne) {
  const std::string base = folder_ / "base";
  in_domain(domain(), durable_options(), Ending::kKilled, [&](const Domain &d, const Segment &s) {
    d.backup(base);
    commit(d, s, 100);
  });
  const std::vector<Json> lines = lines_of(tmh({"log", "dump", domain(), "--json"}).out);
  const auto in_octal = [](std::uint64_t lsn) {  // digits that would do
    return std::to_string(lsn).find_first_of("89") == std::string::npos;
  };
  const auto wanted = std::find_if(lines.begin() + 1, lines.end(), [&](const Json &line) {
    return in_octal(line.value("end", std::uint64_t{8}));
  });
  ASSERT_NE(wanted, lines.end());
  const std::string lsn = "000" + std::to_string((*wanted)["end"].get<std::uint64_t>());
  EXPECT_EQ(tmh_json({"recover", base, "--logs", domain(), "--until-lsn", lsn})["last_stamp"],
            (*wanted)["stamp"]);
  EXPECT_EQ(tmh({"log", "dump", domain(), "--from", "0"}).exit_code, 0);
  for (const Words &words :
       {Words{"recover", domain(), "--threads", "0x1"}, {"recover", domain(), "--threads", "+1"}})
    EXPECT_EQ(tmh(words).exit_code, 64) << ::testing::PrintToString(words);
}

TEST_F(Tool, RecoverReplaysAndReports) {
  in_domain(domain(), durable_options(), Ending::kPowerCut,
            [](const Domain &d, const Segment &s) { commit(d, s, 100); });
  const Json report = tmh_json({"recover", domain()});
  EXPECT_EQ(report["transactions"], 100);
  EXPECT_EQ(report["tail_was_torn"], false);
  EXPECT_EQ(tmh_json({"recover", domain(), "--threads", "1"})["transactions"], 0)
      << "again: nothing left to do";
  EXPECT_EQ(tmh_json({"info", domain()})["open"], false);
  in_domain(domain(), {}, Ending::kClosed,
            [](const Domain &d, const Segment &s) { EXPECT_EQ(read_word(d, s, 36), 100u); });
  EXPECT_NE(tmh({"recover", domain()}).out.find("was closed cleanly"), std::string::npos);
}

// What recover has put in order is no news to the commands that open the domain next.
TEST_F(Tool, OnlyADomainThatRecoversIsSaidNotToHaveBeenClosed) {
  const std::string killed = folder_ / "killed";
  for (const std::string &folder : {domain(), killed})
    in_domain(folder, durable_options(), Ending::kPowerCut,
              [](const Domain &d, const Segment &s) { commit(d, s, 10); });
  EXPECT_EQ(tmh({"recover", domain()}).exit_code, 0);
  EXPECT_NE(tmh({"recover", domain()}).out.find(domain() + ": nothing to replay\n"),
            std::string::npos);
  const ProgramEnd end = tmh({"backup", domain(), folder_ / "backup"});
  EXPECT_EQ(end.exit_code, 0) << end.err;
  EXPECT_EQ(end.out.find("cleanly"), std::string::npos) << end.out;
  EXPECT_EQ(tmh({"backup", killed, folder_ / "another"})
                .out.find(killed + ": was not closed cleanly; 10 transactions replayed first\n"),
            0U);
}

// A detail that is a sentence is not followed by the code's own words for the same.
TEST_F(Tool, AnErrorIsToldOnce) {
  in_domain(domain(), durable_options(), Ending::kClosed,
            [](const Domain &d, const Segment &s) { commit(d, s, 1); });
  const std::string none = folder_ / "none", file = folder_ / "file", empty = folder_ / "empty";
  write_file(file, "x");
  std::filesystem::create_directory(empty);
  { const Domain volatile_one = Domain::open(folder_ / "volatile"); }
  const std::vector<std::pair<Words, std::string>> told = {
      {{"recover", none}, none + ": no such folder (kNotADomain, exit code 3)"},
      {{"info", none}, none + ": no such folder (kNotADomain, exit code 3)"},
      {{"recover", file}, file + " is no folder (kNotADomain, exit code 3)"},
      {{"check", empty},
       empty + " is no domain: it holds no tmh.control (kNotADomain, exit code 3)"},
      {{"log", "dump", folder_ / "volatile"},
       folder_ / "volatile" + " is volatile: it has no log (kNotDurable, exit code 3)"},
      {{"backup", domain(), empty}, empty + " exists (kBadArgument, exit code 3)"},
      {{"archive", domain(), file}, file + " is no folder (kBadArgument, exit code 3)"},
      {{"log", "dump", domain(), "--logs", none},
       none + ": No such file or directory (kIo, exit code 3)"},
      {{"run", "bank", "--domain", folder_ / "volatile", "--durability", "strict"},
       "the domain's durability is none (kDurabilityMismatch, exit code 3)"},
      {{"rtm-emulate", "--", none}, none + ": No such file or directory (kIo, exit code 3)"},
  };
  for (const auto &[words, line] : told) {
    const ProgramEnd end = tmh(words);
    if (words[0] == "rtm-emulate" && end.err.find("kRtmUnavailable") != std::string::npos) continue;
    EXPECT_EQ(end.err, "tmh: " + line + "\n") << ::testing::PrintToString(words);
  }
  const ProgramEnd end = tmh({"recover", none, "--json"});
  EXPECT_EQ(Json::parse(end.out, Json::IfBroken::kDiscard).value("message", ""),
            none + ": no such folder");
}

// A backup made before, the log files from then on, and a moment in between.
TEST_F(Tool, RecoverStopsAtAnLsnOrATime) {
  const std::string base = folder_ / "base", other = folder_ / "other";
  in_domain(domain(), durable_options(), Ending::kPowerCut, [&](const Domain &d, const Segment &s) {
    d.backup(base);
    commit(d, s, 100);
  });
  std::filesystem::copy(base, other);
  const std::vector<Json> lines = lines_of(tmh({"log", "dump", domain(), "--json"}).out);
  ASSERT_EQ(lines.size(), 101u);  // the backup's checkpoint lies in front of them
  const Json &fortieth = lines[39];
  const auto number = [](const Json &value) { return std::to_string(value.get<std::uint64_t>()); };
  const Words at_lsn = {"recover", base,          "--logs",
                        domain(),  "--until-lsn", number(fortieth["end"])};
  EXPECT_EQ(tmh_json(at_lsn)["transactions"], 40);
  in_domain(base, {}, Ending::kClosed, [](const Domain &d, const Segment &s) {
    EXPECT_EQ(read_word(d, s, 40), 40u);
    EXPECT_EQ(read_word(d, s, 41), 0u);
  });
  const std::string time = number(fortieth["time_ns"]);
  const std::string seconds = time.substr(0, time.size() - 9) + "." + time.substr(time.size() - 9);
  expect_refused({"recover", other, "--until-lsn", "4095"}, "kBadArgument", 3);
  expect_refused({"recover", other, "--logs", folder_ / "nowhere"}, "kIo", 3);
  EXPECT_EQ(
      tmh_json({"recover", other, "--logs", domain(), "--until-time", seconds})["transactions"],
      40);
}

// Their own data files may hold all that their log does; a copy made before does not.
TEST_F(Tool, RecoverRefusesEarlierMomentsOfWhatWasNotClosed) {
  for (const Ending ending : {Ending::kKilled, Ending::kPowerCut}) {
    const std::string live = folder_ / (ending == Ending::kKilled ? "killed" : "cut"),
                      base = live + ".base";
    in_domain(live, durable_options(), ending, [&](const Domain &d, const Segment &s) {
      d.backup(base);
      commit(d, s, 50);
    });
    const std::vector<Json> lines = lines_of(tmh({"log", "dump", live, "--json"}).out);
    ASSERT_EQ(lines.size(), 51U);
    const std::string fortieth = std::to_string(lines[39]["end"].get<std::uint64_t>());
    expect_refused({"recover", live, "--until-lsn", fortieth}, "kBadArgument", 3);
    expect_refused({"recover", live, "--until-lsn", fortieth, "--logs", live}, "kBadArgument", 3);
    EXPECT_EQ(tmh_json({"recover", base, "--logs", live, "--until-lsn", fortieth})["transactions"],
              40);
    for (const bool is_live : {true, false}) {
      in_domain(is_live ? live : base, {}, Ending::kClosed, [&](const Domain &d, const Segment &s) {
        EXPECT_EQ(read_word(d, s, 40), 40U);
        EXPECT_EQ(read_word(d, s, 41), is_live ? 41U : 0U);
      });
    }
  }
}

// With nothing behind the checkpoint only the log in front of it, or its absence, tells that a
// moment has gone.
TEST_F(Tool, RecoverToBeforeTheCheckpointIsRefused) {
  in_domain(domain(), durable_options(), Ending::kClosed,
            [](const Domain &d, const Segment &s) { commit(d, s, 10); });
  const std::vector<Json> lines =
      lines_of(tmh({"log", "dump", domain(), "--from", "0", "--json"}).out);
  const auto seconds_of = [](std::uint64_t ns) {
    const std::string digits = std::to_string(ns);
    return digits.substr(0, digits.size() - 9) + "." + digits.substr(digits.size() - 9);
  };
  // Behind the last, the log's end.
  const auto fifth = lines[5]["time_ns"].get<std::uint64_t>(),
             last = lines[lines.size() - 2]["time_ns"].get<std::uint64_t>();
  for (const std::string &early : {std::string("1"), seconds_of(fifth)}) {
    const ProgramEnd end = tmh({"recover", domain(), "--until-time", early});
    EXPECT_EQ(end.exit_code, 4) << end.out << end.err;
    EXPECT_NE(end.err.find("lies before what can be restored"), std::string::npos) << end.err;
    EXPECT_NE(end.err.find("exit code 4"), std::string::npos) << end.err;
  }
  // Nothing was committed between the last transaction and the checkpoint: that is what the data
  // files hold. Twice is as once.
  for (int round = 0; round < 2; ++round)
    EXPECT_EQ(tmh_json({"recover", domain(), "--until-time", seconds_of(last)})["transactions"], 0);
  in_domain(domain(), {}, Ending::kClosed,
            [](const Domain &d, const Segment &s) { EXPECT_EQ(read_word(d, s, 10), 10u); });
}

// A domain that this process has open, while the command works on it.
class ToolLive : public Tool {
 protected:
  void SetUp() override {
    DomainOptions options = durable_options();
    options.keep_log = true;
    open_ = Domain::open(domain(), options);
    segment_ = open_.map("a.db", raw_pages(64));
    commit(open_, segment_, 100);
  }
  void TearDown() override {
    if (open_) open_.close();
  }
  void fill_files(std::uint64_t count) {
    for (std::uint64_t i = 1; i <= count; ++i)
      atomically(open_, [&] {
        for (std::uint64_t at = 0; at < 512; ++at) word_of(segment_, i % 64, at) += i;
      });
  }
  Domain open_;
  Segment segment_;
};

TEST_F(ToolLive, RecoverIsRefused) { expect_refused({"recover", domain()}, "kDomainInUse", 3); }

TEST_F(ToolLive, InfoNamesTheParticipant) {
  const Json info = tmh_json({"info", domain()});
  EXPECT_EQ(info["open"], true);
  ASSERT_EQ(info["participants"].size(), 1u);
  EXPECT_EQ(info["participants"][0]["pid"], getpid());
  EXPECT_EQ(info["durability"], "strict");
  EXPECT_EQ(info["detection"], "lazy");
  EXPECT_EQ(info["log"]["keep_log"], true);
  EXPECT_EQ(info["log"]["file_bytes"], kSmallLogBytes);
  EXPECT_EQ(info["checkpoint"].size(), 2u);
  EXPECT_TRUE(info["problems"].empty());
  EXPECT_NE(tmh({"info", domain()}).out.find("process " + std::to_string(getpid())),
            std::string::npos);
}

TEST_F(ToolLive, CheckpointMovesTheStartOfRecovery) {
  const Json first = tmh_json({"checkpoint", domain()});
  EXPECT_GT(first["lsn"], first["lsn_before"]);
  EXPECT_EQ(tmh_json({"checkpoint", domain()})["lsn"], first["lsn"]);
  EXPECT_NE(tmh({"checkpoint", domain()}).out.find("nothing to do"), std::string::npos);
  EXPECT_EQ(open_.participants().size(), 1u) << "the command has left again";
}

TEST_F(ToolLive, CheckpointNamesTheReaderThatHoldsItBack) {
  open_.begin_query();
  (void)word_of(segment_, 0);
  std::thread([&] {
    usleep(150'000);
    const ProgramEnd end = tmh({"checkpoint", domain()});
    EXPECT_EQ(end.exit_code, 0) << end.err;
    EXPECT_NE(end.out.find("process " + std::to_string(getpid())), std::string::npos) << end.out;
  }).join();
  open_.end_query();
}

TEST_F(ToolLive, ArchiveMovesLogFilesThatDumpFinds) {
  fill_files(600);
  const std::string archive = folder_ / "archive";
  (void)tmh_json({"archive", domain(), archive});
  fill_files(600);
  const Json second = tmh_json({"archive", domain(), archive});
  EXPECT_FALSE(second["moved"].empty());
  for (const Json &file : second["moved"])
    EXPECT_TRUE(std::filesystem::exists(file.get<std::string>()));
  EXPECT_EQ(second["bytes"], second["moved"].size() * kSmallLogBytes);
  const std::vector<Json> lines =
      lines_of(tmh({"log", "dump", domain(), "--logs", archive, "--from", "0", "--json"}).out);
  EXPECT_EQ(lines.size(), 1302u);  // 100 + 1200 transactions, one generation, the end
  expect_refused({"archive", domain(), domain()}, "kBadArgument", 3);
}

TEST_F(ToolLive, ABackupIsADomain) {
  const Json report = tmh_json({"backup", domain(), folder_ / "copy"});
  EXPECT_GE(report["files"], 4);
  expect_refused({"backup", domain(), folder_ / "copy"}, "kBadArgument", 3);
  EXPECT_EQ(tmh({"log", "verify", folder_ / "copy"}).exit_code, 0);
  EXPECT_EQ(tmh({"recover", folder_ / "copy"}).exit_code, 0);
  open_.close();  // ThreadSanitizer may end a child that starts a housekeeper beside its parent's
  in_domain(folder_ / "copy", {}, Ending::kClosed,
            [](const Domain &d, const Segment &s) { EXPECT_EQ(read_word(d, s, 36), 100u); });
}

TEST_F(ToolLive, TheLogIsReadWhileItIsWritten) {
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (std::uint64_t i = 0; !stop.load(); ++i) {
      open_.begin();
      for (std::uint64_t at = 0; at < 200; ++at) word_of(segment_, i % 64, at) += i;
      (void)open_.end(Durability::kBuffered);
      if (i % 5000 == 0) open_.checkpoint();
    }
  });
  for (int round = 0; round < 10; ++round) {
    const ProgramEnd verify = tmh({"log", "verify", domain()});
    EXPECT_EQ(verify.exit_code, 0) << verify.out << verify.err;
    EXPECT_NE(verify.out.find("the domain is open"), std::string::npos) << verify.out;
    EXPECT_EQ(tmh({"log", "dump", domain(), "--pages"}).exit_code, 0);
    EXPECT_EQ(tmh({"info", domain()}).exit_code, 0);
  }
  stop.store(true);
  writer.join();
}

TEST_F(ToolLive, AFullDiskUnderStandardOutputIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const ProgramEnd end = run_program({TMH_TOOL, "info", domain()}, "/dev/full");
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_NE(end.err.find("kDiskFull"), std::string::npos) << end.err;
}

}  // namespace
}  // namespace tmh::test
