// tests/support/board.cpp -- where the cells lie, and the recorded loads and stores.
#include "tests/support/board.h"

#include <sched.h>

#include "hierarchy/transaction/site_impl.h"
#include "tests/support/access.h"

namespace tmh::test {

Board::Board(const std::string &folder, const DomainOptions &options)
    : levels_(options.levels),
      domain_(Domain::open(folder, options)),
      // An eager domain has no snapshot isolation.
      isolation_(domain_.detection() == Detection::kLazy ? domain_.policy().isolation
                                                         : Isolation::kSerializable),
      line_site_(domain_, "lines", "on-capacity", isolation_),
      adaptive_site_(domain_, "adaptive", "adaptive", isolation_),
      only_lines_site_(domain_, "only lines", "never", isolation_),
      page_site_(domain_, "pages", "always", isolation_),
      default_site_(domain_, "default", "", isolation_),
      plain_site_(domain_, "plain", "adaptive", isolation_),
      snapshot_site_(domain_, "snapshot", "always", Isolation::kSnapshot) {
  SegmentOptions segment;
  segment.layout = Layout::kRaw;
  segment.size_bytes = (kPages + 1) / 2 * kPageBytes;
  segment.max_bytes = segment.size_bytes;
  segments_[0] = domain_.map("board0.raw", segment);
  segments_[1] = domain_.map("board1.raw", segment);
}

std::uint64_t Board::hardware_commits() const {
  std::uint64_t commits = 0;
  for (const Site *site :
       {&line_site_, &adaptive_site_, &only_lines_site_, &page_site_, &default_site_, &plain_site_})
    commits += site->report().hardware_commits;
  return commits;
}

Slot *Board::slot(history::Cell cell) const noexcept {
  // The page's first and last bytes are cells too.
  constexpr std::uint64_t kOffsets[kSlotsPerPage] = {0, 64, 2048, kPageBytes - sizeof(Slot)};
  if (cell >= kCells) {
    const std::uint64_t more = cell - kCells;
    return reinterpret_cast<Slot *>(more_.data() + more / kSlotsPerPage * kPageBytes +
                                    kOffsets[more % kSlotsPerPage]);
  }
  const std::uint64_t page = cell % kPages;
  return reinterpret_cast<Slot *>(segments_[page % 2].data() + page / 2 * kPageBytes +
                                  kOffsets[cell / kPages]);
}

const Site *Player::site_of_next() {
  stays_at_lines_ = false;
  if (uses_default_site_ && random_() % 3 == 0) {
    stays_at_lines_ = default_stays_at_lines_;
    return &board_.default_site();
  }
  if (uses_plain_site_ && random_() % 2 == 0) return &board_.plain_site();
  if (where_ == PlaysAt::kOnlyLines) return &board_.only_lines_site();
  if (board_.is_hybrid() && where_ != PlaysAt::kOnlyPages) {
    const auto choice = where_ == PlaysAt::kFirstLines ? 0 : random_() % 8;
    if (choice < 3) return &board_.line_site();
    if (choice < 5) return &board_.adaptive_site();
  }
  return prefers_thread_views_ && random_() % 4 != 0 ? &board_.page_site() : nullptr;
}

void Player::jostle() {
  // Most instances meet another one, some run through.
  constexpr std::uint32_t kOneAccessIn = 16, kTriesWithWaits = 30;
  constexpr std::uint64_t kPatienceNs = 500'000;  // the others may wait as well, or be dead
  if (attempts_ == nullptr || failed_in_a_row_ >= kTriesWithWaits) return;
  if (random_() % kOneAccessIn != 0) return;
  if (tmh::detail::current().hardware.depth != 0) return;  // waiting aborts RTM
  const std::uint64_t before = attempts_->load(std::memory_order_relaxed);
  const std::uint64_t until_ns = monotonic_ns() + kPatienceNs;
  while (attempts_->load(std::memory_order_relaxed) == before && monotonic_ns() < until_ns)
    sched_yield();
}

history::RanAt Player::where_it_runs() const {
  if (tmh::detail::current().hardware.depth != 0) return history::RanAt::kHardware;
  return domain().depth() != 0 ? history::RanAt::kPages : history::RanAt::kLines;
}

namespace {
// Through the instance of level 1 or of a thread's view if one is running, as tmh::field does; else
// plain.
std::uint64_t get(const std::uint64_t &word) {
  return tmh::detail::line_access != nullptr
             ? tmh::detail::line_load(*tmh::detail::line_access, &word)
             : load(word);
}
void set(std::uint64_t &word, std::uint64_t value) {
  if (tmh::detail::line_access != nullptr)
    tmh::detail::line_store(*tmh::detail::line_access, &word, value);
  else
    store(word, value);
}
}  // namespace

std::uint64_t Player::read(history::Cell cell) {
  jostle();
  Slot *slot = board_.slot(cell);
  if (is_query_ && copies_percent_ != 0 && random_() % 100 < copies_percent_ &&
      where_it_runs() == history::RanAt::kPages) {
    std::uint64_t version = 0, payload = 0;
    domain().copy(&slot->version, &version, sizeof version);
    domain().copy(&slot->payload, &payload, sizeof payload);
    lane_.read(cell, version);
    return payload;
  }
  lane_.read(cell, get(slot->version));
  return get(slot->payload);
}

void Player::write(history::Cell cell, std::uint64_t payload) {
  Slot *slot = board_.slot(cell);
  lane_.read(cell, get(slot->version));
  const history::Value fresh = lane_.fresh_value();
  lane_.write(cell, fresh);
  set(slot->version, fresh);
  set(slot->payload, payload);
  jostle();
}

}  // namespace tmh::test
