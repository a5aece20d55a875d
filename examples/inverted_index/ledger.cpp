// examples/inverted_index/ledger.cpp -- maps it.
#include "examples/inverted_index/ledger.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace inverted_index {

Ledger::Ledger() : descriptor_(::memfd_create("tmh-demo-ledger", 0)), made_(true) {
  if (descriptor_ < 0 || ::ftruncate(descriptor_, sizeof(LedgerPage)) != 0)
    throw std::system_error(errno, std::generic_category(), "memfd_create");
  map();
}

Ledger::Ledger(int descriptor) : descriptor_(descriptor), made_(false) { map(); }

void Ledger::map() {
  void *base =
      ::mmap(nullptr, sizeof(LedgerPage), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (base == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "cannot map the ledger");
  // New pages are zero, and all-zero is what an empty ledger holds.
  page_ = static_cast<LedgerPage *>(base);
}

Ledger::~Ledger() {
  ::munmap(static_cast<void *>(page_), sizeof(LedgerPage));
  if (made_) ::close(descriptor_);
}

void Ledger::acknowledge(std::size_t lane, std::uint64_t next_unit) const noexcept {
  std::atomic<std::uint64_t> &known = page_->acknowledged[lane];
  // relaxed: a number on its own, read when its writers are dead.
  std::uint64_t before = known.load(std::memory_order_relaxed);
  while (before < next_unit &&
         !known.compare_exchange_weak(before, next_unit, std::memory_order_relaxed)) {
  }
}

void Ledger::tell(const LifeTotals &totals) const noexcept {
  // Relaxed: only we store it.
  const std::uint32_t next = 1 - page_->current_totals.load(std::memory_order_relaxed);
  page_->totals[next] = totals;
  // Pairs with the acquire in totals().
  page_->current_totals.store(next, std::memory_order_release);
}

void Ledger::tell_failure(const std::string &sentence) const noexcept {
  const std::size_t bytes = std::min(sentence.size(), sizeof page_->failure - 1);
  std::memcpy(page_->failure, sentence.data(), bytes);
  page_->failure[bytes] = '\0';
}

LifeTotals Ledger::totals() const noexcept {
  // Pairs with the release in tell().
  return page_->totals[page_->current_totals.load(std::memory_order_acquire)];
}

}  // namespace inverted_index
