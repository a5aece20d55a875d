// compat/libtp/environment.cpp -- opening, and what an earlier life and dead processes have left.
#include "compat/libtp/environment.h"

#include <algorithm>
#include <utility>

#include "compat/libtp/kept_log.h"
#include "hierarchy/api/handles.h"
#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/process.h"

namespace tmh::tp {

namespace {

constexpr std::uint64_t kLookAfterDeadNs = 100'000'000;
constexpr std::size_t kBlocksFreedAtOnce = 64;

Domain open_domain(const std::string &home, const tp_options &options) {
  DomainOptions domain;
  switch (options.durability) {
    case -1:
      break;
    case 0:
      domain.durability = Durability::kNone;
      break;
    case 1:
      domain.durability = Durability::kStrict;
      break;
    case 2:
      domain.durability = Durability::kBuffered;
      break;
    default:
      throw Error(Errc::kBadDurability, "durability " + std::to_string(options.durability));
  }
  const bool is_all_pages = (options.flags & TP_ALL_PAGES) != 0;
  domain.levels = is_all_pages ? Levels::kPage : Levels::kHybrid;
  if (options.name != nullptr) domain.name = options.name;
  try {
    return Domain::open(home, domain);
  } catch (const Error &error) {
    if (error.errc() != Errc::kLevelsMismatch || is_all_pages) throw;
  }
  // Others have it open with level 2 alone: all steps run there.
  domain.levels = Levels::kPage;
  return Domain::open(home, domain);
}

lock::ModeSet modes_of(const tp_modes *given) {
  if (given == nullptr) return lock::ModeSet::hierarchical();
  lock::ModeSet modes{};
  if (given->conflicts == nullptr || given->count == 0 || given->count > lock::kModesMax)
    throw Error(Errc::kBadArgument,
                "lock modes: 1 to " + std::to_string(lock::kModesMax) + ", with their matrix");
  modes.count = given->count;
  modes.writes = given->writes;
  for (unsigned held = 0; held < given->count; ++held)
    for (unsigned wanted = 0; wanted < given->count; ++wanted)
      if (given->conflicts[held * given->count + wanted] != 0)
        modes.conflicts[held] |= lock::ModeSet::bit(lock::Mode{wanted});
  return modes;
}

}  // namespace

Environment::Environment(const std::string &home, const tp_options &options)
    : domain_(open_domain(home, options)), impl_(detail::impl_of(domain_)) {
  if (options.victim > TP_LOWEST_PRIORITY)
    throw Error(Errc::kBadArgument, "victim " + std::to_string(options.victim));
  if ((options.flags & ~(0u + TP_LOG_KEEP + TP_ALL_PAGES)) != 0)
    throw Error(Errc::kBadArgument, "unknown flags of tp_open()");
  lock::LockTable *table = nullptr;
  throw_unless_ok(impl_->open_locks(modes_of(options.modes), &table));
  if (!table->begin_heir(this))
    throw Error(Errc::kBadArgument, home + ": this process has it open already");
  try {
    begin(*table, options);
  } catch (...) {
    table->end_heir();
    throw;
  }
}

void Environment::begin(lock::LockTable &table, const tp_options &options) {
  table.use({.first_look_ns = (options.first_look_us == 0 ? 1000 : options.first_look_us) * 1000,
             .victim = static_cast<lock::Victim>(options.victim)});
  managers_ = std::make_unique<Managers>(domain_);
  managers_->use(&table);
  managers_->keep_log((options.flags & TP_LOG_KEEP) != 0);
  for (std::size_t i = 0; i < options.type_count; ++i) managers_->types().add(options.types[i]);
  map_all();
  throw_unless_ok(table.begin_life([this] { return begin_life(); }));
  settle();
}

Environment::~Environment() {
  try {
    close();
  } catch (const Error &) {
    // What has not ended the others undo.
  }
}

void Environment::check_usable() const {
  if (managers_ == nullptr) throw Error(Errc::kNotInitialized, "the environment is closed");
  throw_unless_ok(impl_->usable());
}

void Environment::close() {
  if (managers_ == nullptr) return;
  check_usable();
  if (is_step_here()) throw Error(Errc::kInstanceRunning, "closed in a step");
  {
    const std::scoped_lock guard(mutex_);
    if (running_ != 0)
      throw Error(Errc::kInstanceRunning,
                  std::to_string(running_) + " transactions of this process have not ended");
  }
  resolve_orphans();
  for (const Slot &slot : std::exchange(idle_, {})) give_slot(slot);
  // Those that could not be undone are their next heir's.
  for (const Orphan &orphan : std::exchange(orphans_, {})) (void)locks().detach(orphan.slot.locker);
  locks().end_heir();
  impl_.reset();
  managers_.reset();
  domain_.close();
}

// What is undone here may lie in any of the domain's segments: those of a fixed address are mapped
// before that. A segment that the program has mapped by another handle is mapped already.
void Environment::map_all() {
  const std::scoped_lock mapping(mapping_mutex_);
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i) {
    const storage::SegmentRecordV1 &record = impl_->memory().control().segments[i];
    if (!storage::is_used(record) || record.address == 0) continue;
    SegmentOptions options;
    options.max_bytes = record.max_bytes;
    options.offset_bytes = record.offset_bytes;
    options.layout = static_cast<Layout>(record.layout);
    std::error_code error;
    if (const Segment segment = domain_.map(record.name, options, error))
      (void)add_segment(segment);
  }
}

