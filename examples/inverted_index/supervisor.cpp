// examples/inverted_index/supervisor.cpp -- one life of the domain, from its opening to its close
// or its kill.
#include "examples/inverted_index/supervisor.h"

#include <chrono>
#include <exception>

#include <tmh/tmh.hpp>

#include "examples/inverted_index/crew.h"
#include "examples/inverted_index/index.h"

namespace inverted_index {
namespace {

void tell_opening(const tmh::Domain &domain, const Index &index, std::uint32_t life,
                  const Ledger &ledger) {
  Opening &opening = ledger->opening;
  opening.recovery = domain.recovery();
  tmh::query(domain, [&] {
    opening.batch_count = index.batches.size();
    opening.shard_count = static_cast<std::uint32_t>(index.shards.size());
    opening.lane_count = static_cast<std::uint32_t>(index.lanes.size());
    for (std::size_t lane = 0; lane < index.lanes.size(); ++lane)
      opening.next_unit[lane] = index.lanes[lane].next_unit;
  });
  // From here on counts what the domain holds, not what was promised before the kill. relaxed: no
  // worker runs yet.
  for (std::size_t lane = 0; lane < opening.lane_count; ++lane)
    ledger->acknowledged[lane].store(opening.next_unit[lane], std::memory_order_relaxed);
  opening.work_begins_ns = static_cast<std::uint64_t>(
      std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
  // Pairs with the acquire in Lives::announce().
  ledger->lives_opened.store(life + 1, std::memory_order_release);
}

void supervise(const Options &options, const std::string &folder, const Corpus &corpus,
               std::uint32_t life, Signals &signals, const Ledger &ledger) {
  ledger.tell(LifeTotals{});
  tmh::DomainOptions domain_opening = domain_options(options, "supervisor");
  domain_opening.recovery_progress = [&](std::uint64_t, std::uint64_t) {
    ledger->beats.fetch_add(1, std::memory_order_relaxed);  // relaxed: a sign of life, no more
  };
  tmh::Domain domain = tmh::Domain::open(folder, domain_opening);
  const tmh::Segment segment = domain.map(kSegmentFile);
  Index &index = *segment.root<Index>(kRootName);
  if (life == 0) {
    prepare(domain, index, corpus.documents, options.cut);
    // Later lives find the work laid out.
    if (domain.durability() == tmh::Durability::kBuffered) domain.flush();
  }
  tell_opening(domain, index, life, ledger);

  LifeTotals totals = Crew(options, folder, life, signals, ledger).run(domain, index);
  totals.versions_after_collect = domain.collect();
  ledger.tell(totals);
  domain.close();
}

}  // namespace

Exit run_supervisor(const Options &options, const std::string &folder, const Corpus &corpus,
                    std::uint32_t life, Signals &signals, const Ledger &ledger) noexcept {
  try {
    supervise(options, folder, corpus, life, signals, ledger);
    return Exit::kEqual;
  } catch (const Interrupted &error) {
    ledger.tell_failure(error.what());
    return Exit::kInterrupted;
  } catch (const std::exception &error) {
    ledger.tell_failure(error.what());
    return Exit::kDifferent;
  }
}

}  // namespace inverted_index
