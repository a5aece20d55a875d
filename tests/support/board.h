// tests/support/board.h -- a few pages of two raw segments as numbered cells, and recorded access
// to them.
// Shape:     cell c lies on page c % kPages, page p in segment p % 2: neighbours in number are far
//            apart in memory, and one page holds cells of different structures, so that instances
//            also meet where they share nothing but a page. In a hybrid domain an attempt runs at
//            level 1, at level 2, or at whatever level an adaptive site chooses. Players of threads
//            also run at level 2 on views of their own.
//            Behind them a test may add cells: the pages of a segment of its own, which may grow.
// Invariant: a cell's version is written together with its payload; the history knows versions, the
//            workload payloads.
#pragma once

#include <atomic>
#include <cstdint>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <tmh/domain.hpp>
#include <tmh/site.hpp>
#include <tmh/transaction.hpp>

#include "tests/support/modes.h"
#include "tests/support/recorder.h"

namespace tmh::test {

struct Slot {
  std::uint64_t version;
  std::uint64_t payload;
};

class Board {
 public:
  static constexpr std::uint64_t kPages = 6;
  static constexpr std::uint64_t kSlotsPerPage = 4;
  static constexpr std::uint64_t kCells = kPages * kSlotsPerPage;

  // Opens the domain in `folder` and maps both segments. In the calling process only.
  Board(const std::string &folder, const DomainOptions &options);

  [[nodiscard]] const Domain &domain() const noexcept { return domain_; }
  [[nodiscard]] bool is_hybrid() const noexcept { return levels_ == Levels::kHybrid; }
  // Of its sites at level 2: the domain's as it is opened.
  [[nodiscard]] Isolation isolation() const noexcept { return isolation_; }
  [[nodiscard]] const Site &line_site() const noexcept { return line_site_; }
  [[nodiscard]] const Site &adaptive_site() const noexcept { return adaptive_site_; }
  [[nodiscard]] const Site &only_lines_site() const noexcept { return only_lines_site_; }
  [[nodiscard]] const Site &page_site() const noexcept { return page_site_; }
  [[nodiscard]] const Site &default_site() const noexcept { return default_site_; }
  [[nodiscard]] const Site &plain_site() const noexcept { return plain_site_; }
  // Of level 2, under snapshot isolation whatever the domain's is.
  [[nodiscard]] const Site &snapshot_site() const noexcept { return snapshot_site_; }
  [[nodiscard]] Slot *slot(history::Cell cell) const noexcept;
  // Of this process, at its sites.
  [[nodiscard]] std::uint64_t hardware_commits() const;
  // Cells from kCells on: of its page 0, then of page 1, ...
  void add(const Segment &more) { more_ = more; }
  [[nodiscard]] const Segment &more() const noexcept { return more_; }
  void close() { domain_.close(); }

 private:
  Levels levels_;
  Domain domain_;
  Isolation isolation_;
  Site line_site_, adaptive_site_, only_lines_site_, page_site_, default_site_, plain_site_,
      snapshot_site_;
  Segment segments_[2], more_;
};

// Of a hybrid domain's levels: by chance; every update first at level 1; level 1 alone, queries
// included; level 2 alone.
enum class PlaysAt : std::uint8_t { kAnywhere, kFirstLines, kOnlyLines, kOnlyPages };

// Instances of one process on a board, each recorded whatever becomes of it.
class Player {
 public:
  // `attempts`, when given, is counted up by all players at the end of each attempt, and an
  // instance sometimes waits in its middle until another one has ended (or a while has passed).
  // Instances take microseconds; without that they would hardly ever meet where there are fewer
  // processors than processes. A player whose instances keep failing waits no more: conflict
  // policies that only fail promise no progress to instances that make each other long.
  Player(const Board &board, Lane lane, std::atomic<std::uint64_t> *attempts = nullptr)
      : board_(board),
        lane_(lane),
        random_(lane.process()),
        attempts_(attempts),
        snapshot_percent_(board.isolation() == Isolation::kSnapshot ? 60 : 0),
        copies_percent_(attempts != nullptr ? 40 : 0) {}

  [[nodiscard]] const Domain &domain() const noexcept { return board_.domain(); }
  [[nodiscard]] Lane &lane() noexcept { return lane_; }
  [[nodiscard]] const Board &board() const noexcept { return board_; }

