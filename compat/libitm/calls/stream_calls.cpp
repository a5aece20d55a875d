// compat/libitm/calls/stream_calls.cpp -- <stdio.h> for streams that several tasks use: the call
// holds the stream's lock. What is large, the C library gives to the kernel without a copy, so it
// is made plain before.
// Limits:    wide characters and streams without a descriptor are used by one task at a time.
#include <features.h>
// <stdio.h> would define some of the names below itself, inline.
#undef __USE_EXTERN_INLINES

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "compat/libitm/calls/plain_calls.h"
#include "compat/libitm/tasks/tasks.h"
#include "levels/process/ground/ground.h"
#include "levels/process/process.h"

using namespace tmh::itm::pages;  // NOLINT(google-build-using-namespace)

// TMH_STREAM_CALL(result, name, (parameters), (arguments), prepare): with the lock of `stream`.
#define TMH_STREAM_CALL(result, name, parameters, arguments, ...) \
  TMH_EXPORTED result name parameters {                           \
    const StreamLock lock(stream);                                \
    __VA_ARGS__;                                                  \
    return TMH_REAL(name) arguments;                              \
  }

// TMH_MEMORY_CALL: the same, on memory of the program, which stays plain until the call is over.
#define TMH_MEMORY_CALL(result, name, parameters, arguments, ...)             \
  TMH_STREAM_CALL(result, name, parameters, arguments,                        \
                  const CallInProgress progress(CallInProgress::Kind::kOnce); \
                  __VA_ARGS__)

extern "C" {

TMH_EXPORTED FILE *fopen(const char *path, const char *mode) {
  loads(path);
  return add_stream(TMH_REAL(fopen)(path, mode));
}
TMH_EXPORTED FILE *fopen64(const char *path, const char *mode) {
  loads(path);
  return add_stream(TMH_REAL(fopen64)(path, mode));
}
TMH_EXPORTED FILE *fdopen(int file, const char *mode) noexcept {
  return add_stream(TMH_REAL(fdopen)(file, mode));
}
TMH_EXPORTED FILE *tmpfile() { return add_stream(TMH_REAL(tmpfile)()); }
TMH_EXPORTED FILE *popen(const char *command, const char *mode) {
  loads(command);
  // The shell gets the environment of main's stack.
  std::size_t count = 0;
  for (; environ != nullptr && environ[count] != nullptr; ++count) loads(environ[count]);
  loads(environ, (count + 1) * sizeof *environ);
  return add_stream(TMH_REAL(popen)(command, mode));
}
TMH_EXPORTED int fclose(FILE *stream) {
  remove_stream(stream);
  return TMH_REAL(fclose)(stream);
}
TMH_EXPORTED int pclose(FILE *stream) {
  remove_stream(stream);
  return TMH_REAL(pclose)(stream);
}

TMH_EXPORTED int fflush(FILE *stream) {
  if (stream == nullptr && is_started()) flush_program_streams();
  const StreamLock lock(stream);
  return TMH_REAL(fflush)(stream);
}

TMH_MEMORY_CALL(size_t, fread, (void *at, size_t bytes, size_t count, FILE *stream),
                (at, bytes, count, stream), stores(at, bytes *count))
TMH_MEMORY_CALL(size_t, fwrite, (const void *at, size_t bytes, size_t count, FILE *stream),
                (at, bytes, count, stream), loads(at, bytes *count))
TMH_MEMORY_CALL(int, fputs, (const char *text, FILE *stream), (text, stream), loads(text))
TMH_STREAM_CALL(int, fputc, (int each, FILE *stream), (each, stream))
TMH_STREAM_CALL(int, putc, (int each, FILE *stream), (each, stream))
TMH_STREAM_CALL(char *, fgets, (char *at, int bytes, FILE *stream), (at, bytes, stream))
TMH_STREAM_CALL(int, fgetc, (FILE * stream), (stream))
TMH_STREAM_CALL(int, getc, (FILE * stream), (stream))
TMH_STREAM_CALL(int, ungetc, (int each, FILE *stream), (each, stream))
TMH_STREAM_CALL(int, fseek, (FILE * stream, long offset, int whence), (stream, offset, whence))
TMH_STREAM_CALL(int, fseeko, (FILE * stream, off_t offset, int whence), (stream, offset, whence))
TMH_STREAM_CALL(long, ftell, (FILE * stream), (stream))
TMH_STREAM_CALL(off_t, ftello, (FILE * stream), (stream))
TMH_STREAM_CALL(void, rewind, (FILE * stream), (stream))
TMH_STREAM_CALL(ssize_t, getline, (char **at, size_t *bytes, FILE *stream), (at, bytes, stream))
TMH_STREAM_CALL(ssize_t, getdelim, (char **at, size_t *bytes, int end, FILE *stream),
                (at, bytes, end, stream))
TMH_STREAM_CALL(int, vfprintf, (FILE * stream, const char *format, va_list list),
                (stream, format, list))

TMH_EXPORTED int puts(const char *text) {
  const CallInProgress progress(CallInProgress::Kind::kOnce);
  loads(text);
  return TMH_REAL(puts)(text);
}

TMH_EXPORTED int fprintf(FILE *stream, const char *format, ...) {
  va_list list;
  va_start(list, format);
  const StreamLock lock(stream);
  const int result = TMH_REAL(vfprintf)(stream, format, list);
  va_end(list);
  return result;
}

// As calls are compiled with _FORTIFY_SOURCE.
int __vfprintf_chk(FILE *stream, int flag, const char *format, va_list list);
TMH_EXPORTED int __fprintf_chk(FILE *stream, int flag, const char *format, ...) {
  va_list list;
  va_start(list, format);
  const StreamLock lock(stream);
  const int result = TMH_REAL(__vfprintf_chk)(stream, flag, format, list);
  va_end(list);
  return result;
}
TMH_STREAM_CALL(int, __vfprintf_chk, (FILE * stream, int flag, const char *format, va_list list),
                (stream, flag, format, list))

int __isoc99_vfscanf(FILE *stream, const char *format, va_list list);
TMH_EXPORTED int __isoc99_fscanf(FILE *stream, const char *format, ...) {
  va_list list;
  va_start(list, format);
  const StreamLock lock(stream);
  const int result = TMH_REAL(__isoc99_vfscanf)(stream, format, list);
  va_end(list);
  return result;
}
TMH_STREAM_CALL(int, __isoc99_vfscanf, (FILE * stream, const char *format, va_list list),
                (stream, format, list))

TMH_EXPORTED void flockfile(FILE *stream) noexcept {
  lock_stream(stream);
  TMH_REAL(flockfile)(stream);
}
TMH_EXPORTED int ftrylockfile(FILE *stream) noexcept {
  if (!try_lock_stream(stream)) return -1;
  return TMH_REAL(ftrylockfile)(stream);
}
TMH_EXPORTED void funlockfile(FILE *stream) noexcept {
  TMH_REAL(funlockfile)(stream);
  unlock_stream(stream);
}

}  // extern "C"
