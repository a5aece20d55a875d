// levels/line/process_thread.h -- level 1 in software for code that was compiled for transactions,
// over all memory of one process: stores in place.
// Why:       compiled code mixes plain accesses with barriers (what it passes by value, loops that
//            become memset, loads moved out of a block). They see what barriers have stored only
//            where that is in memory.
// Shape:     a SoftwareThread whose memory is all of the process (process_lines.h), with a write
//            policy of its own: the first store to a line locks its word, the bytes that a store
//            overwrites are kept (process_undo.h), and memory has the new ones. A commit gives the
//            words back with its stamp; an abort restores the bytes first, and stamps, too: who has
//            loaded such a byte meanwhile must see the word changed. Reads, snapshots and their
//            extension are level 1's. Lines may share a word. No other process recovers it, no
//            rival fails it and no level is above: the context's status stays IDLE.
// Invariant: (1) the word of a line with bytes that are not committed is locked by their thread.
//            (2) a thread that has locked a word waits for another's lock only briefly.
// Contexts:  as SoftwareThread.
// Source:    TinySTM (write-through). We differ: locks and undo by lines, and stamps of aborts from
//            the clock instead of incarnation numbers.
#pragma once

#include <atomic>
#include <cstdint>

#include "levels/line/process_lines.h"
#include "levels/line/process_undo.h"
#include "levels/line/software.h"

namespace tmh::line {

class ProcessThread : public SoftwareThread {
 public:
  // REQUIRES: memory is LineMemory::open_process()'s, or the thread never attaches. leave: as
  // SoftwareThread.
  ProcessThread(LineMemory &memory, Releaser &releaser, Leave leave)
      : SoftwareThread(memory, releaser, nullptr, leave) {}
  ~ProcessThread() { detach(); }

  // As SoftwareThread. The short ways are open from here on.
  [[nodiscard]] Errc attach(std::uint32_t slot, std::uint64_t incarnation) noexcept;
  void detach() noexcept;
  // As SoftwareThread's, for updates. Of `options` the attempt counts.
  inline bool begin(const Begin &options) noexcept;
  // The same behind wait_to_begin_again(), which an attempt that is not the first waits for.
  inline void begin_at_once(std::uint32_t attempt) noexcept;
  // kCommitted: rv is its stamp; where it has stored nothing, its snapshot. kAborted: memory is as
  // it was.
  [[nodiscard]] inline Status commit() noexcept;
  // False: the instance is still there, with its stores, and abandon() must follow. (That stores to
  // frames of the stack, and the caller's may lie among them.)
  [[nodiscard]] inline bool try_commit() noexcept;
  // As SoftwareThread's; memory is as it was.
  void abandon() noexcept;
  [[nodiscard]] bool extend() noexcept;

  // The long way of detail::line_load_by().
  [[nodiscard]] std::uint64_t load_word(std::uintptr_t from, std::uint32_t size);
  // Any bytes within one line, as a load or store of a word.
  void load_block(void *to, std::uintptr_t from, std::uint32_t size);
  // False: it is plain memory; nothing is stored.
  [[nodiscard]] bool store_block(std::uintptr_t to, const void *from, std::uint32_t size);
  // As load_block() and store_block(), for any number of lines. REQUIRES: no line is met by both
  // blocks; both end below kProcessBytes.
  void copy_lines(std::uintptr_t to, std::uintptr_t from, std::size_t size);
  // Makes the line of this address the newest: it is locked, and the next store to it needs no more
  // than keep(). REQUIRES: below kProcessBytes.
  inline void open_process_line(std::uintptr_t at);
  // Keeps these bytes of the newest line as they are, where they are not kept yet.
  inline void keep(std::uintptr_t at, std::uint32_t size) noexcept;

  // The next store looks where it goes.
  void leave_newest() noexcept { newest = detail::kNoLine; }
  // Has this thread locked the line of this address (not another line that has its word)?
  [[nodiscard]] bool has_locked(std::uintptr_t at) noexcept;

  // A nested instance that may be undone alone begins. Throws nothing.
  struct Mark {
    std::uint32_t size = 0;   // entries then
    std::uint32_t layer = 0;  // of the instance around it
  };
  [[nodiscard]] Mark mark() noexcept;
  // It has ended, and belongs to the instance around it.
  void drop_mark(const Mark &mark) noexcept { layer_ = mark.layer; }
  // What it has stored is undone. It stays: its lines are locked still.
  void roll_back_to(const Mark &mark) noexcept;
  // Also of the last instance.
  [[nodiscard]] bool has_stored() const noexcept { return has_stored_; }

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
  // Where others see at which snapshot the running instance reads: extend() moves it on.
  void show_snapshot_at(std::atomic<std::uint64_t> *at) noexcept { shown_ = at; }

 private:
  [[nodiscard]] LineWord &word_of(std::uintptr_t at) noexcept {
    return memory_.segment(0).words[process_word_number(at / kLineBytes)];
  }
  [[nodiscard]] bool is_own(std::uint64_t word) const noexcept {
    return is_locked(word) && context_of(word) == number_;
  }
  void use(LineUndo &entry) noexcept;
  void add_entry(LineWord &word, std::uintptr_t at, std::uint64_t before,
                 std::uint32_t older) noexcept;
  void open_any_process_line(std::uintptr_t at);
  void keep_more(std::uint64_t mask) noexcept;
  void settle(LineWord &word, std::uint64_t seen);
  template <class Load>
  inline void read(std::uintptr_t from, const Load &load);
  inline void prepare(std::uintptr_t to, std::uint32_t size);
  void answer();
  void wait_briefly() const noexcept;

  void end() noexcept {
    is_running_ = false;
    if (priority_.is_mine()) [[unlikely]]
      priority_.give(number_);
  }
  class Steps;
  [[nodiscard]] bool commit_stores() noexcept;
  [[nodiscard]] bool are_unchanged() noexcept;
  void undo() noexcept;

  ProcessUndo undo_;
  std::uint32_t layer_ = 0;  // first entry of the innermost instance that may be undone alone
  bool has_stored_ = false;
  std::uint64_t moved_at_rv_ = 0;   // of the snapshot that answer() has moved to,
  std::size_t moved_at_reads_ = 0;  // and how much was read then
};

}  // namespace tmh::line
