// hierarchy/threads/page_runners.h -- where the instances of level 2 of one domain run in this
// process: on the process's views, of which there is one runner, or on their threads' own
// (thread_views.h); and the policy by which they meet.
// Sharing:   threads: an instance holds its runner's mutex. On the process's views others wait at
//            begin, on a thread's own they run beside it.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include <tmh/options.hpp>

#include "hierarchy/threads/current.h"
#include "hierarchy/threads/open_state.h"
#include "hierarchy/threads/page_runner.h"
#include "hierarchy/threads/thread_views.h"

namespace tmh::detail {

class PageRunners {
 public:
  // open: of the domain; outlives it.
  explicit PageRunners(const OpenState &open) : views_(open) {}
  PageRunners(const PageRunners &) = delete;
  PageRunners &operator=(const PageRunners &) = delete;

  // On the process's views.
  [[nodiscard]] PageRunner &process() noexcept { return process_; }
  [[nodiscard]] const PageRunner &process() const noexcept { return process_; }
  [[nodiscard]] ThreadViews &views() noexcept { return views_; }

  // Does this thread run an instance of level 2 of this domain?
  [[nodiscard]] bool runs_here() const noexcept {
    return current().pages.runners == this &&
           current().pages.fork_generation == platform::fork_generation();
  }

  // A Policy without its page cache, in a register. For atomics of a struct that is aligned to less
  // than its size clang calls a library.
  struct alignas(8) PolicyWord {
    ConflictPolicy conflict = Policy{}.conflict;
    Backoff backoff = Policy{}.backoff;
    bool keep_age = Policy{}.keep_age;
    Isolation isolation = Policy{}.isolation;
    std::uint32_t backoff_us_max = Policy{}.backoff_us_max;
  };

  // relaxed: a policy stands for itself, and so does the page cache.
  [[nodiscard]] PolicyWord policy_word() const noexcept {
    return policy_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] PageCache page_cache() const noexcept {
    const CacheWord word = page_cache_.load(std::memory_order_relaxed);
    return {word.kind, word.limit};
  }
  [[nodiscard]] Policy policy() const noexcept {
    const PolicyWord word = policy_word();
    return {word.conflict,  word.backoff,        word.keep_age,
            word.isolation, word.backoff_us_max, page_cache()};
  }
  void use_policy(const Policy &policy) noexcept {
    policy_.store(
        {policy.conflict, policy.backoff, policy.keep_age, policy.isolation, policy.backoff_us_max},
        std::memory_order_relaxed);
    page_cache_.store({policy.page_cache.kind, policy.page_cache.limit}, std::memory_order_relaxed);
  }

 private:
  struct alignas(8) CacheWord {
    PageCacheKind kind = PageCache{}.kind;
    std::uint32_t limit = PageCache{}.limit;
  };
  // Change while other threads begin and back off.
  std::atomic<PolicyWord> policy_{};
  std::atomic<CacheWord> page_cache_{};
  static_assert(sizeof(PolicyWord) == 8 && std::atomic<PolicyWord>::is_always_lock_free);
  static_assert(sizeof(CacheWord) == 8 && std::atomic<CacheWord>::is_always_lock_free);
  PageRunner process_;
  ThreadViews views_;
};

}  // namespace tmh::detail
