// tests/line/line_capacity_test.cpp -- the capacity model by working-set size, its spelling, and
// abort statuses.
// Invariants: (1) an instance fits if and only if the model's arithmetic says so. (2) statuses have
//             RTM's bits. (3) what cannot be meant is refused.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

#include "levels/line/abort_status.h"
#include "levels/line/capacity.h"
#include "levels/line/choice.h"
#include "levels/line/level.h"
#include "levels/line/rtm_detection.h"
#include "platform/failure.h"
#include "tests/support/line_rig.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using line::AbortStatus;
using line::CapacityModel;

CapacityModel model_of(const std::string &spec) {
  CapacityModel model;
  EXPECT_EQ(line::parse(spec, &model), Errc::kOk) << spec;
  return model;
}

class LineCapacityTest : public testing::Test {
 protected:
  // Writes `lines` lines, `stride` lines apart; the cause of the abort, or kNone.
  AbortCause write(const CapacityModel &model, std::uint64_t lines, std::uint64_t stride) {
    line::Begin options;
    options.capacity = &model;
    const Status status = line::attempt(thread_, options, [&] {
      for (std::uint64_t i = 0; i < lines; ++i) thread_.store(rig_.words() + 8 * stride * i, i);
    });
    return status == Status::kCommitted ? AbortCause::kNone : thread_.cause();
  }
  AbortCause read(const CapacityModel &model, std::uint64_t lines) {
    line::Begin options;
    options.capacity = &model;
    std::uint64_t sum = 0;
    const Status status = line::attempt(thread_, options, [&] {
      for (std::uint64_t i = 0; i < lines; ++i) sum += thread_.load(rig_.words() + 8 * i);
    });
    return status == Status::kCommitted ? AbortCause::kNone : thread_.cause();
  }

  MemoryFolder folder_;
  LineRig rig_{folder_.path(), 4u << 20};
  RigThread thread_{rig_};
};

TEST_F(LineCapacityTest, WorkingSetsFitByTheModelsArithmetic) {
  const CapacityModel model = model_of("32KiB/8/64");
  std::printf(
      "32KiB/8/64: 64 sets of 8 lines\n  stride  limit (lines)  largest that fits  status above\n");
  for (std::uint64_t stride = 1; stride <= 64; stride *= 2) {
    const std::uint64_t limit = 8 * 64 / stride;  // sets in use x ways
    std::uint64_t fits = 0;
    while (write(model, fits + 1, stride) == AbortCause::kNone) ++fits;
    EXPECT_EQ(fits, limit) << "stride " << stride;
    EXPECT_EQ(thread_.status(), AbortStatus{line::kStatusCapacity});
    std::printf("  %6d  %13d  %17d  0x%x\n", static_cast<int>(stride), static_cast<int>(limit),
                static_cast<int>(fits), static_cast<unsigned>(thread_.status()));
  }
}

