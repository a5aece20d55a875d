// tools/trace.cpp -- tmh trace: the rings of a domain's participants as one file in Chrome's trace
// format, which ui.perfetto.dev opens.
// Source:    Trace Event Format. X: complete events, i: instants, M: metadata. Times are in
//            microseconds.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include <tmh/instance.hpp>

#include "levels/line/abort_status.h"
#include "observe/probes.h"
#include "observe/trace.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/fence.h"
#include "platform/files.h"
#include "tools/commands.h"
#include "tools/domain_files.h"
#include "tools/failure.h"
#include "tools/print.h"

namespace tmh::tools {

namespace {

using observe::TraceEventV1;
using observe::TraceHeaderV1;
using observe::TraceKind;

struct Event {
  std::uint64_t number, ns, thread, first, second, third;
  std::uint32_t level;
  TraceKind kind;
};

struct Ring {
  std::int32_t pid = 0;
  std::string name;
  std::uint64_t lost = 0;  // overwritten, or being written while they were read
  std::vector<Event> events;
};

std::uint64_t word(const std::string &from, std::size_t at) {
  TMH_ASSERT(at + sizeof(std::uint64_t) <= from.size());
  std::uint64_t value = 0;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}

// False: there is no ring yet, or not any more. It is made in several steps, in which its process
// may have been killed, and anew by the slot's next owner.
bool read_bytes(const std::string &path, std::string *bytes) {
  TMH_ASSERT(bytes != nullptr);
  errno = 0;
  const Errc error = platform::read_file(path, observe::kTraceBytes, bytes);
  if (error != Errc::kOk && errno == ENOENT) return false;  // asked now, the next one may be there
  check(error);
  if (bytes->empty()) return false;
  if (bytes->size() < observe::kTraceBytes)
    refuse(Errc::kShortFile, path + " is shorter than a trace");
  return word(*bytes, 0) != 0;
}

// The file may be written meanwhile: see trace.h.
std::optional<Ring> read_ring(const std::string &path) {
  static_assert(sizeof(TraceHeaderV1) + observe::kTraceEvents * sizeof(TraceEventV1) <=
                observe::kTraceBytes);
  // A copy, taken by read(): an event that was written during it has the wrong number, or its
  // fields do not fit. Hence the second look.
  std::string bytes, again;
  if (!read_bytes(path, &bytes) || !read_bytes(path, &again)) return std::nullopt;
  const auto half = [&](std::size_t at) {
    return static_cast<std::uint32_t>(word(bytes, at / 8 * 8) >> (at % 8 * 8));
  };
  if (word(bytes, 0) != observe::kTraceMagic) refuse(Errc::kCorrupt, path + " is no trace");
  if (half(offsetof(TraceHeaderV1, version)) != observe::kTraceVersion)
    refuse(Errc::kForeignVersion, path + " is a trace of another version");
  if (half(offsetof(TraceHeaderV1, event_count)) != observe::kTraceEvents)
    refuse(Errc::kCorrupt, path + ": its number of events is wrong");
  Ring ring;
  ring.pid = static_cast<std::int32_t>(half(offsetof(TraceHeaderV1, pid)));
  const char *const name = bytes.data() + offsetof(TraceHeaderV1, name);
  ring.name = printable({name, ::strnlen(name, sizeof TraceHeaderV1::name)});
  for (std::size_t i = 0; i < observe::kTraceEvents; ++i) {
    const std::size_t at = sizeof(TraceHeaderV1) + i * sizeof(TraceEventV1);
    const std::uint64_t number = word(bytes, at);
    if (number == 0 || (number - 1) % observe::kTraceEvents != i ||
        std::memcmp(bytes.data() + at, again.data() + at, sizeof(TraceEventV1)) != 0)
      continue;
    const std::uint64_t who = word(bytes, at + offsetof(TraceEventV1, who));
    ring.events.push_back({number, word(bytes, at + offsetof(TraceEventV1, ns)), who >> 32,
                           word(bytes, at + offsetof(TraceEventV1, first)),
                           word(bytes, at + offsetof(TraceEventV1, second)),
                           word(bytes, at + offsetof(TraceEventV1, third)),
                           static_cast<std::uint32_t>(who >> 16 & 0xffff),
                           static_cast<TraceKind>(who & 0xffff)});
  }
  const std::uint64_t ever = word(bytes, offsetof(TraceHeaderV1, head));
  ring.lost = ever - std::min<std::uint64_t>(ever, ring.events.size());
  std::ranges::sort(ring.events, {}, &Event::number);
  return ring;
}

// As the enumerators of tmh/instance.hpp.
std::string cause_text(std::uint64_t cause) {
  constexpr const char *kNames[] = {"none",     "validation",  "conflict-self", "conflict-other",
                                    "user",     "query-wrote", "died",          "no-space",
                                    "capacity", "cross-level", "spurious",      "needs-pages"};
  static_assert(std::size(kNames) == kAbortCauseCount);
  return cause < kAbortCauseCount ? kNames[cause] : fmt::format("{}", cause);
}

std::string need_text(std::uint64_t need) {
  return need < kNeedCount ? to_string(static_cast<Need>(need)) : fmt::format("{}", need);
}

// Attempts in RTM that end for a Need say which.
std::string status_text(std::uint64_t status) {
  const std::string text = fmt::format("status {:#x}", status);
  const auto said = static_cast<line::AbortStatus>(status);
  return line::names_need(said) ? fmt::format("{}: {}", text, to_string(line::need_of(said)))
                                : text;
}

// reason: as tmh-probes(7) has it; the Need is in the upper half.
Json escalation(const Event &event) {
  constexpr std::uint64_t kNeedsPages = 2;
  const std::uint64_t reason = event.first & 0xffff'ffff;
  Json json{{"name", "escalate"}, {"args", {{"reason", reason}, {"attempts", event.second}}}};
  if (reason == kNeedsPages) json["args"]["need"] = need_text(event.first >> 32);
  return json;
}

Json instant(const Event &event) {
  switch (event.kind) {
    case TraceKind::kFirstTouch:
      return {{"name", "first touch"},
              {"args", {{"page", event.first}, {"is_write", event.second}}}};
    case TraceKind::kConflict:
      return {{"name", "conflict"}, {"args", {{"at", event.first}}}};
    case TraceKind::kEscalate:
      return escalation(event);
    case TraceKind::kRecall:
      return {{"name", "recall"}, {"args", {{"page", event.first}}}};
    case TraceKind::kModeSwitch:
      return {{"name", "mode switch"}, {"args", {{"from", event.first}, {"to", event.second}}}};
    case TraceKind::kDeadlock:
      return {{"name", "deadlock"}, {"args", {{"victim", event.first}, {"lockers", event.second}}}};
    case TraceKind::kRollback:
      return {{"name", "rollback"},
              {"args",
               {{"transaction", event.first},
                {"records", event.second},
                {"by", event.third == 0 ? "owner" : "heir"}}}};
    default:
      return {{"name", fmt::format("event {}", static_cast<std::uint32_t>(event.kind))}};
  }
}

const char *category_of(const Event &event) {
  switch (event.level) {
    case observe::probe::kLocks:
      return "locks";
    case observe::probe::kLines:
      return "lines";
    default:
      return "pages";
  }
}

// From a beginning to its end: an instance, or a wait for the disk or a lock.
Json complete(const Event &begin, const Event &end) {
  TMH_ASSERT(begin.thread == end.thread && begin.ns <= end.ns);
  Json json;
  if (end.kind == TraceKind::kFsyncDone) {
    json = {{"name", "fsync"}, {"args", {{"bytes", end.first}}}};
  } else if (end.kind == TraceKind::kLockWaitDone) {
    const char *const result = end.third == 0 ? "granted" : errc_name(static_cast<Errc>(end.third));
    json = {
        {"name", "lock wait"},
        {"args",
         {{"space", end.first}, {"id", end.second}, {"mode", begin.third}, {"result", result}}}};
  } else if (end.kind == TraceKind::kCommit) {
    json = {{"name", begin.second != 0 ? "query" : "update"},
            {"args", {{"outcome", "commit"}, {"stamp", end.first}, {"blocks", end.second}}}};
  } else if (end.kind == TraceKind::kHardwareAbort) {
    json = {{"name", "RTM"}, {"args", {{"outcome", "abort"}, {"cause", status_text(end.first)}}}};
  } else {
    json = {{"name", begin.second != 0 ? "query" : "update"},
            {"args", {{"outcome", "abort"}, {"cause", cause_text(end.first)}}}};
  }
  json["ph"] = "X";
  json["dur"] = static_cast<double>(end.ns - begin.ns) * 1e-3;
  return json;
}

void append(const Ring &ring, Json *events) {
  TMH_ASSERT(events != nullptr);
  events->push_back(
      {{"ph", "M"}, {"name", "process_name"}, {"pid", ring.pid}, {"args", {{"name", ring.name}}}});
  std::map<std::uint64_t, Event> instances, waits, lock_waits;  // begun, by thread
  const auto add = [&](const Event &at, Json json) {
    json["cat"] = category_of(at);
    json["pid"] = ring.pid;
    json["tid"] = at.thread;
    json["ts"] = static_cast<double>(at.ns) * 1e-3;
    events->push_back(std::move(json));
  };
  const auto end = [&](std::map<std::uint64_t, Event> *begun, const Event &event) {
    const auto begin = begun->find(event.thread);
    if (begin == begun->end()) return;  // it began before what the ring holds
    if (begin->second.level == event.level && begin->second.ns <= event.ns)
      add(begin->second, complete(begin->second, event));
    begun->erase(begin);
  };
  for (const Event &event : ring.events) {
    if (event.kind == TraceKind::kBegin) {
      instances[event.thread] = event;
    } else if (event.kind == TraceKind::kFsync) {
      waits[event.thread] = event;
    } else if (event.kind == TraceKind::kLockWait) {
      lock_waits[event.thread] = event;
    } else if (event.kind == TraceKind::kCommit || event.kind == TraceKind::kAbort ||
               event.kind == TraceKind::kHardwareAbort) {
      end(&instances, event);
    } else if (event.kind == TraceKind::kFsyncDone) {
      end(&waits, event);
    } else if (event.kind == TraceKind::kLockWaitDone) {
      end(&lock_waits, event);
    } else {
      Json json = instant(event);
      json["ph"] = "i";
      json["s"] = "t";  // of its thread
      add(event, std::move(json));
    }
  }
}

}  // namespace

Exit run(const TraceCommand &command) {
  (void)read_control(command.domain);  // refuses what is no domain
  Json events = Json::array();
  std::uint64_t lost = 0, rings = 0;
  for (const auto &entry : std::filesystem::directory_iterator(command.domain)) {
    if (!entry.path().filename().string().starts_with("tmh.trace.")) continue;
    const std::optional<Ring> ring = read_ring(entry.path());
    if (!ring.has_value()) continue;
    append(*ring, &events);
    lost += ring->lost;
    ++rings;
  }
  if (rings == 0)
    print_error(fmt::format(
        "tmh: {}: no traces; processes that open the domain with TMH_TRACE=on record them\n",
        command.domain));
  const Json document{
      {"displayTimeUnit", "ns"},
      {"otherData", {{"document", "tmh-trace-1"}, {"participants", rings}, {"events_lost", lost}}},
      {"traceEvents", std::move(events)}};
  print_line(document);
  return Exit::kOk;
}

}  // namespace tmh::tools
