// tests/power/journal.cpp -- the shared journal and the hook that writes it.
#include "tests/power/journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fstream>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>

namespace tmh::test::power {

struct Journal::Head {
  std::atomic<std::uint64_t> entries;  // reserved
  std::atomic<std::uint64_t> bytes;    // reserved
  std::atomic<std::uint64_t> dropped;
  std::uint64_t reserved_zero[5];
};

struct Journal::Slot {
  std::atomic<std::uint32_t> published;
  std::uint32_t type;
  std::int32_t process, thread;
  std::uint32_t path_bytes, path2_bytes;  // they stand before the data
  std::uint64_t offset, at, data_bytes;
  std::uint64_t reserved_zero[2];
};

namespace {

constexpr std::uint64_t kHeadBytes = 64;
constexpr std::uint64_t kSlotBytes = 64;

std::uint64_t file_bytes(const std::string &file) {
  struct stat info {};
  if (stat(file.c_str(), &info) != 0) throw std::runtime_error("no journal " + file);
  return static_cast<std::uint64_t>(info.st_size);
}

// A saved journal: its head, the reserved slots, the reserved bytes.
struct Saved {
  std::uint64_t entries = 0, bytes = 0;
};
Saved saved_head(const std::string &file) {
  std::ifstream in(file, std::ios::binary);
  Saved saved;
  in.read(reinterpret_cast<char *>(&saved), sizeof saved);
  if (!in || file_bytes(file) != kHeadBytes + saved.entries * kSlotBytes + saved.bytes)
    throw std::runtime_error(file + " is no saved journal");
  return saved;
}

}  // namespace

Journal::Journal(std::uint64_t entries_max, std::uint64_t bytes_max)
    : entries_max_(entries_max),
      bytes_max_(bytes_max),
      memory_(static_cast<std::size_t>(kHeadBytes + entries_max * kSlotBytes + bytes_max)) {
  static_assert(sizeof(Head) == kHeadBytes && sizeof(Slot) == kSlotBytes);
}

Journal::Journal(const std::string &file)
    : Journal(std::max<std::uint64_t>(1, saved_head(file).entries), saved_head(file).bytes + 1) {
  std::ifstream in(file, std::ios::binary);
  in.read(static_cast<char *>(memory_.get()), static_cast<std::streamsize>(kHeadBytes));
  in.read(reinterpret_cast<char *>(slots()),
          static_cast<std::streamsize>(head().entries.load() * kSlotBytes));
  in.read(reinterpret_cast<char *>(bytes()), static_cast<std::streamsize>(head().bytes.load()));
}

void Journal::save(const std::string &file) const {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(static_cast<const char *>(memory_.get()), static_cast<std::streamsize>(kHeadBytes));
  out.write(reinterpret_cast<const char *>(slots()),
            static_cast<std::streamsize>(head().entries.load() * kSlotBytes));
  out.write(reinterpret_cast<const char *>(bytes()),
            static_cast<std::streamsize>(head().bytes.load()));
  if (!out.flush()) throw std::runtime_error("cannot write " + file);
}

Journal::Head &Journal::head() const noexcept { return *static_cast<Head *>(memory_.get()); }
Journal::Slot *Journal::slots() const noexcept {
  return reinterpret_cast<Slot *>(static_cast<std::byte *>(memory_.get()) + kHeadBytes);
}
std::byte *Journal::bytes() const noexcept {
  return static_cast<std::byte *>(memory_.get()) + kHeadBytes + entries_max_ * kSlotBytes;
}

void Journal::append(std::uint32_t type, const char *path, const char *path2, std::uint64_t offset,
                     const void *data, std::uint64_t byte_count) noexcept {
  const std::uint64_t path_bytes = path == nullptr ? 0 : std::strlen(path);
  const std::uint64_t path2_bytes = path2 == nullptr ? 0 : std::strlen(path2);
  const std::uint64_t wanted = path_bytes + path2_bytes + (data == nullptr ? 0 : byte_count);
  // The bytes first: between the entry's reservation, which is its place in the order, and its
  // publication lies no loop.
  const std::uint64_t at = head().bytes.fetch_add(wanted, std::memory_order_relaxed);
  if (at + wanted > bytes_max_) {
    head().bytes.fetch_sub(wanted, std::memory_order_relaxed);
    head().dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  std::byte *to = bytes() + at;
  if (path_bytes != 0) std::memcpy(to, path, path_bytes);
  if (path2_bytes != 0) std::memcpy(to + path_bytes, path2, path2_bytes);
  if (data != nullptr && byte_count != 0)
    std::memcpy(to + path_bytes + path2_bytes, data, byte_count);
  // acq_rel: an entry's place is behind those of everything that its process has seen.
  const std::uint64_t index = head().entries.fetch_add(1, std::memory_order_acq_rel);
  if (index >= entries_max_) {
    head().entries.fetch_sub(1, std::memory_order_relaxed);
    head().dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  Slot &slot = slots()[index];
  slot.type = type;
  slot.process = getpid();
  slot.thread = gettid();
  slot.path_bytes = static_cast<std::uint32_t>(path_bytes);
  slot.path2_bytes = static_cast<std::uint32_t>(path2_bytes);
  slot.offset = offset;
  slot.at = at;
  slot.data_bytes = data == nullptr ? 0 : byte_count;
  slot.published.store(1, std::memory_order_release);  // pairs with the acquire in read()
}

std::uint64_t Journal::count() const noexcept {
  return head().entries.load(std::memory_order_acquire);
}
bool Journal::overflowed() const noexcept {
  return head().dropped.load(std::memory_order_relaxed) != 0;
}
bool Journal::has_room() const noexcept {
  return count() < entries_max_ / 2 &&
         head().bytes.load(std::memory_order_relaxed) < bytes_max_ / 2;
}

std::vector<Entry> Journal::read() const {
  std::vector<Entry> all;
  all.reserve(count());
  std::unordered_map<std::int32_t, std::size_t> last_of_thread;  // index in `all`
  std::unordered_set<std::int32_t> dead;
  std::unordered_map<std::uint64_t, bool> done;  // by number
  const auto text = [this](std::uint64_t at, std::uint64_t length) {
    return std::string_view(reinterpret_cast<const char *>(bytes() + at), length);
  };
  for (std::uint64_t i = 0; i < count(); ++i) {
    const Slot &slot = slots()[i];
    // Killed before it could publish.
    if (slot.published.load(std::memory_order_acquire) == 0) continue;
    Entry entry;
    entry.number = i + 1;
    entry.type = slot.type;
    entry.process = slot.process;
    entry.thread = slot.thread;
    entry.path = text(slot.at, slot.path_bytes);
    entry.path2 = text(slot.at + slot.path_bytes, slot.path2_bytes);
    entry.offset = slot.offset;
    entry.data = {bytes() + slot.at + slot.path_bytes + slot.path2_bytes, slot.data_bytes};
    all.push_back(entry);
    last_of_thread[entry.thread] = all.size() - 1;
    if (!entry.is_note()) continue;
    if (entry.note() == Note::kDied) dead.insert(static_cast<std::int32_t>(entry.offset));
    if (entry.note() == Note::kDone || entry.note() == Note::kNotDone)
      done[entry.offset] = entry.note() == Note::kDone;
  }
  for (const auto &[thread, index] : last_of_thread) {
    using platform::DiskOp;
    Entry &entry = all[index];
    if (!dead.contains(entry.process) || entry.is_note()) continue;
    entry.uncertain = entry.op() == DiskOp::kWrite || entry.op() == DiskOp::kWriteDurable ||
                      entry.op() == DiskOp::kTruncate || entry.op() == DiskOp::kCreate ||
                      entry.op() == DiskOp::kRename || entry.op() == DiskOp::kUnlink;
    if (done.contains(entry.number)) entry.uncertain = false;
    // A rename has happened when somebody used the new name afterwards without making it: nothing
    // else tells, if the folder was synced in between.
    if (!entry.uncertain || entry.op() != DiskOp::kRename) continue;
    const auto next = std::find_if(
        all.begin() + static_cast<std::ptrdiff_t>(index) + 1, all.end(), [&](const Entry &later) {
          return !later.is_note() && (later.path == entry.path2 || later.path2 == entry.path2);
        });
    if (next != all.end() && next->path == entry.path2 && next->op() != DiskOp::kCreate &&
        next->op() != DiskOp::kUnlink)
      entry.uncertain = false;
  }
  std::erase_if(all, [&](const Entry &entry) {
    const auto known = done.find(entry.number);
    return known != done.end() && !known->second;
  });
  return all;
}

namespace {

Journal *g_journal = nullptr;
DiskPace g_pace;

// Not rand(): the hook may run in a handler, and what it chooses need not be reproducible.
std::uint64_t dice() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_nsec + gettid()) * 0x9e37'79b9'7f4a'7c15ull >> 33;
}

void take_time() noexcept {
  if (g_pace.write_us_max == 0) return;
  const timespec pause{0, static_cast<long>(dice() % (std::uint64_t{g_pace.write_us_max} * 1000))};
  nanosleep(&pause, nullptr);
}

void die_now_and_then(const platform::DiskEvent &event) noexcept {
  using platform::DiskOp;
  const DiskOp op = event.op;
  if (g_pace.die_one_in == 0 || op == DiskOp::kHomeWrite) return;
  const bool is_rare = op == DiskOp::kCreate || op == DiskOp::kRename || op == DiskOp::kUnlink ||
                       op == DiskOp::kFolderSync ||
                       std::strstr(event.path, "tmh.control") != nullptr;
  if (dice() % (is_rare ? 4 : g_pace.die_one_in) == 0) kill(getpid(), SIGKILL);
}

int record(const platform::DiskEvent &event) {
  using platform::DiskOp;
  const int error = errno;
  die_now_and_then(event);
  // The time is spent before the operation counts as done, in both halves of it: others get in
  // between.
  if (event.op == DiskOp::kWriteDone || event.op == DiskOp::kSyncDone) take_time();
  g_journal->append(static_cast<std::uint32_t>(event.op), event.path, event.path2, event.offset,
                    event.data, event.bytes);
  if (event.op == DiskOp::kWriteDurable || event.op == DiskOp::kSync) take_time();
  errno = error;
  return 0;
}

}  // namespace

void record_into(Journal *journal, DiskPace pace) noexcept {
  g_journal = journal;
  g_pace = pace;
  platform::set_disk_hook(journal == nullptr ? nullptr : &record);
}

}  // namespace tmh::test::power
