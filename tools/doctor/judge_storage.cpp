// tools/doctor/judge_storage.cpp -- may a domain live in this folder, and what does durability cost
// there?
#include <fmt/format.h>

#include <cerrno>

#include "platform/assert.h"
#include "tools/doctor/finding.h"
#include "tools/moment.h"

namespace tmh::tools::doctor {

namespace {

// checkpoint_bytes is 64 MiB by default; log of two checkpoints, files laid out ahead, and as much
// of data again.
constexpr std::uint64_t kFreeBytesMin = 256u << 20;
constexpr double kTooCheapUs = 5;       // the fastest durable devices need 10
constexpr double kExpensiveUs = 5'000;  // a rotation of a disk: 4 to 8 ms; flash needs less than 1
static_assert(kTooCheapUs < kExpensiveUs);

void judge_file_system(Judge *judge, const StorageFacts &facts) {
  TMH_ASSERT(judge != nullptr && facts.folder_error == 0);
  const std::string found = facts.folder + ": " + facts.file_system;
  if (facts.is_memory)
    return judge->limited(
        "file system", found,
        "it lives in memory: a restart loses it, whatever durability a domain has",
        "for durable domains a folder on a disk; for others this is the fastest place");
  if (facts.is_network)
    return judge->limited("file system", found,
                          "a mapping of one machine does not see another's stores, and durable "
                          "writes may stay in a cache",
                          "a local disk; all processes of a domain on one machine");
  if (facts.is_overlay)
    return judge->limited("file system", found,
                          "a container's own layer: gone with the container, and slower",
                          "a volume of the host (docker: -v HOST:FOLDER)");
  if (!facts.is_known)
    return judge->limited("file system", found, "nobody has tried tmh on it",
                          "ext4, xfs or btrfs on a local disk");
  judge->yes("file system", found);
}

void judge_space(Judge *judge, const StorageFacts &facts) {
  TMH_ASSERT(judge != nullptr);
  const std::string found =
      fmt::format("{} free of {}", bytes_text(facts.free_bytes), bytes_text(facts.total_bytes));
  const bool is_full = facts.write_error == ENOSPC || facts.write_error == EDQUOT;
  if (is_full || facts.free_bytes == 0)
    return judge->no(
        "free space", found,
        facts.write_error == EDQUOT ? "the user's quota is used up" : "the disk is full",
        "free some: commits that need space abort with kDiskFull until then");
  if (facts.free_bytes < kFreeBytesMin)
    return judge->limited(
        "free space", found,
        fmt::format("a durable domain's log alone may take {} between checkpoints",
                    bytes_text(kFreeBytesMin / 2)),
        "free some, or a smaller DomainOptions::checkpoint_bytes");
  judge->yes("free space", found);
}

// False: nothing could be written, and more about writing cannot be said.
bool judge_writing(Judge *judge, const StorageFacts &facts) {
  TMH_ASSERT(judge != nullptr);
  switch (facts.write_error) {
    case 0:
      judge->yes("writing", "permitted");
      return true;
    case ENOSPC:
    case EDQUOT:
      judge->no("writing", error_text(facts.write_error), "no space for a file of 1 MiB",
                "see \"free space\"");
      return false;
    case EROFS:
      judge->no("writing", error_text(EROFS), "the file system is mounted read-only",
                "mount -o remount,rw, after a look at dmesg: Linux does this after errors");
      return false;
    case EACCES:
    case EPERM:
      judge->no("writing", error_text(facts.write_error), "the folder belongs to somebody else",
                "chmod or chown it, or choose another");
      return false;
    default:
      judge->no("writing", error_text(facts.write_error), "the disk or the file system fails",
                "look at dmesg");
      return false;
  }
}

void judge_sync(Judge *judge, const StorageFacts &facts) {
  TMH_ASSERT(judge != nullptr && facts.write_error == 0);
  const std::string found =
      fmt::format("median {:.0f} us of {} (from {:.0f} to {:.0f}), 4 KiB each into written space",
                  facts.sync_us_median, facts.rounds, facts.sync_us_min, facts.sync_us_max);
  if (facts.is_memory)
    return judge->limited("fdatasync", found, "it does nothing in memory",
                          "a folder on a disk, for durable domains");
  if (facts.sync_us_median < kTooCheapUs)
    return judge->limited(
        "fdatasync", found, "no device is as fast: something acknowledges before the data is safe",
        "look at the host's cache setting (QEMU: cache=none or directsync) and at mount options");
  if (facts.sync_us_median > kExpensiveUs)
    return judge->limited(
        "fdatasync", found,
        "a rotating or remote disk, or a busy one: each strict commit waits so long",
        "flash memory; buffered durability; several processes, whose commits then share a write");
  judge->yes("fdatasync", found);
}

void judge_direct(Judge *judge, const StorageFacts &facts) {
  TMH_ASSERT(judge != nullptr && facts.write_error == 0);
  if (facts.direct_error == 0)
    return judge->yes("O_DIRECT",
                      fmt::format("median {:.0f} us, written with O_DIRECT | O_DSYNC as the log is",
                                  facts.direct_us_median));
  judge->limited("O_DIRECT", error_text(facts.direct_error),
                 "this file system does not write around the page cache",
                 "another file system; until then the log is written with write and fdatasync, a "
                 "quarter slower on ext4");
}

}  // namespace

Findings judge_storage(const StorageFacts &facts) {
  Judge judge("storage");
  if (facts.folder_error != 0) {
    judge.no(
        "folder", facts.folder + ": " + error_text(facts.folder_error), "it cannot be opened",
        facts.folder_error == ENOENT ? "make it, or name another" : "chmod it, or name another");
    return judge.take();
  }
  judge_file_system(&judge, facts);
  judge_space(&judge, facts);
  if (judge_writing(&judge, facts)) {
    judge_sync(&judge, facts);
    judge_direct(&judge, facts);
  }
  return judge.take();
}

}  // namespace tmh::tools::doctor
