// compat/libitm/process.h -- what all threads of the process share: the method, level 1's memory,
// the gate, and totals.
// Shape:     one object, made at the first transaction or registration, never destroyed: threads
//            may run transactions while the process exits.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <new>

#include "compat/libitm/gate.h"
#include "compat/libitm/pages/pages.h"
#include "levels/line/line_memory.h"
#include "levels/line/releaser.h"

namespace tmh::itm {

enum class Method : std::uint8_t { kLines, kRtm, kSerial, kPages, kPagesSerializable };

// What is not counted by level 1.
struct Totals {
  std::atomic<std::uint64_t> alone{0};         // transactions begun alone
  std::atomic<std::uint64_t> irrevocable{0};   // that went irrevocable on the way
  std::atomic<std::uint64_t> cancelled{0};     // by the program, whole or nested
  std::atomic<std::uint64_t> for_attempts{0};  // of `alone`, those that had failed too often
  // In hardware: aborted attempts, by the processor's status.
  std::atomic<std::uint64_t> hardware_conflicts{0}, hardware_capacity{0}, hardware_other{0};
};

// operator new and delete of the program, which may have its own; this library's are private to it
// (own_new.cpp). Looked up before any transaction: the loader's lock may be held by a thread that
// waits for transactions to end, as in dlopen().
struct ProgramOperators {
  void *(*make)(std::size_t);
  void *(*make_array)(std::size_t);
  void *(*try_make)(std::size_t, const std::nothrow_t &);
  void *(*try_make_array)(std::size_t, const std::nothrow_t &);
  void (*remove)(void *);
  void (*remove_array)(void *);
};

class Process {
 public:
  [[nodiscard]] static Process &self() noexcept;
  // At a fork: none is made from here on, until let_go(); a child that forked meanwhile would wait
  // for ever. Null: none has been made.
  [[nodiscard]] static Process *hold() noexcept;
  // What it was at the fork.
  [[nodiscard]] static Process *held() noexcept;
  static void let_go() noexcept;
  // By the environment, whether or not the engine is there.
  [[nodiscard]] static bool is_pages_asked_for() noexcept;

  Method method = Method::kLines;
  bool has_lines = false;               // else there is no memory for level 1: all run alone
  const pages::Calls *pages = nullptr;  // the engine of the methods pages; else null
  line::LineMemory memory;
  line::NoReleaser releaser;
  Gate gate;
  Totals totals;
  ProgramOperators operators{};
  // Of the data of each thread; what is called with them at the thread's end.
  pthread_key_t thread_key{};
  void (*end_thread)(void *thread) = nullptr;

 private:
  friend Process *make_process() noexcept;
  Process() noexcept;
  void read_environment() noexcept;
  void find_pages() noexcept;
};

// Says why, and ends the process.
[[noreturn]] void die(const char *sentence) noexcept;

// Writes the totals, as a line of JSON, to the file that TMH_ITM_STATISTICS names; "-": stderr.
void write_statistics() noexcept;

}  // namespace tmh::itm
