// tools/top.cpp -- tmh top: a domain, live; sampling, keys, and the loop. Joins nothing.
#include <time.h>

#include <optional>

#include <tmh/options.hpp>

#include "platform/assert.h"
#include "platform/process.h"
#include "tools/commands.h"
#include "tools/domain_files.h"
#include "tools/print.h"
#include "tools/terminal.h"
#include "tools/top_view.h"

namespace tmh::tools {

namespace {

// A map of so many groups of pages is read; wider terminals show it on fewer lines.
constexpr std::uint32_t kMapRows = 2;

TopSample take(const std::string &folder, std::uint32_t columns) {
  TopSample sample;
  sample.time_ns = platform::wall_clock_ns();
  const auto control = read_control(folder);
  sample.shared = read_counters(folder);
  sample.monotonic_ns = platform::monotonic_ns();
  const std::uint32_t durability = control->header.durability,
                      detection = control->header.detection;
  sample.durability =
      to_string(durability == 0 ? Durability::kNone : static_cast<Durability>(durability));
  sample.detection = detection == 0 ? "no" : to_string(static_cast<Detection>(detection));
  if (!sample.shared.has_state) return sample;
  sample.locks = read_lock_totals(folder, true);
  std::vector<std::uint8_t> running;
  for (const ParticipantCounters &one : sample.shared.participants) {
    if (running.size() <= one.slot) running.resize(one.slot + 1);
    running[one.slot] = one.instance_us == 0 ? 0 : one.is_query ? 1 : 2;
  }
  sample.segments = read_pages(folder, *control, running, kMapRows * columns);
  return sample;
}

void sleep_ns(std::uint64_t ns) {
  const timespec wait{static_cast<time_t>(ns / 1'000'000'000),
                      static_cast<long>(ns % 1'000'000'000)};
  (void)nanosleep(&wait, nullptr);
}

std::uint64_t ns_of(double seconds) {
  TMH_ASSERT(seconds > 0);
  return static_cast<std::uint64_t>(seconds * 1e9);
}

Exit run_batch(const TopCommand &command) {
  TMH_ASSERT(command.batch != 0);
  TopLook look;
  look.folder = command.domain;
  TopSample before = take(command.domain, look.columns);
  for (std::uint64_t i = 0; i < command.batch; ++i) {
    sleep_ns(ns_of(command.interval_s));
    TopSample now = take(command.domain, look.columns);
    std::string text = i == 0 ? "" : "\n";
    for (const std::string &line : top_lines(before, now, look)) text += line + "\n";
    print(text);
    flush_output();
    before = std::move(now);
  }
  return Exit::kOk;
}

Exit run_live(const TopCommand &command) {
  Terminal terminal;
  TopLook look;
  look.folder = command.domain;
  look.has_keys = true;
  TopSample before = take(command.domain, terminal.size().columns), now = before;
  // The first picture soon: rates of a tenth of a second are better than none.
  constexpr std::uint64_t kFirstNs = 100'000'000;
  std::uint64_t due_ns = platform::monotonic_ns() + std::min(kFirstNs, ns_of(command.interval_s));
  for (;;) {
    const Terminal::Size size = terminal.size();
    look.columns = size.columns;
    look.rows = size.rows;
    terminal.draw(top_lines(before, now, look));
    const std::uint64_t at_ns = platform::monotonic_ns();
    char key = 0;
    switch (terminal.wait(due_ns > at_ns ? due_ns - at_ns : 0, &key)) {
      case Terminal::Event::kEnd:
        return Exit::kOk;
      case Terminal::Event::kKey:
        if (key == 'q' || key == 'Q') return Exit::kOk;
        if (key == ' ') look.is_paused = !look.is_paused;
        if (key == 's' || key == 'S') look.sort = after(look.sort);
        break;
      case Terminal::Event::kResized:
        break;
      case Terminal::Event::kTimeout:
        due_ns = platform::monotonic_ns() + ns_of(command.interval_s);
        if (look.is_paused) break;
        before = std::move(now);
        now = take(command.domain, look.columns);
        break;
    }
  }
}

}  // namespace

Exit run(const TopCommand &command) {
  return command.batch != 0 ? run_batch(command) : run_live(command);
}

}  // namespace tmh::tools
