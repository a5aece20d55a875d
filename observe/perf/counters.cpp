// observe/perf/counters.cpp -- a group is a leader and members that the kernel puts on the PMU
// together. Each event is read by itself, because the kernel before 6.13 refuses to read whole
// groups that count descendants, too.
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <tmh/perf.hpp>

#include "observe/perf/encode.h"
#include "observe/perf/refusal.h"
#include "platform/assert.h"
#include "platform/files.h"

namespace tmh::perf {

namespace {

// Asked for so, or counted by the kernel on its own behalf: without its share they are 0, which
// would be a lie.
bool happens_in_kernel(const Encoded &event) {
  if (event.kernel_only) return true;
  return event.type == PERF_TYPE_SOFTWARE && (event.config == PERF_COUNT_SW_CONTEXT_SWITCHES ||
                                              event.config == PERF_COUNT_SW_CPU_MIGRATIONS);
}

perf_event_attr attributes_of(const Encoded &event, const CountersOptions &options, bool leads) {
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = event.type;
  attributes.config = event.config;
  attributes.config1 = event.config1;
  attributes.config2 = event.config2;
  attributes.exclude_kernel = event.user_only;
  attributes.exclude_user = event.kernel_only;
  attributes.exclude_hv = 1;
  attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  attributes.disabled = leads;  // members count while their leader does
  attributes.inherit = options.whom == CountersOptions::Whom::kDescendants;
  attributes.enable_on_exec = leads && options.from == CountersOptions::From::kExec;
  return attributes;
}

int open_event(perf_event_attr *attributes, int thread, int leader) {
  return static_cast<int>(::syscall(SYS_perf_event_open, attributes, thread, -1, leader,
                                    static_cast<unsigned long>(PERF_FLAG_FD_CLOEXEC)));
}

}  // namespace

std::uint64_t Reading::value() const noexcept {
  if (!is_scaled() || running_ns == 0) return counted;
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(static_cast<Wide>(counted) * enabled_ns / running_ns);
}

struct Counters::Impl {
  struct Event {
    Reading reading;  // what does not change: name, group, cause
    platform::FileDescriptor file;
    bool leads = false;
  };

  void open_group(const std::vector<std::string> &names, const CountersOptions &options,
                  Processor processor) {
    int leader = -1;
    for (const std::string &name : names) {
      Event event;
      event.reading.event = name;
      event.reading.group = groups;
      const Encoded encoded = encode(name, processor);
      if (!encoded.unknown.empty())
        event.reading.missing = encoded.unknown;
      else
        open(encoded, options, &leader, &event);
      events.push_back(std::move(event));
    }
    ++groups;
  }

  void open(Encoded encoded, const CountersOptions &options, int *leader, Event *event) {
    TMH_ASSERT(leader != nullptr && event != nullptr && !event->file && encoded.unknown.empty());
    bool leads = *leader < 0;
    perf_event_attr attributes = attributes_of(encoded, options, leads);
    int file = open_event(&attributes, options.thread, *leader);
    if (file < 0 && (errno == EACCES || errno == EPERM) && !encoded.user_only &&
        !happens_in_kernel(encoded)) {
      encoded.user_only = true;
      attributes.exclude_kernel = 1;
      file = open_event(&attributes, options.thread, *leader);
    }
    // More events than the PMU has counters: a group of its own.
    if (file < 0 && errno == EINVAL && !leads) {
      leads = true;
      attributes = attributes_of(encoded, options, leads);
      file = open_event(&attributes, options.thread, -1);
      if (file >= 0) event->reading.group = ++groups;
    }
    if (file < 0) {
      const int error = errno;
      Refusal refusal = refusal_here();
      refusal.error = error;
      refusal.is_hardware =
          encoded.type != PERF_TYPE_SOFTWARE && encoded.type != PERF_TYPE_TRACEPOINT;
      refusal.needs_kernel = happens_in_kernel(encoded);
      event->reading.missing = explain(refusal);
      return;
    }
    event->file = platform::FileDescriptor(file);
    event->leads = leads;
    event->reading.user_only = encoded.user_only;
    if (leads) *leader = file;
  }

  void control(unsigned long request) noexcept {
    for (const Event &event : events)
      if (event.leads) (void)::ioctl(event.file.get(), request, PERF_IOC_FLAG_GROUP);
  }

  std::vector<Event> events;
  std::uint32_t groups = 0;
};

Counters::Counters(const std::vector<std::string> &requests, const CountersOptions &options)
    : impl_(std::make_unique<Impl>()) {
  const Processor processor = this_processor();
  for (const std::vector<std::string> &group : groups_of(requests))
    impl_->open_group(group, options, processor);
}
Counters::~Counters() = default;
Counters::Counters(Counters &&) noexcept = default;
Counters &Counters::operator=(Counters &&) noexcept = default;

void Counters::start() noexcept {
  TMH_ASSERT(impl_ != nullptr);  // not moved from, here as below
  impl_->control(PERF_EVENT_IOC_ENABLE);
}
void Counters::stop() noexcept {
  TMH_ASSERT(impl_ != nullptr);
  impl_->control(PERF_EVENT_IOC_DISABLE);
}

std::vector<Reading> Counters::read() const {
  TMH_ASSERT(impl_ != nullptr);
  std::vector<Reading> readings;
  for (const Impl::Event &event : impl_->events) {
    readings.push_back(event.reading);
    if (!event.file) continue;
    Reading &reading = readings.back();
    std::uint64_t words[3] = {};  // value, enabled, running: PERF_FORMAT_TOTAL_TIME_*
    if (::read(event.file.get(), words, sizeof words) != sizeof words) {
      // A pinned or failed event reads as end of file.
      reading.missing = "the kernel gave no value: the group does not fit the PMU";
      continue;
    }
    reading.counted = words[0];
    reading.enabled_ns = words[1];
    reading.running_ns = words[2];
    if (reading.enabled_ns != 0 && reading.running_ns == 0)
      reading.missing =
          "its group never got counters: others had them all of the time, or it is too large";
  }
  return readings;
}

}  // namespace tmh::perf
