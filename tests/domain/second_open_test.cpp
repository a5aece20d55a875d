// tests/domain/second_open_test.cpp -- Domain::open() of a domain that this process has open
// already.
// Invariants: (1) what the domain cannot have is refused, as another process's would be.
//             (2) options of the process's own that contradict those of the first open are refused,
//                 with what there is; equal ones and unset ones are not.
#include <gtest/gtest.h>

#include <string>

#include <tmh/lab.hpp>
#include <tmh/tmh.hpp>

#include "tests/support/stage.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

// A strict domain must not turn out to be the volatile one that another part of the program has
// opened.
TEST(SecondOpenTest, AnotherOpenInTheSameProcessIsRefusedWhatItCannotHave) {
  const MemoryFolder folder;
  const Domain domain = Domain::open(folder.path());
  domain.set_policy("fresh-age");
  const auto refuses = [&](Errc code, auto change) {
    DomainOptions options;
    change(options);
    expect_error(code, [&] { static_cast<void>(Domain::open(folder.path(), options)); });
  };
  refuses(Errc::kDurabilityMismatch,
          [](DomainOptions &options) { options.durability = Durability::kStrict; });
  refuses(Errc::kDetectionMismatch,
          [](DomainOptions &options) { options.policies.detection = Detection::kEager; });
  refuses(Errc::kLevelsMismatch, [](DomainOptions &options) { options.levels = Levels::kHybrid; });
  refuses(Errc::kBadPolicy, [](DomainOptions &options) { options.policies.conflict = "nonsense"; });
  refuses(Errc::kBadPolicy,
          [](DomainOptions &options) { options.policies.conflict = "self-abort"; });
  DomainOptions same;
  same.durability = Durability::kNone;
  same.levels = Levels::kPage;
  const Domain again = Domain::open(folder.path(), same), whatever = Domain::open(folder.path());
  EXPECT_FALSE(domain.policy().keep_age);
}

// Nor must a part of the program believe that it runs with options that another part has not given.
TEST(SecondOpenTest, AnotherOpenInTheSameProcessWithOptionsOfItsOwnSaysWhatThereIs) {
  const MemoryFolder folder;
  DomainOptions present;
  present.policies.conflict = "fresh-age,backoff=none";
  present.tracking = Tracking::kSignal;
  present.policies.cross = CrossPolicy::kAbortUpper;
  present.policies.escalation = "after-n=3";
  present.policies.capacity = "32KiB/8/64";
  present.line = LineChoice::kSoftware;
  present.policies.thread_views = ThreadViewUse::kNever;
  present.policies.latency = Latency::kOff;
  present.durability = Durability::kBuffered;
  present.policies.group_commit = "active=3";
  present.flush_interval_ms = 20;
  const Domain domain = Domain::open(folder.path(), present);
  const Domain equal = Domain::open(folder.path(), present), unset = Domain::open(folder.path());
  const auto refuses = [&](auto change, const std::string &there) {
    DomainOptions options;
    change(options);
    expect_error(
        Errc::kAlreadyInitialized, [&] { static_cast<void>(Domain::open(folder.path(), options)); },
        "this process has it open with " + there);
  };
  refuses([](DomainOptions &options) { options.policies.conflict = "backoff=none"; },
          "policies.conflict oldest-wins,fresh-age");
  refuses([](DomainOptions &options) { options.tracking = Tracking::kSignalHot; },
          "tracking signal, not signal-hot");
  refuses([](DomainOptions &options) { options.policies.cross = CrossPolicy::kAbortLower; },
          "policies.cross abort-upper");
  refuses([](DomainOptions &options) { options.policies.escalation = "after-n=4"; },
          "policies.escalation after-n=3");
  refuses([](DomainOptions &options) { options.policies.capacity = "unlimited"; },
          "policies.capacity ");
  refuses([](DomainOptions &options) { options.line = LineChoice::kRtm; }, "line software");
  refuses([](DomainOptions &options) { options.policies.thread_views = lab::kOwnViewAlways; },
          "policies.thread_views never");
  refuses([](DomainOptions &options) { options.policies.latency = lab::kEachAttempt; },
          "policies.latency off");
  refuses([](DomainOptions &options) { options.policies.group_commit = "active=2"; },
          "policies.group_commit active=3");
  refuses([](DomainOptions &options) { options.flush_interval_ms = 30; },
          "flush_interval_ms 20, not 30");
  refuses([](DomainOptions &options) { options.policies.early_release = EarlyRelease::kOff; },
          "policies.early_release on, not off");
  refuses([](DomainOptions &options) { options.keep_log = true; }, "keep_log false, not true");
  domain.set_policy("backoff=adaptive");
  refuses([](DomainOptions &options) { options.policies.conflict = "fresh-age,backoff=none"; },
          "policies.conflict oldest-wins,keep-age,backoff=adaptive");
  DomainOptions named;
  named.name = "a part of the program";
  named.policies.conflict = "backoff=adaptive";
  named.log_file_bytes = 1u << 20;
  const Domain part = Domain::open(folder.path(), named);
  const auto wrong = [&](Errc code, auto change) {
    DomainOptions options;
    change(options);
    expect_error(code, [&] { static_cast<void>(Domain::open(folder.path(), options)); });
  };
  wrong(Errc::kBadLevels, [](DomainOptions &options) { options.policies.escalation = "nonsense"; });
  wrong(Errc::kBadLevels, [](DomainOptions &options) { options.policies.capacity = "nonsense"; });
  wrong(Errc::kBadDurability,
        [](DomainOptions &options) { options.policies.group_commit = "nonsense"; });
}

}  // namespace
}  // namespace tmh::test
