// tests/support/watched_log.cpp -- see watched_log.h.
#include "tests/support/watched_log.h"

#include <cerrno>
#include <memory>
#include <new>
#include <string>

#include "platform/disk.h"
#include "platform/failure.h"
#include "platform/try.h"
#include "storage/log/log_file_sink.h"
#include "storage/log/log_sink_maker.h"

namespace tmh::test {

using platform::DiskOp;
using platform::watch_disk;
using storage::LogFileSink;
using storage::LogIdentity;
using storage::Lsn;

namespace {

class WatchedLog final : public storage::LogSink {
 public:
  WatchedLog(const std::string &folder, const LogIdentity &log)
      : folder_(folder), file_bytes_(log.file_bytes), files_(folder, log) {}

  [[nodiscard]] Errc find_place(Lsn lsn) noexcept override try {
    is_refused_ = false;
    TMH_TRY(files_.find_place(lsn));
    const std::uint64_t index = storage::file_of(lsn, file_bytes_);
    if (index != index_) path_ = storage::log_file_path(folder_, index);
    index_ = index;
    return Errc::kOk;
  } catch (const std::bad_alloc &) {
    return refuse(platform::fail_for_memory("a log file's name"), true);
  }
  [[nodiscard]] Errc write_durable(Lsn lsn, const std::byte *from,
                                   std::size_t bytes) noexcept override {
    is_refused_ = false;
    const Errc refused =
        watch_disk({DiskOp::kWriteDurable, path_.c_str(), nullptr, lsn % file_bytes_, from, bytes});
    if (refused != Errc::kOk) return refuse(refused, errno == EFBIG);
    TMH_TRY(files_.write_durable(lsn, from, bytes));
    const Errc done = watch_disk({DiskOp::kWriteDone, path_.c_str()});
    return done == Errc::kOk ? done : refuse(done, errno == EFBIG);
  }
  [[nodiscard]] bool is_own_trouble() const noexcept override {
    return is_refused_ ? is_own_trouble_ : files_.is_own_trouble();
  }

 private:
  // By the test, not by the files.
  [[nodiscard]] Errc refuse(Errc error, bool is_own_trouble) noexcept {
    is_refused_ = true;
    is_own_trouble_ = is_own_trouble;
    return error;
  }

  const std::string folder_;
  const std::uint64_t file_bytes_;
  LogFileSink files_;
  std::string path_;
  std::uint64_t index_ = ~0ull;
  bool is_refused_ = false, is_own_trouble_ = false;
};

std::unique_ptr<storage::LogSink> make(const std::string &folder, const LogIdentity &log) {
  return std::make_unique<WatchedLog>(folder, log);
}

const int g_installed = (use_watched_log(), 0);

}  // namespace

void use_watched_log() noexcept { storage::set_log_sink_maker(&make); }

}  // namespace tmh::test

extern "C" int tmh_test_watches_the_log() { return tmh::test::g_installed; }