Environment::Mapped Environment::add_segment(const Segment &segment) {
  const auto found = impl_->segments().at(segment.data());
  if (found == nullptr) throw Error(Errc::kNotMapped, segment.name());
  const std::scoped_lock guard(segments_mutex_);
  managers_->ranges().add(segment);
  return segments_.emplace_back(Mapped{segment, found->number});
}

Environment::Mapped Environment::find_segment(const std::string &file) const {
  const std::scoped_lock guard(segments_mutex_);
  const auto found = std::find_if(segments_.begin(), segments_.end(), [&](const Mapped &mapped) {
    return mapped.segment.name() == file;
  });
  return found == segments_.end() ? Mapped{} : *found;
}

// Mapping and growing may wait for another thread's step, which asks where its pages are.
Segment Environment::map(const std::string &file, const SegmentOptions &options, int *number) {
  Mapped mapped = find_segment(file);
  if (!mapped.segment) {
    if (is_step_here()) throw Error(Errc::kInstanceRunning, "a file is mapped in a step");
    const std::scoped_lock mapping(mapping_mutex_);
    mapped = find_segment(file);
    if (!mapped.segment) mapped = add_segment(domain_.map(file, options));
  }
  if (options.size_bytes > mapped.segment.size_bytes()) mapped.segment.grow(options.size_bytes);
  if (number != nullptr) *number = static_cast<int>(mapped.number);
  return mapped.segment;
}

Segment Environment::segment_at(int number) const {
  const std::scoped_lock guard(segments_mutex_);
  for (const Mapped &mapped : segments_)
    if (number >= 0 && mapped.number == static_cast<std::uint32_t>(number)) return mapped.segment;
  throw Error(Errc::kBadArgument, "no file " + std::to_string(number));
}

// --- Slots ------------------------------------------------------------------------------------

Slot Environment::take_slot(std::uint64_t id) {
  {
    const std::scoped_lock guard(mutex_);
    ++running_;
    if (!idle_.empty()) {
      const Slot slot = idle_.back();
      idle_.pop_back();
      locks().renew(slot.locker, id);
      return slot;
    }
  }
  try {
    Slot slot;
    slot.head = chains().run([&](Fields) {
      const BlockIndex head = chains().take(BlockKind::kHead);
      chains().block(head).transaction = id;
      return head;
    });
    throw_unless_ok(locks().begin(id, &slot.locker, lock::Succession::kHeir,
                                  static_cast<std::uint32_t>(slot.head)));
    return slot;
  } catch (...) {
    const std::scoped_lock guard(mutex_);
    --running_;
    throw;
  }
}

// REQUIRES: its chain is empty. Blocks that cannot be given back now are the next life's.
void Environment::give_slot(const Slot &slot) noexcept {
  TMH_ASSERT(slot.head != BlockIndex::kNone);
  try {
    chains().run([&](Fields) { chains().give_all(slot.head); });
  } catch (const std::exception &) {
    // The disk is full, or the log has failed.
  }
  locks().end(slot.locker);
}

std::unique_ptr<Transaction> Environment::begin() {
  if (is_step_here()) throw Error(Errc::kInstanceRunning, "a transaction is begun in a step");
  look_after_the_dead();
  const std::uint64_t id = managers_->draw_id();
  auto begun = std::make_unique<Transaction>(*managers_, take_slot(id), id);
  observe::step(observe::Step::kTpBegun);
  return begun;
}

