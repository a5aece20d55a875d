// hierarchy/watch/slow_readers.h -- finds participants whose snapshots keep versions for too long,
// tells the program, and does what it says about them.
// Shape:     one per domain and process. Asleep unless the program has on_slow_reader, or
//            TMH_SLOW_READER says something. A look reads pins without a lock, and version
//            slots under the domain lock, some at a time; what it finds is told outside of every
//            lock.
// Invariant: what is done hits the instance that was found or none: asking names it by its number,
//            under the domain lock; killing looks for the number once more, and then names the
//            process by pid and start time. An instance that ends between these two does not save
//            its process.
// Sharing:   threads: all may look; one at a time does.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include <tmh/domain.hpp>

#include "hierarchy/threads/threads.h"
#include "hierarchy/watch/slow_reader_rule.h"
#include "levels/page/shared/shared.h"
#include "platform/assert.h"
#include "platform/process.h"

namespace tmh::detail {

class SlowReaders {
 public:
  // Of the domain; outlives it.
  explicit SlowReaders(const DomainThreads &threads) noexcept : threads_(threads) {}
  SlowReaders(const SlowReaders &) = delete;
  SlowReaders &operator=(const SlowReaders &) = delete;

  // Before the domain is open. The program's function goes before the variable's rule. memory and
  // options outlive this. self: this, which keeps its domain's object.
  void use(const page::SharedState &memory, const DomainOptions &options,
           const hierarchy::SlowReaderRule &rule, const std::shared_ptr<SlowReaders> &self);
  // Keeps the domain's object.
  [[nodiscard]] std::shared_ptr<SlowReaders> keep() const noexcept { return self_.lock(); }
  [[nodiscard]] bool is_watched() const noexcept { return is_watched_; }
  // At most every slow_reader_ms, or 100 ms. REQUIRES: the caller keeps the domain's object, runs
  // no instance and has no lock.
  void look() noexcept;

 private:
  struct Reader {
    ParticipantInfo info;
    std::uint64_t incarnation = 0, instance = 0;
    std::uint64_t age_ns = 0;
    std::uint64_t held_bytes = 0;
    platform::ProcessId process;
  };
  struct Told {
    std::uint32_t slot;
    std::uint64_t instance;
    std::uint64_t at_ns;
  };

  void look_at(std::uint64_t now_ns) noexcept;
  [[nodiscard]] std::vector<Reader> find(std::uint64_t now_ns);
  [[nodiscard]] bool read(std::uint32_t slot, std::uint64_t now_ns, Reader *out) const;
  [[nodiscard]] bool was_told(const Reader &reader, std::uint64_t now_ns) const noexcept;
  void note_told(const Reader &reader, std::uint64_t now_ns);
  void forget_ended();
  [[nodiscard]] SlowReader ask_program(const Reader &reader) const noexcept;
  void report(const Reader &reader) const noexcept;
  void ask_to_end(const Reader &reader) noexcept;
  [[nodiscard]] bool end_process(const Reader &reader) noexcept;

  [[nodiscard]] page::Engine &engine() const noexcept {
    TMH_ASSERT(threads_.runners.process().engine != nullptr);
    return *threads_.runners.process().engine;
  }

  const DomainThreads &threads_;
  const page::SharedState *memory_ = nullptr;
  std::weak_ptr<SlowReaders> self_;
  const DomainOptions *options_ = nullptr;
  hierarchy::SlowReaderRule rule_;
  bool is_watched_ = false;
  std::uint64_t slow_after_ns_ = 0;
  std::uint64_t look_period_ns_ = 0;
  // One thread looks, or is in the program's function.
  std::atomic<bool> is_looking_{false};
  std::atomic<std::uint64_t> next_look_ns_{0};
  // Of running instances; the looking thread's.
  std::vector<Told> told_;
};

}  // namespace tmh::detail
