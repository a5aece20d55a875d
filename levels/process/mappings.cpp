// levels/process/mappings.cpp -- by userfaultfd(2) and mmap(2).
#include "levels/process/mappings.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "levels/process/copied_regions.h"
#include "levels/process/ground/ground.h"
#include "levels/process/keys.h"

namespace tmh::itm::pages {

namespace {

constexpr std::uint32_t kFileTries = 1000;
constexpr std::uint32_t kWrittenMax = 1u << 22;

}  // namespace

bool Mappings::make_tables() noexcept {
  const std::size_t pages = Memory::pages();
  if (modes_ != nullptr) {  // the creator's
    raw_munmap(modes_, pages);
    raw_munmap(index_, pages * sizeof(*index_));
    written_count_ = runs_count_ = copies_ = owned_count_ = 0;
    CopiedRegions::forget_all();
    free_twins_ = nullptr;
  } else {
    written_ = static_cast<Written *>(private_memory(kWrittenMax * sizeof(Written)));
    runs_ = static_cast<Run *>(private_memory(kRunsMax * sizeof(Run)));
  }
  modes_ = static_cast<std::uint8_t *>(private_memory(pages));
  index_ = static_cast<std::uint32_t *>(private_memory(pages * sizeof(*index_)));
  return modes_ != nullptr && index_ != nullptr && written_ != nullptr && runs_ != nullptr;
}

bool Mappings::open_faults() noexcept {
  // The creator's stays open: tasks share their descriptors.
  // From here on the number is the program's, which may close it.
  const std::int32_t kept = self().faults_file.exchange(0, std::memory_order_relaxed);
  if (kept != 0) kernel_call(SYS_close, kept - 1, 0, 0, 0, 0, 0);
  for (std::uint32_t tries = 0; tries < kFileTries; ++tries) {
    faults_ = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
    if (faults_ >= 0 || errno != EMFILE) break;
    const timespec pause{0, 1'000'000};  // another task was faster, and may close a file soon
    kernel_call(SYS_nanosleep, reinterpret_cast<long>(&pause), 0, 0, 0, 0, 0);
  }
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_SIGBUS;
  if (faults_ < 0 || raw_ioctl(faults_, UFFDIO_API, &api) != 0) return false;
  self().faults_file.store(faults_ + 1, std::memory_order_relaxed);
  return true;
}

bool Mappings::start() noexcept { return make_tables() && open_faults(); }

void Mappings::set(PageNumber first, std::uint32_t count, Mapped as) noexcept {
  TMH_ASSERT(first < Memory::pages() && count <= Memory::pages() - first);
  std::memset(modes_ + first, static_cast<int>(as), count);
}

bool Mappings::put_base(PageNumber first, std::uint32_t count) noexcept {
  TMH_ASSERT(count != 0 && faults_ >= 0);
  const std::uintptr_t at = Memory::address_of(first);
  const std::uint64_t bytes = count * kPageBytes;
  if (raw_mmap(reinterpret_cast<void *>(at), bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
    return false;
  if (has_keys() &&
      raw_pkey_mprotect(reinterpret_cast<void *>(at), bytes, PROT_READ | PROT_WRITE, copy_key) != 0)
    return false;
  uffdio_register range{};
  range.range.start = at;
  range.range.len = bytes;
  range.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP;
  return raw_ioctl(faults_, UFFDIO_REGISTER, &range) == 0;
}

bool Mappings::put_home(PageNumber first, std::uint32_t count, Mapped as) noexcept {
  TMH_ASSERT(as == Mapped::kShared || as == Mapped::kHeld || as == Mapped::kOwned);
  void *const at = reinterpret_cast<void *>(Memory::address_of(first));
  const std::uint64_t bytes = count * kPageBytes;
  const int rights = PROT_READ | (as == Mapped::kShared ? 0 : PROT_WRITE);
  return raw_mmap(at, bytes, rights, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, Memory::home_file(),
                  static_cast<off_t>(first * kPageBytes)) != MAP_FAILED &&
         (!has_keys() || as == Mapped::kOwned ||
          raw_pkey_mprotect(at, bytes, rights, shared_key) == 0);
}

bool Mappings::fill(PageNumber first, std::uint32_t count, const std::byte *content,
                    bool is_writable) noexcept {
  TMH_ASSERT(count != 0 && reinterpret_cast<std::uintptr_t>(content) % kPageBytes == 0);
  uffdio_copy copy{};
  copy.dst = Memory::address_of(first);
  copy.src = reinterpret_cast<std::uintptr_t>(content);
  copy.len = count * kPageBytes;
  copy.mode = is_writable ? 0 : UFFDIO_COPY_MODE_WP;
  if (raw_ioctl(faults_, UFFDIO_COPY, &copy) != 0) return false;
  pages::count(Count::kCopies, count);
  copies_ += count;
  if (!has_keys()) CopiedRegions::note(first);
  return true;
}

void Mappings::protect(PageNumber page, bool is_protected) noexcept {
  TMH_ASSERT(is_copy(mapped(page)));
  uffdio_writeprotect range{};
  range.range.start = Memory::address_of(page);
  range.range.len = kPageBytes;
  range.mode = is_protected ? UFFDIO_WRITEPROTECT_MODE_WP : 0;
  if (raw_ioctl(faults_, UFFDIO_WRITEPROTECT, &range) != 0) die("a page cannot be protected");
}

void Mappings::end_copy(PageNumber page) noexcept {
  TMH_ASSERT(is_copy(mapped(page)) && copies_ != 0);
  if (mapped(page) == Mapped::kWritten) remove_twin(page);
  set(page, Mapped::kNothing);
  --copies_;
}

void Mappings::evict(PageNumber page) noexcept {
  end_copy(page);
  index_[page] = kEvicted;
}

bool Mappings::take_evicted(PageNumber page) noexcept {
  TMH_ASSERT(mapped(page) != Mapped::kWritten && mapped(page) != Mapped::kOwned);
  const bool was_evicted = index_[page] == kEvicted;
  if (was_evicted) index_[page] = 0;
  return was_evicted;
}

PageNumber Mappings::next_copy(PageNumber first, PageNumber end) noexcept {
  TMH_ASSERT(first <= end && end <= Memory::pages());
  // By words: most of the table is zero.
  for (PageNumber page = first; page < end;) {
    std::uint64_t word = 0;
    static_assert(static_cast<std::uint8_t>(Mapped::kNothing) == 0);
    if (page % sizeof word == 0 && page + sizeof word <= end) {
      std::memcpy(&word, modes_ + page, sizeof word);
      if (word == 0) {
        page += sizeof word;
        continue;
      }
    }
    if (is_copy(mapped(page))) return page;
    ++page;
  }
  return end;
}

void Mappings::add_twin(PageNumber page, const std::byte *content, bool is_pulled) noexcept {
  TMH_ASSERT(mapped(page) != Mapped::kWritten);
  std::byte *twin = free_twins_;
  if (twin != nullptr) {
    std::memcpy(&free_twins_, twin, sizeof free_twins_);
  } else {
    static std::byte *pool = nullptr;
    static std::size_t left = 0;
    if (left == 0) {
      left = 256;
      pool = static_cast<std::byte *>(private_memory(left * kPageBytes));
      if (pool == nullptr) die("no memory for copies");
    }
    twin = pool + --left * kPageBytes;
  }
  std::memcpy(twin, content, kPageBytes);
  note_written(page, twin, is_pulled);
  set(page, Mapped::kWritten);
}

void Mappings::note_written(PageNumber page, std::byte *twin, bool is_pulled) noexcept {
  if (written_count_ == kWrittenMax) die("too many pages are written");
  index_[page] = written_count_;
  written_[written_count_++] = {page, 0, is_pulled, twin};
}

void Mappings::remove_twin(PageNumber page) noexcept {
  const std::uint32_t index = index_[page];
  TMH_ASSERT(index < written_count_ && written_[index].page == page);
  Written &gone = written_[index];
  std::memcpy(gone.twin, &free_twins_, sizeof free_twins_);
  free_twins_ = gone.twin;
  remove_written(index);
}

void Mappings::remove_written(std::uint32_t index) noexcept {
  Written &gone = written_[index];
  gone = written_[--written_count_];
  index_[gone.page] = index;
}

void Mappings::add_owned(PageNumber page, std::byte *image) noexcept {
  TMH_ASSERT(mapped(page) == Mapped::kNothing);
  note_written(page, image, false);
  set(page, Mapped::kOwned);
  ++owned_count_;
}

std::byte *Mappings::remove_owned(PageNumber page) noexcept {
  TMH_ASSERT(mapped(page) == Mapped::kOwned && owned_count_ != 0);
  const std::uint32_t index = index_[page];
  TMH_ASSERT(index < written_count_ && written_[index].page == page);
  std::byte *const image = written_[index].twin;
  remove_written(index);
  --owned_count_;
  return image;
}

void Mappings::add_run(PageNumber first, std::uint32_t count) noexcept {
  TMH_ASSERT(count != 0 && runs_count_ < kRunsMax);
  runs_[runs_count_++] = {first, count};
}

void Mappings::keep_runs(std::uint32_t count) noexcept {
  TMH_ASSERT(count <= runs_count_);
  runs_count_ = count;
}

}  // namespace tmh::itm::pages
