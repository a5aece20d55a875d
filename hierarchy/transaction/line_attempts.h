// hierarchy/transaction/line_attempts.h -- the attempts of a site's instance on software lines.
// Shape:     no state of its own: Current::lines is the attempt. A begin and an end that find
//            nothing in their way are inline in Attempts: calls cost a smallest instance 5 %. Those
//            of a thread with a seat leave out what the site's seats exclude.
// Source:    thesis, sections 2.1 and 6.2; docs/design.md 4.
#pragma once

#include "hierarchy/transaction/actions.h"
#include "hierarchy/transaction/site_instance.h"
#include "levels/line/software_inline.h"
#include "platform/assert.h"
#include "platform/set_if_other.h"

namespace tmh::detail {

class LineAttempts {
 public:
  // False: this thread gets no context at level 1, and the attempt is one of level 2.
  [[nodiscard]] static bool begin(SiteInstance &instance);
  // True: committed.
  [[nodiscard]] static bool end(SiteInstance &instance);
  // The same for a first attempt, of a thread with this seat at the site that is inside level 1.
  static void begin_at(const Seat &seat, SiteImpl &site, Attempts::Kind kind) noexcept;
  // True: committed, and outside level 1. False: end_failed() is to come.
  [[nodiscard]] static bool commit_at_seat(SiteShard &seat) noexcept;
  // Its commit has failed.
  static void end_failed(SiteInstance &instance);
  // It has committed, as these are to count; also in RTM. Leaves level 1.
  static void end_committed(SiteInstance &instance, line::SoftwareThread &thread, SiteCount count,
                            LatencyLevel level);
  // A LineAbort left the body.
  static void unwound(SiteInstance &instance);
  // False: the exception is one that the body has made of a LineAbort.
  [[nodiscard]] static bool threw(SiteInstance &instance);
  static void left_by_force(SiteInstance &instance);

 private:
  // A query with a log that goes from one line to another more often than this is large, and goes
  // up: some 5 us lost, as much as two or three pages cost that level 2 takes from level 1.
  static constexpr std::uint32_t kQueryReadsMax = 1024;

  // False.
  static bool find_no_context(SiteInstance &instance, Errc error);
  [[nodiscard]] static line::Begin first_begin(const SiteImpl &site, bool is_query) noexcept;
  static void run_on(LineDomain *lines, line::SoftwareThread &thread) noexcept {
    Current &here = current();
    platform::set_if_other(here.unwinds, Unwinds::kFailed);
    platform::set_if_other(here.lines.domain, lines);
    platform::set_if_other(here.lines.thread, &thread);
    here.lines.depth = 1;
    here.lines.no_room = Errc::kOk;
  }
  // to: a site, or the thread's own part of it.
  template <class Totals>
  static void count_granted(Totals &to, line::SoftwareThread &thread) noexcept {
    const std::uint32_t pages = thread.committing().take_granted();
    if (pages != 0) [[unlikely]]
      to.add(SiteCount::kReleases, pages);
  }
  static void learn_unlimited_commit(const SiteInstance &instance) noexcept;
  static void await_snapshot(SiteInstance &instance);
  static void count_undone(SiteInstance &instance, AbortCause cause) noexcept;
  static void failed(SiteInstance &instance);
  static void begin_again(SiteInstance &instance);
  static void sleep(SiteInstance &instance);
};

inline bool LineAttempts::begin(SiteInstance &instance) {
  DomainImpl &domain = instance.domain();
  Errc error = Errc::kOk;
  line::SoftwareThread *const thread = domain.lines()->thread(&error);
  if (thread == nullptr) [[unlikely]]
    return find_no_context(instance, error);
  instance.start_timing();
  run_on(domain.lines(), *thread);
  line::Begin begin = first_begin(instance.site(), instance.is_query());
  begin.attempt = instance.attempts();
  begin.takes_priority = is_first(instance.state());
  begin.reads_durable_only = domain.durable() != nullptr && !domain.durable()->early_release();
  begin.capacity = is_unlimited(instance.state()) ? nullptr : domain.capacity();
  begin.logs_reads = !begin.is_query || instance.keeps_log() || domain.durable() != nullptr ||
                     begin.capacity != nullptr;
  thread->begin(begin);
  if (begin.reads_durable_only) [[unlikely]]
    await_snapshot(instance);
  return true;
}

// Of a first attempt, with no limit. A query reads at one snapshot without a log: a line that is
// newer, or retry(), makes it begin again with one (TL2's read-only transactions).
inline line::Begin LineAttempts::first_begin(const SiteImpl &site, bool is_query) noexcept {
  const bool learns = hierarchy::learns(site.escalation());
  return {.policy = site.domain().runners().policy(),
          .is_query = is_query,
          .insists = is_query ? line::Insists::kNo
                     : learns ? line::Insists::kLong
                              : line::Insists::kBriefly,
          .reads_max = is_query ? kQueryReadsMax : line::kNoLimit,
          .logs_reads = !is_query};
}

inline void LineAttempts::begin_at(const Seat &seat, SiteImpl &site, Attempts::Kind kind) noexcept {
  TMH_ASSERT(site.domain().line_users().is_inside());
  run_on(site.domain().lines(), *seat.thread);
  line::Begin begin = first_begin(site, kind == Attempts::Kind::kQuery);
  begin.keeps_snapshot = !begin.is_query;
  seat.thread->begin(begin);
}

// Nothing to unlearn: a site that has learned something about such instances seats none.
inline bool LineAttempts::commit_at_seat(SiteShard &seat) noexcept {
  TMH_ASSERT(current().lines.depth != 0 && current().lines.thread == seat.seat.thread);
  current().lines.depth = 0;
  line::SoftwareThread &thread = *current().lines.thread;
  if (thread.commit() != Status::kCommitted) [[unlikely]]
    return false;
  seat.add(SiteCount::kLineCommits, 1);
  count_granted(seat, thread);
  LineUsers::leave();
  return true;
}

inline bool LineAttempts::end(SiteInstance &instance) {
  if (was_forked_in_body()) [[unlikely]]
    check(instance.domain().usable());  // it is the parent's
  current().lines.depth = 0;
  line::SoftwareThread &thread = *current().lines.thread;
  if (thread.commit() != Status::kCommitted) [[unlikely]] {
    end_failed(instance);
    return false;
  }
  end_committed(instance, thread, SiteCount::kLineCommits, LatencyLevel::kLines);
  return true;
}

inline void LineAttempts::end_committed(SiteInstance &instance, line::SoftwareThread &thread,
                                        SiteCount count, LatencyLevel level) {
  SiteImpl &site = instance.site();
  DomainImpl &domain = instance.domain();
  Errc unacknowledged = Errc::kOk;
  if (domain.durable() != nullptr) [[unlikely]]
    unacknowledged = domain.acknowledge_lines(thread.durable_at(), instance.durability());
  if (instance.timed().count != 0) site.committed_at_lines(instance.timed(), level);
  site.add(count, 1);
  count_granted(site, thread);
  if (is_unlimited(instance.state())) [[unlikely]]
    learn_unlimited_commit(instance);
  else
    learn_line_commit(site, instance.kind(), thread.context());
  instance.leave_lines();
  run_actions(true);      // last: one may close the domain, and its threads with it
  check(unacknowledged);  // as at level 2: committed, and perhaps not durable
}

}  // namespace tmh::detail
