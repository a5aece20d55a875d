// storage/log/log_sink_maker.cpp -- which sink a writer gets.
#include "storage/log/log_sink_maker.h"

#include <atomic>

#include "storage/log/log_file_sink.h"

namespace tmh::storage {

namespace {
constinit std::atomic<LogSinkMaker> g_maker{nullptr};
}  // namespace

// Relaxed: set before the domain's writers are made.
void set_log_sink_maker(LogSinkMaker maker) noexcept {
  g_maker.store(maker, std::memory_order_relaxed);
}

std::unique_ptr<LogSink> make_log_sink(const std::string &folder, const LogIdentity &log) {
  const LogSinkMaker maker = g_maker.load(std::memory_order_relaxed);
  return maker != nullptr ? maker(folder, log) : std::make_unique<LogFileSink>(folder, log);
}

}  // namespace tmh::storage
