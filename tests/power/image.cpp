// tests/power/image.cpp -- one of the images that a power cut can leave, chosen by a seed.
// Why:       independent coins would hardly ever give the images that find faults: one file
//            complete while another one has nothing, or all but one sector. Hence tastes: each
//            file, the names and the whole image lean to an extreme.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "platform/files.h"
#include "tests/power/simulated_disk.h"

namespace tmh::test::power {

using platform::DiskOp;

namespace {

constexpr std::uint64_t mix(std::uint64_t x) noexcept {  // splitmix64
  x += 0x9e37'79b9'7f4a'7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11ebull;
  return x ^ (x >> 31);
}

enum class Lean : std::uint8_t { kNothing, kEverything, kEven, kFew, kMost, kInOrder, kCount };

constexpr std::uint64_t kNamesId = ~0ull;
constexpr std::uint64_t kLengthSector = ~0ull;
constexpr std::size_t kImageBlockBytes = 4096;

}  // namespace

struct SimulatedDisk::Taste {
  std::uint64_t seed;
  std::uint64_t now;  // number of the last entry

  [[nodiscard]] std::uint64_t coin(std::uint64_t file, std::uint64_t sector,
                                   std::uint64_t salt = 0) const noexcept {
    return mix(mix(mix(seed ^ salt) ^ file) ^ sector);
  }
  [[nodiscard]] Lean lean(std::uint64_t file) const noexcept {
    const bool alike = coin(1, 1, 77) % 3 == 0;  // one taste for everything
    return static_cast<Lean>(coin(alike ? 0 : file, 2, 78) %
                             static_cast<std::uint64_t>(Lean::kCount));
  }
  // Of changes with these numbers, in their order: how many have reached the disk?
  template <class Changes>
  [[nodiscard]] std::size_t reached(std::uint64_t file, std::uint64_t sector,
                                    const Changes &changes) const noexcept {
    const std::size_t all = changes.size();
    const std::uint64_t dice = coin(file, sector);
    switch (lean(file)) {
      case Lean::kNothing:
        return 0;
      case Lean::kEverything:
        return all;
      case Lean::kFew:
        return dice % 16 == 0 ? 1 + (dice >> 32) % all : 0;
      case Lean::kMost:
        return dice % 16 == 0 ? (dice >> 32) % all : all;
      case Lean::kInOrder: {
        // Writes back happen in waves of some thousand entries at most; the point is the same for
        // all files that lean so.
        const std::uint64_t point = now - coin(3, 3, 79) % (1ull << (coin(4, 4, 80) % 12));
        return static_cast<std::size_t>(
            std::count_if(changes.begin(), changes.end(),
                          [&](const auto &change) { return change.number <= point; }));
      }
      case Lean::kEven:
      case Lean::kCount:
        break;
    }
    return dice % (all + 1);
  }
};

SimulatedDisk::Names SimulatedDisk::names_of_image(const Taste &taste) const {
  Names names = durable_names_;
  for (const NameChange &change : name_changes_) {
    const std::vector<NameChange> alone{change};
    if (taste.reached(kNamesId, change.number, alone) == 0) continue;
    if (change.uncertain && taste.coin(kNamesId, change.number, 5) % 2 == 0) continue;
    if (change.op == DiskOp::kCreate) names[change.name] = change.file;
    if (change.op == DiskOp::kUnlink) names.erase(change.name);
    if (change.op == DiskOp::kRename) {
      const auto from = names.find(change.name);
      if (from != names.end() && from->second == change.file) names.erase(from);
      names[change.name2] = change.file;
    }
  }
  return names;
}

void SimulatedDisk::write_file(const std::string &path, std::size_t index,
                               const Taste &taste) const {
  const File &file = files_[index];
  std::uint64_t length = file.durable_bytes;
  if (!file.lengths.empty()) {
    const std::size_t reached = taste.reached(index, kLengthSector, file.lengths);
    if (reached > 0) length = file.lengths[reached - 1].bytes;
  }
  std::vector<std::byte> bytes(
      file.content.begin(),
      file.content.begin() +
          static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(length, file.content.size())));
  bytes.resize(length);
  for (const auto &[sector, writes] : file.pending) {
    const std::size_t reached = taste.reached(index, sector, writes);
    const std::uint64_t base = sector * kSectorBytes;
    for (std::size_t i = 0; i < reached; ++i) {
      const Write &write = writes[i];
      if (base + write.begin >= length) continue;
      if (write.uncertain && taste.coin(index, sector, write.number) % 2 == 0) continue;
      const std::size_t count =
          std::min<std::uint64_t>(write.end - write.begin, length - base - write.begin);
      std::byte *to = bytes.data() + base + write.begin;
      if (write.data == nullptr)
        std::memset(to, 0, count);
      else
        std::memcpy(to, write.data, count);
    }
  }
  const platform::FileDescriptor fd(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0660));
  if (!fd || ftruncate(fd.get(), static_cast<off_t>(length)) != 0)
    throw std::system_error(errno, std::generic_category(), path);
  // Sparse: most of a log file and of a young data file is zeros.
  static constexpr std::byte kZeros[kImageBlockBytes]{};
  for (std::size_t at = 0; at < bytes.size(); at += kImageBlockBytes) {
    const std::size_t count = std::min(kImageBlockBytes, bytes.size() - at);
    if (std::memcmp(bytes.data() + at, kZeros, count) == 0) continue;
    if (pwrite(fd.get(), bytes.data() + at, count, static_cast<off_t>(at)) !=
        static_cast<ssize_t>(count))
      throw std::system_error(errno, std::generic_category(), path);
  }
}

void SimulatedDisk::build_image(const std::string &to, std::uint64_t seed) const {
  const Taste taste{mix(seed), last_};
  for (const auto &[name, file] : names_of_image(taste)) {
    const std::filesystem::path path = std::filesystem::path(to) / name;
    std::filesystem::create_directories(path.parent_path());
    write_file(path.string(), file, taste);
  }
}

}  // namespace tmh::test::power
