// storage/log/log_sink.cpp -- which sink a writer gets.
#include "storage/log/log_sink.h"

#include <atomic>

namespace tmh::storage {

namespace {
constinit std::atomic<LogSinkMaker> g_maker{nullptr};
}  // namespace

// Relaxed: set before a domain is opened whose writers are to have it.
void set_log_sink_maker(LogSinkMaker maker) noexcept {
  g_maker.store(maker, std::memory_order_relaxed);
}

LogSinkMaker log_sink_maker() noexcept { return g_maker.load(std::memory_order_relaxed); }

}  // namespace tmh::storage
