// compat/libitm/clones.cpp -- tables of clones, sorted by the plain function's address.
#include "compat/libitm/clones.h"

#include <algorithm>
#include <functional>
#include <new>
#include <vector>

#include "compat/libitm/process.h"
#include "compat/libitm/thread.h"
#include "platform/assert.h"

namespace tmh::itm {

namespace {

struct Table {
  const Clone *registered;
  std::vector<Clone> clones;
};

// Never destroyed: object files deregister while the process exits.
std::vector<Table> &tables() noexcept {
  alignas(std::vector<Table>) static std::byte bytes[sizeof(std::vector<Table>)];
  static auto *const all = new (bytes) std::vector<Table>();
  return *all;
}

// No other transaction looks at the tables while it exists.
class Alone {
 public:
  Alone() noexcept : gate_(Process::self().gate) {
    Thread *const thread = this_thread;
    if (thread != nullptr && thread->is_inside()) {
      thread->go_irrevocable();  // the program opens a library in a transaction
      return;
    }
    gate_.be_alone(this);
    is_mine_ = true;
  }
  ~Alone() {
    if (is_mine_) gate_.end_alone(this);
  }
  Alone(const Alone &) = delete;
  Alone &operator=(const Alone &) = delete;

 private:
  Gate &gate_;
  bool is_mine_ = false;
};

bool is_before(const Clone &a, const Clone &b) noexcept {
  return std::less<const void *>()(a.plain, b.plain);
}

}  // namespace

void Clones::add(Clone *table, std::size_t count) noexcept {
  const Alone alone;
  Table added{table, {table, table + count}};
  TMH_ASSERT(table != nullptr || count == 0);
  std::sort(added.clones.begin(), added.clones.end(), is_before);
  tables().push_back(std::move(added));
}

void Clones::remove(const Clone *table) noexcept {
  const Alone alone;
  auto &all = tables();
  const auto at = std::find_if(all.begin(), all.end(),
                               [&](const Table &each) { return each.registered == table; });
  if (at != all.end()) all.erase(at);
}

void *Clones::find(const void *plain) noexcept {
  const Clone wanted{const_cast<void *>(plain), nullptr};
  for (const Table &each : tables()) {
    TMH_ASSERT(std::is_sorted(each.clones.begin(), each.clones.end(), is_before));
    const auto at = std::lower_bound(each.clones.begin(), each.clones.end(), wanted, is_before);
    if (at != each.clones.end() && at->plain == plain) return at->instrumented;
  }
  return nullptr;
}

}  // namespace tmh::itm

using tmh::itm::Clones;

extern "C" {

void _ITM_registerTMCloneTable(void *table, std::size_t count) {
  Clones::add(static_cast<tmh::itm::Clone *>(table), count);
}
void _ITM_deregisterTMCloneTable(void *table) {
  Clones::remove(static_cast<const tmh::itm::Clone *>(table));
}
void *_ITM_getTMCloneOrIrrevocable(void *plain) {
  if (void *const clone = Clones::find(plain); clone != nullptr) return clone;
  tmh::itm::Thread::self().go_irrevocable();
  return plain;
}
void *_ITM_getTMCloneSafe(void *plain) {
  if (void *const clone = Clones::find(plain); clone != nullptr) return clone;
  tmh::itm::die("a function that is called in a transaction has no clone");
}
}
