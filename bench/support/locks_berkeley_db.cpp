// bench/support/locks_berkeley_db.cpp -- Berkeley DB's lock table as a contestant of bench/locks.
// Set-up:  DB_INIT_LOCK and DB_INIT_MPOOL alone, regions on tmpfs, room for more lockers, locks and
//          objects than are used, a hash table as large as that, lock partitions. Objects are 8
//          bytes. Deadlocks are looked for whenever a lock has to be waited for.
//          An upgrade is as its manual has it: the locker takes the second lock beside the first.
#include "bench/support/locks_berkeley_db.h"

#include <db.h>

#include <array>
#include <stdexcept>

#include "platform/assert.h"

namespace tmh::bench {

namespace {

constexpr std::uint32_t kLocksMax = 1u << 16, kTableSize = 1u << 14, kPartitions = 64;
constexpr int kFileMode = 0600;

void check(int status, const char *what) {
  TMH_ASSERT(what != nullptr);
  if (status != 0)
    throw std::runtime_error(std::string("Berkeley DB, ") + what + ": " + db_strerror(status));
}

class BerkeleyLocks {
 public:
  explicit BerkeleyLocks(const std::string &folder, bool create = false) {
    check(db_env_create(&environment_, 0), "db_env_create");
    DB_ENV *const env = environment_;
    check(env->set_lk_max_locks(env, kLocksMax), "set_lk_max_locks");
    check(env->set_lk_max_objects(env, kLocksMax), "set_lk_max_objects");
    check(env->set_lk_max_lockers(env, kLocksMax), "set_lk_max_lockers");
    check(env->set_lk_tablesize(env, kTableSize), "set_lk_tablesize");
    check(env->set_lk_partitions(env, kPartitions), "set_lk_partitions");
    check(env->set_lk_detect(env, DB_LOCK_DEFAULT), "set_lk_detect");
    check(env->open(env, folder.c_str(), DB_INIT_LOCK | DB_INIT_MPOOL | (create ? DB_CREATE : 0U),
                    kFileMode),
          "environment open");
    check(env->lock_id(env, &locker_), "lock_id");
  }
  ~BerkeleyLocks() {
    (void)environment_->lock_id_free(environment_, locker_);
    (void)environment_->close(environment_, 0);
  }
  BerkeleyLocks(const BerkeleyLocks &) = delete;
  BerkeleyLocks &operator=(const BerkeleyLocks &) = delete;

  DB_LOCK lock(std::uint64_t object, bool is_exclusive) {
    DBT name{};
    name.data = &object;
    name.size = sizeof object;
    DB_LOCK lock;
    check(environment_->lock_get(environment_, locker_, 0, &name,
                                 is_exclusive ? DB_LOCK_WRITE : DB_LOCK_READ, &lock),
          "lock_get");
    return lock;
  }
  void unlock(DB_LOCK *lock) { check(environment_->lock_put(environment_, lock), "lock_put"); }
  void upgraded(std::uint64_t object) {
    DB_LOCK shared = lock(object, false), exclusive = lock(object, true);
    unlock(&exclusive);
    unlock(&shared);
  }
  void locked_together(std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) (void)lock(first + i, true);
    DB_LOCKREQ all{};
    all.op = DB_LOCK_PUT_ALL;
    check(environment_->lock_vec(environment_, locker_, 0, &all, 1, nullptr), "DB_LOCK_PUT_ALL");
  }
  void renew() {
    check(environment_->lock_id_free(environment_, locker_), "lock_id_free");
    check(environment_->lock_id(environment_, &locker_), "lock_id");
  }

 private:
  DB_ENV *environment_ = nullptr;
  std::uint32_t locker_ = 0;
};

}  // namespace

void make_berkeley_locks(const std::string &folder) { (void)BerkeleyLocks(folder, true); }

std::unique_ptr<LockSession> open_berkeley_locks(const std::string &folder) {
  return std::make_unique<LockSessionOf<BerkeleyLocks>>(folder);
}

}  // namespace tmh::bench
