// levels/process/view.h -- what this task has mapped at each page of the covered memory, and
// how that changes.
// Shape:     nothing (a trap), a copy for transactions, or home, shared, for plain code. Copies are
//            kept from one transaction to the next. A copy is write-protected until the first store
//            to it; then it has a twin, and commits compare the two.
// Invariant: (1) inside, the copies are what the pin shows, with the transaction's own stores; each
//            twin is what the pin shows.
//            (2) a copy that outlives its transaction was made while no task held the page; who
//            holds it later says so in the log.
//            (3) this task's bit of a page's holders is set exactly while the page is mapped shared
//            and writable here.
//            (4) this task's bit of a page's sharers is set while home is mapped there.
//            (5) pages of the task's own stack are always mapped shared, and are never copied.
// Contexts:  the task's own; the functions marked [handler] run in its fault handler.
// Source:    EXCITE-VM 3.2 and 4.2 (the page cache), 4.1 (copy-on-read).
#pragma once

#include <cstddef>
#include <cstdint>

#include "levels/process/log.h"

namespace tmh::itm::pages {

enum class Mapped : std::uint8_t {
  kNothing,
  kCopy,     // write-protected
  kWritten,  // a copy with a twin
  kShared,   // home, read-only
  kHeld,     // home, writable
  kOwned,    // home, of this task alone, inside and outside
};

// How a page could be made for a snapshot.
enum class Made : std::uint8_t {
  kKept,     // may stay for later transactions
  kForNow,   // until this transaction ends
  kTooOld,   // the log has forgotten the snapshot
  kUnclear,  // plain code may have stored to it since the snapshot
};

// Without the page, the task cannot go on. The reason, and the process ends.
[[noreturn]] void die(const char *what) noexcept;

class View {
 public:
  // The main task, from now on: nothing is shared any more. clock: what its copies stand at.
  [[nodiscard]] static bool start(std::uint64_t *clock) noexcept;
  // A new task: all of the covered memory but its own stack traps.
  [[nodiscard]] static bool enter(std::uint64_t *clock) noexcept;
  // A library's data, loaded or taken away since.
  [[nodiscard]] static bool cover(const Region &region) noexcept;
  static void forget_region(const Region &region) noexcept;
  // The stack of a task that this one makes: mapped as the new task's own, and no more.
  static void open_stack(std::uint32_t slot) noexcept;
  static void close_stack(std::uint32_t slot) noexcept;
  // Forgets all copies, all holds.
  static void leave() noexcept;
  // A process forked by the program, which is no task: it has the memory as it is, for itself.
  static void enter_forked() noexcept;

  [[nodiscard]] static Mapped mapped(PageNumber page) noexcept {
    return static_cast<Mapped>(modes_[page]);
  }

  [[nodiscard]] static bool is_open_for_plain(PageNumber page, bool is_store) noexcept {
    const Mapped now = mapped(page);
    return now == Mapped::kHeld || now == Mapped::kOwned || (now == Mapped::kShared && !is_store);
  }

  // [handler] Inside, an access to a page that has no right mapping. kKept and kForNow: done.
  [[nodiscard]] static Made open_for_transaction(PageNumber page, bool is_store) noexcept;
  // [handler] Outside.
  static void open_for_plain(PageNumber page, bool is_store) noexcept;

  // Brings copies up to `clock`. REQUIRES: the copies' memory is accessible; the log has what was
  // committed since the last pull.
  // from: the clock that they stand at. False: the log has forgotten some of it meanwhile.
  [[nodiscard]] static bool pull(std::uint64_t from, std::uint64_t clock) noexcept;
  // For a commit: calls visit(page, copy, twin) for each page that may have been stored to.
  struct Written {
    PageNumber page;
    std::uint16_t idle;  // commits in a row that found no store
    bool is_pulled;      // made writable by a pull, not by a store
    std::byte *twin;
  };
  [[nodiscard]] static Written *written() noexcept { return written_; }
  [[nodiscard]] static std::byte *twin_of(PageNumber page) noexcept {
    return written_[index_[page]].twin;
  }
  [[nodiscard]] static std::uint32_t written_count() noexcept { return written_count_; }
  // Copies take back what their twins have.
  static void restore() noexcept;
  // The transaction has ended: copies for it alone go, idle twins go.
  static void tidy() noexcept;
  static void drop_all_copies() noexcept;
  // The log has forgotten what the copies miss.
  static void forget() noexcept;

  // Lets go of held pages; touched_only: of those that transactions have touched; is_in_call: but
  // not of what a call in progress uses.
  static void give_up(bool touched_only, bool is_in_call = false) noexcept;
  // Of many mappings: each costs time at each turn().
  static void give_up_many() noexcept;
  // A system call of this task is going to use this memory; a new one begins.
  static void note_call_use(std::uintptr_t at, std::size_t bytes) noexcept;
  static void forget_call_uses() noexcept { call_use_ = 0; }
  [[nodiscard]] static bool holds_any() noexcept { return runs_count_ + owned_count_ != 0; }
  // Asks others that may store plainly to the page to let go of it.
  static void recall(PageNumber page) noexcept;

  [[nodiscard]] static Position position() noexcept { return position_; }
  [[nodiscard]] static std::uint32_t copies() noexcept { return copies_; }

 private:
  friend class OwnPages;
  friend class Turns;
  struct Run {
    PageNumber first;
    std::uint32_t count;
  };
  [[nodiscard]] static Made make(PageNumber page, std::byte *out) noexcept;
  static bool put_base(PageNumber first, std::uint32_t count) noexcept;
  static bool put_home(PageNumber first, std::uint32_t count, Mapped as) noexcept;
  // UFFDIO_COPY.
  static bool fill(PageNumber first, std::uint32_t count, const std::byte *content,
                   bool is_writable) noexcept;
  static void protect(PageNumber page, bool is_protected) noexcept;
  static void add_twin(PageNumber page, const std::byte *content, bool is_pulled) noexcept;
  static void note_written(PageNumber page, std::byte *twin, bool is_pulled) noexcept;
  static void remove_written(std::uint32_t index) noexcept;
  static void remove_twin(std::uint32_t index) noexcept;
  static void drop(PageNumber page) noexcept;
  static void enter_home(PageNumber page, bool is_store) noexcept;
  static void log_image(PageNumber page) noexcept;
  static void ask(PageNumber page) noexcept;
  static void release(PageNumber page, std::uint64_t now) noexcept;
  [[nodiscard]] static bool is_in_call_use(PageNumber page) noexcept;
  static bool make_tables() noexcept;
  static void give_up_runs(bool touched_only, bool shared_too, bool is_in_call) noexcept;

  static inline std::uint8_t *modes_ = nullptr;
  static inline std::uint32_t *index_ = nullptr;  // of a page's twin in written_
  static inline Written *written_ = nullptr;
  static inline std::uint32_t written_count_ = 0, copies_ = 0, owned_count_ = 0;
  static inline PageNumber *for_now_ = nullptr;
  static inline std::uint32_t for_now_count_ = 0;
  static inline Run *runs_ = nullptr;  // ever mapped for plain code, since they were given up
  static inline std::uint32_t runs_count_ = 0;
  static inline std::byte *free_twins_ = nullptr;
  static constexpr std::uint32_t kCallUses = 16;
  static inline Run call_uses_[kCallUses];
  static inline std::uint32_t call_use_ = 0;
  static inline Position position_ = 0;  // copies have everything before it
  static inline int faults_ = -1;        // userfaultfd
  static inline PageNumber last_opened_ = kNoPage;
  static inline std::uint32_t window_ = 1;
};

}  // namespace tmh::itm::pages
