// tests/tools/tool_rtm_emulation_test.cpp -- tmh rtm-emulate on programs that know nothing of tmh
// (LD_PRELOAD).
// Invariants: (1) the program's output, sums and exit code are its own; (2) its transactions ran in
//             the emulator: the statistics count them.
#include <cpuid.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/support/program.h"

namespace {

using tmh::test::ProgramEnd;

ProgramEnd emulated(std::vector<std::string> arguments) {
  std::vector<std::string> command = {TMH_TOOL, "rtm-emulate", "--stats"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return tmh::test::run_program(command);
}

// The number that stands before `what` in the statistics; 0: it is not there.
long counted(const ProgramEnd &end, const std::string &what) {
  const std::size_t at = end.err.find(what);
  if (at == std::string::npos) return 0;
  std::size_t begin = at;
  while (begin > 0 && (std::isdigit(static_cast<unsigned char>(end.err[begin - 1])) != 0 ||
                       end.err[begin - 1] == ' '))
    --begin;
  return std::atol(end.err.c_str() + begin);
}

void expect_exact(const ProgramEnd &end, long sum) {
  EXPECT_EQ(end.exit_code, 0) << end.out << end.err;
  EXPECT_EQ(std::atol(end.out.c_str()), sum) << end.err;
  EXPECT_GT(counted(end, " commits"), sum / 4) << end.err;
  EXPECT_EQ(end.err.find("unsupported"), std::string::npos) << end.err;
}

TEST(ToolRtmEmulation, AnOutsideProgramElidesItsLock) {
  expect_exact(emulated({"--", TMH_ELIDED_COUNTERS, "tutorial", "2", "5000"}), 10'000);
}

TEST(ToolRtmEmulation, ElisionInGlibcsStyleWorks) {
  expect_exact(emulated({"--", TMH_ELIDED_COUNTERS, "adaptive", "2", "5000"}), 10'000);
}

TEST(ToolRtmEmulation, GlibcsOwnElisionWorks) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (b >> 11 & 1) == 0)
    GTEST_SKIP() << "glibc elides only where CPUID lists RTM, which cannot be faked here";
  ASSERT_EQ(::setenv("GLIBC_TUNABLES", "glibc.elision.enable=1", 1), 0);
  const ProgramEnd end = emulated({"--", TMH_ELIDED_COUNTERS, "pthread", "2", "2000"});
  ::unsetenv("GLIBC_TUNABLES");
  EXPECT_EQ(end.exit_code, 0) << end.out << end.err;
  EXPECT_EQ(std::atol(end.out.c_str()), 4'000);
  if (counted(end, " commits") == 0) GTEST_SKIP() << "this glibc has no elision: " << end.err;
  EXPECT_GT(counted(end, " commits"), 100) << end.err;
}

TEST(ToolRtmEmulation, KnobsReachTheProgram) {
  const ProgramEnd end = emulated(
      {"--knob", "spurious-ppm=1000000", "--", TMH_ELIDED_COUNTERS, "tutorial", "1", "100"});
  EXPECT_EQ(end.exit_code, 0) << end.err;
  EXPECT_EQ(end.out, "100 elided 0\n");
}

// As tmh itm, which finds its library in the same way.
TEST(ToolRtmEmulation, ALibraryThatIsNotThereIsNotPassedOver) {
  for (const auto &[command, variable] : {std::pair{"rtm-emulate", "TMH_RTM_EMULATION_LIBRARY"},
                                          std::pair{"itm", "TMH_ITM_LIBRARY"}}) {
    ASSERT_EQ(::setenv(variable, "/nowhere/library.so", 1), 0);
    const ProgramEnd end = tmh::test::run_program(
        {TMH_TOOL, command, "--", TMH_ELIDED_COUNTERS, "tutorial", "1", "1"});
    ::unsetenv(variable);
    EXPECT_EQ(end.exit_code, 3) << command << end.out << end.err;
    EXPECT_NE(end.err.find(std::string(variable) + "=/nowhere/library.so: there is no such file"),
              std::string::npos)
        << end.err;
  }
}

// A knob takes one word, so -- ends the options behind it as well.
TEST(ToolRtmEmulation, TheProgramsOptionsAreItsOwnBehindAKnob) {
  const ProgramEnd end =
      emulated({"--knob", "ways=1", "--knob", "sets=32", "--", "/bin/echo", "--ways", "2"});
  EXPECT_EQ(end.exit_code, 0) << end.err;
  EXPECT_EQ(end.out, "--ways 2\n");
}

TEST(ToolRtmEmulation, WrongKnobsAndProgramsAreRefused) {
  EXPECT_EQ(
      emulated({"--knob", "ways=none", "--", TMH_ELIDED_COUNTERS, "tutorial", "1", "1"}).exit_code,
      64);
  EXPECT_EQ(emulated({"--knob", "ways", "--", TMH_ELIDED_COUNTERS, "tutorial", "1", "1"}).exit_code,
            64);
  const ProgramEnd unknown =
      emulated({"--knob", "way=1", "--", TMH_ELIDED_COUNTERS, "tutorial", "1", "1"});
  EXPECT_EQ(unknown.exit_code, 64);
  EXPECT_NE(unknown.err.find("TMH_RTM_EMULATION_WAY is no setting"), std::string::npos)
      << unknown.err;
  EXPECT_EQ(emulated({"--", "./no-such-program"}).exit_code, 3);
  EXPECT_EQ(emulated({}).exit_code, 64);
}

TEST(ToolRtmEmulation, ExitCodesAreTheProgramsOwn) {
  EXPECT_EQ(emulated({"--", "sh", "-c", "exit 7"}).exit_code, 7);
  EXPECT_EQ(emulated({"--", "sh", "-c", "kill -TERM $$"}).signal, 15);
}

}  // namespace
