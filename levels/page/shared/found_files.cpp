// levels/page/shared/found_files.cpp -- looking at a folder before joining its domain.
#include "levels/page/shared/found_files.h"

#include <fcntl.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <new>

#include <tmh/options.hpp>

#include "levels/page/shared/layout.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/files.h"
#include "platform/process.h"
#include "platform/try.h"

namespace tmh::page {

using platform::fail;
using platform::fail_errno;
using storage::ControlFile;
using storage::DomainFile;
using storage::FolderLook;
using storage::Standing;

namespace {
constexpr const char *kInUse =
    " while processes have the domain open: none can join them; end them, and open it again";

// The table of an existing tmh.state.
class StateTable {
 public:
  [[nodiscard]] Errc open(const std::string &folder) noexcept {
    TMH_TRY(state_.open(folder + "/" + storage::name_of(DomainFile::kState), sizeof(DomainState),
                        kStateBytesMax, platform::GrowingFile::Blocks::kAllocated));
    folder_ = platform::FileDescriptor(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    return folder_ ? Errc::kOk : fail_errno(Errc::kIo, folder);
  }
  [[nodiscard]] FolderLook look(const std::string &folder,
                                const ControlFile &control) const noexcept {
    return {folder_.get(), folder, reinterpret_cast<DomainState *>(state_.base())->files, control};
  }

 private:
  platform::GrowingFile state_;
  platform::FileDescriptor folder_;
};
}  // namespace

std::string FoundFiles::path(DomainFile file) const {
  return folder_ + "/" + storage::name_of(file);
}

Errc FoundFiles::look_for_holder(const std::string &folder, bool *is_held) noexcept {
  for (const DomainFile file : {DomainFile::kControl, DomainFile::kParticipants}) {
    TMH_TRY(platform::look_for_holder(folder + "/" + storage::name_of(file), is_held));
    if (*is_held) break;
  }
  return Errc::kOk;
}

Errc FoundFiles::refuse_users(Errc code, const std::string &why) const noexcept {
  bool is_held = false;
  TMH_TRY(look_for_holder(folder_, &is_held));
  return is_held ? fail(code, why) : Errc::kOk;
}

Errc FoundFiles::look(const ControlFile &control, int control_fd) noexcept try {
  const std::uint64_t mark = storage::open_mark_of(control.header);
  const bool is_marked = mark != 0 && mark == storage::open_mark(control_fd);
  Identity found{};
  TMH_TRY(identify(&control, is_marked, &found));
  switch (found) {
    case Identity::kOurs:
      return look_at_files(control);
    case Identity::kAnothers:
      // The durable files are of another domain, or of another life of this one, than shared
      // memory: a copy has been put here.
      return refuse_users(Errc::kDomainInUse,
                          folder_ + ": processes use the domain whose files were here before");
    case Identity::kUnknown:
      break;
  }
  const std::string what = path(DomainFile::kState) + " was removed or overwritten";
  return is_marked ? settle(control, what, false)
                   : refuse_users(Errc::kFileReplaced, what + kInUse);
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("the names of the domain's files");
}

// Two domains would share their data files.
Errc FoundFiles::look_without_control() noexcept try {
  Identity found{};
  TMH_TRY(identify(nullptr, false, &found));
  const std::string what = path(DomainFile::kControl) + " was removed";
  TMH_TRY(refuse_users(Errc::kDomainInUse, what + kInUse));
  // Files of shared memory are made after the control file, and removed before it.
  if (found == Identity::kUnknown && !platform::has_entry(path(DomainFile::kVersionData)))
    return Errc::kOk;
  TMH_TRY(storage::refuse_remains(folder_));
  return fail(
      Errc::kFileReplaced,
      what + " since the domain was in use, and nobody has closed it: put it back, or remove " +
          storage::name_of(DomainFile::kState) + " and " +
          storage::name_of(DomainFile::kVersionData) + " to begin a new domain");
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("the names of the domain's files");
}

// Before the file is mapped. kForeignVersion: others may be using it. Whatever hinders us from
// reading it is an error, for the same reason.
Errc FoundFiles::identify(const ControlFile *control, bool is_marked,
                          Identity *out) const noexcept {
  *out = Identity::kUnknown;
  const platform::BootId boot = platform::this_boot();
  if (!boot.is_known())
    return fail_errno(
        Errc::kIo,
        "/proc/sys/kernel/random/boot_id, which tells what is left from before a reboot");
  const std::string file = path(DomainFile::kState);
  std::string bytes;
  if (platform::has_entry(file)) {
    TMH_TRY(platform::read_file(file, 1u << 20, &bytes));
  } else if (errno != ENOENT) {
    return fail_errno(Errc::kIo, file);
  }
  if (bytes.size() < offsetof(DomainState, incarnation_next)) return Errc::kOk;
  const auto *state = reinterpret_cast<const DomainState *>(bytes.data());
  // Damaged, or of another boot: no process of this machine has it open, unless the control file
  // says so.
  if (state->magic != kStateMagic || std::memcmp(state->boot_id, boot.text, sizeof boot.text) != 0)
    return is_marked
               ? Errc::kOk
               : refuse_users(Errc::kDomainInUse,
                              folder_ + ": processes of another machine, or another boot, use it");
  if (state->version != kStateVersion || state->state_bytes != sizeof(DomainState) ||
      bytes.size() < sizeof(DomainState))
    return fail(Errc::kForeignVersion,
                file + " is of another version that is, or was, in use since this boot");
  const bool is_ours =
      control != nullptr &&
      std::memcmp(state->domain_id, control->header.domain_id, sizeof state->domain_id) == 0 &&
      state->life == storage::life_of(control->header);
  *out = is_ours ? Identity::kOurs : Identity::kAnothers;
  return Errc::kOk;
}

Errc FoundFiles::look_for_shared(const ControlFile &control, bool *is_whole) noexcept try {
  *is_whole = false;
  Identity found{};
  TMH_TRY(identify(&control, true, &found));
  if (found != Identity::kOurs) return Errc::kOk;
  StateTable table;
  TMH_TRY(table.open(folder_));
  std::string name;
  const FolderLook look = table.look(folder_, control);
  *is_whole = look.find(FolderLook::Files::kShared, &name) == Standing::kSame;
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("the names of the domain's files");
}

Errc FoundFiles::look_at_files(const ControlFile &control) noexcept {
  state_ = State::kOurs;
  StateTable table;
  TMH_TRY(table.open(folder_));
  const FolderLook look = table.look(folder_, control);
  std::string name;
  Standing standing = look.find(FolderLook::Files::kDurable, &name);
  if (standing == Standing::kSame) standing = look.find_replaced_log(&name);
  const bool is_durable_file = standing != Standing::kSame;
  if (!is_durable_file) standing = look.find(FolderLook::Files::kShared, &name);
  if (standing == Standing::kSame) return Errc::kOk;
  is_copy_ = !look.has_any();
  if (is_copy_) return Errc::kOk;
  return settle(control,
                (name.front() == '/' ? name : folder_ + "/" + name) + " " + standing_text(standing),
                is_durable_file);
}

// `what` has become of a file. Where all that was acknowledged is in the log, the opener makes
// shared memory anew and loses nothing.
Errc FoundFiles::settle(const ControlFile &control, const std::string &what,
                        bool is_durable_file) noexcept {
  TMH_TRY(refuse_users(Errc::kFileReplaced, what + kInUse));
  const bool is_in_log =
      control.header.durability == static_cast<std::uint32_t>(Durability::kStrict) &&
      control.header.acknowledged_early == 0;
  if (is_durable_file || !is_in_log)
    return fail(Errc::kFileReplaced,
                what +
                    " since the domain was in use, and nobody has closed it: put it back, open a "
                    "backup, or see --accept-files of tmh recover");
  state_ = State::kNone;
  return Errc::kOk;
}

}  // namespace tmh::page
