// observe/perf/encode.cpp -- our table first, then libpfm4.
#include "observe/perf/encode.h"

#include <perfmon/pfmlib_perf_event.h>

#include <algorithm>
#include <mutex>

#include <tmh/error.hpp>

#include "platform/assert.h"

namespace tmh::perf {

namespace {

struct Set {
  std::string_view name;
  std::vector<std::vector<std::string>> groups;
};

// Groups of hardware events have at most four members: what a core with hyper-threading has in
// counters before Ice Lake.
const std::vector<Set> &sets() {
  static const std::vector<Set> all = {
      {"software",
       {{"task-clock", "page-faults", "minor-faults", "major-faults", "context-switches",
         "cpu-migrations"}}},
      {"cpu", {{"cycles", "instructions", "cache-references", "cache-misses"}}},
      {"tlb", {{"dtlb-load-misses", "dtlb-store-misses", "load-walks", "store-walks"}}},
      {"rtm",
       {{"rtm-start", "rtm-commit", "rtm-abort", "rtm-abort-memory"},
        {"tx-conflict", "tx-capacity-write", "tx-capacity-read"},
        {"rtm-abort-unfriendly", "rtm-abort-memtype", "rtm-abort-events"},
        {"cycles-in-rtm", "cycles-committed"}}}};
  return all;
}

// The kernel's generic events. libpfm4 would find some of these names in the processor's own table,
// with another meaning.
std::string generic_name(const std::string &event) {
  constexpr std::string_view kGeneric[] = {"task-clock",   "page-faults",      "minor-faults",
                                           "major-faults", "context-switches", "cpu-migrations",
                                           "cycles",       "instructions",     "cache-references",
                                           "cache-misses", "dtlb-load-misses", "dtlb-store-misses"};
  return std::ranges::find(kGeneric, event) == std::end(kGeneric) ? event : "perf::" + event;
}

Encoded ask_libpfm(const std::string &name) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  Encoded encoded;
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  pfm_perf_encode_arg_t argument{};
  argument.attr = &attributes;
  argument.size = sizeof argument;
  int error = ::pfm_initialize();  // after the first time it does nothing
  if (error == PFM_SUCCESS)
    error = ::pfm_get_os_event_encoding(name.c_str(), PFM_PLM0 | PFM_PLM3, PFM_OS_PERF_EVENT,
                                        &argument);
  if (error != PFM_SUCCESS) {
    encoded.unknown = std::string("libpfm4 knows no such event here: ") + ::pfm_strerror(error);
    return encoded;
  }
  encoded.type = attributes.type;
  encoded.config = attributes.config;
  encoded.config1 = attributes.config1;
  encoded.config2 = attributes.config2;
  encoded.user_only = attributes.exclude_kernel != 0;
  encoded.kernel_only = attributes.exclude_user != 0;
  return encoded;
}

std::vector<std::string> split(const std::string &list) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    names.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

}  // namespace

Encoded encode(const std::string &event, Processor processor) {
  TMH_ASSERT(!event.empty());
  const KnownEvent *known = known_event(event);
  if (known == nullptr) return ask_libpfm(generic_name(event));
  Encoded encoded;
  encoded.type = PERF_TYPE_RAW;
  encoded.config = known->on(processor);
  if (encoded.config == KnownEvent::kNone)
    encoded.unknown =
        processor == Processor::kOther
            ? "only known for processors with RTM (hsw to gnr); this is another"
            : "this processor (" + std::string(info(processor).name) + ") has no such event";
  return encoded;
}

std::vector<std::vector<std::string>> groups_of(const std::vector<std::string> &requests) {
  std::vector<std::vector<std::string>> groups;
  const auto find_set = [](const std::string &name) {
    return std::ranges::find(sets(), std::string_view(name), &Set::name);
  };
  for (const std::string &request : requests) {
    if (const auto set = find_set(request); set != sets().end()) {
      groups.insert(groups.end(), set->groups.begin(), set->groups.end());
      continue;
    }
    groups.push_back(split(request));
    TMH_ASSERT(!groups.back().empty());  // of no text it is one name, which is empty
    for (const std::string &name : groups.back()) {
      if (name.empty())
        throw Error(Errc::kBadArgument, "'" + request + "': an event's name is empty");
      if (find_set(name) != sets().end())
        throw Error(Errc::kBadArgument,
                    "'" + request + "': " + name + " is a set, and a group of its own");
    }
  }
  if (requests.empty())
    for (const Set &set : sets()) groups.insert(groups.end(), set.groups.begin(), set.groups.end());
  return groups;
}

}  // namespace tmh::perf
