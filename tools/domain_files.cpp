// tools/domain_files.cpp -- reading control file, checkpoint slots and participant table.
#include "tools/domain_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>

#include "levels/page/shared/shared.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/files.h"
#include "platform/process.h"
#include "storage/participants.h"
#include "tools/failure.h"
#include "tools/print.h"

namespace tmh::tools {

using platform::FileDescriptor;
using storage::CheckpointV1;
using storage::ControlFile;

namespace {

constexpr int kTries = 3;  // a participant may be in the middle of a change; it takes microseconds
void pause_ms(long ms) noexcept {
  TMH_ASSERT(ms >= 0 && ms < 1000);
  const timespec wait{0, ms * 1'000'000};
  nanosleep(&wait, nullptr);
}

std::string read_regular(const std::string &path, std::uint64_t bytes_max) {
  std::string bytes;
  check(platform::read_file(path, bytes_max, &bytes));
  return bytes;
}

using StateBytes = std::array<std::byte, sizeof(page::DomainState)>;
static_assert(sizeof(page::DomainState::boot_id) == sizeof(platform::BootId::text));

bool read_state_of_this_boot(const std::string &folder, StateBytes *state) noexcept {
  TMH_ASSERT(state != nullptr);
  FileDescriptor fd;
  (void)platform::open_regular(folder + "/tmh.state", O_RDONLY, platform::FileRole::kOwn, &fd);
  const platform::BootId boot = platform::this_boot();
  return fd &&
         pread(fd.get(), state->data(), state->size(), 0) == static_cast<ssize_t>(state->size()) &&
         std::memcmp(state->data() + offsetof(page::DomainState, boot_id), boot.text,
                     sizeof boot.text) == 0;
}

// The identity of the participant whose record this is; false when the slot is free or its process
// has ended.
bool is_live(const std::byte *record, bool is_elsewhere, LiveParticipant *out) {
  using storage::Participant;
  static_assert(sizeof(platform::ProcessId::pid) == sizeof(Participant::pid) &&
                sizeof(platform::ProcessId::start_time) == sizeof(Participant::start_time) &&
                sizeof(platform::ProcessId::stack_start) == sizeof(Participant::stack_start));
  TMH_ASSERT(record != nullptr && out != nullptr);
  std::uint32_t state;
  platform::ProcessId process;
  char name[sizeof Participant::name + 1] = {};
  std::memcpy(&state, record + offsetof(Participant, state), sizeof state);
  std::memcpy(&process.pid, record + offsetof(Participant, pid), sizeof process.pid);
  std::memcpy(&process.start_time, record + offsetof(Participant, start_time),
              sizeof process.start_time);
  std::memcpy(&process.stack_start, record + offsetof(Participant, stack_start),
              sizeof process.stack_start);
  std::memcpy(name, record + offsetof(Participant, name), sizeof Participant::name);
  if (state != 1 || process.pid <= 0 || !(is_elsewhere || platform::alive(process))) return false;
  out->pid = process.pid;
  out->name = printable(name);
  return true;
}

// In our copy, as the next open would in the file: a growth may have been cut short, or be going
// on.
Errc settle_sizes(const std::string &folder, ControlFile *control, std::string *why) {
  TMH_ASSERT(control != nullptr && why != nullptr);
  for (storage::SegmentRecordV1 &record : control->segments) {
    if (!storage::is_used(record)) continue;
    const Errc error =
        storage::settle_size(&record, file_facts(segment_path(folder, record)).bytes, why);
    if (error != Errc::kOk) return error;
  }
  return Errc::kOk;
}

}  // namespace

std::string segment_path(const std::string &folder, const storage::SegmentRecordV1 &record) {
  return record.name[0] == '/' ? record.name : folder + "/" + record.name;
}

void expect_domain(const std::string &folder) {
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0 && errno == ENOENT)
    refuse(Errc::kNotADomain, folder + ": no such folder");
  if (stat(folder.c_str(), &info) == 0 && !S_ISDIR(info.st_mode))
    refuse(Errc::kNotADomain, folder + " is no folder");
  if (lstat((folder + "/tmh.control").c_str(), &info) != 0 &&
      (errno == ENOENT || errno == ENOTDIR)) {
    check(storage::refuse_remains(folder));
    refuse(Errc::kNotADomain, folder + " is no domain: it holds no tmh.control");
  }
}

