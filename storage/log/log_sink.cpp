// storage/log/log_sink.cpp -- which sink a writer gets.
#include "storage/log/log_sink.h"

#include <atomic>

#include "storage/log/log_file_sink.h"

namespace tmh::storage {

namespace {
constinit std::atomic<LogSinkMaker> g_maker{nullptr};
}  // namespace

// Relaxed: set before a domain is opened whose writers are to have it.
void set_log_sink_maker(LogSinkMaker maker) noexcept {
  g_maker.store(maker, std::memory_order_relaxed);
}

std::unique_ptr<LogSink> make_log_sink(const std::string &folder, const LogIdentity &log) {
  const LogSinkMaker maker = g_maker.load(std::memory_order_relaxed);
  return maker != nullptr ? maker(folder, log) : std::make_unique<LogFileSink>(folder, log);
}

}  // namespace tmh::storage
