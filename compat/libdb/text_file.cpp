// compat/libdb/text_file.cpp -- from the file's beginning to its end. A pipe is read, too.
#include "compat/libdb/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "compat/libdb/failure.h"
#include "compat/libdb/file_bytes.h"
#include "platform/assert.h"

namespace tmh::db {

namespace {
constexpr std::size_t kBufferBytes = 64 << 10;
}  // namespace

TextFile::TextFile(const Settings &settings)
    : record_bytes_(settings.record_bytes), end_(settings.end) {
  if (settings.path.empty()) return;
  is_writable_ = (settings.flags & O_ACCMODE) == O_RDWR;
  file_ = open_file(settings.path, settings.flags, settings.mode);
  if (::lseek(file_, 0, SEEK_CUR) < 0 && is_writable_) {
    ::close(file_);
    throw Failure{EINVAL};
  }
}

TextFile::~TextFile() {
  if (file_ >= 0) ::close(file_);
}

void TextFile::read(const std::function<void(Bytes record)> &take) const {
  TMH_ASSERT(file_ >= 0 && take != nullptr);
  std::vector<std::byte> record, buffer(kBufferBytes);
  for (;;) {
    const ssize_t got = ::read(file_, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Failure{errno};
    if (got == 0) break;
    const auto end = buffer.begin() + got;
    for (auto at = buffer.begin(); at != end;) {
      const auto left = static_cast<std::size_t>(end - at);
      auto stop = end;
      if (record_bytes_ != 0) {
        stop = at + static_cast<std::ptrdiff_t>(std::min(left, record_bytes_ - record.size()));
      } else {
        stop = std::find(at, end, end_);
      }
      record.insert(record.end(), at, stop);
      at = stop;
      const bool is_whole = record_bytes_ != 0 ? record.size() == record_bytes_ : stop != end;
      if (!is_whole) continue;
      if (record_bytes_ == 0) ++at;
      take(record);
      record.clear();
    }
  }
  // The last one may lack its end.
  if (record.empty()) return;
  if (record_bytes_ != 0) record.resize(record_bytes_, end_);
  take(record);
}

void TextFile::Writer::put(Bytes record) {
  TMH_ASSERT(file_.record_bytes_ == 0 || record.size() == file_.record_bytes_);
  buffer_.insert(buffer_.end(), record.begin(), record.end());
  if (file_.record_bytes_ == 0) buffer_.push_back(file_.end_);
  if (buffer_.size() >= kBufferBytes) flush();
}

void TextFile::Writer::flush() {
  write_at(file_.file_, buffer_.data(), buffer_.size(), written_);
  written_ += buffer_.size();
  buffer_.clear();
}

void TextFile::Writer::finish() {
  TMH_ASSERT(file_.file_ >= 0 && file_.is_writable_);
  flush();
  set_length(file_.file_, written_);
}

}  // namespace tmh::db
