// hierarchy/threads/line_threads.h -- the threads of this process that run at level 1 of one
// domain.
// Shape:     each has a line::SoftwareThread here, made at its first instance and given back when
//            the thread ends or the domain closes.
// Sharing:   threads: here() by any, for itself; the rest by the domain's owner. mutex_ is taken
//            alone.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <tmh/error.hpp>

#include "hierarchy/threads/current.h"
#include "levels/line/line_memory.h"
#include "levels/line/releaser.h"
#include "levels/line/software.h"
#include "levels/page/page.h"
#include "levels/page/shared/shared.h"

namespace tmh::detail {

class LineThreads {
 public:
  // All outlive it. slot: of the process.
  LineThreads(page::SharedState &memory, line::LineMemory &lines, std::uint32_t slot,
              line::Releaser &releaser);
  ~LineThreads();
  LineThreads(const LineThreads &) = delete;
  LineThreads &operator=(const LineThreads &) = delete;

  void use_engine(page::Engine *engine) noexcept { engine_ = engine; }
  // Durable domains: before the first instance.
  void use_log(line::LogReserver *redo) noexcept { redo_ = redo; }

  // Of the calling thread; null: no context is free, or no memory (*error says).
  [[nodiscard]] line::SoftwareThread *here(Errc *error) noexcept {
    return current().line_thread.serial == serial_ ? current().line_thread.thread : find(error);
  }
  // Gives all contexts of this process back. REQUIRES: none of its threads runs an instance at
  // level 1.
  void detach() noexcept;
  // Its thread ends.
  void drop(line::SoftwareThread *thread) noexcept;

 private:
  [[nodiscard]] line::SoftwareThread *find(Errc *error) noexcept;
  // Throws std::bad_alloc.
  [[nodiscard]] line::SoftwareThread *make(Errc *error);
  [[nodiscard]] Errc attach(line::SoftwareThread &thread) noexcept;

  page::SharedState &memory_;
  line::LineMemory &lines_;
  const std::uint32_t slot_;
  line::Releaser &releaser_;
  page::Engine *engine_ = nullptr;
  // Null: a volatile domain.
  line::LogReserver *redo_ = nullptr;
  std::mutex mutex_;
  std::vector<std::unique_ptr<line::SoftwareThread>> threads_;
  // Of this object in this process: a thread must not take a later one at the same address for it.
  const std::uint64_t serial_;
};

}  // namespace tmh::detail
