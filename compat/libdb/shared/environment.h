// compat/libdb/shared/environment.h -- the environment of a file: its domain, its transactions, the
// pages of its databases.
// Shape:     a process has one of each folder. Which folder: that of tp_paper_open() where it was
//            called; else TP_HOME; else `.tp` beside the file. What this has opened it closes at
//            the end of the process.
// Sharing:   threads: all may call.
// Errors:    Failure.
// Contexts:  NOT async-signal-safe. A forked child has none of its parent's: of() opens anew.
#pragma once

#include <tp.h>

#include <cstdint>
#include <memory>
#include <string>

#include <tmh/domain.hpp>

#include "compat/libdb/shared/pool.h"

namespace tmh::db {

// Kinds of locks that the environment's databases have.
enum class LockSpace : std::uint64_t { kPages, kOpen, kDirectory, kRecords, kInner };
[[nodiscard]] inline tp_object lock_object(LockSpace space, Generation generation,
                                           std::uint64_t page) noexcept {
  constexpr std::uint64_t kTag = std::uint64_t{0x6462} << 48;  // "db"
  return {kTag | static_cast<std::uint64_t>(space) << 44 | generation, page};
}

class Environment {
 public:
  // path: of a file. Throws Failure.
  [[nodiscard]] static std::shared_ptr<Environment> of(const std::string &path);
  // The same again, in a forked child, too.
  [[nodiscard]] static std::shared_ptr<Environment> at(const std::string &home);
  ~Environment();
  Environment(const Environment &) = delete;
  Environment &operator=(const Environment &) = delete;

  // False: tp_paper_close() has ended it, or this is a forked child.
  [[nodiscard]] bool is_alive() const noexcept;
  [[nodiscard]] bool is_of_this_process() const noexcept;
  [[nodiscard]] bool is_in_its_folder() const noexcept;
  [[nodiscard]] const std::string &home() const noexcept { return home_; }
  [[nodiscard]] tp_env *env() const noexcept { return env_; }
  [[nodiscard]] const Pool &pool() const noexcept { return *pool_; }
  [[nodiscard]] bool is_durable() const { return domain_.durability() != Durability::kNone; }
  // Tells it from others, in a file. Not 0.
  [[nodiscard]] std::uint64_t mark() const noexcept { return mark_; }
  // The calling thread's transaction; null: none, each call is one. Failure(EXDEV): it is another
  // environment's.
  [[nodiscard]] tp_txn *running() const;

 private:
  explicit Environment(std::string home);
  void close() noexcept;

  std::string home_;
  unsigned forks_ = 0;
  tp_env *env_ = nullptr;
  bool is_paper_ = false;  // the process's one, of tp_paper_open()
  std::uint64_t serial_ = 0;
  bool is_own_ = false;
  Domain domain_;
  std::unique_ptr<Pool> pool_;
  std::uint64_t device_ = 0, inode_ = 0;  // of the folder
  std::uint64_t mark_ = 0;
};

}  // namespace tmh::db
