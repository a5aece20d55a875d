// include/tmh/detail/line_access.hpp -- the part of an instrumented instance that is inline in its
// user's code: a load or store of one word. Not for direct use; tmh::field<T> is the interface.
// Shape:     plain words, one object per thread and level. Level 1: filled by
//            levels/line/software.h, which alone changes them elsewhere. Level 2 in a view of the
//            thread's own: by hierarchy/threads/thread_views.h; there are no line words, and an
//            access is a plain one elsewhere.
// Invariant: (1) a line that is read in one of the ways below was unlocked, not U and not newer
//            than `rv` then. It is unchanged as long as its word is not above `rv`: who changes it
//            locks it, and stamps later than `rv`. So the log names words, not what they were. An
//            instance that keeps no log can only end or abort once a line is newer than `rv`.
//            (2) lines that the instance has written are read in the longer way: each has its bit
//            in `written`, and `last` is in none of them. What needs more (other segments, a
//            capacity model, an aborted instance) sets `bytes` to 0.
// Ordering:  see line_load_by(). The words are those of levels/line/layout.h: bit 63 locked, bit 62
//            U, else the version.
// Contexts:  of the thread that runs the instance. NOT async-signal-safe.
// Source:    TL2 (read, with the word before and after); LSA (extension).
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tmh::detail {

using LineWord = std::atomic<std::uint64_t>;
static_assert(sizeof(LineWord) == 8 && LineWord::is_always_lock_free);

// Far from every address, the first ones included: an access through a null pointer is not one to
// this line.
inline constexpr std::uintptr_t kNoLine = std::uintptr_t{1} << 63;

// Aligned: what nearly all accesses need is on one cache line of this thread's.
struct alignas(64) LineAccess {
  // An address in the line read last, in the view, which the instance has not written; kNoLine:
  // every access takes a longer way.
  std::uintptr_t last = kNoLine;
  // Its word. In a log it is the newest one, but the shortest way needs no look there.
  const LineWord *last_word = nullptr;
  std::uintptr_t view = 0;  // the segment used last: its view,
  std::uint64_t bytes = 0;  // level 1: its size; 0: every access takes the long way,
  // Modulo 2^64; level 2: the thread's view minus the process's,
  std::uintptr_t home_minus_view = 0;
  const LineWord *words = nullptr;  // level 1: its line words
  // Snapshot: a value that the line clock had. Stays behind the instance.
  std::uint64_t rv = 0;
  // Newest entry; the first one is a mark that names no line. Null: no log is kept.
  const LineWord **log_top = nullptr;
  const LineWord **log_end = nullptr;  // last entry that there is room for
  // Bit n: a line whose number in the window, or in another segment, is n modulo 64.
  std::uint64_t written = 0;
  // The line stored to last: address of its first byte; kNoLine: none, or the instance is aborted.
  std::uintptr_t newest = kNoLine;
  // Its new bytes; kMaskBefore bytes before them, which ones are written.
  std::byte *newest_bytes = nullptr;
  std::uint64_t page_bytes = 0;  // level 2: the size of the segment used last
  bool is_in_pages = false;      // an instance of level 2 in the thread's own view
};

// As line::LineWrite has them.
inline constexpr std::ptrdiff_t kMaskBefore = 48;
inline constexpr std::ptrdiff_t kKeptBefore = 40;
enum class Kept : std::uint64_t {
  kNo = 0,
  kWhole = 1,  // all bytes are there as the instance sees them
};
[[nodiscard]] inline bool is_newest_whole(const LineAccess &access) noexcept {
  return *reinterpret_cast<const Kept *>(access.newest_bytes - kKeptBefore) == Kept::kWhole;
}
[[nodiscard]] inline std::uint64_t &newest_mask(LineAccess &access) noexcept {
  return *reinterpret_cast<std::uint64_t *>(access.newest_bytes - kMaskBefore);
}

// What ends an attempt in the middle of its body. Not a std::exception: `catch (const
// std::exception &)` must not swallow it; a body that swallows it with catch (...) gets it again at
// its next access. Carries nothing; the cause stays with the thread.
struct LineAbort {};

// The running instance of this thread at level 1, or in a view of its own; null: accesses are plain
// ones.
extern constinit thread_local LineAccess *line_access __attribute__((tls_model("initial-exec")));

// The long ways. bytes: 1, 2, 4 or 8, naturally aligned. Throw LineAbort.
[[nodiscard]] std::uint64_t line_load_long(LineAccess &access, const void *address,
                                           std::uint32_t bytes);
// Level 1: makes the line of this address the newest. False: it is plain memory.
[[nodiscard]] bool line_open(LineAccess &access, const void *address);
// Level 2.
void page_store_long(LineAccess &access, void *address, std::uint64_t value, std::uint32_t bytes);

// Which lines a load is of. Segments: an instance's stores wait in its log.
struct SegmentLines {
  // Stores go to memory itself, whose lines the instance has locked; then an address is home's and
  // no other level's, and each instance keeps a log.
  static constexpr bool kStoresInPlace = false;
  [[nodiscard]] static std::uintptr_t home(const LineAccess &access, std::uintptr_t at) noexcept {
    return at + access.home_minus_view;
  }
  // Of lines that have words: first address, and size for the short ways.
  [[nodiscard]] static std::uintptr_t begin(const LineAccess &access) noexcept {
    return access.view;
  }
  [[nodiscard]] static std::uint64_t bytes(const LineAccess &access) noexcept {
    return access.bytes;
  }
  // A segment has a word for each of its lines.
  [[nodiscard]] static std::uint64_t word_number(std::uint64_t line) noexcept { return line; }
};

template <class T>
inline constexpr bool kIsLineWord = std::is_trivially_copyable_v<T> &&
                                    (sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 ||
                                     sizeof(T) == 8);

template <std::size_t kBytes>
using UnsignedOf = std::conditional_t<
    kBytes == 1, std::uint8_t,
    std::conditional_t<kBytes == 2, std::uint16_t,
                       std::conditional_t<kBytes == 4, std::uint32_t, std::uint64_t>>>;

// No atomic load is so large. One that is torn is not used: the word changes meanwhile.
template <class T>
[[nodiscard]] inline T load_large(const void *home) {
  T value;
#ifdef __SANITIZE_THREAD__
  // ThreadSanitizer knows no fences, and finds a race in plain loads.
  for (std::size_t i = 0; i < sizeof value; ++i)
    reinterpret_cast<unsigned char *>(&value)[i] =
        __atomic_load_n(static_cast<const unsigned char *>(home) + i, __ATOMIC_ACQUIRE);
#else
  std::memcpy(&value, home, sizeof value);
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
  return value;
}

// Lines: SegmentLines, or those of levels/line/process_lines.h. long_way(): the value, where no
// short way gets it. REQUIRES: the value is naturally aligned; one that is larger than a word lies
// in one line.
template <class Lines, class T, class LongWay>
[[nodiscard, gnu::always_inline]] inline T line_load_by(LineAccess &access, const T *address,
                                                        const LongWay &long_way) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto load_home = [&] {
    // acquire: pairs with the releases of line-write-back and of a page sent home; who sees such
    // data sees lock, U or a newer word later.
    const std::uintptr_t home = Lines::home(access, at);
    if constexpr (kIsLineWord<T>) {
      return std::atomic_ref<T>(*reinterpret_cast<T *>(home)).load(std::memory_order_acquire);
    } else {
      return load_large<T>(reinterpret_cast<const void *>(home));
    }
  };
  if ((at ^ access.last) < 64) [[likely]] {
    // The line read last. Its word was looked at before, so one look after the load is enough:
    // words never come back, but for those of a committer that let go without having stored.
    const T value = load_home();
    if (access.last_word->load(std::memory_order_relaxed) > access.rv) [[unlikely]]
      return long_way();
    return value;
  }
  if constexpr (Lines::kStoresInPlace)
    if (at - access.newest < 64) return load_home();
  const std::uintptr_t offset = at - Lines::begin(access);
  if (offset >= Lines::bytes(access)) [[unlikely]] {
    if constexpr (!Lines::kStoresInPlace)
      if (offset < access.page_bytes)
        return *reinterpret_cast<const T *>(at + access.home_minus_view);
    return long_way();
  }
  const std::uint64_t line = offset / 64;
  if constexpr (!Lines::kStoresInPlace)
    if ((access.written >> (line % 64) & 1) != 0) [[unlikely]] {
      if (at - access.newest >= 64 || !is_newest_whole(access)) return long_way();
      T value;
      std::memcpy(&value, access.newest_bytes + (at - access.newest), sizeof value);
      return value;
    }
  const LineWord *const word = access.words + Lines::word_number(line);
  // acquire: pairs with the release of line-unlock; who sees version v sees the data written back
  // before it.
  const std::uint64_t seen = word->load(std::memory_order_acquire);
  const T value = load_home();
  if (seen > access.rv || word->load(std::memory_order_relaxed) != seen) [[unlikely]]
    return long_way();
  if (Lines::kStoresInPlace || access.log_top != nullptr) {
    const LineWord **const top = access.log_top + 1;
    if (top > access.log_end) [[unlikely]]
      return long_way();
    *top = word;
    access.log_top = top;
  }
  access.last_word = word;
  access.last = at;
  return value;
}

// A word of a segment.
template <class T>
[[nodiscard]] inline T line_load(LineAccess &access, const T *address) {
  static_assert(kIsLineWord<T>);
  return line_load_by<SegmentLines>(access, address, [&] {
    return std::bit_cast<T>(
        static_cast<UnsignedOf<sizeof(T)>>(line_load_long(access, address, sizeof(T))));
  });
}

template <class T>
inline void line_store(LineAccess &access, T *address, const T &value) {
  static_assert(kIsLineWord<T>);
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (at - access.newest >= 64) {
    if (access.is_in_pages) {
      if (at - access.view < access.page_bytes)
        *reinterpret_cast<T *>(at + access.home_minus_view) = value;
      else
        page_store_long(access, address, std::bit_cast<UnsignedOf<sizeof(T)>>(value), sizeof(T));
      return;
    }
    if (!line_open(access, address)) [[unlikely]] {
      *address = value;
      return;
    }
  }
  const std::uintptr_t in_line = at - access.newest;
  std::memcpy(access.newest_bytes + in_line, &value, sizeof(T));
  newest_mask(access) |= ((1ull << sizeof(T)) - 1) << in_line;
}

}  // namespace tmh::detail