std::unique_ptr<ControlFile> read_control(const std::string &folder) {
  const std::string path = folder + "/tmh.control";
  expect_domain(folder);
  for (int tries = 1;; ++tries) {
    const std::string bytes = read_regular(path, 2 * storage::kControlBytes);
    std::string why;
    auto control = std::make_unique<ControlFile>();
    Errc error = storage::verify_control(bytes.data(), bytes.size(), &why);
    if (error == Errc::kOk) {
      std::memcpy(control.get(), bytes.data(), sizeof *control);
      error = settle_sizes(folder, control.get(), &why);
    }
    if (error == Errc::kOk) return control;
    if (tries == kTries) throw Error(error, path + ": " + why);
    pause_ms(5);
  }
}

std::unique_ptr<ControlFile> read_durable_control(const std::string &folder) {
  auto control = read_control(folder);
  if (control->header.durability == 0)
    refuse(Errc::kNotDurable, folder + " is volatile: it has no log");
  return control;
}

bool has_segments(const ControlFile &control) noexcept {
  return std::any_of(std::begin(control.segments), std::end(control.segments),
                     [](const auto &s) { return storage::is_used(s); });
}

namespace {

CheckpointSlots read_slots(const std::string &folder, const ControlFile &control) {
  CheckpointSlots found;
  const std::string path = storage::checkpoint_path(folder);
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0 && errno == ENOENT) return found;
  found.exists = true;
  const std::string bytes = read_regular(path, 1u << 20);
  for (std::size_t i = 0; i < 2; ++i) {
    CheckpointSlots::Slot &slot = found.slot[i];
    if (bytes.size() < (i + 1) * sizeof slot.content) {
      slot.error = Errc::kCorrupt;
      slot.why = "slot " + std::to_string(i) + ": cut short";
      continue;
    }
    std::memcpy(&slot.content, bytes.data() + i * sizeof slot.content, sizeof slot.content);
    slot.error = storage::verify_checkpoint(slot.content, i, &slot.why);
    const bool foreign = std::memcmp(slot.content.domain_id, control.header.domain_id,
                                     sizeof control.header.domain_id) != 0;
    if (slot.error == Errc::kOk && foreign) {
      slot.error = Errc::kNotADomain;
      slot.why = "slot " + std::to_string(i) + ": of another domain";
    }
    if (slot.error != Errc::kOk) continue;
    if (found.current < 0 || slot.content.sequence > found.slot[found.current].content.sequence)
      found.current = static_cast<int>(i);
  }
  return found;
}

}  // namespace

CheckpointSlots read_checkpoint(const std::string &folder, const ControlFile &control) {
  CheckpointSlots found;
  for (int tries = 1; tries <= kTries; ++tries) {
    if (tries > 1) pause_ms(5);
    found = read_slots(folder, control);
    if (!found.exists || found.both_valid()) break;
  }
  return found;
}

const CheckpointV1 &CheckpointSlots::get(const std::string &folder) const {
  const std::string path = storage::checkpoint_path(folder);
  if (!exists) refuse(Errc::kLogMissing, path + ": no such file");
  // A whole slot of another version or domain is no damage that the other slot could make good.
  for (const Slot &one : slot) {
    if (one.error == Errc::kForeignVersion || one.error == Errc::kNotADomain)
      throw Error(one.error, path + ": " + one.why);
  }
  TMH_ASSERT(current < 2);
  if (current < 0) throw Error(Errc::kCorrupt, path + ": " + slot[0].why + "; " + slot[1].why);
  return slot[current].content;
}

