// tools/locks.cpp -- tmh locks: who holds, and who waits for, which locks of a domain.
#include <fmt/format.h>

#include <memory>

#include "platform/assert.h"
#include "storage/control.h"
#include "tools/commands.h"
#include "tools/domain_files.h"
#include "tools/moment.h"
#include "tools/print.h"
#include "tools/shared_locks.h"

namespace tmh::tools {

namespace {

// The modes of ModeSet::hierarchical() have names; others are the program's numbers.
std::string mode_text(const lock::ModeSet &modes, lock::Mode mode) {
  constexpr const char *kNames[] = {"IS", "IX", "S", "SIX", "X"};
  const auto number = static_cast<std::uint32_t>(mode);
  if (modes == lock::ModeSet::hierarchical() && modes.has(mode)) return kNames[number];
  return fmt::format("{}", number);
}

const char *state_text(SharedLocker::State state) {
  switch (state) {
    case SharedLocker::State::kAlive:
      return "alive";
    case SharedLocker::State::kDead:
      return "dead";
    case SharedLocker::State::kDetached:
      break;
  }
  return "detached";
}

Json locker_json(const SharedLocker &locker) {
  Json json{{"kind", locker.is_transaction ? "transaction" : "locker"},
            {"name", locker.name},
            {"state", state_text(locker.state)},
            {"pid", nullptr},
            {"process", nullptr}};
  if (locker.pid != 0) {
    json["pid"] = locker.pid;
    json["process"] = locker.process;
  }
  return json;
}

Json requests_json(const SharedLocks &locks, const std::vector<SharedRequest> &requests) {
  Json json = Json::array();
  for (const SharedRequest &one : requests)
    json.push_back({{"mode", mode_text(locks.modes, one.mode)},
                    {"count", one.count},
                    {"locker", locker_json(locks.lockers.at(one.locker))}});
  return json;
}

Json objects_json(const SharedLocks &locks, const storage::ControlFile &control) {
  Json objects = Json::array();
  for (const LockedObject &object : locks.objects) {
    Json json{{"space", object.id.space}, {"id", object.id.id}, {"file", nullptr}};
    if (object.id.space < storage::kSegmentsMax &&
        storage::is_used(control.segments[object.id.space]))
      json["file"] = printable(control.segments[object.id.space].name);
    json["holders"] = requests_json(locks, object.holders);
    json["waiters"] = requests_json(locks, object.waiters);
    objects.push_back(std::move(json));
  }
  return objects;
}

Json document_of(const std::string &folder, const SharedLocks &locks) {
  const std::unique_ptr<storage::ControlFile> control = read_control(folder);
  Json modes = Json::array();
  for (std::uint32_t i = 0; locks.modes.is_valid() && i < locks.modes.count; ++i)
    modes.push_back(mode_text(locks.modes, lock::Mode{i}));
  Json cycles = Json::array();
  for (const SharedLocks::Cycle &cycle : locks.cycles) {
    Json lockers = Json::array();
    for (const std::uint32_t locker : cycle)
      lockers.push_back(locker_json(locks.lockers.at(locker)));
    cycles.push_back(std::move(lockers));
  }
  return {{"document", "tmh-locks-1"},
          {"domain", folder},
          {"lock_table", locks.is_there},
          {"modes", std::move(modes)},
          {"lockers", locks.lockers.size()},
          {"objects", objects_json(locks, *control)},
          {"cycles", std::move(cycles)},
          {"unclear", locks.unclear_count},
          {"totals", lock_totals_json(locks.totals)}};
}

std::string locker_text(const Json &locker) {
  std::string text = fmt::format("{} {}", locker.at("kind").get<std::string>(),
                                 locker.at("name").get<std::uint64_t>());
  if (!locker.at("pid").is_null())
    text += fmt::format(" of process {} ({})", locker.at("pid").get<std::int32_t>(),
                        locker.at("process").get<std::string>());
  const auto state = locker.at("state").get<std::string>();
  return state == "alive" ? text : text + ", " + state;
}

std::string requests_text(const Json &requests, const char *what) {
  TMH_ASSERT(what != nullptr);
  std::string text;
  for (const Json &one : requests) {
    text += fmt::format("  {:3} {} {}", one.at("mode").get<std::string>(), what,
                        locker_text(one.at("locker")));
    if (const auto count = one.at("count").get<std::uint32_t>(); count > 1)
      text += fmt::format(", {} times", count);
    text += "\n";
  }
  return text;
}

std::string object_text(const Json &object) {
  const auto space = object.at("space").get<std::uint64_t>();
  const auto id = object.at("id").get<std::uint64_t>();
  std::string text = object.at("file").is_null()
                         ? fmt::format("object {}, {}", space, id)
                         : fmt::format("{}, page {}", object.at("file").get<std::string>(), id);
  return text + "\n" + requests_text(object.at("holders"), "held by  ") +
         requests_text(object.at("waiters"), "waited by");
}

std::string cycle_text(const Json &cycle) {
  TMH_ASSERT(!cycle.empty());
  std::string text = "deadlock: ";
  for (const Json &locker : cycle) text += locker_text(locker) + "\n  waits for ";
  return text + locker_text(cycle.front()) + "\n";
}

std::string text_of(const Json &document) {
  const auto folder = document.at("domain").get<std::string>();
  if (!document.at("lock_table").get<bool>())
    return folder + ": no lock table: nobody locks anything there\n";
  std::string text = fmt::format("{}: {}, {} locked or waited for\n", folder,
                                 counted(document.at("lockers").get<std::uint64_t>(), "locker"),
                                 counted(document.at("objects").size(), "object"));
  for (const Json &object : document.at("objects")) text += object_text(object);
  for (const Json &cycle : document.at("cycles")) text += cycle_text(cycle);
  if (const auto unclear = document.at("unclear").get<std::uint64_t>(); unclear != 0)
    text += fmt::format("{} of no object or no locker: they change, or the table is damaged\n",
                        counted(unclear, "request"));
  for (const auto &[name, value] : document.at("totals").items())
    if (value.get<std::uint64_t>() != 0)
      text += fmt::format("{:>20} {}\n", value.get<std::uint64_t>(), name);
  return text;
}

}  // namespace

Exit run(const LocksCommand &command) {
  const Json document = document_of(command.domain, read_locks(command.domain));
  command.json ? print(document) : print(text_of(document));
  return Exit::kOk;
}

}  // namespace tmh::tools