TEST_F(LineCapacityTest, RewritingALineTakesNoRoom) {
  const CapacityModel model = model_of("32KiB/8/64");
  line::Begin options;
  options.capacity = &model;
  const Status status = line::attempt(thread_, options, [&] {
    for (int i = 0; i < 10'000; ++i)
      thread_.store(rig_.words() + static_cast<unsigned>(i) % 8, std::uint64_t{1});
  });
  EXPECT_EQ(status, Status::kCommitted);
}

TEST_F(LineCapacityTest, ReadsAreBoundedByTheirOwnNumber) {
  const CapacityModel model = model_of("32KiB/8/64,read=1000");
  EXPECT_EQ(read(model, 1000), AbortCause::kNone);
  EXPECT_EQ(read(model, 1001), AbortCause::kCapacity);
  EXPECT_EQ(read(model_of("32KiB/8/64"), 20'000), AbortCause::kNone);
}

TEST_F(LineCapacityTest, UnlimitedEndsWithTheRedoLog) {
  EXPECT_EQ(write(CapacityModel{}, line::kWritesMax, 1), AbortCause::kNone);
  EXPECT_EQ(write(CapacityModel{}, line::kWritesMax + 1, 1), AbortCause::kCapacity);
}

TEST_F(LineCapacityTest, SpuriousAbortsComeAtTheirRateAndSayNothing) {
  // Of 10 lines: one attempt in ten.
  const CapacityModel model = model_of("unlimited,spurious=10000,seed=7");
  int aborts = 0;
  for (int i = 0; i < 2000; ++i) {
    if (write(model, 10, 1) == AbortCause::kNone) continue;
    ++aborts;
    EXPECT_EQ(thread_.cause(), AbortCause::kSpurious);
    EXPECT_EQ(thread_.status(), AbortStatus{0});
  }
  EXPECT_GT(aborts, 100);
  EXPECT_LT(aborts, 300);
}

TEST_F(LineCapacityTest, NestingBeyondTheLimitIsSaidToBeNested) {
  for (const char *spec : {"unlimited,nesting=7,read=100", "unlimited,nesting=7"}) {
    const CapacityModel model = model_of(spec);
    line::Begin options;
    options.capacity = &model;
    thread_.begin(options);
    EXPECT_NO_THROW(thread_.nest(7));
    EXPECT_THROW(thread_.nest(8), detail::LineAbort) << spec;
    EXPECT_TRUE(line::has(thread_.status(), line::kStatusNested));
    thread_.abandon();
  }
}

TEST_F(LineCapacityTest, TimeLimitAborts) {
  const CapacityModel model = model_of("unlimited,time=1us");
  EXPECT_EQ(write(model, 16'000, 1), AbortCause::kSpurious);
}

TEST(LineCapacitySpelling, RoundTrips) {
  for (const char *spec : {"unlimited", "32KiB/8/64", "48KiB/12/64,read=32768",
                           "unlimited,nesting=7,spurious=5,seed=9", "1KiB/1/64,time=20us"}) {
    EXPECT_EQ(line::to_string(model_of(spec)), spec);
  }
}

TEST(LineCapacitySpelling, WrongOnesAreRefused) {
  CapacityModel model;
  for (const char *spec : {"", "l2", "32KiB", "32KiB/8", "32KiB/8/128", "32/8/64", "33KiB/32/64",
                           "0KiB/8/64", "32KiB/0/64", "unlimited,read=", "unlimited,read=1,read=2",
                           "unlimited,time=5", "unlimited,", "1024KiB/1/64"}) {
    EXPECT_EQ(line::parse(spec, &model), Errc::kBadLevels) << spec;
  }
  EXPECT_EQ(line::parse("unlimited", static_cast<CapacityModel *>(nullptr)), Errc::kBadArgument);
}

TEST(LineAbortStatus, EveryCauseHasRtmsBits) {
  // Conflict, retry.
  EXPECT_EQ(static_cast<std::uint32_t>(line::status_of(AbortCause::kConflictOther)), 6U);
  EXPECT_EQ(static_cast<std::uint32_t>(line::status_of(AbortCause::kCapacity)), 8U);
  EXPECT_EQ(static_cast<std::uint32_t>(line::status_of(AbortCause::kUser)), 0x0100'0001U);
  EXPECT_EQ(static_cast<std::uint32_t>(line::status_of(AbortCause::kSpurious)), 0U);
  for (std::uint32_t bits = 0; bits < 64; ++bits) {  // every combination has a cause
    EXPECT_LT(static_cast<std::size_t>(line::cause_of(AbortStatus{bits})), kAbortCauseCount);
  }
  for (const AbortCause cause : {AbortCause::kCapacity, AbortCause::kUser, AbortCause::kCrossLevel,
                                 AbortCause::kQueryWrote, AbortCause::kSpurious}) {
    EXPECT_EQ(line::cause_of(line::status_of(cause)), cause);
  }
}

TEST(LineAbortStatus, ACodeOfXabortNamesANeedOrNone) {
  const auto status_with = [](std::uint32_t code) {
    return AbortStatus{line::kStatusExplicit | code << line::kStatusCodeShift};
  };
  std::set<Need> told;
  for (std::uint32_t code = 0; code < 256; ++code) {
    const AbortStatus status = status_with(code);
    const Need need = line::need_of(status);
    EXPECT_LT(static_cast<std::size_t>(need), kNeedCount) << code;
    if (!line::names_need(status)) {
      EXPECT_EQ(need, Need::kUnknown) << code;
      EXPECT_EQ(static_cast<std::uint32_t>(line::code_of(status)), code);
      continue;
    }
    EXPECT_TRUE(told.insert(need).second) << code;
    EXPECT_EQ(line::code_of_need(need), code);
    EXPECT_EQ(line::code_of(status), line::AbortCode::kNeedsPages);
    EXPECT_EQ(line::cause_of(status), AbortCause::kNeedsPages);
    // The same bits without XABORT say nothing.
    EXPECT_FALSE(line::names_need(AbortStatus{code << line::kStatusCodeShift}));
  }
  EXPECT_EQ(told.size(), kNeedCount);
  EXPECT_EQ(line::need_of(line::explicit_abort(line::AbortCode::kNeedsPages)), Need::kUnknown);
}

TEST(RtmDetection, SaysWhyAndHowToTurnItOn) {
  line::RtmFacts facts;
  facts.is_x86 = true;
  facts.under_hypervisor = true;
  EXPECT_NE(line::judge_rtm(facts).reason.find("CPUID 7.EBX bit 11"), std::string::npos);
  EXPECT_NE(line::judge_rtm(facts).reason.find("tsx=on"), std::string::npos);
  EXPECT_NE(line::judge_rtm(facts).reason.find("virtual machine"), std::string::npos);
  facts.is_listed = true;
  facts.always_aborts = true;
  facts.attempts = 10'000;
  EXPECT_NE(line::judge_rtm(facts).reason.find("RTM_ALWAYS_ABORT"), std::string::npos);
  facts.always_aborts = false;
  facts.kernel_state = "Mitigation: TSX disabled";
  EXPECT_NE(line::judge_rtm(facts).reason.find("Mitigation: TSX disabled"), std::string::npos);
  facts.commits = 10;
  EXPECT_TRUE(line::judge_rtm(facts).is_usable);
}

TEST(LineChoiceTest, RtmIsAnErrorWithItsReasonWhereItDoesNotWork) {
  LineChoice chosen{};
  std::string reason;
  ASSERT_EQ(line::choose_line(LineChoice::kSoftware, &chosen, &reason), Errc::kOk);
  EXPECT_EQ(chosen, LineChoice::kSoftware);
  ASSERT_EQ(line::choose_line(LineChoice::kAuto, &chosen, &reason), Errc::kOk);
  const bool is_usable = line::detect_rtm().is_usable;
  EXPECT_EQ(chosen, is_usable ? LineChoice::kRtm : LineChoice::kSoftware);
  EXPECT_EQ(reason, line::detect_rtm().reason);
  const Errc error = line::choose_line(LineChoice::kRtm, &chosen, &reason);
  EXPECT_EQ(error, is_usable ? Errc::kOk : Errc::kRtmUnavailable);
  if (!is_usable) {
    EXPECT_EQ(platform::failure_detail(), line::detect_rtm().reason);
  }
  EXPECT_EQ(line::choose_line(static_cast<LineChoice>(9), &chosen, &reason), Errc::kBadLevels);
}

TEST(Rtm, CommitsAndAborts) {
  const line::RtmReport &report = line::detect_rtm();
  std::printf("%s\n", report.reason.c_str());
  if (!report.is_usable) GTEST_SKIP() << report.reason;
  struct Gate : line::RtmGate {
    std::atomic<bool> shut{false};
    [[nodiscard]] line::AbortCode shut_by() const noexcept override {
      return shut ? line::AbortCode::kExclusiveHeld : line::AbortCode::kNone;
    }
  };
  static Gate gate;
  static std::uint64_t counter = 0;
  line::RtmThread thread(gate);
  std::uint32_t commits = 0;
  for (int i = 0; i < 10'000 && commits < 100; ++i) {  // single attempts may abort
    if (!thread.begin({})) continue;
    ++counter;
    commits += thread.commit() == Status::kCommitted ? 1u : 0u;
  }
  EXPECT_EQ(commits, 100U);
  EXPECT_EQ(counter, 100U);
  gate.shut = true;
  bool was_refused = false;
  for (int i = 0; i < 10'000 && !was_refused; ++i) {
    ASSERT_FALSE(thread.begin({}));
    was_refused = line::code_of(thread.status()) == line::AbortCode::kExclusiveHeld;
  }
  EXPECT_TRUE(was_refused);
}

}  // namespace
}  // namespace tmh::test
