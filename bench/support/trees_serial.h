// bench/support/trees_serial.h -- search trees as serial code in a mapped file, as in the thesis
// before LIBXAC.
// Shape:     records of 8 + 512 bytes, all in the trees' own blocks (no value lies beside), so that
//            a block size means what it says.
//            MappedFile: a file mapped MAP_SHARED with an arena in it. Its tree lives as long as
//                        the mapping.
// Source:    thesis, section 5.2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "bench/support/durable_contestant.h"
#include "bench/support/keep.h"
#include "bench/support/trees_arena.h"

namespace tmh::bench {

class MappedFile {
 public:
  // Made, sparse. Throws std::system_error.
  MappedFile(const std::string &path, std::uint64_t bytes);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  [[nodiscard]] Arena *arena() noexcept { return &arena_; }
  // Writes everything to disk and forgets it: the next access reads the device. Nobody else may
  // have the file mapped.
  void drop_cache();

 private:
  MappedFile(int fd, std::uint64_t bytes);
  int fd_;
  std::uint64_t bytes_;
  Arena arena_;
};

// Whether a tree has the key; reads a word of its value then, which may lie elsewhere.
template <class Tree>
[[nodiscard]] bool finds(const Tree &tree, std::uint64_t key) {
  const Value *value = tree.find(key);
  if (value != nullptr) keep((*value)[0]);
  return value != nullptr;
}

class SerialTree {
 public:
  virtual ~SerialTree() = default;
  virtual void insert(const Record &record) = 0;
  [[nodiscard]] virtual bool find(std::uint64_t key) const = 0;
  [[nodiscard]] virtual std::uint64_t count_by_scan() const = 0;  // reads a word of every value
};
// block_bytes 0: the cache-oblivious B-tree; else the B+-tree, with one of serial_block_sizes().
// Throws std::invalid_argument.
[[nodiscard]] std::unique_ptr<SerialTree> make_serial_tree(std::size_t block_bytes, Arena *arena);
[[nodiscard]] std::span<const std::size_t> serial_block_sizes() noexcept;
// "CO B-tree", "B+-tree, 4 KiB"
[[nodiscard]] std::string serial_tree_name(std::size_t block_bytes);

}  // namespace tmh::bench
