// include/tmh/transaction.hpp -- atomically() and query(): a body as one transaction, retried until it commits.
// Contexts:  as domain.hpp.
// Source:    thesis, sections 2.1 (retry loop) and 2.3 (read-only transactions).
#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include <tmh/domain.hpp>

namespace tmh {

// Runs body() as one transaction and returns its value; retries until it commits. Inside another instance it is
// subsumed: it runs once, and the outermost level retries. An exception rolls back and propagates; when the instance
// had already FAILED the exception belongs to an attempt that never happened, and the body runs again.
// Only stores into segments are rolled back: locals keep what the last attempt left in them.
template <class Body>
auto atomically(const Domain &domain, Body &&body) -> std::invoke_result_t<Body &> {
  using Result = std::invoke_result_t<Body &>;
  const bool outermost = domain.depth() == 0;
  for (;;) {
    domain.begin();
    try {
      if constexpr (std::is_void_v<Result>) {
        body();
        if (domain.end() != Status::kAborted) return;
      } else {
        std::optional<Result> result(body());
        if (domain.end() != Status::kAborted) return *std::move(result);
      }
    } catch (const detail::RetryNow &) {
      if (!outermost) {
        (void)domain.end();
        throw;
      }
      domain.abort();
      domain.await_change();
      continue;
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

// Runs body() once as a read-only transaction on one consistent snapshot. Never aborts. A store into a segment is
// discarded and reported as Error(kQueryWrote).
template <class Body>
auto query(const Domain &domain, Body &&body) -> std::invoke_result_t<Body &> {
  using Result = std::invoke_result_t<Body &>;
  domain.begin_query();
  try {
    if constexpr (std::is_void_v<Result>) {
      body();
      domain.end_query();
      return;
    } else {
      Result result = body();
      domain.end_query();
      return result;
    }
  } catch (const Error &) {
    if (domain.depth() != 0) domain.end_query();
    throw;
  } catch (...) {
    domain.end_query();
    throw;
  }
}

}  // namespace tmh
