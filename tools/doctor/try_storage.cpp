// tools/doctor/try_storage.cpp -- what a folder's file system is, and what a durable write costs
// there.
#include <fcntl.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <vector>

#include "platform/assert.h"
#include "platform/files.h"
#include "tools/doctor/machine.h"

namespace tmh::tools::doctor {

namespace {

constexpr std::size_t kBlockBytes = 4096;
// 1 MiB: writes do not hit the same block each time, and the probe stays small.
constexpr std::size_t kFileBlocks = 256;
// Odd: the median is one of them; 4 s at worst on a disk that needs 200 ms.
constexpr std::uint32_t kRounds = 21;
static_assert(kRounds % 2 == 1 && kFileBlocks * kBlockBytes == 1u << 20);

struct FileSystem {
  std::uint64_t number;
  const char *name;
  enum class Kind : std::uint8_t { kDisk, kMemory, kNetwork, kOverlay } kind;
};
using enum FileSystem::Kind;
constexpr std::array kFileSystems = {  // statfs(2)
    FileSystem{0xef53, "ext4", kDisk},
    FileSystem{0x58465342, "xfs", kDisk},
    FileSystem{0x9123683e, "btrfs", kDisk},
    FileSystem{0x2fc12fc1, "zfs", kDisk},
    FileSystem{0xf2f52010, "f2fs", kDisk},
    FileSystem{0xca451a4e, "bcachefs", kDisk},
    FileSystem{0x01021994, "tmpfs", kMemory},
    FileSystem{0x858458f6, "ramfs", kMemory},
    FileSystem{0x794c7630, "overlayfs", kOverlay},
    FileSystem{0x6969, "nfs", kNetwork},
    FileSystem{0xff534d42, "cifs", kNetwork},
    FileSystem{0xfe534d42, "smb2", kNetwork},
    FileSystem{0x01021997, "9p", kNetwork},
    FileSystem{0x65735546, "fuse", kNetwork},
    FileSystem{0x00c36400, "ceph", kNetwork}};

void name_file_system(std::uint64_t number, StorageFacts *facts) {
  TMH_ASSERT(facts != nullptr);
  const auto *const found =
      std::find_if(kFileSystems.begin(), kFileSystems.end(),
                   [number](const auto &one) { return one.number == number; });
  facts->is_known = found != kFileSystems.end();
  if (!facts->is_known) {
    char text[32];
    (void)std::snprintf(text, sizeof text, "type 0x%llx", static_cast<unsigned long long>(number));
    facts->file_system = text;
    return;
  }
  facts->file_system = found->name;
  facts->is_memory = found->kind == kMemory;
  facts->is_network = found->kind == kNetwork;
  facts->is_overlay = found->kind == kOverlay;
}

struct Freer {
  void operator()(void *block) const noexcept { std::free(block); }
};
using Block = std::unique_ptr<void, Freer>;

double us_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

// kRounds durable writes of one block each, all over the file; 0 or an errno. The times, sorted, in
// *us.
template <class Sync>
int time_writes(int file, const void *block, Sync sync, std::vector<double> *us) {
  static_assert(std::gcd(37, kFileBlocks) == 1 && kRounds <= kFileBlocks,
                "each round writes another block");
  TMH_ASSERT(file >= 0 && block != nullptr && us != nullptr);
  us->clear();
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    // 37: neighbours in time are none in place.
    const auto at = static_cast<off_t>(round * 37 % kFileBlocks * kBlockBytes);
    errno = 0;
    const auto begin = std::chrono::steady_clock::now();
    if (::pwrite(file, block, kBlockBytes, at) != static_cast<ssize_t>(kBlockBytes) || !sync())
      return errno == 0 ? EIO : errno;  // 0: a short write
    us->push_back(us_since(begin));
  }
  std::sort(us->begin(), us->end());
  return 0;
}

// The file without a name in the end: nothing stays behind if this process is killed now.
platform::FileDescriptor make_file(const std::string &folder, std::string *path) {
  TMH_ASSERT(path != nullptr);
  *path = folder + "/tmh-doctor-XXXXXX";
  return platform::FileDescriptor(::mkostemp(path->data(), O_CLOEXEC));
}

int fill(int file, const void *block) {
  TMH_ASSERT(file >= 0 && block != nullptr);
  for (std::size_t i = 0; i < kFileBlocks; ++i)
    if (::pwrite(file, block, kBlockBytes, static_cast<off_t>(i * kBlockBytes)) !=
        static_cast<ssize_t>(kBlockBytes))
      return errno == 0 ? ENOSPC : errno;
  return ::fsync(file) == 0 ? 0 : errno;
}

void time_storage(const std::string &folder, StorageFacts *facts) {
  std::string path;
  const platform::FileDescriptor file = make_file(folder, &path);
  if (!file) {
    facts->write_error = errno;
    return;
  }
  const platform::FileDescriptor direct(
      ::open(path.c_str(), O_WRONLY | O_DIRECT | O_DSYNC | O_CLOEXEC));
  facts->direct_error = direct ? 0 : errno;
  (void)::unlink(path.c_str());
  const Block block(std::aligned_alloc(kBlockBytes, kBlockBytes));
  std::fill_n(static_cast<unsigned char *>(block.get()), kBlockBytes,
              static_cast<unsigned char>(0x5a));
  errno = 0;
  facts->write_error = fill(file.get(), block.get());
  if (facts->write_error != 0) return;
  std::vector<double> us;
  facts->write_error = time_writes(
      file.get(), block.get(), [&file] { return ::fdatasync(file.get()) == 0; }, &us);
  if (facts->write_error != 0) return;
  TMH_ASSERT(us.size() == kRounds);
  facts->rounds = kRounds;
  facts->sync_us_median = us[us.size() / 2];
  facts->sync_us_min = us.front();
  facts->sync_us_max = us.back();
  if (!direct) return;
  facts->direct_error = time_writes(
      direct.get(), block.get(), [] { return true; }, &us);
  if (facts->direct_error == 0) facts->direct_us_median = us[us.size() / 2];
}

}  // namespace

StorageFacts try_storage(const std::string &folder) {
  StorageFacts facts;
  facts.folder = folder;
  const platform::FileDescriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  facts.folder_error = opened ? 0 : errno;
  if (!opened) return facts;
  struct statfs kind {};
  if (::fstatfs(opened.get(), &kind) == 0)
    name_file_system(static_cast<std::uint32_t>(kind.f_type), &facts);
  struct statvfs space {};
  if (::fstatvfs(opened.get(), &space) == 0) {
    facts.free_bytes = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
    facts.total_bytes = static_cast<std::uint64_t>(space.f_blocks) * space.f_frsize;
  }
  time_storage(folder, &facts);
  return facts;
}

}  // namespace tmh::tools::doctor