void Environment::recycle(const Transaction &ended) noexcept {
  TMH_ASSERT(ended.state() == TP_IDLE || ended.state() == TP_COMMITTING);
  // The log has its blocks.
  if (ended.is_kept()) locks().end(ended.slot().locker);
  const std::scoped_lock guard(mutex_);
  TMH_ASSERT(running_ > 0);
  --running_;
  if (!ended.is_kept()) idle_.push_back(ended.slot());
}

void Environment::detach(Transaction &transaction) {
  TMH_ASSERT(transaction.state() != TP_IDLE);
  if (is_step_here()) throw Error(Errc::kInstanceRunning, "a transaction is detached in a step");
  transaction.leave();
  // It has committed: only the log is behind.
  if (transaction.state() == TP_COMMITTING) return recycle(transaction);
  throw_unless_ok(locks().detach(transaction.slot().locker));
  const std::scoped_lock guard(mutex_);
  --running_;
}

std::unique_ptr<Transaction> Environment::attach(std::uint64_t id) {
  if (is_step_here()) throw Error(Errc::kInstanceRunning, "a transaction is attached in a step");
  std::unique_ptr<Transaction> attached;
  locks().file().for_each_detached([&](lock::LockerId locker, std::uint64_t name) {
    if (name != id || attached != nullptr) return;
    const BlockIndex head{locks().file().note_of(locker)};
    const bool is_aborting =
        chains().run([&](Fields) { return chains().block(head).is_aborting != 0; });
    if (is_aborting || locks().attach(locker, id) != Errc::kOk) return;
    attached = std::make_unique<Transaction>(*managers_, Slot{locker, head}, id);
  });
  if (attached == nullptr)
    throw Error(Errc::kBadArgument, "no transaction " + std::to_string(id) + " is detached");
  TMH_ASSERT(attached->id() == id);
  attached->inherit();
  const std::scoped_lock guard(mutex_);
  ++running_;
  return attached;
}

// --- The dead, and the lives before ---------------------------------------------------------

Errc Environment::begin_life() try {
  struct Found {
    std::uint32_t blocks;
    std::uint64_t numbers;
  };
  const Found found = chains().run([&](Fields) {
    ChainHeader &header = chains().header();
    // A volatile domain promises nothing once all its processes have died.
    if (!managers_->is_durable()) {
      header.blocks = 1;
      header.first_free = BlockIndex::kNone;
      header.first_kept = header.last_kept = BlockIndex::kNone;
    }
    return Found{header.blocks, header.numbers};
  });
  if (found.numbers > kNumbersMax || found.blocks == 0 || found.blocks > chains().blocks_held())
    throw Error(Errc::kCorrupt, "tp.chains: its header is damaged");
  locks().file().pass_number(found.numbers);
  std::vector<bool> is_used(found.blocks, false);
  for (std::uint32_t i = 1; i < found.blocks; ++i) {
    const BlockIndex head{i};
    const BlockKind kind = chains().run([&](Fields) {
      const BlockHead &block = chains().block(head);
      return block.last == Place::kNone ? BlockKind::kFree : block.kind.load();
    });
    if (kind != BlockKind::kHead && kind != BlockKind::kKept) continue;
    if (kind == BlockKind::kHead) adopt(head);
    for (const BlockIndex block : blocks_of(head, found.blocks)) {
      if (is_used[static_cast<std::uint32_t>(block)])
        throw Error(Errc::kCorrupt, "tp.chains: a block is of two chains");
      is_used[static_cast<std::uint32_t>(block)] = true;
    }
  }
  free_others(is_used);
  return KeptLog(*managers_).redo();
} catch (const Error &error) {
  return platform::fail(error.errc(), error.what());
} catch (const std::exception &error) {
  return platform::fail(Errc::kOutOfMemory, error.what());
}

// Of a chain, in a file of `count`. Throws Error(kCorrupt): it goes round, or out of the file.
std::vector<BlockIndex> Environment::blocks_of(BlockIndex head, std::uint32_t count) {
  TMH_ASSERT(head != BlockIndex::kNone);
  return chains().run([&](Fields) {
    std::vector<BlockIndex> blocks;
    for (BlockIndex at = head; at != BlockIndex::kNone; at = chains().block(at).next) {
      if (blocks.size() == count) throw Error(Errc::kCorrupt, "tp.chains: a chain goes round");
      blocks.push_back(at);
    }
    return blocks;
  });
}

