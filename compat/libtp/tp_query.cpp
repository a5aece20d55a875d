// compat/libtp/tp_query.cpp -- the C interface of queries.
// Contexts:  NOT async-signal-safe.
#define TP_NO_SHORT_NAMES
#include <tp/paper.h>

#undef tp_lock

#include <chrono>
#include <optional>

#include <tmh/past.hpp>

#include "compat/libtp/calls.h"
#include "compat/libtp/query.h"

using namespace tmh::tp;  // NOLINT(google-build-using-namespace): it defines C functions alone

namespace {

int begin(tp_env *env, const std::optional<tmh::Moment> &moment) {
  return guarded_env(env, [&](Environment &environment) {
    if (tp_paper_txn() != nullptr)
      throw tmh::Error(tmh::Errc::kInstanceRunning, "this thread's transaction has not ended");
    Query::begin(environment, moment);
  });
}

}  // namespace

extern "C" {

int tp_query_begin(tp_env *env) { return begin(env, std::nullopt); }

int tp_query_begin_at(tp_env *env, uint64_t time_ns) {
  const std::chrono::nanoseconds since(static_cast<std::int64_t>(time_ns));
  const std::chrono::system_clock::time_point time(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(since));
  return begin(env, tmh::Moment::time(time));
}

int tp_query_end(void) {
  return guarded([] { Query::end(); });
}

uint64_t tp_query_serial(const tp_env *env) {
  return env == nullptr ? 0 : Query::serial(env->environment);
}

int tp_query_copy(tp_env *env, const void *from, void *to, size_t bytes) {
  if (from == nullptr || to == nullptr) return refused("a copy of nothing");
  return guarded_env(env, [&](Environment &environment) {
    if (Query::serial(environment) == 0)
      throw tmh::Error(tmh::Errc::kEndWithoutBegin, "this thread runs no query");
    environment.managers().domain().copy(from, to, bytes);
  });
}

int tp_query_unfinished(tp_env *env, tp_visit_fn visit, void *argument) {
  if (visit == nullptr) return refused("nobody to tell");
  int why = 0;
  const int error = guarded_env(env, [&](Environment &environment) {
    if (Query::serial(environment) == 0)
      throw tmh::Error(tmh::Errc::kEndWithoutBegin, "this thread runs no query");
    why = Query::unfinished(environment, [&](std::uint64_t transaction, const Record &record) {
      const tp_record told{record.type, record.lsn, transaction, record.data.data(),
                           record.data.size()};
      return visit(&told, argument);
    });
  });
  return error != TP_OK ? error : why;
}

}  // extern "C"
