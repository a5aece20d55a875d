// tests/house/gdb/program.cpp -- stops with something to print: an instance at level 1, an instance
// at level 2, versions that are not home.
// Shape:     argv[1]: folder of the domain. stop_at_lines() and stop_at_pages() are called with
//            what the debugger is to print in main's frame.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include <tmh/tmh.hpp>

#include "hierarchy/api/handles.h"
#include "hierarchy/domain/domain_impl.h"
#include "hierarchy/exchange/directory.h"
#include "levels/line/software.h"

namespace {

[[gnu::noinline]] void stop_at_lines(const tmh::line::SoftwareThread &thread) {
  asm volatile("" ::"r"(&thread));
}
[[gnu::noinline]] void stop_at_pages(const tmh::page::Engine &engine) {
  asm volatile("" ::"r"(&engine));
}

struct Cell {
  tmh::field<long> value;
};

// Holds a snapshot, so that what the parent commits later cannot go home.
[[noreturn]] void hold_snapshot(const tmh::DomainOptions &options, const char *folder, int go,
                                int ready) {
  char byte = 0;
  (void)!::read(go, &byte, 1);
  const tmh::Domain domain = tmh::Domain::open(folder, options);
  const tmh::Segment segment = domain.map("cells");
  domain.begin_query();
  (void)!::write(ready, "r", 1);
  (void)!::read(go, &byte, 1);  // until the parent ends
  ::_exit(0);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  tmh::DomainOptions options;
  options.levels = tmh::Levels::kHybrid;
  int go[2], ready[2];
  if (::pipe(go) != 0 || ::pipe(ready) != 0) return 2;
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(go[1]);
    hold_snapshot(options, argv[1], go[0], ready[1]);
  }
  const tmh::Domain domain = tmh::Domain::open(argv[1], options);
  const tmh::Segment segment = domain.map("cells");
  Cell *const cell = segment.root<Cell>("cell");

  const tmh::Site low(domain, "low", "never");
  tmh::atomically(low, [&](tmh::Fields) {
    cell->value += 1;
    stop_at_lines(static_cast<tmh::line::SoftwareThread &>(*tmh::detail::line_access));
  });

  char byte = 0;
  (void)!::write(go[1], "g", 1);
  if (::read(ready[0], &byte, 1) != 1) return 2;
  const auto impl = tmh::detail::impl_of(domain);
  tmh::page::Engine &engine = impl->engine();
  tmh::page::SharedState &memory = impl->memory();
  tmh::atomically(domain, [&] { cell->value += 1; });
  // Which page that was, as the tree says it.
  const tmh::storage::Participant &self = memory.participant(0);
  const tmh::page::VersionHead &version = memory.version(self.versions.newest);
  const tmh::storage::PageId page{version.page};
  const tmh::page::PageMeta &meta = memory.meta(page);
  tmh::hierarchy::DirectoryRecord record{};
  record.level.store(tmh::hierarchy::PageLevel::kPages);
  record.residents.store(0b101);
  domain.begin();
  cell->value += 1;
  stop_at_pages(engine);
  domain.abort();
  std::printf("%ld %d %p %p\n", static_cast<long>(cell != nullptr),
              static_cast<int>(page == tmh::storage::PageId{}), static_cast<const void *>(&meta),
              static_cast<const void *>(&record));
  ::close(go[1]);
  ::waitpid(child, nullptr, 0);
  return 0;
}
