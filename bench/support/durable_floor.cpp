// bench/support/durable_floor.cpp -- the least that making bytes durable costs.
#include "bench/support/durable_floor.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "bench/support/durable_contestant.h"
#include "bench/support/team.h"
#include "platform/assert.h"
#include "storage/crc32c.h"

namespace tmh::bench {

namespace {

// O_DIRECT wants its addresses, lengths and places aligned to the device's blocks; 4 KiB satisfies
// every device we know, and is ext4's block.
constexpr std::uint64_t kBlockBytes = 4096;
// What says that a commit is whole, behind it.
constexpr std::uint64_t kRecordBytes = 64;
static_assert(kRecordBytes < kBlockBytes);

constexpr std::uint64_t whole_blocks(std::uint64_t bytes) noexcept {
  return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

[[noreturn]] void fail(const std::string &what) {
  throw std::system_error(errno, std::generic_category(), what);
}

void write_all(int fd, const std::byte *data, std::uint64_t bytes, std::uint64_t place) {
  TMH_ASSERT(fd >= 0 && data != nullptr);
  const ssize_t written = ::pwrite(fd, data, bytes, static_cast<off_t>(place));
  if (written < 0) fail("pwrite of the floor");
  if (static_cast<std::uint64_t>(written) != bytes)
    throw std::runtime_error("pwrite of the floor: a part only");
}

int open_flags(FloorMethod method, bool shared) {
  switch (method) {
    case FloorMethod::kAppend:
      return shared ? O_APPEND : 0;  // the kernel keeps the place
    case FloorMethod::kDsync:
      return O_DSYNC;
    case FloorMethod::kDirect:
      return O_DSYNC | O_DIRECT;
    case FloorMethod::kOverwrite:
    case FloorMethod::kMsync:
    case FloorMethod::kChecksum:
    case FloorMethod::kTwoSyncs:
      break;
  }
  return 0;
}

}  // namespace

const char *to_string(FloorMethod method) noexcept {
  switch (method) {
    case FloorMethod::kAppend:
      return "append";
    case FloorMethod::kOverwrite:
      return "overwrite";
    case FloorMethod::kDsync:
      return "dsync";
    case FloorMethod::kDirect:
      return "direct";
    case FloorMethod::kMsync:
      return "msync";
    case FloorMethod::kChecksum:
      return "checksum";
    case FloorMethod::kTwoSyncs:
      return "two-syncs";
  }
  return "?";
}

std::uint64_t floor_file_bytes(std::uint64_t commit_bytes, std::uint64_t commits) noexcept {
  return whole_blocks(commit_bytes) * commits + kBlockBytes;  // enough for every method
}

void make_floor_file(FloorMethod method, const std::string &path, std::uint64_t bytes) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) fail(path);
  bool made = true;
  if (method != FloorMethod::kAppend) {
    const std::vector<std::byte> zeros(256 * kBlockBytes);
    for (std::uint64_t place = 0; made && place < bytes; place += zeros.size()) {
      const auto piece =
          static_cast<std::size_t>(std::min<std::uint64_t>(zeros.size(), bytes - place));
      made = ::pwrite(fd, zeros.data(), piece, static_cast<off_t>(place)) ==
             static_cast<ssize_t>(piece);
    }
  }
  made = made && ::fsync(fd) == 0;
  const int error = errno;
  (void)::close(fd);
  if (!made) throw std::system_error(error, std::generic_category(), path);
}

FloorWriter::FloorWriter(FloorMethod method, const std::string &path,
                         std::atomic<std::uint64_t> *shared_place)
    : method_(method), shared_place_(shared_place) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC | open_flags(method, shared_place != nullptr));
  if (fd_ < 0) fail(std::string(to_string(method)) + ": " + path);
  if (method != FloorMethod::kMsync) return;
  struct stat info {};
  if (::fstat(fd_, &info) != 0) fail(path);
  map_bytes_ = static_cast<std::uint64_t>(info.st_size);
  void *map = ::mmap(nullptr, map_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (map == MAP_FAILED) fail(path);
  map_ = static_cast<std::byte *>(map);
}

