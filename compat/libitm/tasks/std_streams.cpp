#include "compat/libitm/tasks/std_streams.h"

#include <unistd.h>

#include <cstdio>

#include "levels/process/ground/ground.h"

namespace tmh::itm::pages {

namespace {

// The C library's bits of FILE::_flags: fixed by its ABI, as libio.h had them.
constexpr int kUserBuffer = 0x1, kUnbuffered = 0x2, kByLines = 0x200;

// Private to each process, as all data of this library.
char input_buffer[4096], output_buffer[16384];
static_assert(sizeof(std::FILE::_flags) == sizeof(int));

void give(std::FILE *stream, char *buffer, std::size_t bytes, int mode) noexcept {
  if ((stream->_flags & kUnbuffered) != 0 || stream->_IO_buf_base == buffer) return;
  // A buffer that it has is another task's, or the program's.
  stream->_flags |= kUserBuffer;
  std::setvbuf(stream, buffer, mode, bytes);
}

}  // namespace

void start_streams() noexcept {
  give(stdin, input_buffer, sizeof input_buffer, _IOFBF);
  give(stdout, output_buffer, sizeof output_buffer, isatty(STDOUT_FILENO) == 1 ? _IOLBF : _IOFBF);
}

void write_streams_by_lines() noexcept {
  flush_streams();
  if ((stdout->_flags & kUnbuffered) == 0) stdout->_flags |= kByLines;
}

void flush_streams() noexcept {
  std::fflush(stdout);
  std::fflush(stderr);
}

void enter_streams() noexcept {
  stdin->_IO_read_ptr = stdin->_IO_read_end;
  give(stdin, input_buffer, sizeof input_buffer, _IOFBF);
  give(stdout, output_buffer, sizeof output_buffer, _IOLBF);
}

}  // namespace tmh::itm::pages

// std::ios_base::sync_with_stdio(): std::cout stays on stdout. A buffer of its own would be
// memory of the program, its place in it each task's.
extern "C" TMH_EXPORTED bool tmh_itm_sync_with_stdio(bool) asm("_ZNSt8ios_base15sync_with_stdioEb");
bool tmh_itm_sync_with_stdio(bool) { return true; }
