// compat/libitm/tasks/program_streams.h -- FILE objects that the program opens: they lie in its
// memory, so all tasks may use them.
// Shape:     a table in shared memory has for each such stream a lock and a buffer, which the
//            kernel may use at any time. The C library neither locks these streams nor has them in
//            its list, whose head each task has for itself: stream_calls.cpp locks, and the
//            program's end flushes.
// Limits:    more than kStreamsMax streams at one time: those keep the C library's lock, at which
//            tasks do not wake each other.
#pragma once

#include <cstddef>
#include <cstdio>

namespace tmh::itm::pages {

inline constexpr std::size_t kStreamsMax = 128;

// In main, once. False: no memory.
[[nodiscard]] bool start_program_streams() noexcept;
// A stream that was opened just now; null: none was. Returns it.
std::FILE *add_stream(std::FILE *stream) noexcept;
// It is about to be closed.
void remove_stream(std::FILE *stream) noexcept;
// Those that no other task has locked.
void flush_program_streams() noexcept;

void lock_stream(std::FILE *stream) noexcept;
[[nodiscard]] bool try_lock_stream(std::FILE *stream) noexcept;
void unlock_stream(std::FILE *stream) noexcept;

// Of a stream of the program's; does nothing for others, which the C library locks.
class StreamLock {
 public:
  explicit StreamLock(std::FILE *stream) noexcept : stream_(stream) { lock_stream(stream_); }
  ~StreamLock() { unlock_stream(stream_); }
  StreamLock(const StreamLock &) = delete;
  StreamLock &operator=(const StreamLock &) = delete;

 private:
  std::FILE *stream_;
};

}  // namespace tmh::itm::pages
