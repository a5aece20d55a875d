// tests/power/worker.cpp -- what workers do.
#include "tests/power/worker.h"

#include <algorithm>
#include <string_view>

namespace tmh::test::power {

namespace {

// + worker % 8: a worker's own pages, far apart
constexpr std::uint32_t kStampPages[] = {32, 40, 48};
// Shared scratch pages, up to the segment's present end.
constexpr std::uint32_t kManyFirstPage = 56;
constexpr std::uint64_t kAbortOneIn = 40;

void store(Effects *effects, std::uint32_t segment, std::uint64_t word, std::uint64_t value) {
  effects->stores.push_back({segment, static_cast<std::uint32_t>(word), value});
}

// With one home for everybody no checkpoint can be taken while only the dead could tell what became
// of a sync (storage/data_syncs.h). Workers are killed one after the other here, so that
// these may be all who could.
template <class Checkpoint>
void unless_in_doubt(bool has_one_home, const Checkpoint &checkpoint) {
  try {
    checkpoint();
  } catch (const Error &error) {
    constexpr std::string_view kDoubt =
        "knows only who had it open before a process died that synced it";
    if (!has_one_home || std::string_view(error.what()).find(kDoubt) == std::string_view::npos)
      throw;
  }
}

}  // namespace

Worker::Worker(World *world, Journal *journal, const WorkerPlan &plan)
    : world_(world),
      journal_(journal),
      plan_(plan),
      random_(plan.seed),
      attempt_(plan.first_attempt) {}

bool Worker::step() {
  if (!journal_->has_room()) return false;
  if (plan_.only_ledger) return update(true);
  const std::uint64_t dice = random(1000);
  if (dice < 90) {
    read_only();
  } else if (dice < 110) {
    flush();
  } else if (dice < 120) {
    grow();
  } else if (dice < 126) {
    if (plan_.explicit_checkpoints)
      unless_in_doubt(world_->line_site() == nullptr, [&] { world_->domain().checkpoint(); });
  } else if (dice < 132 && !plan_.archive.empty()) {
    unless_in_doubt(world_->line_site() == nullptr,
                    [&] { static_cast<void>(world_->domain().archive(plan_.archive)); });
  } else {
    return update(choose_durability());
  }
  return true;
}

// As atomically(site, how, body) with an instrumented body, and a note of each attempt.
bool Worker::update_at(const Site &site, Durability how) {
  detail::Attempts attempts(site, detail::Attempts::Kind::kUpdate, detail::BodyKind::kInstrumented,
                            how);
  for (;;) {
    attempts.begin();
    Effects effects;
    bool is_intended = false;
    try {
      if (read_g() >= kCommitsMax) {
        static_cast<void>(attempts.end());
        return false;
      }
      effects = choose_small_effects();
      world_->perform(effects);
      const std::vector<std::byte> encoded = effects.encode();
      journal_->note(Note::kIntent, effects.g, encoded.data(), encoded.size());
      is_intended = true;
      const bool committed = attempts.end();
      journal_->note(committed ? acknowledgement(how) : Note::kAborted, effects.g, &effects.id,
                     sizeof effects.id);
      if (committed) return true;
    } catch (const detail::LineAbort &) {
      attempts.unwound();
    } catch (const Error &) {
      if (is_intended && plan_.errors_abort)
        journal_->note(Note::kAborted, effects.g, &effects.id, sizeof effects.id);
      static_cast<void>(attempts.threw());
      throw;
    }
  }
}

const Site *Worker::site_of_next() {
  if (plan_.only_ledger) return nullptr;
  const std::uint64_t dice = random(6);
  if (plan_.mixes && dice < 2) return dice == 0 ? &world_->own_site() : &world_->page_site();
  return dice < 4 ? world_->line_site() : nullptr;
}

Note Worker::acknowledgement(Durability how) {
  const Durability as = how == Durability{} ? world_->domain().durability() : how;
  return as == Durability::kStrict ? Note::kStrictAck : Note::kBufferedAck;
}

std::uint64_t Worker::read_g() {
  const std::uint64_t g = world_->g();
  if (reads_durable_only_) journal_->note(Note::kDurableUpTo, g);
  return g;
}

bool Worker::update(Durability how) {
  const Site *site = site_of_next();
  return site != nullptr ? update_at(*site, how) : update_at_pages(how);
}

bool Worker::update_at_pages(Durability how) {
  tmh::Domain &domain = world_->domain();
  for (std::uint64_t attempt = 0;; ++attempt) {
    domain.begin();
    if (read_g() >= kCommitsMax) {
      domain.abort();
      return false;
    }
    Effects effects;
    try {
      effects = choose_effects();
      world_->perform(effects);
    } catch (const Error &) {  // growing or mapping failed inside the instance
      domain.abort();
      throw;
    }
    if (!plan_.only_ledger && random(kAbortOneIn) == 0) {
      domain.abort();
      return true;
    }
    const std::vector<std::byte> encoded = effects.encode();
    journal_->note(Note::kIntent, effects.g, encoded.data(), encoded.size());
    Status status{};
    try {
      status = how == Durability{} ? domain.end() : domain.end(how);
    } catch (const Error &) {
      if (plan_.errors_abort)
        journal_->note(Note::kAborted, effects.g, &effects.id, sizeof effects.id);
      throw;
    }
    const bool committed = status == Status::kCommitted;
    journal_->note(committed ? acknowledgement(how) : Note::kAborted, effects.g, &effects.id,
                   sizeof effects.id);
    if (committed) plan_.first_words = 0;
    if (committed) return true;
    domain.backoff();
  }
}

Effects Worker::new_effects() {
  Effects effects;
  effects.id = std::uint64_t{plan_.worker} << 40 | attempt_++;
  effects.g = world_->g() + 1;
  return effects;
}

// What needs no allocation and no new mapping.
Effects Worker::choose_small_effects() {
  Effects effects = new_effects();
  const std::uint64_t dice = random(100);
  if (dice < 50) add_transfer(&effects);
  if (dice >= 30 && dice < 80) add_stamp(&effects);
  if (dice >= 95) add_many(&effects);
  return effects;
}

// Inside an instance: what is read here belongs to it.
Effects Worker::choose_effects() {
  Effects effects = new_effects();
  for (std::uint32_t word = 0; word < plan_.first_words; ++word)
    store(&effects, kData, kManyFirstPage * kWordsPerPage + word, random_());
  if (plan_.only_ledger) return effects;
  const std::uint64_t dice = random(100);
  if (dice < 30) add_transfer(&effects);
  if (dice >= 20 && dice < 55) add_stamp(&effects);
  if (dice >= 50 && dice < 65) add_many(&effects);
  if (dice >= 65 && dice < 68) add_fill(&effects);
  if (dice >= 68 && dice < 95) add_list_change(&effects);
  if (dice >= 95) add_late_page(&effects);
  return effects;
}

void Worker::add_transfer(Effects *effects) {
  const std::uint64_t from = random(kAccounts), to = (from + 1 + random(kAccounts - 1)) % kAccounts;
  const std::uint64_t amount = 1 + random(1000);
  const field<std::uint64_t> *data = world_->cells(kData);
  store(effects, kData, from * kWordsPerPage, data[from * kWordsPerPage].load() - amount);
  store(effects, kData, to * kWordsPerPage, data[to * kWordsPerPage].load() + amount);
}

void Worker::add_stamp(Effects *effects) {
  for (const std::uint32_t page : kStampPages) {
    const std::uint64_t word = (page + plan_.worker % 8) * kWordsPerPage + 8 * (plan_.worker / 8);
    store(effects, kData, word, effects->id);
    store(effects, kData, word + 1, effects->g);
    store(effects, kData, word + 2, filler(effects->id, effects->g));
  }
}

void Worker::add_many(Effects *effects) {
  const std::uint64_t first = kManyFirstPage * kWordsPerPage;
  const std::uint64_t count = world_->raw(kData).size_bytes() / sizeof(std::uint64_t) - first;
  const std::uint64_t stores = 20 + random(60);
  for (std::uint64_t i = 0; i < stores; ++i)
    store(effects, kData, first + random(count), random_());
}

void Worker::add_fill(Effects *effects) {
  const auto pages = static_cast<std::uint32_t>(1 + random(kBigPages));
  const auto first = static_cast<std::uint32_t>(random(kBigPages - pages + 1));
  effects->fills.push_back({kBig, first, pages, 0, random_()});
}

void Worker::add_list_change(Effects *effects) {
  const std::uint32_t list = plan_.worker % kLists;
  const bool remove = world_->lists()->first[list] != nullptr && random(3) == 0;
  // Small classes, medium and large runs.
  constexpr std::uint64_t kSizes[] = {64, 400, 3000, 20'000};
  const auto bytes = static_cast<std::uint32_t>(1 + random(kSizes[random(4)]));
  effects->changes.push_back({list, remove ? 0 : bytes, effects->g});
}

void Worker::add_late_page(Effects *effects) {
  const auto segment = static_cast<std::uint32_t>(kFirstLate + random(kLateSegments));
  for (int i = 0; i < 4; ++i)
    store(effects, segment, random(kLatePages * kWordsPerPage), random_());
}

Durability Worker::choose_durability() {
  if (plan_.mixes && random(3) == 0) return Durability{};
  return random(4) != 0 ? Durability::kStrict : Durability::kBuffered;
}

// A reader of a strict domain is told only what is durable.
void Worker::read_only() {
  tmh::Domain &domain = world_->domain();
  std::uint64_t g = 0;
  switch (random(plan_.mixes ? 4 : 2)) {
    case 0:
      g = tmh::query(domain, [&] { return read_g(); });
      break;
    case 1:
      g = tmh::atomically(domain, [&] { return read_g(); });
      break;
    case 2:
      g = tmh::query(world_->own_site(), [&](tmh::Fields) { return read_g(); });
      break;
    default:
      g = tmh::atomically(world_->own_site(), [&](tmh::Fields) { return read_g(); });
  }
  if (domain.durability() == Durability::kStrict) journal_->note(Note::kDurableUpTo, g);
}

void Worker::flush() {
  const std::uint64_t g = tmh::query(world_->domain(), [&] { return world_->g(); });
  world_->domain().flush();
  journal_->note(Note::kDurableUpTo, g);
}

void Worker::grow() {
  tmh::Segment &data = world_->raw(kData);
  const std::uint64_t wanted = data.size_bytes() + (1 + random(8)) * kPageBytes;
  if (wanted <= data.max_bytes()) data.grow(wanted);
}

}  // namespace tmh::test::power
