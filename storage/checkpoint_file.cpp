// storage/checkpoint_file.cpp -- two slots, written in turn.
#include "storage/checkpoint_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "platform/failure.h"
#include "platform/try.h"
#include "storage/crc32c.h"

namespace tmh::storage {

using platform::DiskFile;
using platform::fail;

static_assert(offsetof(CheckpointV1, previous_end) == 96 &&
              offsetof(CheckpointV1, previous_generation) == 104);
static_assert(sizeof(CheckpointV1) == platform::kDiskBlockBytes, "a slot is one durable write");

namespace {

std::uint32_t slot_crc(const CheckpointV1 &slot) noexcept {
  return crc32c(0, &slot, offsetof(CheckpointV1, crc));
}

// Odd sequences in slot 1, even ones in slot 0.
constexpr std::uint64_t slot_of(std::uint64_t sequence) noexcept { return sequence % 2; }

const char *wrong_field(const CheckpointV1 &slot, std::uint64_t index) noexcept {
  if (slot.sequence == 0 || slot_of(slot.sequence) != index) return "sequence";
  if (slot.log_file_bytes < kLogFileBytesMin || slot.log_file_bytes > kLogFileBytesMax ||
      slot.log_file_bytes % kLogBlockBytes != 0)
    return "log_file_bytes";
  const std::uint64_t offset = slot.lsn % slot.log_file_bytes;
  if (slot.lsn % 8 != 0 || slot.lsn < kFirstLsn || (offset != 0 && offset < kLogBlockBytes))
    return "lsn";
  if (slot.durable_lsn < slot.lsn) return "durable_lsn";
  if (slot.is_clean > 1) return "is_clean";
  if (slot.keep_all > 1) return "keep_all";
  if (slot.previous_generation != 0 && slot.previous_generation >= slot.generation)
    return "previous_generation";
  if (!std::all_of(std::begin(slot.reserved_zero), std::end(slot.reserved_zero),
                   [](auto b) { return b == 0; }))
    return "reserved bytes";
  return nullptr;
}

}  // namespace

std::string checkpoint_path(const std::string &folder) { return folder + "/tmh.checkpoint"; }

void seal(CheckpointV1 *slot) noexcept { slot->crc = slot_crc(*slot); }

bool promises_log_file(const CheckpointV1 &slot) noexcept {
  const bool is_recovery_mark = slot.durable_lsn == slot.lsn && slot.previous_generation != 0 &&
                                open_position(slot.previous_end, slot.log_file_bytes) == slot.lsn;
  return slot.is_clean == 0 && !is_recovery_mark;
}

Errc verify_checkpoint(const CheckpointV1 &slot, std::uint64_t index, std::string *why) {
  const auto refuse = [&](Errc code, const char *text) {
    *why = "slot " + std::to_string(index) + ": " + text;
    return code;
  };
  const bool whole = slot.crc == slot_crc(slot);
  if (slot.magic != kCheckpointMagic)
    return refuse(whole ? Errc::kNotADomain : Errc::kCorrupt, "magic number");
  if (!whole) return refuse(Errc::kCorrupt, "checksum");
  if (slot.format_version != kCheckpointVersion)
    return refuse(Errc::kForeignVersion, "format_version");
  if (const char *field = wrong_field(slot, index)) return refuse(Errc::kCorrupt, field);
  return Errc::kOk;
}

Errc CheckpointFile::open(const std::string &folder, const std::uint64_t domain_id[2]) noexcept {
  durable_sequence_ = 0;
  domain_id_[0] = domain_id[0];
  domain_id_[1] = domain_id[1];
  const std::string path = checkpoint_path(folder);
  if (struct stat info{}; lstat(path.c_str(), &info) != 0 && errno == ENOENT)
    return fail(Errc::kLogMissing, path + ": no such file");
  TMH_TRY(file_.open(path, DiskFile::Mode::kReadWrite));
  return refresh();
}

Errc CheckpointFile::refresh() noexcept {
  const CheckpointV1 *best = nullptr;
  unsigned valid = 0;
  std::string whys;
  CheckpointV1 slots[2] = {};
  for (std::uint64_t index = 0; index < 2; ++index) {
    CheckpointV1 &slot = slots[index];
    std::size_t got = 0;
    TMH_TRY(file_.read(index * sizeof slot, &slot, sizeof slot, &got));
    std::string why = "slot " + std::to_string(index) + ": cut short";
    const Errc error = got < sizeof slot ? Errc::kCorrupt : verify_checkpoint(slot, index, &why);
    if (error == Errc::kForeignVersion) return fail(error, file_.path() + ": " + why);
    whys += error == Errc::kOk ? "" : ": " + why;
    if (error != Errc::kOk) continue;
    // A whole slot of somebody else is no damage that the other slot could make good.
    if (slot.domain_id[0] != domain_id_[0] || slot.domain_id[1] != domain_id_[1])
      return fail(Errc::kNotADomain, file_.path() + ": of another domain");
    ++valid;
    if (best == nullptr || slot.sequence > best->sequence) best = &slot;
  }
  if (best == nullptr) return fail(Errc::kCorrupt, file_.path() + whys);
  both_valid_ = valid == 2;
  current_ = *best;
  return Errc::kOk;
}

Errc CheckpointFile::write_slot(const CheckpointV1 &slot) noexcept {
  alignas(platform::kDiskBlockBytes) CheckpointV1 sealed = slot;
  sealed.magic = kCheckpointMagic;
  sealed.format_version = kCheckpointVersion;
  std::copy(std::begin(domain_id_), std::end(domain_id_), std::begin(sealed.domain_id));
  seal(&sealed);
  std::string why;
  if (const Errc error = verify_checkpoint(sealed, slot_of(sealed.sequence), &why);
      error != Errc::kOk)
    return fail(Errc::kBadArgument,
                file_.path() + ": refuses to store a checkpoint that it would not read: " + why);
  const Errc error =
      file_.write_durable(slot_of(sealed.sequence) * sizeof sealed, &sealed, sizeof sealed);
  if (error == Errc::kOk) {
    // A damaged slot was the one just written.
    both_valid_ = both_valid_ || sealed.sequence == current_.sequence + 1;
    current_ = sealed;
    durable_sequence_ = sealed.sequence;
  } else {
    both_valid_ = false;  // it may be torn
  }
  return error;
}

Errc CheckpointFile::create(const std::string &folder, const CheckpointV1 &first) noexcept {
  std::copy(std::begin(first.domain_id), std::end(first.domain_id), std::begin(domain_id_));
  const std::string temporary = checkpoint_path(folder) + ".new";
  TMH_TRY(platform::disk_unlink(temporary));
  TMH_TRY(file_.open(temporary, DiskFile::Mode::kCreate));
  CheckpointV1 slot = first;
  for (slot.sequence = 1; slot.sequence <= 2; ++slot.sequence) {
    TMH_TRY(write_slot(slot));
  }
  TMH_TRY(file_.sync());  // the file's length
  TMH_TRY(platform::disk_rename(temporary, checkpoint_path(folder)));
  TMH_TRY(platform::sync_folder(folder));
  return open(folder, domain_id_);  // under its final name, which failures are to show
}

Errc CheckpointFile::store(CheckpointV1 next) noexcept {
  if (current_.sequence != durable_sequence_) TMH_TRY(write_slot(current_));
  next.sequence = current_.sequence + 1;
  next.previous_lsn = current_.lsn;
  return write_slot(next);
}

}  // namespace tmh::storage