  // REQUIRES: inside attempt() or query(). Every load and store really happens (the compiler may
  // not merge them).
  [[nodiscard]] std::uint64_t read(history::Cell cell);
  void write(history::Cell cell, std::uint64_t payload);  // reads the cell first
  // What it has read there counts as written.
  void promote(history::Cell cell) { tmh::promote(*board_.slot(cell)); }

  // Runs body() as one instance and tells how it ended. The body may call give_up().
  template <class Body>
  Status attempt(const Body &body);
  // Attempts until one commits.
  template <class Body>
  void update(const Body &body);
  template <class Body>
  void query(const Body &body);

  // Of the running instance, which from here on must commit. Nothing where that may not leave level
  // 1.
  void become_irrevocable() {
    if (stays_at_lines_ || avoids_pages_) return;
    if (notes_irrevocable_) lane_.ran_at(history::RanAt::kIrrevocably);
    tmh::become_irrevocable();
    if (uses_snapshots()) lane_.isolation(false);
    must_commit_ = true;
  }

  // So many of a hundred updates of no site run under snapshot isolation. REQUIRES: a lazy domain.
  void use_isolation(std::uint32_t snapshot_percent) noexcept {
    snapshot_percent_ = snapshot_percent;
  }
  [[nodiscard]] bool uses_snapshots() const noexcept { return snapshot_percent_ != 0; }
  // In a hybrid domain.
  void play_at(PlaysAt where) noexcept { where_ = where; }
  // Most updates and queries at level 2 run where threads have views of their own.
  void prefer_thread_views() noexcept { prefers_thread_views_ = true; }

  // So many of a hundred reads of queries at level 2 copy (Domain::copy()).
  void copy_reads(std::uint32_t percent) noexcept { copies_percent_ = percent; }

  // Of the following instances: how they are acknowledged; unset: as the domain is.
  void acknowledge(Durability durability) noexcept { durability_ = durability; }
  // The following instances become irrevocable no more, and run at sites.
  void avoid_pages(bool avoids) noexcept {
    avoids_pages_ = avoids;
    where_ = avoids ? PlaysAt::kFirstLines : PlaysAt::kAnywhere;
  }
  // The history tells which instances are irrevocable.
  void note_irrevocable() noexcept { notes_irrevocable_ = true; }
  // Sites of the domain's own escalation are used, too. `stays_at_lines`: these never leave level
  // 1.
  void use_default_site(bool stays_at_lines) noexcept {
    uses_default_site_ = true;
    default_stays_at_lines_ = stays_at_lines;
  }
  // So is one whose bodies are plain.
  void use_plain_site() noexcept { uses_plain_site_ = true; }
  // The running instance is one that stays there.
  [[nodiscard]] bool stays_at_lines() const noexcept { return stays_at_lines_; }

  // Instances that aborted without having given up.
  [[nodiscard]] std::uint64_t conflicts() const noexcept { return conflicts_; }

  struct GivenUp {};
  [[noreturn]] static void give_up() { throw GivenUp{}; }

 private:
  template <class Body>
  Status attempt_at(const Site &site, history::Kind kind, const Body &body);
  [[nodiscard]] bool is_acknowledged() const noexcept {
    return (durability_ == Durability{} ? domain().durability() : durability_) ==
           Durability::kStrict;
  }
  [[nodiscard]] const Site *site_of_next();  // null: of none
  void jostle();
  [[nodiscard]] history::RanAt where_it_runs() const;
  // Of the running update.
  [[nodiscard]] bool is_snapshot_here(const Site &site) const {
    const bool asks =
        &site == &board_.snapshot_site() || board_.isolation() == Isolation::kSnapshot;
    return asks && where_it_runs() == history::RanAt::kPages;
  }
  void attempt_ended(Status status) {
    if (must_commit_ && status != Status::kCommitted)
      ADD_FAILURE() << "an irrevocable instance aborted";
    must_commit_ = false;
    failed_in_a_row_ = status == Status::kCommitted ? 0 : failed_in_a_row_ + 1;
    if (attempts_ != nullptr) attempts_->fetch_add(1, std::memory_order_relaxed);
  }

