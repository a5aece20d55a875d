// include/tmh/transaction.hpp -- atomically() and query(): a body as one transaction, retried until
// it commits.
// Contexts:  as domain.hpp.
// Source:    thesis, sections 2.1 (retry loop) and 2.3 (read-only transactions).
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include <tmh/detail/body_result.hpp>
#include <tmh/detail/forced_unwinding.hpp>
#include <tmh/domain.hpp>

namespace tmh {

namespace detail {
// pthread_exit() or pthread_cancel() unwinds a body, and nothing stops it: ends what its begin has
// begun, without effects. Outermost: aborts. depth_before: Domain::depth() at its begin.
void leave_by_force(const Domain &domain, bool is_query, std::uint32_t depth_before) noexcept;
// After the end that was to be the outermost one: throws kNestedMisuse if it was not, because the
// body has begun what it has not ended.
[[noreturn]] void raise_left_open();
// retry() in the body of query_at().
[[noreturn]] void raise_past_stands();
inline void check_outermost(Status status) {
  if (status == Status::kPending || status == Status::kFailed) raise_left_open();
}
inline void end_query(const Domain &domain, bool outermost) {
  domain.end_query();
  if (!outermost || domain.depth() == 0) return;
  domain.abort();
  raise_left_open();
}
// An exception has left its body, or its end has failed.
inline void leave_query(const Domain &domain, bool outermost) {
  if (domain.depth() == 0) return;
  if (outermost && domain.depth() > 1)
    domain.abort();
  else
    domain.end_query();
}
}  // namespace detail

// Runs body() as one transaction and returns its value, an object (no reference); retries until it
// commits. Inside another instance it is subsumed: it runs once, and the outermost level retries.
// An exception rolls back and propagates; when the instance had already FAILED the exception
// belongs to an attempt that never happened, and the body runs again. What rolls back is the
// outermost instance: an exception of a subsumed body that the body around it catches undoes
// nothing.
// Only stores into segments are rolled back: locals keep what the last attempt left in them.
// pthread_exit() in the body rolls back, too, and ends the thread, FAILED or not. So does
// pthread_cancel() that a cancellation point of the body acts upon; the library's own calls are no
// place for it (they may end the program): a thread that others cancel has cancellation disabled
// outside of such points. Where stray accesses fault (docs/stray_accesses.md) the destructors of a
// body that is cancelled must not touch a segment.
// Errors: as Domain::begin() and end(). kNestedMisuse: inside a query; or the body has begun an
//         instance that it has not ended, and all is aborted.
//         Another isolation than the domain's: see Domain::begin(Isolation).
template <class Body>
TMH_CATCHES_FORCED_UNWINDING auto atomically(const Domain &domain, Isolation isolation, Body &&body)
    -> std::invoke_result_t<Body &> {
  using Result = detail::BodyResult<Body>;
  const std::uint32_t depth_before = domain.depth();
  const bool outermost = depth_before == 0;
  for (;;) {
    domain.begin(isolation);
    try {
      if constexpr (std::is_void_v<Result>) {
        body();
        const Status status = domain.end();
        if (outermost) detail::check_outermost(status);
        if (status != Status::kAborted) return;
      } else {
        std::optional<Result> result(body());
        const Status status = domain.end();
        if (outermost) detail::check_outermost(status);
        if (status != Status::kAborted) return *std::move(result);
      }
    } catch (const detail::RetryNow &why) {
      if (!outermost) {
        (void)domain.end();
        throw;
      }
      // What a FAILED instance has seen may have changed before: it does not wait.
      const bool waits = why.is_wanted && domain.validate() != Status::kFailed;
      if (waits || domain.depth() > 1)
        domain.abort();
      else
        (void)domain.end();  // FAILED: it counts as an aborted attempt
      if (waits) {
        domain.await_change();
        continue;
      }
    } catch (abi::__forced_unwind &) {
      detail::leave_by_force(domain, false, depth_before);
      throw;
    } catch (...) {
      if (domain.depth() == 0) throw;  // end() itself failed, or the body ended the instance
      if (!outermost) {
        (void)domain.end();
        throw;
      }
      const bool doomed = domain.validate() == Status::kFailed;
      domain.abort();
      if (!doomed) throw;
    }
    domain.backoff();
  }
}

template <class Body>
auto atomically(const Domain &domain, Body &&body) -> std::invoke_result_t<Body &> {
  return atomically(domain, Isolation{}, body);
}

// From here on the running instance cannot abort, so its body may do what cannot be undone: print,
// send, start a motor. Until it has ended no other instance of the domain commits at level 2, and
// no instance of level 1 changes a page that it has touched; all may begin, read and go on at
// level 1 elsewhere. A second one waits here for the first to end. Waits for no other but, at
// most 200 ms, a starving instance that has the turn. If its process dies, others go on within a
// second.
//   At level 1: begins again at level 2, and comes back here. An instance that has FAILED already
// aborts here and begins again (by an exception that is no std::exception; with begin() and end()
// by hand: abort() and begin again). Nested: holds for the outermost instance. Room on the disk for
// what has been written so far is reserved here; kDiskFull, kOutOfMemory: not done, the instance is
// as it was and may abort. NOT covered: no room, on the disk or in memory, for pages that are
// written or first touched after it, or for the redo log of a durable domain: then end() reports
// the error and the instance aborts. abort() and an exception that leaves the body still roll back;
// retry() is refused. Errors: kEndWithoutBegin; kNestedMisuse in a query; kNeedsPages at a site
// that may not leave level 1.
void become_irrevocable();

// In an update: what it has read in [address, address + bytes) counts as written, by lines of 64
// bytes, with the content that it has (read promotion; EXCITE-VM, section 5.3). Of two updates that
// overlap in time, of which one promotes what the other one writes or promotes, the second fails,
// whichever it is. So a snapshot instance that promotes what its decision rests on has no write
// skew there. A serializable one needs it only against snapshot instances that read what it writes.
// At level 1 and in eager domains instances are serializable among each other: nothing happens. In
// a query: nothing happens.
//   Errors: kEndWithoutBegin; kNotMapped: the bytes do not lie in a segment; kOutOfMemory. What is
//   promoted takes room in the redo log of a durable domain as an empty record.
// Source: EXCITE-VM, section 5.3.
void promote(const void *address, std::size_t bytes);
template <class Object>
void promote(const Object &object) {
  promote(&object, sizeof object);
}

// In a body: should it end soon? True: the running instance has been asked to end, because it keeps
// versions (DomainOptions::on_slow_reader, tmh kill-stuck), or an update has FAILED. An update that
// returns then is undone and runs again, as it would be later. A query never aborts, nor does it
// run again by itself: its body returns what it has, or throws. A scan that notes where it stands
// goes on from there in a next query, which has a new snapshot. At level 1, where no instance keeps
// versions: has it FAILED? In RTM, and outside of instances: false. Costs a few loads.
[[nodiscard]] bool should_end() noexcept;

// Runs body() as a read-only transaction on one consistent snapshot, and returns its value, an
// object: once, unless it calls retry(). Never aborts. A store into a segment is discarded and
// reported as Error(kQueryWrote). Inside an update it is subsumed: it sees the update's stores, and
// its own are the update's.
// Errors: as Domain::begin_query() and end_query(). kNestedMisuse: the body has begun an instance
//         that it has not ended.
template <class Body>
TMH_CATCHES_FORCED_UNWINDING auto query(const Domain &domain, Body &&body)
    -> std::invoke_result_t<Body &> {
  using Result = detail::BodyResult<Body>;
  const std::uint32_t depth_before = domain.depth();
  const bool outermost = depth_before == 0;
  for (;;) {
    domain.begin_query();
    try {
      if constexpr (std::is_void_v<Result>) {
        body();
        detail::end_query(domain, outermost);
        return;
      } else {
        Result result = body();
        detail::end_query(domain, outermost);
        return result;
      }
    } catch (const detail::RetryNow &) {
      detail::leave_query(domain, outermost);
      if (!outermost) throw;
    } catch (abi::__forced_unwind &) {
      detail::leave_by_force(domain, true, depth_before);
      throw;
    } catch (...) {
      detail::leave_query(domain, outermost);
      throw;
    }
    domain.await_change();
  }
}

// Runs body() once on the domain as it was at `moment`, and returns its value: as query(), which
// this is in all else. Reads cost a page's copy where the page has changed since. Other instances
// go on meanwhile, and what the body reads is held until it ends, whatever DomainOptions::history
// says.
//   The past does not change: retry() in the body throws Error(kNothingRead).
// Errors: as query(). kNotHeld: the moment is older than what is held, or is still to come, or has
//         no such name; kNestedMisuse: inside an instance; kLevelsMismatch: a hybrid domain.
// Source: EXCITE-VM, section 3; docs/history.md.
template <class Body>
TMH_CATCHES_FORCED_UNWINDING auto query_at(const Domain &domain, const Moment &moment, Body &&body)
    -> std::invoke_result_t<Body &> {
  using Result = detail::BodyResult<Body>;
  domain.begin_query_at(moment);
  try {
    if constexpr (std::is_void_v<Result>) {
      body();
      detail::end_query(domain, true);
      return;
    } else {
      Result result = body();
      detail::end_query(domain, true);
      return result;
    }
  } catch (const detail::RetryNow &) {
    detail::leave_query(domain, true);
  } catch (abi::__forced_unwind &) {
    detail::leave_by_force(domain, true, 0);
    throw;
  } catch (...) {
    detail::leave_query(domain, true);
    throw;
  }
  detail::raise_past_stands();
}

}  // namespace tmh
