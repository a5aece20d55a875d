// storage/log/log_file_sink.cpp -- finding a log file, and writing blocks of it.
#include "storage/log/log_file_sink.h"

#include <unistd.h>

#include <cerrno>
#include <new>

#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/try.h"

namespace tmh::storage {

using platform::fail;

// Not another domain's, which somebody may have put in the place of this one's under those who are
// here.
Errc LogFileSink::open_file(std::uint64_t index) noexcept try {
  file_index_ = ~0ull;
  const std::string path = log_file_path(folder_, index);
  if (const Errc error =
          file_.open(path, platform::DiskFile::Mode::kReadWrite, platform::FileRole::kOwnLog);
      error != Errc::kOk) {
    // Gone for all, or only where this process looks: its folder has got another name, or it
    // another root or other rights, since it came.
    const bool is_gone = ::access(path.c_str(), F_OK) != 0 && errno == ENOENT &&
                         ::access((folder_ + "/tmh.control").c_str(), F_OK) == 0;
    is_own_trouble_ = !is_gone;
    return is_own_trouble_ ? error : fail(Errc::kLogMissing, platform::failure_detail());
  }
  LogFileHeaderV1 header{};
  std::size_t got = 0;
  TMH_TRY(file_.read(0, &header, sizeof header, &got));
  if (got < sizeof header) return fail(Errc::kLogMissing, path + " was cut short");
  std::string why;
  if (const Errc error = verify_log_file_header(header, log_, index, &why); error != Errc::kOk)
    return fail(error, path + ": " + why);
  TMH_TRY(update_log_file_header(&file_, header, log_, index));
  file_index_ = index;
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  is_own_trouble_ = true;
  return platform::fail_for_memory("a log file's name");
}

Errc LogFileSink::find_place(Lsn lsn) noexcept {
  TMH_ASSERT(lsn % kLogBlockBytes == 0);
  is_own_trouble_ = false;
  const std::uint64_t index = file_of(lsn, log_.file_bytes);
  if (index != file_index_ || !file_.is_open()) TMH_TRY(open_file(index));
  if (!file_.is_whole(log_.file_bytes))
    return fail(Errc::kLogMissing, file_.path() + " was removed or cut short");
  return Errc::kOk;
}

Errc LogFileSink::write_durable(Lsn lsn, const std::byte *from, std::size_t bytes) noexcept {
  TMH_ASSERT(from != nullptr && bytes > 0);
  TMH_ASSERT(lsn % kLogBlockBytes == 0 && bytes % kLogBlockBytes == 0);
  TMH_ASSERT(file_.is_open() && file_index_ == file_of(lsn, log_.file_bytes));  // find_place()
  TMH_ASSERT(lsn % log_.file_bytes + bytes <= log_.file_bytes);
  const Errc error = file_.put_durable(lsn % log_.file_bytes, from, bytes);
  // RLIMIT_FSIZE; others begin where a writer that died would have them begin
  is_own_trouble_ = error != Errc::kOk && errno == EFBIG;
  return error;
}

}  // namespace tmh::storage