FloorWriter::~FloorWriter() {
  if (map_ != nullptr) (void)::munmap(map_, map_bytes_);
  std::free(buffer_);
  (void)::close(fd_);
}

void FloorWriter::reserve(std::uint64_t bytes) {
  TMH_ASSERT(bytes > 0);
  if (buffer_bytes_ >= bytes) return;
  auto *grown = static_cast<std::byte *>(std::aligned_alloc(kBlockBytes, whole_blocks(bytes)));
  if (grown == nullptr) throw std::bad_alloc();
  std::memset(grown, 0, whole_blocks(bytes));
  if (buffer_ != nullptr) std::memcpy(grown, buffer_, buffer_bytes_);
  std::free(buffer_);
  buffer_ = grown;
  buffer_bytes_ = whole_blocks(bytes);
}

void FloorWriter::commit(std::uint64_t bytes) {
  TMH_ASSERT(fd_ >= 0 && bytes > 0);
  // What is written differs from what was there.
  fill_ = static_cast<std::byte>(static_cast<unsigned>(fill_) + 1U);
  if (method_ == FloorMethod::kDirect) return commit_direct(bytes);
  if (method_ == FloorMethod::kMsync) return commit_mapped(bytes);
  reserve(bytes);
  std::memset(buffer_, static_cast<int>(fill_), bytes);
  if (method_ == FloorMethod::kAppend && shared_place_ != nullptr) {
    if (::write(fd_, buffer_, bytes) != static_cast<ssize_t>(bytes)) fail("write of the floor");
  } else {
    // relaxed: places must only differ; nothing is published through them
    const std::uint64_t place = shared_place_ != nullptr
                                    ? shared_place_->fetch_add(bytes, std::memory_order_relaxed)
                                    : std::exchange(own_place_, own_place_ + bytes);
    std::uint64_t first = 0;
    if (method_ == FloorMethod::kTwoSyncs) {
      first = bytes - std::min(bytes, kRecordBytes);
      write_all(fd_, buffer_, first, place);
      sync();
    } else if (method_ == FloorMethod::kChecksum && bytes > sizeof(std::uint32_t)) {
      const std::uint64_t summed = bytes - sizeof(std::uint32_t);
      const std::uint32_t crc = storage::crc32c(0, buffer_, summed);
      std::memcpy(buffer_ + summed, &crc, sizeof crc);
    }
    write_all(fd_, buffer_ + first, bytes - first, place + first);
  }
  written_bytes_ += bytes;
  if (method_ != FloorMethod::kDsync) sync();
}

void FloorWriter::sync() const {
  if (::fdatasync(fd_) != 0) fail("fdatasync of the floor");
}

void FloorWriter::commit_direct(std::uint64_t bytes) {
  TMH_ASSERT(method_ == FloorMethod::kDirect);
  if (shared_place_ != nullptr) {
    reserve(bytes);
    std::memset(buffer_, static_cast<int>(fill_), bytes);
    // As above.
    const std::uint64_t place =
        shared_place_->fetch_add(whole_blocks(bytes), std::memory_order_relaxed);
    write_all(fd_, buffer_, whole_blocks(bytes), place);
    written_bytes_ += whole_blocks(bytes);
    return;
  }
  const std::uint64_t first = own_place_ / kBlockBytes * kBlockBytes, used = own_place_ - first;
  reserve(used + bytes);
  std::memset(buffer_ + used, static_cast<int>(fill_), bytes);
  const std::uint64_t length = whole_blocks(used + bytes);
  write_all(fd_, buffer_, length, first);
  written_bytes_ += length;
  own_place_ += bytes;
  // The tail block comes first in the buffer of the next commit.
  const std::uint64_t last = own_place_ / kBlockBytes * kBlockBytes;
  if (last > first && last - first < length)
    std::memcpy(buffer_, buffer_ + (last - first), kBlockBytes);
}

