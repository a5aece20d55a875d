// examples/itm/cache/shared.cpp -- what `stats` says.
#include "examples/itm/cache/shared.h"

#include <unistd.h>

namespace cache {

namespace {

using Told = std::function<void(const std::string &, const std::string &)>;

void tell_general(Shared &shared, const Told &told) {
  const auto tell = [&told](const char *name, std::uint64_t value) {
    told(name, std::to_string(value));
  };
  const Seconds now = shared.clock.now();
  tell("pid", static_cast<std::uint64_t>(getpid()));
  tell("uptime", now - shared.clock.started());
  tell("time", now);
  told("version", kServerVersion);
  tell("pointer_size", sizeof(void *) * 8);
  const auto sum_of = [&shared](Counter counter) {
    std::uint64_t sum = 0;
    for (const Statistics &each : shared.statistics) sum += each.value(counter);
    return sum;
  };
  for (std::size_t i = 0; i < kCounterNames.size(); ++i)
    tell(kCounterNames[i], sum_of(static_cast<Counter>(i)));
  tell("curr_connections", sum_of(Counter::kConnections) - sum_of(Counter::kConnectionsEnded));
  tell("limit_maxbytes", shared.memory_bytes);
  tell("threads", shared.statistics.size() - 1);
  tell("thread_deaths", shared.deaths.load(std::memory_order_relaxed));
  const TableFigures table = table_figures(*shared.store);
  tell("hash_buckets", table.buckets);
  tell("hash_is_expanding", table.grows ? 1 : 0);
  std::uint64_t bytes = 0, items = 0, evictions = 0, reclaimed = 0;
  for (unsigned i = 0; i < class_count(*shared.store); ++i) {
    const ClassFigures figures = class_figures(*shared.store, i);
    bytes += figures.item_bytes;
    items += figures.items;
    evictions += figures.evictions;
    reclaimed += figures.reclaimed;
  }
  tell("bytes", bytes);
  tell("curr_items", items);
  tell("evictions", evictions);
  tell("reclaimed", reclaimed);
}

// Classes are numbered from 1, as in memcached.
void tell_items(Shared &shared, const Told &told) {
  for (unsigned i = 0; i < class_count(*shared.store); ++i) {
    const ClassFigures figures = class_figures(*shared.store, i);
    if (figures.items == 0) continue;
    const auto tell = [&](const char *name, std::uint64_t value) {
      told("items:" + std::to_string(i + 1) + ":" + name, std::to_string(value));
    };
    tell("number", figures.items);
    tell("age", shared.clock.now() - figures.oldest_used);
    tell("mem_requested", figures.item_bytes);
    tell("evicted", figures.evictions);
    tell("outofmemory", figures.out_of_memory);
    tell("reclaimed", figures.reclaimed);
  }
}

void tell_slabs(Shared &shared, const Told &told) {
  std::uint64_t active = 0, pages = 0;
  for (unsigned i = 0; i < class_count(*shared.store); ++i) {
    const ClassFigures figures = class_figures(*shared.store, i);
    if (figures.pages == 0) continue;
    ++active;
    pages += figures.pages;
    const auto tell = [&](const char *name, std::uint64_t value) {
      told(std::to_string(i + 1) + ":" + name, std::to_string(value));
    };
    tell("chunk_size", figures.chunk_bytes);
    tell("chunks_per_page", figures.chunks_per_page);
    tell("total_pages", figures.pages);
    tell("total_chunks", figures.pages * figures.chunks_per_page);
    tell("used_chunks", figures.items);
    tell("free_chunks", figures.pages * figures.chunks_per_page - figures.items);
  }
  told("active_slabs", std::to_string(active));
  told("total_malloced", std::to_string(pages * kItemBytesMax));
}

void tell_settings(const Shared &shared, const Told &told) {
  told("maxbytes", std::to_string(shared.memory_bytes));
  told("num_threads", std::to_string(shared.statistics.size() - 1));
  told("item_size_max", std::to_string(kItemBytesMax));
  told("growth_factor", "1.25");
  told("cas_enabled", "yes");
  told("evictions", "on");
}

}  // namespace

bool tell_statistics(Shared &shared, std::string_view what, const Told &told) {
  if (what.empty()) {
    tell_general(shared, told);
  } else if (what == "items") {
    tell_items(shared, told);
  } else if (what == "slabs") {
    tell_slabs(shared, told);
  } else if (what == "settings") {
    tell_settings(shared, told);
  } else if (what == "reset") {
    for (Statistics &each : shared.statistics) each.clear();
    clear_class_counters(*shared.store);
  } else {
    return false;
  }
  return true;
}

}  // namespace cache
