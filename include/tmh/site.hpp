// include/tmh/site.hpp -- sites: places in a program whose instances run at level 1 while they are
// small, and at level 2 when they are not.
// Shape:     the program says what each body is, by what the body takes:
//              atomically(site, [&](tmh::Fields) { ... });  // instrumented: through tmh::field<T>
//              atomically(site, [&] { ... });               // plain: loads and stores as it likes
//            The compiler decides by it. No variable of the environment, no level of the domain and
//            no other process changes it: a plain body commits all that it stores, wherever it
//            runs.
//            In a hybrid domain (DomainOptions::levels) an instrumented body runs at either level.
//            A plain body runs at level 1 where the machine has RTM, and at level 2 elsewhere. In a
//            page domain every body runs at level 2.
// Nesting:   a plain body inside an instrumented one sends the outermost instance to level 2, and
//            there to the process's view. An instrumented body inside a plain one runs in it. In
//            RTM
//            both run as they are.
// RTM:       a body between XBEGIN and XEND runs as it is, with two differences: an aborted attempt
//            leaves no trace in locals either, and what enters the kernel (or waits) aborts it, so
//            that it runs at level 2. Allocation in a heap segment runs inside, until that must
//            grow.
// Sharing:   a Site is one process's; any number of its threads use it at once. At level 1 their
//            instances run in parallel. At level 2 so do instrumented ones, where threads have
//            views of their own (Policies::thread_views); plain ones run one after the other.
// Contexts:  as domain.hpp.
// Source:    thesis, section 6.2 (a transaction runs at one level; policies move it);
//            docs/design.md 4.
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tmh/detail/attempts.hpp>
#include <tmh/detail/body_result.hpp>
#include <tmh/detail/forced_unwinding.hpp>
#include <tmh/detail/line_access.hpp>
#include <tmh/domain.hpp>

namespace tmh {

// Totals of one site in this process.
struct SiteReport {
  std::string name;
  Escalation escalation;
  // Of updates at level 2; those at level 1 are serializable.
  Isolation isolation{};
  // instances by the level at which they committed
  std::uint64_t line_commits = 0, page_commits = 0;
  std::uint64_t unlimited_commits =
      0;  // of line_commits: those that exceeded `capacity` and ran without it ("adaptive")
  std::uint64_t line_aborts = 0, page_aborts = 0;  // attempts
  // by AbortCause: of line_aborts those that were not RTM's
  std::uint64_t line_aborts_by_cause[kAbortCauseCount] = {};
  // instances that went one level up, by what decided
  std::uint64_t escalations_capacity = 0;
  std::uint64_t escalations_needs_pages = 0;
  // of these, by Need (tmh/instance.hpp): which function sent them up; they sum up to it
  std::uint64_t escalations_by_need[kNeedCount] = {};
  std::uint64_t escalations_attempts = 0;  // too many attempts, or too much time wasted
  // instances that committed at level 1 after the site had gone up
  std::uint64_t de_escalations = 0;
  // pages that its instances at level 1 got back from level 2
  std::uint64_t releases = 0;
  std::uint64_t recalls = 0;  // pages that its instances at level 2 took from level 1
  // In attempts at each level, committed or not; at level 1 what a sample of them stands for.
  std::uint64_t line_ns = 0, page_ns = 0;
  // RTM. Commits and aborts are among those at level 1; aborts by what the status said. Status 0: a
  // fault, an interrupt, a system call.
  std::uint64_t hardware_commits = 0;
  std::uint64_t hardware_conflicts = 0, hardware_capacity = 0, hardware_zero = 0;
  std::uint64_t hardware_explicit = 0;  // the body did what only level 2 can do
  // not begun: pages had moved, level 2 was running, views were level 2's; not among line_aborts
  std::uint64_t hardware_gate = 0;
  std::uint64_t hardware_other = 0;  // no cause that is known
  // instances that ran at level 2 to find pages: no escalations
  std::uint64_t hardware_findings = 0;
  std::uint64_t hardware_pages = 0;  // pages that these opened
};

namespace detail {
// Only the library makes one.
class FieldsKey {
  friend class BodyRun;
  // NOLINTNEXTLINE(modernize-use-equals-default): a defaulted one lets `{}` make a key elsewhere
  constexpr FieldsKey() noexcept {}
};
}  // namespace detail

// The promise of an instrumented body: it reaches shared memory through tmh::field<T> only, until
// it calls the library for something else (allocation, a plain instance inside). An instrumented
// body takes it as its parameter. Only the library makes one; it is empty and costs nothing. The
// body may pass it on: a function that is right in instrumented bodies alone demands it as a
// parameter, and a plain body, which has none, cannot call that function.
class Fields {
 public:
  explicit constexpr Fields(detail::FieldsKey) noexcept {}
};

namespace detail {
class SiteImpl;
class SiteInstance;
}  // namespace detail

// What an escalation rule of the program's own decides by: the failed attempts of one update at
// level 1, and what its site has counted so far in this process.
struct FailedAttempts {
  // Of this instance.
  std::uint32_t attempts = 0;
  std::uint64_t wasted_us = 0;
  // Of the site: see SiteReport.
  std::uint64_t line_commits = 0, page_commits = 0, line_aborts = 0, page_aborts = 0;
};
enum class NextLevel : std::uint8_t {
  // The next attempt runs at level 1.
  kStay = 1,
  // It runs at level 2, and so do all that follow it in this instance.
  kGoUp = 2,
};
// Asked after each attempt at level 1 that other instances have made fail. An instance that does
// not fit level 1, does what only level 2 can, or is refused a page goes up without being asked, as
// with "on-capacity". Runs outside any instance, in any thread of the site, and may run instances.
using EscalationRule = NextLevel (*)(const FailedAttempts &failed) noexcept;

class Site {
 public:
  // escalation: a specification (see Escalation); empty: the domain's.
  // isolation: of updates at level 2; unset: the domain's (Policy::isolation).
  // Errors: kBadLevels, kBadPolicy, kNotInitialized.
  explicit Site(const Domain &domain, std::string_view name = {}, std::string_view escalation = {},
                Isolation isolation = {});
  // rule: the program's own policy, not null. Its sites begin at level 1, and report
  //       EscalationKind::kOwn.
  Site(const Domain &domain, std::string_view name, EscalationRule rule, Isolation isolation = {});
  [[nodiscard]] SiteReport report() const;
  [[nodiscard]] const Domain &domain() const noexcept { return domain_; }

