// include/tmh/site.hpp -- sites: places in a program whose instances run at level 1 while they are small, and at level 2 when they are not.
// Shape:     in a hybrid domain (DomainOptions::levels) a site's body is instrumented: it reaches shared memory through tmh::field<T> only.
//            The same body then runs at either level. In a page domain every site runs at level 2.
// Sharing:   a Site is one process's; any number of its threads use it at once. At level 1 their instances run in parallel; at level 2
//            one after the other, as every instance of a process does.
// Contexts:  as domain.hpp.
// Source:    thesis, section 6.2 (a transaction runs at one level; policies move it); DESIGN section 4.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tmh/detail/line_access.hpp>
#include <tmh/domain.hpp>

namespace tmh {

// Totals of one site in this process.
struct SiteReport {
  std::string name;
  Escalation escalation;
  std::uint64_t line_commits = 0, page_commits = 0;  // instances by the level at which they committed
  std::uint64_t line_aborts = 0, page_aborts = 0;    // attempts
  std::uint64_t escalations_capacity = 0;            // instances that went one level up, by what decided
  std::uint64_t escalations_needs_pages = 0;
  std::uint64_t escalations_attempts = 0;  // too many attempts, or too much time wasted
  std::uint64_t de_escalations = 0;        // instances that committed at level 1 after the site had gone up
  std::uint64_t releases = 0;              // pages that its instances at level 1 got back from level 2
  std::uint64_t recalls = 0;               // pages that its instances at level 2 took from level 1
  std::uint64_t line_ns = 0, page_ns = 0;  // in attempts at each level, committed or not
};

namespace detail {
class SiteImpl;
class Attempts;
}  // namespace detail

class Site {
 public:
  // escalation: a specification (see Escalation); empty: the domain's. Errors: kBadLevels, kNotInitialized.
  explicit Site(const Domain &domain, std::string_view name = {}, std::string_view escalation = {});
  [[nodiscard]] SiteReport report() const;
  [[nodiscard]] const Domain &domain() const noexcept { return domain_; }

 private:
  friend class detail::Attempts;
  Domain domain_;
  std::shared_ptr<detail::SiteImpl> impl_;
};

namespace detail {

// One instance of a site: its attempts until one commits.
class Attempts {
 public:
  explicit Attempts(const Site &site) noexcept : site_(site) {}
  void begin();              // an attempt, at the level that the site's policy says; waits before a repeated one
  [[nodiscard]] bool end();  // true: committed, or subsumed in an outer instance
  void retried(const RetryNow &why);  // it left the body; rethrows it inside an outer instance
  void unwound();                     // a LineAbort left the body; rethrows it inside an outer instance
  // Another exception left the body and the instance is undone. False: that attempt never happened.
  [[nodiscard]] bool threw();

 private:
  enum class RunsAt : std::uint8_t { kNothing, kLines, kPages, kOuter };
  void failed_at_lines();
  const Site &site_;
  RunsAt runs_at_ = RunsAt::kNothing;
  bool escalated_ = false;
  std::uint32_t attempts_ = 0;
  std::uint64_t first_ticks_ = 0;  // of the time-stamp counter
  std::uint64_t ticks_ = 0;
  std::uint64_t recalls_before_ = 0;
};

}  // namespace detail

// As atomically(domain, body). Inside a running instance, of whatever level, it is subsumed.
// Errors: kNeedsPages: the site may not escalate and the body cannot run at level 1.
template <class Body>
auto atomically(const Site &site, Body &&body) -> std::invoke_result_t<Body &> {
  using Result = std::invoke_result_t<Body &>;
  detail::Attempts attempts(site);
  for (;;) {
    attempts.begin();
    try {
      if constexpr (std::is_void_v<Result>) {
        body();
        if (attempts.end()) return;
      } else {
        std::optional<Result> result(body());
        if (attempts.end()) return *std::move(result);
      }
    } catch (const detail::LineAbort &) {
      attempts.unwound();
    } catch (const detail::RetryNow &why) {
      attempts.retried(why);
    } catch (...) {
      if (attempts.threw()) throw;
    }
  }
}

}  // namespace tmh
