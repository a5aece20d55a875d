// bench/support/trees_serial.cpp -- the trees as serial code in a mapped file.
#include "bench/support/trees_serial.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <stdexcept>
#include <system_error>

#include <tmh/trees/bptree.hpp>

#include "bench/support/keep.h"
#include "examples/trees/cobtree.hpp"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

constexpr std::array<std::size_t, 9> kBlockSizes = {2048,  4096,   8192,   16384, 32768,
                                                    65536, 131072, 262144, 524288};
static_assert(std::ranges::is_sorted(kBlockSizes) && kBlockSizes[1] == kPageBytes,
              "experiments take them by their place");

template <std::size_t kBlockBytes>
using BPlus = trees::BPlusTree<std::uint64_t, Value, kBlockBytes, ArenaAllocator<std::byte>,
                               trees::ValuePlace::kInSlot>;
using Co =
    ::trees::CoBTree<std::uint64_t, Value, ArenaAllocator<std::byte>, trees::ValuePlace::kInSlot>;

// The tree's object lies in the file as well; its destructor never runs: the file goes with its
// folder.
template <class Tree>
class Serial final : public SerialTree {
 public:
  explicit Serial(Arena *arena)
      : tree_(::new (arena->allocate(sizeof(Tree), alignof(Tree)))
                  Tree(ArenaAllocator<std::byte>(arena))) {}
  void insert(const Record &record) override { tree_->insert(record.key, record.value); }
  [[nodiscard]] bool find(std::uint64_t key) const override { return finds(*tree_, key); }
  [[nodiscard]] std::uint64_t count_by_scan() const override {
    std::uint64_t records = 0, sum = 0;
    tree_->scan(0, std::numeric_limits<std::uint64_t>::max(),
                [&](std::uint64_t, const Value &value) {
                  sum += static_cast<std::uint64_t>(value[0]);
                  ++records;
                });
    keep(sum);
    return records;
  }

 private:
  Tree *tree_;
};

template <std::size_t kIndex = 0>
std::unique_ptr<SerialTree> make_bplus(std::size_t block_bytes, Arena *arena) {
  if constexpr (kIndex < kBlockSizes.size()) {
    if (block_bytes == kBlockSizes[kIndex])
      return std::make_unique<Serial<BPlus<kBlockSizes[kIndex]>>>(arena);
    return make_bplus<kIndex + 1>(block_bytes, arena);
  } else {
    throw std::invalid_argument("no B+-tree was compiled with blocks of that size");
  }
}

[[noreturn]] void fail(const std::string &what) {
  throw std::system_error(errno, std::generic_category(), what);
}

int make_file(const std::string &path, std::uint64_t bytes) {
  TMH_ASSERT(bytes > 0);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) fail(path);
  if (::ftruncate(fd, static_cast<off_t>(bytes)) == 0) return fd;
  const int error = errno;
  (void)::close(fd);
  throw std::system_error(error, std::generic_category(), path);
}

std::byte *map_file(int fd, std::uint64_t bytes) {
  TMH_ASSERT(fd >= 0 && bytes > 0);
  void *data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) fail("mmap of a tree's file");
  return static_cast<std::byte *>(data);
}

}  // namespace

MappedFile::MappedFile(const std::string &path, std::uint64_t bytes)
    : MappedFile(make_file(path, bytes), bytes) {}
MappedFile::MappedFile(int fd, std::uint64_t bytes)
    : fd_(fd), bytes_(bytes), arena_(map_file(fd, bytes), bytes) {}
MappedFile::~MappedFile() {
  (void)::munmap(arena_.data(), bytes_);
  (void)::close(fd_);
}

void MappedFile::drop_cache() {
  if (::fdatasync(fd_) != 0) fail("fdatasync of a tree's file");
  // Unmapped pages only can be forgotten.
  if (::madvise(arena_.data(), bytes_, MADV_DONTNEED) != 0) fail("madvise of a tree's file");
  if (const int error = ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED); error != 0) {
    throw std::system_error(error, std::generic_category(), "posix_fadvise of a tree's file");
  }
}

std::span<const std::size_t> serial_block_sizes() noexcept { return kBlockSizes; }

std::unique_ptr<SerialTree> make_serial_tree(std::size_t block_bytes, Arena *arena) {
  TMH_ASSERT(arena != nullptr);
  if (block_bytes == 0) return std::make_unique<Serial<Co>>(arena);
  return make_bplus(block_bytes, arena);
}

std::string serial_tree_name(std::size_t block_bytes) {
  TMH_ASSERT(block_bytes % 1024 == 0);
  return block_bytes == 0 ? "CO B-tree" : "B+-tree, " + std::to_string(block_bytes / 1024) + " KiB";
}

}  // namespace tmh::bench
