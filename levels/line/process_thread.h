// levels/line/process_thread.h -- level 1 in software for code that was compiled for transactions:
// blocks of bytes, stores that go back, and memory that the thread stores to in place.
// Shape:     a SoftwareThread whose memory is all of the process (process_lines.h). Lines may share
//            a word. No other process recovers it, no rival fails it and no level is above: its
//            commit has fewer steps (process_commit.cpp), and the context's status stays IDLE.
// Contexts:  as SoftwareThread.
#pragma once

#include <atomic>
#include <cstdint>

#include "levels/line/software.h"

namespace tmh::line {

class ProcessThread : public SoftwareThread {
 public:
  // REQUIRES: memory is LineMemory::open_process()'s, or the thread never attaches. leave: as
  // SoftwareThread.
  ProcessThread(LineMemory &memory, Releaser &releaser, Leave leave)
      : SoftwareThread(memory, releaser, nullptr, leave) {}

  // As SoftwareThread. The short ways are open from here on.
  [[nodiscard]] Errc attach(std::uint32_t slot, std::uint64_t incarnation) noexcept;
  // As SoftwareThread's, for updates. Of `options` the attempt counts.
  inline bool begin(const Begin &options) noexcept;
  // The same behind wait_to_begin_again(), which an attempt that is not the first waits for.
  inline void begin_at_once(std::uint32_t attempt) noexcept;
  [[nodiscard]] inline Status commit() noexcept;
  [[nodiscard]] std::uint64_t stamp() const noexcept { return rv; }

  // The long way of detail::line_load().
  [[nodiscard]] std::uint64_t load_word(std::uintptr_t from, std::uint32_t size);
  // Any bytes within one line, as a load or store of a word.
  void load_block(void *to, std::uintptr_t from, std::uint32_t size);
  // False: it is plain memory; nothing is stored.
  [[nodiscard]] bool store_block(std::uintptr_t to, const void *from, std::uint32_t size);
  // As load_block() and store_block(), for any number of lines. REQUIRES: no line is met by both
  // blocks; both end below kProcessBytes.
  void copy_lines(std::uintptr_t to, std::uintptr_t from, std::size_t size);
  // Makes the line of this address the newest: the next store to it goes to newest_bytes. REQUIRES:
  // below kProcessBytes.
  inline LineWrite &open_process_line(std::uintptr_t at);

  // Nested instances that may be undone alone.
  using Writes = WriteSet::Copy;
  void copy_writes(Writes *to) const { commit_.writes().copy_to(to); }
  void restore_writes(const Writes &from) noexcept {
    commit_.writes().restore(from);
    newest = detail::kNoLine;
  }
  // Also of the last instance.
  [[nodiscard]] bool has_stored() const noexcept { return !commit_.writes().empty(); }

  // What the attempt has written of these bytes, which lie in one line, goes to memory now and
  // leaves the writes. REQUIRES: no other thread uses them; the caller keeps what was there.
  void store_now(std::uintptr_t at, std::uint32_t size) noexcept;
  // The thread stores in place to some bytes of this line, which the attempt may have written.
  void never_keep(std::uintptr_t at) noexcept;

  // No access takes a short way, and no store finds the newest line, before the next begin().
  void shut() noexcept {
    window_.shut(*this);
    newest = detail::kNoLine;
  }
  // What begin() waits for where an attempt came before: other instances. Before others wait for
  // this one.
  void wait_to_begin_again(std::uint32_t attempt) noexcept;
  // Another one has priority: it is about to end, and what begins now would likely fail.
  void let_go_first_briefly() const noexcept {
    // relaxed: a hint
    if (state_->priority.load(std::memory_order_relaxed) != 0 && !priority_.is_mine()) [[unlikely]]
      wait_briefly();
  }
  // Others need not let it commit first any more.
  void give_way() noexcept {
    if (priority_.is_mine()) priority_.give(context_number());
  }
  // LineAccess::bytes, to which another thread may store 0: this thread's next access that leaves
  // the line read last, or opens one to store to, then moves its snapshot on, or fails. One that
  // has just done so reads a quarter more first.
  [[nodiscard]] static std::uint64_t window_bytes(const detail::LineAccess &access) noexcept {
    auto &bytes = const_cast<std::uint64_t &>(access.bytes);
    return std::atomic_ref<std::uint64_t>(bytes).load(std::memory_order_relaxed);  // a hint
  }
  static void ask_to_move_on(std::uint64_t *window_bytes) noexcept {
    std::atomic_ref<std::uint64_t>(*window_bytes).store(0, std::memory_order_relaxed);  // a hint
  }
  // Where others see at which snapshot the running instance reads: extend() moves it on.
  void show_snapshot_at(std::atomic<std::uint64_t> *at) noexcept { shown_ = at; }

 private:
  [[nodiscard]] LineWrite *find_entry(std::uintptr_t at) noexcept;
  LineWrite &open_any_process_line(std::uintptr_t at);
  template <class Copy>
  [[nodiscard]] inline bool read_block(std::byte *to, std::uintptr_t from, std::uint32_t size,
                                       const Copy &copy);
  void load_block_long(std::byte *to, std::uintptr_t from, std::uint32_t size);
  [[nodiscard]] inline bool is_whole(LineWrite &entry, std::uintptr_t at);
  [[nodiscard]] inline bool make_whole(LineWrite &entry, std::uintptr_t at);
  [[nodiscard]] bool read_word(std::uintptr_t from, std::uint32_t size, std::uint64_t *value);
  void answer();
  void wait_briefly() const noexcept;

  void end() noexcept {
    is_running_ = false;
    if (priority_.is_mine()) [[unlikely]]
      priority_.give(number_);
  }
  [[nodiscard]] Status commit_writes() noexcept;
  [[nodiscard]] bool lock_word(LineWord &word, std::uint32_t number) noexcept;
  [[nodiscard]] bool lock_word_in_use(LineWord &word, std::uint32_t number) noexcept;
  [[nodiscard]] bool are_unchanged() noexcept;
  void release_words(std::size_t count) noexcept;

  std::uint64_t moved_at_rv_ = 0;   // of the snapshot that answer() has moved to,
  std::size_t moved_at_reads_ = 0;  // and how much was read then
};

}  // namespace tmh::line
