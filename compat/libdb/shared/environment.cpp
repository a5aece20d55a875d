// compat/libdb/shared/environment.cpp -- which environment a file has, and its begin and end.
#include "compat/libdb/shared/environment.h"

#define TP_NO_SHORT_NAMES
#include <tp/paper.h>

#undef tp_lock

#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>

#include "compat/libdb/failure.h"
#include "compat/libdb/shared/tp_failure.h"
#include "compat/libdb/shared/undo.h"
#include "compat/libdb/undo_record.h"
#include "platform/assert.h"

namespace tmh::db {

namespace {

std::atomic<unsigned> forks{0};
[[maybe_unused]] const int fork_handler =
    pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });

// tp_paper_serial() of the process's environment, where this has opened it and no user.
std::atomic<std::uint64_t> own_serial{0};
[[nodiscard]] bool is_users_own(const tp_env *paper) noexcept {
  return paper != nullptr && tp_paper_serial() != own_serial;
}

// Never destroyed: handles may be used until the process ends.
struct Registry {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Environment>> by_home;
};
Registry &registry() {
  static auto *const made = new Registry;
  return *made;
}

[[nodiscard]] std::string real_path(const std::string &path) {
  char *const found = ::realpath(path.c_str(), nullptr);
  if (found == nullptr) throw Failure{errno};
  const std::string real = found;
  std::free(found);
  return real;
}

[[nodiscard]] int durability_wanted() {
  const char *const wanted = std::getenv("TP_DURABILITY");
  const std::string_view text = wanted != nullptr ? wanted : "strict";
  if (text == "none") return 0;
  if (text == "strict") return 1;
  if (text == "buffered") return 2;
  throw Failure{EINVAL};
}

// The domain that the environment has open.
[[nodiscard]] Domain open_domain(const std::string &home) {
  DomainOptions options;
  options.levels = Levels::kHybrid;
  std::error_code error;
  const Domain found = Domain::open(home, options, error);
  if (!error) return found;
  options.levels = Levels::kPage;
  return Domain::open(home, options);
}

}  // namespace

std::shared_ptr<Environment> Environment::of(const std::string &path) {
  if (tp_env *const paper = tp_paper_env(); is_users_own(paper)) return at(tp_home(paper));
  if (const char *const home = std::getenv("TP_HOME"); home != nullptr && *home != '\0')
    return at(home);
  const std::size_t slash = path.rfind('/');
  return at((slash == std::string::npos ? std::string(".") : path.substr(0, slash + 1)) + "/.tp");
}

std::shared_ptr<Environment> Environment::at(const std::string &home) {
  if (::mkdir(home.c_str(), 0777) != 0 && errno != EEXIST) throw Failure{errno};
  const std::string real = real_path(home);
  Registry &all = registry();
  const std::scoped_lock guard(all.mutex);
  std::shared_ptr<Environment> &found = all.by_home[real];
  // A forked child's copy: its parent's end is not for it to make. A folder that was removed has
  // nothing to end.
  if (found != nullptr && !(found->is_alive() && found->is_in_its_folder()))
    new std::shared_ptr<Environment>(std::exchange(found, nullptr));
  if (found == nullptr)
    found = with_failures([&] { return std::shared_ptr<Environment>(new Environment(real)); });
  return found;
}

Environment::Environment(std::string home)
    : home_(std::move(home)), forks_(forks.load(std::memory_order_relaxed)) {
  tp_env *const paper = tp_paper_env();
  if (is_users_own(paper) && real_path(tp_home(paper)) == home_) {
    env_ = paper;
    is_paper_ = true;
  } else {
    tp_options options{};
    options.durability = durability_wanted();
    const auto open = [&] {
      return paper == nullptr ? tp_paper_open(home_.c_str(), &options)
                              : tp_open(home_.c_str(), &options, &env_);
    };
    int error = open();
    if (error == static_cast<int>(Errc::kDurabilityMismatch)) {
      options.durability = -1;
      error = open();
    }
    throw_unless_ok(error);
    is_paper_ = paper == nullptr;
    if (is_paper_) {
      env_ = tp_paper_env();
      own_serial = tp_paper_serial();
    }
    is_own_ = true;
    static const int at_exit = std::atexit([] {
      Registry &all = registry();
      const std::scoped_lock guard(all.mutex);
      for (auto &[name, environment] : all.by_home)
        if (environment != nullptr && environment->is_alive()) environment->close();
    });
    (void)at_exit;
  }
  if (is_paper_) serial_ = tp_paper_serial();
  try {
    domain_ = open_domain(home_);
    struct stat found {};
    if (::stat(home_.c_str(), &found) != 0) throw Failure{errno};
    device_ = found.st_dev;
    inode_ = found.st_ino;
    pool_ = std::make_unique<Pool>(domain_, device_, inode_);
    // What waits for it, of an earlier life or of the dead, is undone now.
    tp_type type{};
    type.type = kUndoType;
    type.name = "tmh-db";
    type.undo = undo_change;
    type.context = pool_.get();
    type.flags = TP_FIELDS;
    throw_unless_ok(tp_record_type(env_, &type));
    // Before a file names it as its owner: the pool's mark.
    if (is_durable()) throw_unless_ok(tp_log_flush(env_));
  } catch (...) {
    close();
    throw;
  }
  mark_ = pool_->mark();
}

Environment::~Environment() {
  if (is_alive()) close();
}

// Transactions that have not ended keep it open: others undo them when the process is gone.
void Environment::close() noexcept {
  TMH_ASSERT(env_ != nullptr);
  if (!is_own_) return;
  (void)(is_paper_ ? tp_paper_close() : tp_close(env_));
}

bool Environment::is_in_its_folder() const noexcept {
  struct stat found {};
  return ::stat(home_.c_str(), &found) == 0 && found.st_dev == device_ && found.st_ino == inode_;
}

bool Environment::is_of_this_process() const noexcept {
  return forks_ == forks.load(std::memory_order_relaxed);
}

bool Environment::is_alive() const noexcept {
  TMH_ASSERT(env_ != nullptr);
  return is_of_this_process() &&
         (!is_paper_ || (tp_paper_env() == env_ && tp_paper_serial() == serial_));
}

tp_txn *Environment::running() const {
  tp_txn *const running = tp_paper_txn();
  // A forked child has its parent's there.
  if (!is_paper_ && forks_ != 0) return nullptr;
  if (running != nullptr && !is_paper_) throw Failure{EXDEV};
  return running;
}

}  // namespace tmh::db
