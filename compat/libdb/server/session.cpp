// compat/libdb/server/session.cpp -- numbers of databases; sessions found by their words.
#include "compat/libdb/server/session.h"

#include <tp/server.h>

#include <sys/random.h>

#include <cerrno>
#include <ctime>
#include <utility>

#include "compat/libdb/failure.h"
#include "platform/assert.h"

namespace tmh::db::server {

Database::~Database() { (void)close(); }

int Database::close() noexcept {
  DB *const gone = std::exchange(db, nullptr);
  return gone == nullptr ? RET_SUCCESS : gone->close(gone);
}

int Session::add(std::shared_ptr<Database> database) {
  TMH_ASSERT(database != nullptr);
  const std::scoped_lock guard(mutex_);
  if (databases_.size() >= TP_SERVER_DBS_MAX) throw Failure{EMFILE};
  TMH_ASSERT(next_ > 0);
  const int number = next_++;
  databases_.emplace(number, std::move(database));
  return number;
}

std::shared_ptr<Database> Session::find(int number) const {
  const std::scoped_lock guard(mutex_);
  const auto found = databases_.find(number);
  return found == databases_.end() ? nullptr : found->second;
}

std::shared_ptr<Database> Session::remove(int number) {
  const std::scoped_lock guard(mutex_);
  const auto found = databases_.find(number);
  if (found == databases_.end()) return nullptr;
  TMH_ASSERT(found->second != nullptr);
  std::shared_ptr<Database> gone = std::move(found->second);
  databases_.erase(found);
  return gone;
}

bool Session::is_full() const {
  const std::scoped_lock guard(mutex_);
  return databases_.size() >= TP_SERVER_DBS_MAX;
}

// Another server's lives are other numbers.
Sessions::Sessions() : next_life_(static_cast<std::uint64_t>(std::time(nullptr)) << 24) {
  std::uint64_t drawn = 0;
  // 0 is none.
  if (::getrandom(&drawn, sizeof drawn, 0) == sizeof drawn) next_life_ = drawn >> 1 | 1;
}

std::shared_ptr<Session> Sessions::of(unsigned uid, std::uint64_t high, std::uint64_t low) {
  const std::scoped_lock guard(mutex_);
  std::erase_if(all_, [](const auto &known) { return known.second.expired(); });
  std::weak_ptr<Session> &known = all_[{uid, high, low}];
  TMH_ASSERT(next_life_ != 0);
  std::shared_ptr<Session> found = known.lock();
  if (found == nullptr) {
    found = std::make_shared<Session>(next_life_++);
    known = found;
  }
  return found;
}

}  // namespace tmh::db::server
