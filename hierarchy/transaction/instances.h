// hierarchy/transaction/instances.h -- the instances of level 2 of one domain in this process:
// begin, end, nesting, age, turn, back-off, and what follows their retry().
// Shape:     acts on a domain's PageRunners, and has no state of its own: made where it is needed.
//            What an instance is lies in current().pages.
// Sharing:   threads: an instance belongs to the thread that began it; it holds its runner's mutex.
//            On the process's views others wait at begin, on a thread's own they run beside it.
// Contexts:  NOT async-signal-safe.
// Source:    thesis, sections 2.1 (nested transactions are subsumed) and 3.3 (policies).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tmh/domain.hpp>

#include "hierarchy/domain/domain.h"
#include "hierarchy/durability/durability.h"
#include "hierarchy/threads/threads.h"
#include "levels/page/page.h"
#include "storage/latency_table.h"

namespace tmh::detail {

// Where an instance of level 2 wants to run.
enum class RunsIn : std::uint8_t {
  kProcessView,
  kThreadView,          // where the domain's options and what is free allow
  kProcessViewInstead,  // a thread's view has turned out not to do
};

// Why it runs there: see hierarchy::Learned.
enum class Presence : std::uint8_t { kHost, kGuest };

// What a begin asks for.
struct BeginOptions {
  RunsIn where = RunsIn::kProcessView;
  // Whose times the instance's are; null: of no site.
  storage::LatencySite *site = nullptr;
  Presence presence = Presence::kHost;
  // Of an update; unset: the policy's.
  Isolation isolation{};
  // A query's; null: the present.
  const Moment *moment = nullptr;
};

class Instances {
 public:
  explicit Instances(DomainImpl &domain) noexcept : domain_(domain), runners_(domain.runners()) {}

  [[nodiscard]] Errc begin(bool is_query, const BeginOptions &options = {}) noexcept;
  // durability: of this commit's acknowledgement; unset: the domain's.
  [[nodiscard]] Errc end(bool is_query, Status *status,
                         Durability durability = Durability{}) noexcept;
  [[nodiscard]] Errc abort(AbortCause cause = AbortCause::kUser) noexcept;
  [[nodiscard]] Errc validate(Status *status) noexcept;
  [[nodiscard]] std::uint32_t depth() const noexcept;
  [[nodiscard]] Errc advise(const void *address, Access access, std::size_t bytes) noexcept;
  [[nodiscard]] Errc copy(const void *from, void *to, std::size_t bytes) noexcept;
  // is_pending: false: the instance has FAILED. See page::Engine.
  [[nodiscard]] Errc become_irrevocable(bool *is_pending) noexcept;
  [[nodiscard]] Errc promote(const void *address, std::size_t bytes) noexcept;
  void backoff() noexcept;
  // Also returns when another thread closes the domain. kNotMapped: it has unmapped what retry()
  // waits for.
  [[nodiscard]] Errc await_change() noexcept;
  [[nodiscard]] std::uint64_t collect() noexcept;
  // See tmh::Domain.
  [[nodiscard]] Errc keep_moment(std::string_view name, std::uint64_t *clock) noexcept;
  [[nodiscard]] Errc forget_moment(std::string_view name) noexcept;
  [[nodiscard]] Errc past(PastInfo *info) noexcept;

  [[nodiscard]] Errc set_policy(std::string_view spec) noexcept;

 private:
  [[nodiscard]] PageRunner &lock_runner(RunsIn where, bool *fell_back) noexcept;
  [[nodiscard]] Errc begin_nested(bool is_query, const BeginOptions &options) noexcept;
  [[nodiscard]] Errc begin_on(PageRunner &runner, bool is_query,
                              const BeginOptions &options) noexcept;
  [[nodiscard]] Errc begin_exact_reads(page::Engine &engine) noexcept;
  [[nodiscard]] bool has_moved_at_lines(const page::ReadSet &reads) const noexcept;
  [[nodiscard]] bool has_moved_at_pages(const page::ReadSet &reads,
                                        std::uint64_t snapshot) const noexcept;
  [[nodiscard]] Errc check_past() noexcept;
  // REQUIRES that the domain stays open.
  [[nodiscard]] KeptMoments kept_moments() const noexcept;
  [[nodiscard]] Errc fail_not_held(const Moment &moment, page::Engine &engine) noexcept;
  [[nodiscard]] bool runs_here() const noexcept { return runners_.runs_here(); }
  void count_attempt(PageRunner &runner) const noexcept;
  static void leave_turn(PageRunner &runner) noexcept;
  void finish(PageRunner &runner) noexcept;

  DomainImpl &domain_;
  PageRunners &runners_;
};

// Of this thread's instance of level 2. REQUIRES there is one. Throws Error, and RetryNow when it
// has FAILED.
void become_irrevocable_here();
// Of this thread's instance of level 2. REQUIRES there is one. Throws Error.
void promote_here(const void *address, std::size_t bytes);
[[nodiscard]] bool irrevocable_here() noexcept;
// REQUIRES an instance of level 2 of this thread: notes what it has read for await_change(). Throws
// Error(kNothingRead).
void note_page_reads_here();

}  // namespace tmh::detail
