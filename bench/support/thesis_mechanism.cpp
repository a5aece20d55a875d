// bench/support/thesis_mechanism.cpp -- the page mechanism of the LIBXAC thesis.
// Contexts: on_sigsegv() reaches handle_fault, map_read, map_copy, open_buffer and die. All faults
//           are raised by the instance's own loads and stores into the view, never inside the C
//           library, so calling mmap, ftruncate and memcpy there is as safe as calling them at that
//           place in the program. (The prototype rests on the same.)
#include "bench/support/thesis_mechanism.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <system_error>

#include "bench/support/options.h"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

std::atomic<ThesisMechanism *> active{nullptr};

void *map_or_throw(void *address, std::size_t bytes, int protection, int flags, int fd,
                   const std::string &what) {
  void *mapping = ::mmap(address, bytes, protection, flags, fd, 0);
  if (mapping == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "mmap of " + what);
  return mapping;
}

}  // namespace

ThesisMechanism::ThesisMechanism(const std::string &folder, const std::string &home_file,
                                 std::uint64_t page_count)
    : folder_(folder),
      page_count_(page_count),
      states_(page_count, PageState::kNone),
      newest_(page_count, 0) {
  TMH_ASSERT(page_count > 0 && page_count <= std::numeric_limits<std::uint32_t>::max());
  home_fd_ = ::open(home_file.c_str(), O_RDWR | O_CLOEXEC);
  if (home_fd_ < 0) throw std::system_error(errno, std::generic_category(), home_file);
  const std::size_t bytes = page_count * kPageBytes;
  home_ = static_cast<std::byte *>(
      map_or_throw(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, home_fd_, home_file));
  // The runtime's copies must not pay for first touches of its own mapping; a large sparse file
  // stays lazy.
  constexpr std::size_t kPopulateBytesMax = std::size_t{512} << 20;
  if (bytes <= kPopulateBytesMax) (void)::madvise(home_, bytes, MADV_POPULATE_READ);
  view_ = static_cast<std::byte *>(
      map_or_throw(nullptr, bytes, PROT_NONE, MAP_SHARED, home_fd_, home_file));
  touched_.reserve(page_count);
  written_.reserve(page_count);
  committed_.reserve(page_count);
  for (std::uint32_t i = 0; i < kBufferFilesReady; ++i) open_buffer(i, true);

  ThesisMechanism *none = nullptr;
  const bool alone = active.compare_exchange_strong(none, this);
  TMH_ASSERT(alone);
  struct sigaction action {};
  action.sa_sigaction = &ThesisMechanism::on_sigsegv;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  if (::sigaction(SIGSEGV, &action, &old_action_) != 0) die("sigaction");
}

ThesisMechanism::~ThesisMechanism() {
  collect();
  (void)::sigaction(SIGSEGV, &old_action_, nullptr);
  active.store(nullptr);
  const std::size_t bytes = page_count_ * kPageBytes;
  (void)::munmap(view_, bytes);
  (void)::munmap(home_, bytes);
  (void)::close(home_fd_);
  for (BufferFile &buffer : buffers_) {
    if (buffer.fd < 0) continue;
    (void)::munmap(buffer.mapping, kBufferFilePages * kPageBytes);
    (void)::close(buffer.fd);
  }
}

void ThesisMechanism::open_buffer(std::uint32_t index, bool lay_out) {
  if (index >= kBufferFilesMax) die("out of buffer files");
  char path[512];
  (void)std::snprintf(path, sizeof(path), "%s/buffer-%u", folder_.c_str(), index);
  // One that an earlier mechanism left is laid out already, and no longer being written back to
  // disk.
  if (lay_out && ::access(path, F_OK) != 0) write_page_file(path, kBufferFilePages);
  BufferFile &buffer = buffers_[index];
  buffer.fd = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const std::size_t bytes = kBufferFilePages * kPageBytes;
  if (buffer.fd < 0 || ::ftruncate(buffer.fd, static_cast<off_t>(bytes)) != 0) die("buffer file");
  const int populate = lay_out ? MAP_POPULATE : 0;
  void *mapping =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | populate, buffer.fd, 0);
  if (mapping == MAP_FAILED) die("mmap of a buffer file");
  buffer.mapping = static_cast<std::byte *>(mapping);
}

std::byte *ThesisMechanism::version_bytes(std::uint32_t page, std::uint32_t number) const noexcept {
  TMH_ASSERT(page < page_count_);
  if (number == 0) return home_ + std::uint64_t{page} * kPageBytes;
  const std::uint32_t position = number - 1;
  TMH_ASSERT(buffers_[position / kBufferFilePages].mapping != nullptr);
  return buffers_[position / kBufferFilePages].mapping +
         std::uint64_t{position % kBufferFilePages} * kPageBytes;
}

void ThesisMechanism::begin() noexcept {
  TMH_ASSERT(touched_.empty() && written_.empty());
  lock();
  ++next_id_;
  unlock();
}

