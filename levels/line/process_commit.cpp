// levels/line/process_commit.cpp -- the end of an instance over all memory of the process: words go
// back with a stamp, behind the bytes that they had locked.
#include <bit>

#include "levels/line/commit_steps.h"
#include "levels/line/process_thread.h"
#include "levels/line/software_inline.h"
#include "levels/line/validation.h"
#include "observe/probes.h"
#include "platform/assert.h"

namespace tmh::line {

namespace {

template <class Unsigned>
void store_part(std::byte *home, std::uint64_t value, std::size_t at) noexcept {
  // release: pairs with the acquire in detail::line_load_by()
  std::atomic_ref<Unsigned>(*reinterpret_cast<Unsigned *>(home + at))
      .store(static_cast<Unsigned>(value >> (8 * at)), std::memory_order_release);
}

// Bytes of one 8-byte word. Other threads may store plainly to those that the mask does not name:
// they are objects of their own. By the largest aligned parts.
[[gnu::noinline]] void store_bytes(std::byte *home, std::uint64_t value,
                                   std::uint64_t byte_mask) noexcept {
  for (std::size_t at = 0; at < 8;) {
    const auto has = [&](std::uint64_t bytes) { return (byte_mask >> at & bytes) == bytes; };
    if (at % 4 == 0 && has(0xf)) {
      store_part<std::uint32_t>(home, value, at);
      at += 4;
    } else if (at % 2 == 0 && has(0x3)) {
      store_part<std::uint16_t>(home, value, at);
      at += 2;
    } else {
      if (has(1)) store_part<std::uint8_t>(home, value, at);
      ++at;
    }
  }
}

// The bytes as they were. Other threads may load them meanwhile, and find the word locked.
inline void restore_line(const LineUndo &entry) noexcept {
  std::byte *const home = entry.home;
  for (std::uint64_t left = entry.mask; left != 0;) {
    const std::size_t word = static_cast<std::size_t>(std::countr_zero(left)) / 8;
    const std::uint64_t byte_mask = left >> (8 * word) & 0xff, value = entry.data[word];
    std::byte *const at = home + 8 * word;
    left &= ~(0xffull << (8 * word));
    if (byte_mask == 0xff)
      store_part<std::uint64_t>(at, value, 0);
    else if (byte_mask == 0x0f)
      store_part<std::uint32_t>(at, value, 0);
    else if (byte_mask == 0xf0)
      store_part<std::uint32_t>(at, value, 4);
    else
      store_bytes(at, value, byte_mask);
  }
}

}  // namespace

[[gnu::noinline]] void ProcessUndo::restore(std::uint32_t first) noexcept {
  for (std::uint32_t i = count_; i-- > first;) {
    restore_line(at(i));
    at(i).mask = 0;
  }
}

inline void ProcessUndo::release(std::uint64_t stamp) noexcept {
  for (std::uint32_t i = 0; i < count_; ++i) {
    const LineUndo &entry = at(i);
    // release: pairs with the acquire of the thread that reads or locks the line next
    if (entry.older == kNoEntry) entry.word->store(stamp, std::memory_order_release);
  }
  count_ = 0;
}

// Nothing that the attempt has stored is left. A thread that has loaded a byte of it, and not yet
// looked at the word again, finds a stamp there that it has not seen before.
[[gnu::noinline]] void ProcessThread::undo() noexcept {
  if (undo_.empty()) return;
  undo_.restore(0);
  undo_.release(state_->clock.fetch_add(1, std::memory_order_seq_cst) + 1);
  layer_ = 0;
  newest = detail::kNoLine;
}

[[gnu::noinline]] bool ProcessThread::are_unchanged() noexcept {
  return line::are_unchanged(reads(), rv, number_,
                             [&](std::uint32_t entry) { return undo_[entry].before; });
}

bool ProcessThread::extend() noexcept {
  return SoftwareThread::extend([&](std::uint32_t entry) { return undo_[entry].before; });
}

// Each store has locked its line, and is home.
class ProcessThread::Steps {
 public:
  explicit Steps(ProcessThread &thread) noexcept : thread_(thread) {}

  [[nodiscard]] inline Ending lock() const noexcept { return {}; }
  inline void prepare() const noexcept {}
  [[nodiscard]] std::atomic<std::uint64_t> &clock() const noexcept { return thread_.state_->clock; }
  inline void note_stamp(std::uint64_t) const noexcept {}
  // No other process and no rival is asked: the words alone say that it has committed.
  [[nodiscard]] inline Ending pass_commit_point(std::uint64_t stamp) const noexcept {
    if (is_next(stamp, thread_.rv) || thread_.are_unchanged()) [[likely]]
      return {};
    return AbortCause::kValidation;
  }
  inline void give_back() const noexcept {}  // abandon() must follow
  inline void write_back(std::uint64_t) const noexcept {}
  inline void unlock(std::uint64_t stamp) noexcept {
    thread_.undo_.release(stamp);
    thread_.rv = stamp;
  }
  inline void end() noexcept {
    thread_.layer_ = 0;
    thread_.newest = detail::kNoLine;
  }

 private:
  ProcessThread &thread_;
};

bool ProcessThread::commit_stores() noexcept {
  if (is_doomed_) return false;
  const std::size_t count = undo_.size();
  if (const Ending ending = commit_in_order(Steps(*this)); ending.is_abort()) [[unlikely]] {
    doom(ending);
    return false;
  }
  has_stored_ = true;
  context_->add(LineCount::kCommits, 1);
  observe::probe::commit(observe::probe::kLines, rv, count);
  end();
  return true;
}

void ProcessThread::abandon() noexcept {
  undo();
  SoftwareThread::abandon();
}

ProcessThread::Mark ProcessThread::mark() noexcept {
  const Mark mark{undo_.size(), layer_};
  layer_ = undo_.size();
  newest = detail::kNoLine;  // what its entry has kept is of the instance around
  return mark;
}

void ProcessThread::roll_back_to(const Mark &mark) noexcept {
  undo_.restore(mark.size);
  // An entry that has not locked its word is not needed any more; the others keep it locked.
  while (undo_.size() > mark.size && undo_[undo_.size() - 1].older != kNoEntry) {
    const LineUndo &last_one = undo_[undo_.size() - 1];
    // relaxed: the thread's own; for others it stays locked
    last_one.word->store(locked_by(number_, last_one.older), std::memory_order_relaxed);
    undo_.drop_last();
  }
  layer_ = mark.layer;
  newest = detail::kNoLine;
}

}  // namespace tmh::line