  const Board &board_;
  Lane lane_;
  std::minstd_rand random_;
  std::atomic<std::uint64_t> *attempts_;
  std::uint64_t conflicts_ = 0;
  std::uint32_t failed_in_a_row_ = 0;
  PlaysAt where_ = PlaysAt::kAnywhere;
  bool prefers_thread_views_ = false;
  bool must_commit_ = false;
  Durability durability_ = Durability{};
  bool notes_irrevocable_ = false, uses_default_site_ = false, default_stays_at_lines_ = false,
       stays_at_lines_ = false;
  bool uses_plain_site_ = false, avoids_pages_ = false;
  std::uint32_t snapshot_percent_;
  std::uint32_t copies_percent_;
  bool is_query_ = false;
};

// As atomically(site, body) or query(site, body), until it commits or gives up; each attempt is
// recorded from before its begin. The body is plain at plain_site(), and instrumented elsewhere.
template <class Body>
Status Player::attempt_at(const Site &site, history::Kind kind, const Body &body) {
  using Kind = tmh::detail::Attempts::Kind;
  using BodyKind = tmh::detail::BodyKind;
  tmh::detail::Attempts attempts(
      site, kind == history::Kind::kQuery ? Kind::kQuery : Kind::kUpdate,
      &site == &board_.plain_site() ? BodyKind::kPlain : BodyKind::kInstrumented, durability_);
  for (std::uint32_t attempt = 0;; ++attempt) {
    lane_.begin(kind, attempt);
    attempts.begin();
    bool committed = false;
    try {
      lane_.ran_at(where_it_runs());
      if (kind == history::Kind::kUpdate && is_snapshot_here(site)) lane_.isolation(true);
      body();
      lane_.ending();
      committed = attempts.end();
    } catch (const tmh::detail::LineAbort &) {
      attempts.unwound();
    } catch (const GivenUp &) {
      lane_.ending(true);
      (void)attempts.threw();
      lane_.end(history::Outcome::kAborted);
      attempt_ended(Status::kAborted);
      return Status::kAborted;
    } catch (...) {
      if (attempts.threw()) throw;
    }
    lane_.end(committed ? history::Outcome::kCommitted : history::Outcome::kAborted,
              is_acknowledged());
    attempt_ended(committed ? Status::kCommitted : Status::kAborted);
    if (committed) return Status::kCommitted;
    ++conflicts_;
  }
}

template <class Body>
Status Player::attempt(const Body &body) {
  if (const Site *site = site_of_next(); site != nullptr)
    return attempt_at(*site, history::Kind::kUpdate, body);
  const bool is_snapshot = uses_snapshots() && random_() % 100 < snapshot_percent_;
  if (is_snapshot && random_() % 4 == 0)
    return attempt_at(board_.snapshot_site(), history::Kind::kUpdate, body);
  lane_.begin(history::Kind::kUpdate);
  if (is_snapshot) lane_.isolation(true);
  domain().begin(is_snapshot ? Isolation::kSnapshot : Isolation::kSerializable);
  Status status = Status::kAborted;
  try {
    lane_.ran_at(history::RanAt::kPages);
    body();
    lane_.ending();
    status = durability_ == Durability{} ? domain().end() : domain().end(durability_);
    if (status == Status::kAborted) ++conflicts_;
  } catch (const GivenUp &) {
    lane_.ending(true);
    domain().abort();
  } catch (const tmh::detail::RetryNow &) {  // it had FAILED before it could become irrevocable
    status = domain().end();
    EXPECT_EQ(status, Status::kAborted);
    ++conflicts_;
  } catch (...) {
    if (domain().depth() != 0) domain().abort();
    throw;
  }
  lane_.end(
      status == Status::kCommitted ? history::Outcome::kCommitted : history::Outcome::kAborted,
      is_acknowledged());
  attempt_ended(status);
  return status;
}

template <class Body>
void Player::update(const Body &body) {
  while (attempt(body) != Status::kCommitted) domain().backoff();
}

template <class Body>
void Player::query(const Body &body) {
  is_query_ = true;
  struct End {
    bool &is_query;
    ~End() { is_query = false; }
  } const end{is_query_};
  // A query of a site that may not leave level 1 does when it has to.
  const auto kind = where_ == PlaysAt::kOnlyLines ? history::Kind::kUpdate : history::Kind::kQuery;
  if (const Site *site = site_of_next(); site != nullptr)
    return static_cast<void>(attempt_at(*site, kind, body));
  lane_.begin(history::Kind::kQuery);
  domain().begin_query();
  try {
    lane_.ran_at(history::RanAt::kPages);
    body();
  } catch (...) {
    domain().end_query();
    throw;
  }
  lane_.ending();
  domain().end_query();
  lane_.end(history::Outcome::kCommitted, domain().durability() == Durability::kStrict);
  attempt_ended(Status::kCommitted);
}

}  // namespace tmh::test