 private:
  friend class detail::SiteInstance;
  Domain domain_;
  std::shared_ptr<detail::SiteImpl> impl_;
};

namespace detail {

template <class Body>
inline constexpr BodyKind kKindOfBody =
    std::is_invocable_v<Body &, Fields> ? BodyKind::kInstrumented : BodyKind::kPlain;
// What the body of a site's instance returns.
template <class Body>
using SiteBodyResult = typename std::conditional_t<kKindOfBody<Body> == BodyKind::kInstrumented,
                                                   std::invoke_result<Body &, Fields>,
                                                   std::invoke_result<Body &>>::type;

// Runs the body of a site's instance.
class BodyRun {
 public:
  template <class Body>
  [[gnu::always_inline]] static SiteBodyResult<Body> run(Body &body) {
    if constexpr (kKindOfBody<Body> == BodyKind::kInstrumented)
      return body(Fields{FieldsKey{}});
    else
      return body();
  }
};

template <class Body>
TMH_CATCHES_FORCED_UNWINDING auto run_attempts(const Site &site, Attempts::Kind kind,
                                               Durability durability, Body &body)
    -> SiteBodyResult<Body> {
  static_assert(!(std::is_invocable_v<Body &> && std::is_invocable_v<Body &, Fields>),
                "the body of a site's instance can be called with and without tmh::Fields, so it "
                "does not say whether "
                "it is instrumented: let it take exactly (tmh::Fields) or exactly ()");
  using Result = ObjectResult<SiteBodyResult<Body>>;
  Attempts attempts(site, kind, kKindOfBody<Body>, durability);
  for (;;) {
    attempts.begin();
    try {
      if constexpr (std::is_void_v<Result>) {
        BodyRun::run(body);
        if (attempts.end()) return;
      } else {
        std::optional<Result> result(BodyRun::run(body));
        if (attempts.end()) return *std::move(result);
      }
    } catch (const LineAbort &) {
      attempts.unwound();
    } catch (const RetryNow &why) {
      attempts.retried(why);
    } catch (abi::__forced_unwind &) {
      attempts.left_by_force();
      throw;
    } catch (...) {
      if (attempts.threw()) throw;
    }
  }
}

}  // namespace detail

// As atomically(domain, body), with a body that takes tmh::Fields (it is instrumented) or nothing
// (it is plain). One site may run both.
// Inside a running instance, of whatever level, it is subsumed.
// durability: of this instance's acknowledgement, as Domain::end(Durability); when it is subsumed
//             it says nothing.
// Errors: kNeedsPages: the site may not escalate and the body cannot run at level 1;
// kTooManyParticipants: nor may it where 4,096 threads of the domain have been at level 1 and have
// not ended; other sites' instances run at level 2 then. kLogFailed: committed, and perhaps not
// durable.
template <class Body>
auto atomically(const Site &site, Durability durability, Body &&body)
    -> detail::SiteBodyResult<Body> {
  return detail::run_attempts(site, detail::Attempts::Kind::kUpdate, durability, body);
}
template <class Body>
auto atomically(const Site &site, Body &&body) -> detail::SiteBodyResult<Body> {
  return detail::run_attempts(site, detail::Attempts::Kind::kUpdate, Durability{}, body);
}

// As query(domain, body), on one snapshot; the body is instrumented or plain, as for atomically().
// With an instrumented body it begins at level 1 in software, unless the site is `always`. There it
// keeps no list of what it reads, until it meets a line that another instance has changed since it
// began: it begins again, once, with such a list, and from then on when another instance changes
// what it has read. The site's policy sends it to level 2, where a query cannot fail; so does,
// whatever the policy, the eighth change of what it has read, a page that level 2 does not give
// back at once, a list of more than about 1,024 lines, or a store. So the body may run several
// times. At level 2 queries run in several threads at once when the body is instrumented. RTM runs
// no queries.
// durability: as atomically(); a strict one waits until what it has read is durable.
template <class Body>
auto query(const Site &site, Durability durability, Body &&body) -> detail::SiteBodyResult<Body> {
  return detail::run_attempts(site, detail::Attempts::Kind::kQuery, durability, body);
}
template <class Body>
auto query(const Site &site, Body &&body) -> detail::SiteBodyResult<Body> {
  return detail::run_attempts(site, detail::Attempts::Kind::kQuery, Durability{}, body);
}

}  // namespace tmh
