// compat/libdb/shared/shared_file.h -- a file and the database in the pool that belongs to it.
// Shape:     the file has the database's pages as they were when its last handle was closed, so
//            that it can be copied, and opened by a program alone. The pool has what is newer.
//            Which belongs to which: the file's inode, and a stamp that both have. A file with
//            another stamp, or another birth, has been replaced: it is read in anew. Of a text the
//            stamp is a digest of its bytes.
//            While there is something newer, the file's `owner` names the environment.
// Invariant: databases are opened and closed one after the other (the directory's lock). Who has
//            one open holds its lock of opening, which ends with the process.
// Errors:    Failure. EBUSY: another environment has the file.
// Contexts:  NOT async-signal-safe. Not in a step.
#pragma once

#include <tp.h>

#include <cstdint>
#include <memory>

#include "compat/libdb/file_format.h"
#include "compat/libdb/shared/environment.h"
#include "compat/libdb/shared/pool.h"
#include "compat/libdb/store.h"

namespace tmh::db {

class SharedFile {
 public:
  // What a file is: pages of dbopen(), or a text.
  enum class Content : std::uint8_t { kPages, kText };

  // Holds the directory's lock until opened().
  SharedFile(std::shared_ptr<Environment> environment, const StoreSettings &settings,
             Content content, bool has_transactions);
  ~SharedFile();
  SharedFile(const SharedFile &) = delete;
  SharedFile &operator=(const SharedFile &) = delete;

  [[nodiscard]] Environment &environment() const noexcept { return *environment_; }
  [[nodiscard]] int file() const noexcept { return file_; }
  [[nodiscard]] PoolEntry *entry() const noexcept { return entry_; }
  [[nodiscard]] Generation generation() const noexcept { return generation_; }
  // In a forked child: the environment and the database, opened anew.
  void reopen();

  // The handle has made what it needs.
  void opened();
  // The last handle writes the file, where no running transaction has changed it.
  // write_text: of a text.
  void close(Operation<void> write_text);
  // Writes it as close() would.
  void sync(Operation<void> write_text);

 private:
  void leave(Operation<void> write_text, bool comes_back);
  void write_if_alone(Operation<void> write_text, bool comes_back);
  void check_kind();
  void open_entry(const StoreSettings &settings);
  void make_room();
  void drop(Generation generation);
  void make_entry(const StoreSettings &settings);
  void read_in(const FileHead &head, bool (*is_sound)(const Page &page));
  void write_file(Operation<void> write_text, bool comes_back);
  void write_stamp(std::uint64_t stamp, std::uint64_t owner) const;
  [[nodiscard]] std::uint64_t text_stamp() const;
  [[nodiscard]] bool is_alone(Generation database);
  template <class Body>
  auto change(const Body &body) const;
  [[nodiscard]] int lock(LockSpace space, Generation of, std::uint64_t page, tp_mode mode,
                         std::uint64_t wait_us);
  void unlock(LockSpace space, Generation of, std::uint64_t page, tp_mode mode) noexcept;

  std::shared_ptr<Environment> environment_;
  const Content content_;
  const bool has_transactions_;
  tp_locker locker_ = 0;
  bool has_locker_ = false, is_directory_locked_ = false;
  int file_ = -1;
  bool is_writable_ = false, is_file_new_ = false;
  PoolEntry *entry_ = nullptr;
  Generation generation_ = 0;
};

}  // namespace tmh::db