void FloorWriter::commit_mapped(std::uint64_t bytes) {
  TMH_ASSERT(method_ == FloorMethod::kMsync && map_ != nullptr);
  const std::uint64_t place = shared_place_ != nullptr
                                  ? shared_place_->fetch_add(bytes, std::memory_order_relaxed)
                                  : std::exchange(own_place_, own_place_ + bytes);
  if (place + bytes > map_bytes_) throw std::length_error("the floor's file is too small");
  std::memset(map_ + place, static_cast<int>(fill_), bytes);
  // msync wants a page's address; x86-64: 4 KiB
  const std::uint64_t first = place / kBlockBytes * kBlockBytes;
  if (::msync(map_ + first, place + bytes - first, MS_SYNC) != 0) fail("msync of the floor");
  written_bytes_ += bytes;
}

// --- As contestants
// -------------------------------------------------------------------------------------------------

namespace {

class FloorSession final : public Session {
 public:
  FloorSession(FloorMethod method, const std::string &path, std::atomic<std::uint64_t> *place,
               std::uint64_t log_bytes)
      : writer_(method, path, place), log_bytes_(log_bytes) {}
  void commit(std::span<const Record> records) override {
    TMH_ASSERT(!records.empty());
    writer_.commit(log_bytes_ * records.size());
  }
  std::uint64_t log_bytes() override { return writer_.written_bytes(); }
  void scan(const std::function<void(std::uint64_t, const char *)> &) override {}

 private:
  FloorWriter writer_;
  std::uint64_t log_bytes_;
};

class Floor final : public Contestant {
 public:
  Floor(FloorMethod method, bool one_file, std::uint64_t log_bytes)
      : Contestant(std::string("floor-") + to_string(method) + (one_file ? "-one-file" : ""),
                   CountsLog::kOwn, false),
        method_(method),
        one_file_(one_file),
        log_bytes_(log_bytes) {}
  // One process alone shares its file with none.
  bool runs_with(unsigned processes) const override { return !one_file_ || processes > 1; }
  std::string why_unavailable(const std::string &folder) const override {
    const std::string path = file(folder, 0);
    std::string reason;
    try {
      make_floor_file(method_, path, floor_file_bytes(log_bytes_, 1));
      FloorWriter(method_, path, nullptr).commit(log_bytes_);
    } catch (const std::exception &error) {
      reason = error.what();
    }
    (void)::unlink(path.c_str());
    return reason;
  }
  // No other process is there yet.
  void prepare(const Plan &) override { place_->store(0, std::memory_order_relaxed); }
  void create(const std::string &folder, const Plan &plan) override {
    for (unsigned index = 0; index < (one_file_ ? 1 : plan.processes); ++index) {
      // Every file could take all commits: which process makes how many is not known here.
      make_floor_file(method_, file(folder, index), floor_file_bytes(log_bytes_, plan.commits));
    }
  }
  std::unique_ptr<Session> open(const std::string &folder, unsigned index) override {
    return std::make_unique<FloorSession>(method_, file(folder, one_file_ ? 0 : index),
                                          one_file_ ? &*place_ : nullptr, log_bytes_);
  }

 private:
  static std::string file(const std::string &folder, unsigned index) {
    return folder + "/log-" + std::to_string(index);
  }
  FloorMethod method_;
  bool one_file_;
  std::uint64_t log_bytes_;
  Shared<std::atomic<std::uint64_t>> place_;
};

}  // namespace

void add_floor(Contestants *all, std::uint64_t log_bytes) {
  TMH_ASSERT(all != nullptr && log_bytes > 0);
  for (const bool one_file : {false, true}) {
    for (const FloorMethod method : kFloorMethods)
      all->push_back(std::make_unique<Floor>(method, one_file, log_bytes));
  }
}

}  // namespace tmh::bench
