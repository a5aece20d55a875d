// bench/support/durable_floor.h -- the least that making bytes durable costs: kernel calls and
// nothing else.
// Shape:     method     file before the clock starts  per commit of N bytes
//            append     empty                         write at the end, fdatasync: data, size and
//                                                     allocation
//            overwrite  N x commits zeros, synced     pwrite, fdatasync: data only
//            dsync      the same                      pwrite on an O_DSYNC file: one call
//            direct     the same                      pwrite of whole 4 KiB blocks, O_DIRECT |
//                                                     O_DSYNC: no page cache; the unfinished last
//                                                     block is written again with the next bytes
//            msync      the same, mapped              memcpy, msync(MS_SYNC) of the pages touched
//            checksum   as overwrite                  the last 4 bytes are the CRC32C of the
//                                                     rest: overwrite, and what the sum costs
//            two-syncs  as overwrite                  pwrite, fdatasync, pwrite of the last 64
//                                                     bytes, fdatasync: no sum needed
//            The last two are the ways to tell a whole commit from a torn one (thesis, 5.5).
// Sharing:   with one file for several processes, each commit takes the next place by an atomic
//            addition. direct then takes whole blocks: rewriting a block that a neighbour is
//            rewriting too would lose bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

namespace tmh::bench {

enum class FloorMethod : std::uint8_t {
  kAppend,
  kOverwrite,
  kDsync,
  kDirect,
  kMsync,
  kChecksum,
  kTwoSyncs
};
inline constexpr FloorMethod kFloorMethods[] = {
    FloorMethod::kAppend, FloorMethod::kOverwrite, FloorMethod::kDsync,   FloorMethod::kDirect,
    FloorMethod::kMsync,  FloorMethod::kChecksum,  FloorMethod::kTwoSyncs};
static_assert(std::size(kFloorMethods) == static_cast<std::size_t>(FloorMethod::kTwoSyncs) + 1);
[[nodiscard]] const char *to_string(FloorMethod method) noexcept;  // "append"

// Of a file for `commits` commits of at most `commit_bytes` each.
[[nodiscard]] std::uint64_t floor_file_bytes(std::uint64_t commit_bytes,
                                             std::uint64_t commits) noexcept;
// The file as the method wants to find it. Throws std::system_error.
void make_floor_file(FloorMethod method, const std::string &path, std::uint64_t bytes);

class FloorWriter {
 public:
  // `shared_place`: next free byte of a file that several processes write; null: the file is this
  // writer's alone. Throws std::system_error, e.g. where the file system knows no O_DIRECT.
  FloorWriter(FloorMethod method, const std::string &path,
              std::atomic<std::uint64_t> *shared_place);
  ~FloorWriter();
  FloorWriter(const FloorWriter &) = delete;
  FloorWriter &operator=(const FloorWriter &) = delete;
  // Durable at return. REQUIRES: the file was made large enough.
  void commit(std::uint64_t bytes);
  // Handed to the kernel.
  [[nodiscard]] std::uint64_t written_bytes() const noexcept { return written_bytes_; }

 private:
  void reserve(std::uint64_t bytes);
  void commit_direct(std::uint64_t bytes);
  void commit_mapped(std::uint64_t bytes);
  void sync() const;
  FloorMethod method_;
  std::atomic<std::uint64_t> *shared_place_;
  int fd_ = -1;
  std::byte *map_ = nullptr;
  std::uint64_t map_bytes_ = 0;
  std::byte *buffer_ = nullptr;  // aligned to a block
  std::uint64_t buffer_bytes_ = 0;
  std::uint64_t own_place_ = 0, written_bytes_ = 0;
  std::byte fill_{1};
};

}  // namespace tmh::bench