// An earlier life's transaction: it is locked as it was, and waits to be undone.
void Environment::adopt(BlockIndex head) {
  TMH_ASSERT(head != BlockIndex::kNone && !is_step_here());
  const std::uint64_t id = chains().run([&](Fields) {
    chains().block(head).is_aborting = 1;
    return chains().block(head).transaction.load();
  });
  Slot slot{{}, head};
  throw_unless_ok(
      locks().begin(id, &slot.locker, lock::Succession::kHeir, static_cast<std::uint32_t>(head)));
  Transaction left(*managers_, slot, id);
  left.inherit();
  for (const NotedLock &noted : left.noted_locks()) {
    lock::LockId taken{};
    const Errc error = locks().lock(slot.locker, {noted.space, noted.id},
                                    lock::Mode{static_cast<std::uint32_t>(noted.mode)},
                                    lock::Patience::none(), &taken);
    // Busy: one of the two had given it back before its end (tp_unlock()).
    if (error != Errc::kLockBusy) throw_unless_ok(error);
  }
  observe::step(observe::Step::kTpAdopted);
  throw_unless_ok(locks().detach(slot.locker));
}

void Environment::free_others(const std::vector<bool> &is_used) {
  chains().run([&](Fields) { chains().header().first_free = BlockIndex::kNone; });
  for (std::size_t i = 1; i < is_used.size(); i += kBlocksFreedAtOnce)
    chains().run([&](Fields) {
      for (std::size_t block = i; block < std::min(is_used.size(), i + kBlocksFreedAtOnce); ++block)
        if (!is_used[block]) chains().give(BlockIndex{static_cast<std::uint32_t>(block)});
    });
}

bool Environment::take(lock::LockerId locker, std::uint64_t name) noexcept {
  const Slot slot{locker, BlockIndex{locks().file().note_of(locker)}};
  try {
    if (!is_step_here()) return resolve(slot, name);
  } catch (const std::exception &) {
    // It is tried again.
  } catch (const Refused &) {
  }
  const std::scoped_lock guard(mutex_);
  orphans_.push_back({slot, name});
  return false;
}

// Has the transaction committed, so that its blocks are the kept log's, or another transaction's
// when that has been cut? Identifiers rise.
bool Environment::has_passed_on(const Slot &slot, std::uint64_t id) {
  return chains().run([&](Fields) {
    const BlockHead &block = chains().block(slot.head);
    return block.kind != BlockKind::kHead || block.transaction > id;
  });
}

bool Environment::resolve(const Slot &slot, std::uint64_t id) {
  TMH_ASSERT(!is_step_here() && slot.head != BlockIndex::kNone);
  if (has_passed_on(slot, id)) return true;
  map_all();
  Transaction left(*managers_, slot, id);
  left.inherit();
  if (!left.is_known()) {
    // A process that knows its types finds it.
    chains().run([&](Fields) { chains().block(slot.head).is_aborting = 1; });
    throw_unless_ok(locks().detach(slot.locker));
    return false;
  }
  // It may have committed, or have changed nothing.
  if (const std::uint64_t records = left.undo_all(); records != 0)
    lock::note_rollback(locks().file(), id, records, lock::UndoneBy::kHeir);
  chains().run([&](Fields) { chains().give_all(slot.head); });
  return true;
}

void Environment::resolve_orphans() {
  std::vector<Orphan> orphans;
  {
    const std::scoped_lock guard(mutex_);
    orphans.swap(orphans_);
  }
  for (const Orphan &orphan : orphans)
    if (take(orphan.slot.locker, orphan.id)) locks().end(orphan.slot.locker);
}

void Environment::resolve_stranded() {
  locks().file().for_each_detached([&](lock::LockerId locker, std::uint64_t id) {
    const Slot slot{locker, BlockIndex{locks().file().note_of(locker)}};
    const bool is_aborting =
        chains().run([&](Fields) { return chains().block(slot.head).is_aborting != 0; });
    if (!is_aborting) return;
    Transaction left(*managers_, slot, id);
    left.inherit();
    if (!left.is_known() || locks().attach(locker, id) != Errc::kOk) return;
    if (take(locker, id)) locks().end(locker);
  });
}

void Environment::settle() {
  if (is_step_here()) throw Error(Errc::kInstanceRunning, "settled in a step");
  locks().settle();
  resolve_orphans();
  resolve_stranded();
}

void Environment::look_after_the_dead() {
  const std::uint64_t now = platform::coarse_ns();
  // relaxed: the first thread that comes looks
  std::uint64_t next = next_look_ns_.load(std::memory_order_relaxed);
  if (now < next || !next_look_ns_.compare_exchange_strong(next, now + kLookAfterDeadNs,
                                                           std::memory_order_relaxed))
    return;
  settle();
}

}  // namespace tmh::tp