bool is_elsewhere(const std::byte *domain_state) noexcept {
  static_assert(sizeof(platform::Place::pids) == sizeof(page::DomainState::pid_namespace) &&
                sizeof(platform::Place::clock) == sizeof(page::DomainState::time_namespace));
  TMH_ASSERT(domain_state != nullptr);
  platform::Place here, there;
  std::memcpy(&there.pids, domain_state + offsetof(page::DomainState, pid_namespace),
              sizeof there.pids);
  std::memcpy(&there.clock, domain_state + offsetof(page::DomainState, time_namespace),
              sizeof there.clock);
  return platform::this_place(&here) != Errc::kOk || here != there;
}

std::vector<LiveParticipant> live_participants(const std::string &folder) {
  std::vector<LiveParticipant> live;
  StateBytes state;
  if (!read_state_of_this_boot(folder, &state)) return live;
  const bool elsewhere = is_elsewhere(state.data());
  FileDescriptor fd;
  if (platform::open_regular(folder + "/tmh.participants", O_RDONLY, platform::FileRole::kOwn,
                             &fd) != Errc::kOk)
    return live;
  constexpr std::size_t kRecord = sizeof(storage::Participant);
  std::vector<std::byte> block(128 * kRecord);
  constexpr off_t kEnd = static_cast<off_t>(storage::kParticipantsMax * kRecord);
  for (off_t at = 0; at < kEnd;) {
    const off_t data = lseek(fd.get(), at, SEEK_DATA);  // the table is sparse
    if (data < 0) break;
    at = data / static_cast<off_t>(kRecord) * static_cast<off_t>(kRecord);
    const ssize_t got = pread(fd.get(), block.data(), block.size(), at);
    if (got < static_cast<ssize_t>(kRecord)) break;
    const std::size_t records = static_cast<std::size_t>(got) / kRecord;
    for (std::size_t i = 0; i < records; ++i) {
      LiveParticipant one;
      one.slot = static_cast<std::uint32_t>(static_cast<std::size_t>(at) / kRecord + i);
      if (is_live(block.data() + i * kRecord, elsewhere, &one)) live.push_back(std::move(one));
    }
    at += static_cast<off_t>(records * kRecord);
  }
  return live;
}

namespace {
bool is_marked_open(const std::string &folder, const ControlFile &control) noexcept {
  FileDescriptor file;
  return control.header.open_mark != 0 &&
         platform::open_regular(folder + "/tmh.control", O_RDONLY, platform::FileRole::kOwn,
                                &file) == Errc::kOk &&
         control.header.open_mark == storage::open_mark(file.get());
}
}  // namespace

std::string displaced_file(const std::string &folder, const ControlFile &control) {
  using storage::FolderLook;
  using storage::Standing;
  const auto state = std::make_unique<page::DomainState>();
  const FileDescriptor at(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const FolderLook look(at.get(), folder, state->files, control);
  std::string name;
  Standing found = Standing::kUnknown;
  // What we have read of a file that shrinks, or is made, meanwhile is no longer so.
  for (int tries = 0; tries < kTries && found != Standing::kSame; ++tries) {
    StateBytes read;
    if (!read_state_of_this_boot(folder, &read))
      return is_marked_open(folder, control)
                 ? folder + "/tmh.state was removed or overwritten while the domain was in use"
                 : std::string();
    std::memcpy(static_cast<void *>(state.get()), read.data(), read.size());
    if (std::memcmp(state->domain_id, control.header.domain_id, sizeof state->domain_id) != 0 ||
        state->life != control.header.life)
      return {};
    found = look.find(FolderLook::Files::kAll, &name);
    if (found == Standing::kSame) found = look.find_replaced_log(&name);
  }
  if (found == Standing::kSame || !look.has_any()) return {};
  return (name.front() == '/' ? name : folder + "/" + name) + " " + standing_text(found) +
         " while the domain was in use";
}

FileFacts file_facts(const std::string &path) noexcept {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return {};
  return {true, static_cast<std::uint64_t>(info.st_size),
          static_cast<std::uint64_t>(info.st_blocks) * 512};
}

}  // namespace tmh::tools