void ThesisMechanism::advise(const void *address, Access access) noexcept {
  const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte *>(address) - view_);
  const auto page = static_cast<std::uint32_t>(offset / kPageBytes);
  TMH_ASSERT(page < page_count_);
  const PageState state = states_[page];
  if (state == PageState::kWritten || (state == PageState::kRead && access == Access::kRead))
    return;
  if (access == Access::kRead) {
    map_read(page);
  } else {
    map_copy(page);
  }
}

void ThesisMechanism::end() {
  for (const std::uint32_t page : touched_) {
    map_fixed(page, PROT_NONE, home_fd_, page);
    states_[page] = PageState::kNone;
  }
  touched_.clear();
  lock();
  for (const Version &version : written_) {
    newest_[version.page] = version.number;
    committed_.push_back(version);
  }
  written_.clear();
  const bool full = ++committed_count_ >= kLiveTransactionsMax;
  unlock();
  if (full) collect();
}

void ThesisMechanism::collect() noexcept {
  lock();
  for (const Version &version : committed_) {
    if (newest_[version.page] != version.number) continue;  // a later instance owns the page
    std::memcpy(version_bytes(version.page, 0), version_bytes(version.page, version.number),
                kPageBytes);
    newest_[version.page] = 0;
    ++counters_.pages_collected;
  }
  committed_.clear();
  committed_count_ = 0;
  next_number_ = 1;
  ++counters_.collections;
  unlock();
}

void ThesisMechanism::map_read(std::uint32_t page) noexcept {
  TMH_ASSERT(states_[page] == PageState::kNone);
  lock();
  touched_.push_back(page);
  states_[page] = PageState::kRead;
  const std::uint32_t number = newest_[page];
  // "the runtime does not hold the global lock while changing the memory map" (section 3.3)
  unlock();
  if (number == 0) {
    map_fixed(page, PROT_READ, home_fd_, page);
  } else {
    map_fixed(page, PROT_READ, buffers_[(number - 1) / kBufferFilePages].fd,
              (number - 1) % kBufferFilePages);
  }
}

void ThesisMechanism::map_copy(std::uint32_t page) noexcept {
  TMH_ASSERT(states_[page] != PageState::kWritten);
  lock();
  if (states_[page] == PageState::kNone) touched_.push_back(page);
  states_[page] = PageState::kWritten;
  const std::uint32_t number = next_number_++;
  const std::uint32_t file = (number - 1) / kBufferFilePages;
  if (file >= kBufferFilesMax || buffers_[file].fd < 0) open_buffer(file, false);
  std::memcpy(version_bytes(page, number), version_bytes(page, newest_[page]), kPageBytes);
  written_.push_back({page, number});
  ++counters_.pages_copied;
  unlock();
  map_fixed(page, PROT_READ | PROT_WRITE, buffers_[file].fd, (number - 1) % kBufferFilePages);
}

void ThesisMechanism::map_fixed(std::uint32_t page, int protection, int fd,
                                std::uint64_t file_page) noexcept {
  TMH_ASSERT(page < page_count_ && fd >= 0);
  ++counters_.mmaps;
  if (::mmap(view_ + std::uint64_t{page} * kPageBytes, kPageBytes, protection,
             MAP_SHARED | MAP_FIXED, fd,
             static_cast<off_t>(file_page * kPageBytes)) == MAP_FAILED) {
    die("mmap of a touched page");
  }
}

void ThesisMechanism::handle_fault(std::uint64_t page) noexcept {
  TMH_ASSERT(page < page_count_);
  ++counters_.signals;
  // A page without access may have been loaded from or stored to: Linux does not say which (section
  // 3.1, note 3).
  if (states_[page] == PageState::kNone) {
    map_read(static_cast<std::uint32_t>(page));
  } else {
    map_copy(static_cast<std::uint32_t>(page));
  }
}

void ThesisMechanism::on_sigsegv(int, siginfo_t *info, void *) {
  // Relaxed: set before by this same thread.
  ThesisMechanism *self = active.load(std::memory_order_relaxed);
  const auto offset = reinterpret_cast<std::uintptr_t>(info->si_addr) -
                      reinterpret_cast<std::uintptr_t>(self->view_);
  if (offset >= self->page_count_ * kPageBytes) {
    // Not ours: dies, or is handled, at the same instruction.
    (void)::sigaction(SIGSEGV, &self->old_action_, nullptr);
    return;
  }
  self->handle_fault(offset / kPageBytes);
}

// Acquire and release pair with each other: they order the tables between holders of the lock. One
// process holds it here; the operations are kept because the prototype pays for them.
void ThesisMechanism::lock() noexcept {
  while (locked_.exchange(true, std::memory_order_acquire)) {
  }
}
void ThesisMechanism::unlock() noexcept {
  TMH_ASSERT(locked_.load(std::memory_order_relaxed));
  locked_.store(false, std::memory_order_release);
}

void ThesisMechanism::die(const char *what) noexcept {
  const int error = errno;
  char text[256];
  const int bytes =
      std::snprintf(text, sizeof(text), "thesis mechanism: %s: %s\n", what, std::strerror(error));
  if (bytes > 0) (void)!::write(STDERR_FILENO, text, static_cast<std::size_t>(bytes));
  ::_exit(1);
}

}  // namespace tmh::bench
